"""The measures that passes leave, as Prometheus reads them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from autoscaler.core.model.fleet import FailureKind, Worker
from autoscaler.core.model.memory import ProtectedArray
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.snapshot import Plan
from autoscaler.engine.loop import Loop
from autoscaler.engine.measured_elsewhere import MeasuredElsewhere
from autoscaler.engine.meter import DEFECT, GRID_ENGINE, PROGRAMS, PROVIDER, STATE, Meter
from autoscaler.engine.monitor import Monitor
from autoscaler.engine.qmaster_guard import QmasterGuard
from autoscaler.providers.fake import FakeProvider, FakeSettings
from autoscaler.providers.interface import CallBudget
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.report.metrics import METRICS, PREFIX, MetricKind, exposition
from autoscaler.store.measures import Measures
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.simulated.autoscaler import TAG, World, settle, start, step

ROOT = Path(__file__).parents[1]
Read = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def empty_cell(tmp_path: Path) -> World:
    return World(tmp_path / "store.sqlite")


class Paced(FakeProvider):
    """With a rate limiter of its own, as clouds have it."""

    limiter: RateLimiter

    def call_budget(self) -> CallBudget:
        return self.limiter.budget()

    def workers(self) -> Sequence[Worker]:
        return self.limiter.call(super().workers)


def measured(world: World) -> Loop:
    """A new process with a meter."""
    store, provider = world.open_store(), Paced(FakeSettings(), cell=TAG, cloud=world.cloud)
    provider.limiter = RateLimiter(clock=world.clock)
    elsewhere = MeasuredElsewhere(provider, store.notifications.delivery)
    meter = Meter(store.measures, lambda: date(2026, 1, 1), elsewhere.add)
    guard = QmasterGuard(world.cluster, world.clock, meter.command)
    loop = start(world, store=store, runner=guard, provider=provider)
    loop.attach(Monitor(store.samples, meter.sampled))
    loop.attach(meter)
    return loop


def meter_of(loop: Loop) -> Meter:
    return next(each for each in loop.listeners.attached if isinstance(each, Meter))


def read(store: Store) -> Read:
    """Samples as another process serves them to a scrape."""
    text = exposition(store.measures.load()).decode()
    return {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in families(text)
        for sample in family.samples
    }


def value(found: Read, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def total(found: Read, name: str, **labels: str) -> float:
    """The sum over all series with these labels."""
    return sum(each for (one, have), each in found.items() if one == name and have >= frozenset(labels.items()))


def test_a_pass_measures_waiting_tasks_by_reason(empty_cell: World) -> None:
    loop = measured(empty_cell)
    empty_cell.cluster.submit(3, seconds=60)
    done = loop.pass_once()
    found = read(loop.store)
    assert total(found, "waiting_tasks") == done.plan.waiting == 3
    assert value(found, "counted_tasks") == 3
    assert value(found, "last_pass_timestamp_seconds") == empty_cell.clock.now
    assert value(found, "passes_total", result="whole") == 1
    (category,) = done.plan.job_categories
    assert (category.reason.code, cause_of(category.reason).code) == (Code.EXPIRED, Code.DEMAND)
    assert {dict(labels)["reason"] for name, labels in found if name == "waiting_tasks"} == {Code.DEMAND}


def test_counters_start_as_series_at_0(empty_cell: World) -> None:
    """Prometheus sees no increase in a series that starts at 1."""
    loop = measured(empty_cell)
    loop.pass_once()
    found = read(loop.store)
    failed = [value(found, "passes_total", result=result) for result in (GRID_ENGINE, PROVIDER, STATE, DEFECT)]
    failed += [value(found, "launch_failures_total", kind=kind) for kind in FailureKind]
    failed += [value(found, name) for name in ("started_tasks_total", "price_total", "lost_workers_total")]
    assert set(failed) == {0}


def test_the_life_of_workers_is_measured_from_order_to_end(empty_cell: World) -> None:
    loop = measured(empty_cell)
    empty_cell.cluster.submit(2, seconds=60)
    settle(empty_cell, loop)
    for _ in range(3):
        step(empty_cell, loop)
    found, lives = read(loop.store), loop.store.history.lifetimes()
    kind = lives[0].instance_type
    assert value(found, "ordered_workers_total", instance_type=kind) == len(lives)
    assert value(found, "worker_boot_seconds_count") == value(found, "worker_join_seconds_count") == len(lives)
    assert total(found, "actions_total", kind="launch") >= 1
    assert total(found, "actions_total", kind="terminate", result="done") >= 1
    assert (value(found, "started_tasks_total"), value(found, "task_wait_seconds_count")) == (2, 2)
    cost = sum(life.cost(empty_cell.clock.now) or 0.0 for life in lives)
    assert value(found, "price_total") == pytest.approx(cost, rel=0.2)
    assert (total(found, "workers"), value(found, "price_per_hour")) == (0, 0)


@pytest.mark.parametrize("ahead", (3600.0, -3600.0))
def test_boots_and_prices_are_measured_by_our_own_clock(tmp_path: Path, ahead: float) -> None:
    def measured_with(cloud: float) -> tuple[float, float, float | None]:
        world = World(tmp_path / f"{cloud}.sqlite", boot_delay=60.0)
        world.cloud.clock = lambda: world.clock.now + cloud
        loop = measured(world)
        world.cluster.submit(1, seconds=60)
        settle(world, loop)
        (life,) = loop.store.history.lifetimes()
        found = read(loop.store)
        return value(found, "worker_boot_seconds_sum"), value(found, "price_total"), life.cost(world.clock.now)

    usual = measured_with(0.0)
    assert usual[0] > 0
    assert usual[2]
    assert measured_with(ahead) == pytest.approx(usual, rel=0.2)


def test_a_worker_that_is_up_at_its_first_observation_is_timed_too(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite", boot_delay=0.0)
    loop = measured(world)
    loop.pass_once()
    world.cluster.submit(1, seconds=60)
    settle(world, loop)
    found = read(loop.store)
    assert value(found, "worker_boot_seconds_count") == value(found, "worker_join_seconds_count") == 1


def test_workers_timed_by_another_process_are_not_timed_again(empty_cell: World) -> None:
    loop = measured(empty_cell)
    empty_cell.cluster.submit(1, seconds=600)
    for _ in range(20):
        step(empty_cell, loop)
    before = value(read(loop.store), "worker_boot_seconds_count")
    loop.store.close()
    again = measured(empty_cell)
    for _ in range(3):
        step(empty_cell, again)
    assert (before, value(read(again.store), "worker_boot_seconds_count")) == (1, 1)


def test_a_lost_worker_counts_once(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite", persistent={"node-1": 1})
    loop = measured(world)
    world.cluster.submit(2, seconds=100_000)
    for _ in range(10):
        step(world, loop)
    (name,) = world.cluster.workers  # qmaster has load reports from node-1, so this worker alone is silent
    world.cluster.silent.add(name)
    for _ in range(200):
        step(world, loop)
        if not any(machine.name == name and machine.ended_at is None for machine in world.cloud.machines.values()):
            break
    for _ in range(3):
        step(world, loop)
    assert value(read(loop.store), "lost_workers_total") == 1


def test_a_worker_that_ended_unasked_counts_once_as_lost(tmp_path: Path) -> None:
    """Also if the process restarts while its end is listed."""
    world = World(tmp_path / "store.sqlite", persistent={"node-1": 1})
    loop = measured(world)
    world.cluster.submit(2, seconds=100_000)
    for _ in range(10):
        step(world, loop)
    (name,) = world.cluster.workers
    (machine,) = (each for each in world.cloud.machines.values() if each.name == name)
    world.cloud.kill(machine.id)
    for _ in range(2):
        step(world, loop)
    counted = value(read(loop.store), "lost_workers_total")
    loop.store.close()
    again = measured(world)
    for _ in range(5):
        step(world, again)
    assert (counted, value(read(again.store), "lost_workers_total")) == (1, 1)


def test_workers_are_measured_by_phase_and_type(empty_cell: World) -> None:
    loop = measured(empty_cell)
    empty_cell.cluster.submit(2, seconds=600)
    phases = set()
    for _ in range(40):
        step(empty_cell, loop)
        phases |= {dict(labels)["phase"] for name, labels in read(loop.store) if name == "workers"}
        if "ready" in phases:
            break
    assert {"booting", "ready"} <= phases
    found = read(loop.store)
    assert value(found, "workers", phase="ready", instance_type="m5.large") >= 1
    assert value(found, "price_per_hour") > 0


def break_grid_engine(world: World) -> None:
    world.cluster.unobservable = 100


def break_cloud(world: World) -> None:
    world.cloud.faults.unreachable = 100


@pytest.mark.parametrize(
    ("broken", "result"),
    ((break_grid_engine, "grid_engine_not_observed"), (break_cloud, "provider_not_observed")),
)
def test_a_failed_observation_is_counted_by_what_failed(
    empty_cell: World, broken: Callable[[World], None], result: str
) -> None:
    loop = measured(empty_cell)
    loop.pass_once()
    whole = empty_cell.clock.now
    broken(empty_cell)
    for _ in range(2):
        empty_cell.cluster.advance(30.0)
        loop._guarded_pass()
    found = read(loop.store)
    assert (value(found, "passes_total", result=result), value(found, "failed_passes_in_a_row")) == (2, 2)
    assert (value(found, "passes_total", result="whole"), value(found, "last_pass_timestamp_seconds")) == (1, whole)
    empty_cell.cluster.unobservable = empty_cell.cloud.faults.unreachable = 0
    loop._guarded_pass()
    assert value(read(loop.store), "failed_passes_in_a_row") == 0


def test_a_defect_is_counted_as_such(empty_cell: World) -> None:
    loop = measured(empty_cell)

    def broken(_: object) -> Plan:
        raise ZeroDivisionError

    loop.decide = broken
    loop._guarded_pass()
    found = read(loop.store)
    assert (value(found, "passes_total", result="defect"), value(found, "failed_passes_in_a_row")) == (1, 1)


def test_failed_launches_are_counted_once_by_kind(empty_cell: World) -> None:
    loop = measured(empty_cell)
    empty_cell.cloud.faults.out_of_capacity = {offer.type.name for offer in empty_cell.cloud.catalog.offers.values()}
    empty_cell.cluster.submit(1, seconds=60)
    for _ in range(6):
        step(empty_cell, loop)
    found = read(loop.store)
    orders = {failure.order_id for failure in loop.store.journal.failures(0.0)}
    assert value(found, "launch_failures_total", kind="capacity") == len(orders) > 0
    assert value(found, "offers_in_backoff") > 0


def test_counters_continue_in_the_next_process(empty_cell: World) -> None:
    loop = measured(empty_cell)
    loop.pass_once()
    loop.store.close()
    again = measured(empty_cell)
    again.pass_once()
    found = read(again.store)
    assert (value(found, "passes_total", result="whole"), value(found, "pass_duration_seconds_count")) == (2, 2)


def test_measures_of_another_version_start_again(empty_cell: World, caplog: pytest.LogCaptureFixture) -> None:
    loop = measured(empty_cell)
    loop.pass_once()
    loop.store.database.execute("UPDATE measures SET measures = '[]'")
    again = measured(empty_cell)
    again.pass_once()
    assert value(read(again.store), "passes_total", result="whole") == 1
    assert "begin anew" in caplog.text


def test_a_pause_is_measured_and_forbids_launches(empty_cell: World) -> None:
    loop = measured(empty_cell)
    loop.pass_once()
    assert value(read(loop.store), "launches_allowed") == 1
    loop.store.overrides.ask(Verb.PAUSE, who="anna", at=empty_cell.clock.now)
    loop.pass_once()
    found = read(loop.store)
    assert (value(found, "launches_allowed"), value(found, "paused"), value(found, "circuit_breaker_open")) == (0, 1, 0)
    assert value(found, "node_array_stopped", node_array="execute", cause="protected_mode") == 0


def test_what_stops_launches_is_measured(empty_cell: World) -> None:
    loop = measured(empty_cell)
    done = loop.pass_once()
    meter = meter_of(loop)
    reason = because(Code.GONE)
    memory = replace(
        done.plan.memory,
        circuit_breaker=reason,
        stopped={"execute": "no"},
        protected={"execute": ProtectedArray(stopped=reason)},
    )
    meter._show_limits(done.observation.snapshot, replace(done.plan, memory=memory))
    meter._store(empty_cell.clock.now)
    found = read(loop.store)
    causes = [
        value(found, "node_array_stopped", node_array="execute", cause=cause) for cause in ("refused", "protected_mode")
    ]
    assert (value(found, "launches_allowed"), value(found, "circuit_breaker_open"), causes) == (0, 1, [1, 1])


def test_commands_of_grid_engine_are_measured_by_program(empty_cell: World) -> None:
    loop = measured(empty_cell)
    loop.pass_once()
    found = read(loop.store)
    assert value(found, "grid_engine_command_duration_seconds_count", command="qstat") >= 1
    meter = meter_of(loop)
    for strange in ("/opt/sge/bin/qconf", "job-4711", "rm"):
        meter.command(strange, 0.5, answered=False)
    loop.pass_once()
    found = read(loop.store)
    programs = {dict(labels)["command"] for name, labels in found if name == "grid_engine_command_failures_total"}
    assert programs <= {*PROGRAMS, "other"}
    assert value(found, "grid_engine_command_failures_total", command="other") == 2


def test_the_age_of_prices_is_measured(empty_cell: World) -> None:
    loop = measured(empty_cell)
    loop.pass_once()
    found = value(read(loop.store), "oldest_price_timestamp_seconds")
    assert datetime.fromtimestamp(found, UTC).date() == date(2026, 1, 1)


def test_metric_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        assert metric.help.endswith("."), metric.name
        assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM), metric.name
        assert tuple(sorted(metric.buckets)) == metric.buckets
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_passes_write_every_declared_metric_and_no_other(empty_cell: World) -> None:
    loop = measured(empty_cell)
    empty_cell.cluster.submit(1, seconds=60)
    settle(empty_cell, loop)
    kept = loop.store.measures.load()
    assert {*kept.values, *kept.histograms} == {metric.name for metric in METRICS}


def test_labels_have_bounded_values(empty_cell: World) -> None:
    """No job, host, user or order is a label."""
    loop = measured(empty_cell)
    empty_cell.cluster.submit(4, seconds=60)
    settle(empty_cell, loop)
    labels = {label for metric in METRICS for label in metric.labels}
    assert labels == {
        *("result", "part", "command", "reason", "phase", "instance_type"),
        *("condition", "kind", "node_array", "cause", "provider"),
    }
    text = exposition(loop.store.measures.load()).decode()
    machines = {machine.name for machine in empty_cell.cloud.machines.values()} | set(empty_cell.cloud.machines)
    assert not [name for name in machines if name in text]


def test_histogram_buckets_are_cumulative() -> None:
    measures = Measures()
    (metric,) = (metric for metric in METRICS if metric.name == "worker_boot_seconds")
    measures.observe(metric.name, [5.0, 10.0, 11.0, 9e9], metric.buckets)
    lines = exposition(measures).decode().splitlines()
    results = [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX + "worker_boot_seconds")]
    assert [line for line in results if 'le="10' in line or 'le="20' in line or "Inf" in line or "count" in line] == [
        'worker_boot_seconds_bucket{le="10"} 2.0',
        'worker_boot_seconds_bucket{le="20"} 3.0',
        'worker_boot_seconds_bucket{le="+Inf"} 4.0',
        "worker_boot_seconds_count 4.0",
    ]


def test_the_manual_lists_every_metric_with_its_kind_and_labels() -> None:
    page = (ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
    rows = {
        f"- `{metric.name}` ({': '.join(filter(None, (metric.kind, ', '.join(f'`{one}`' for one in metric.labels))))}) "
        + metric.help
        for metric in METRICS
    }
    shown = {line for line in page.splitlines() if re.match(r"- `\w+` \((gauge|counter|histogram)", line)}
    assert shown == rows


def test_the_manual_lists_every_alert() -> None:
    page = (ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
    rules = (ROOT / "conf" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(SgeAutoscaler\w+)`", page, re.MULTILINE) == re.findall(r"- alert: (\w+)", rules)


def test_without_a_scrape_the_prometheus_client_is_not_imported() -> None:
    """It needs more memory than all measures."""
    program = (
        "import sys, autoscaler.commands.serving, autoscaler.commands._http; print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run((sys.executable, "-c", program), capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "False\n"


def test_calls_to_the_cloud_are_counted_across_a_restart(empty_cell: World) -> None:
    loop = measured(empty_cell)
    step(empty_cell, loop)
    step(empty_cell, loop)
    before = read(loop.store)
    assert value(before, "provider_calls_total", provider="fake") >= 2
    assert value(before, "provider_calls_available", provider="fake") == 19
    loop.store.close()
    again = measured(empty_cell)
    step(empty_cell, again)
    assert value(read(again.store), "provider_calls_total", provider="fake") == (
        value(before, "provider_calls_total", provider="fake") + 1
    )
    again.store.close()


def test_failed_and_dropped_notifications_are_measured(empty_cell: World) -> None:
    loop = measured(empty_cell)
    step(empty_cell, loop)
    result = loop.store.notifications
    for _ in range(3):
        result.failed(0, (), "no route", empty_cell.clock(), empty_cell.clock())
    step(empty_cell, loop)
    assert value(read(loop.store), "notification_failures_in_a_row") == 3
    loop.store.database.execute("UPDATE notification_state SET dropped = 5, attempts = 0")
    step(empty_cell, loop)
    found = read(loop.store)
    assert (value(found, "dropped_notifications_total"), value(found, "notification_failures_in_a_row")) == (5, 0)
    loop.store.close()


def test_a_provider_without_a_call_budget_has_no_series(empty_cell: World) -> None:
    measures = Measures()
    MeasuredElsewhere(empty_cell.provider(), empty_cell.open_store().notifications.delivery).add(measures)
    assert not any(name.startswith("provider_") for name in measures.values)
