"""`simulate --last`: what a cell did is simulated with the settings that were in force, and compared with it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.commands import _simulated
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.core.model.fleet import MachineState, Worker
from autoscaler.simulation.accounting import AccountingOptions
from autoscaler.simulation.candidates import simulated
from autoscaler.simulation.cloud import Billing, Cloud, Delays, Machine
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.past import ENOUGH, PASSES_ENOUGH, Past, durations_of, read_past
from autoscaler.simulation.planned import PlanDecider
from autoscaler.simulation.run import PassDurations, Simulation
from autoscaler.store.history import Lifetime
from autoscaler.store.measures import Histogram, Measures
from autoscaler.store.store import Store
from tests.cell_files import cell_files
from tests.simulation.playing import a_simulation, a_workload
from tests.simulation.test_workloads import a_line

SETTINGS = {
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_HYBRID": "true",
    "CP_CAP_AUTOSCALE_WORKERS": "20",
    "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE": "16",
}
LARGEST = 16
RECORDED = Path(__file__).parent.parent / "sge" / "recorded" / "empty"
SLOW = Delays(boot=400.0, join=10.0)
"""What the cell's cloud was like: no default of the command."""


class Recorded(Simulation):
    """A run of which Grid Engine and the service keep records."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.machines: dict[str, Machine] = {}
        self.joined: dict[str, float] = {}
        self.lines: list[str] = []

    def order(self, machines: list[Machine]) -> None:
        super().order(machines)
        self.machines |= {machine.worker.id: machine for machine in machines}

    def enable(self, name: str) -> None:
        super().enable(name)
        self.joined.setdefault(name, self.now)

    def _end(self, run: Run) -> None:
        job, host = run.job, run.shares[0][0].name
        times = (round(1000 * (self.began + at)) / 1000 for at in (job.submitted, run.started, self.now))
        submit, start, end = (round(at) for at in times)
        pe = job.pe or "NONE"
        self.lines.append(a_line(job.number, submit, start, end, host=host, slots=job.slots, pe=pe, owner=job.owner))
        super()._end(run)

    began = 0.0


@pytest.fixture(scope="module")
def happened() -> Recorded:
    """Most of a day that ended an hour ago, on a cloud that boots slowly."""
    policy = Invocation(SETTINGS).settings.policy(master="master")
    made = a_simulation(a_workload(150, largest_host=LARGEST, days=0.8), policy, delays=SLOW)
    run = Recorded(made.workload, made.cell, made.cloud, PlanDecider(simulated(policy)))
    Recorded.began = float(int(time.time())) - 86_400.0
    run.run()
    assert run.over
    return run


@pytest.fixture
def cell(happened: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the cell on which that happened."""
    values = cell_files(tmp_path / "sge") | SETTINGS
    values |= {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"), "CP_CAP_AUTOSCALE_CONFIG": ""}
    for name, value in values.items():
        monkeypatch.setenv(name, value)

    def made(price: Callable[[float | None], float | None] = lambda price: price) -> None:
        invocation = Invocation(values)
        (invocation.common / "accounting").write_text("\n".join(happened.lines) + "\n")
        store = Store.open(invocation.store_file)
        _keep(store, happened, price)
        store.close()

    return made


def _keep(store: Store, run: Recorded, price: Callable[[float | None], float | None]) -> None:
    """Let the store see each change of the listing."""
    began = Recorded.began
    moments = {began + machine.created for machine in run.machines.values()}
    moments |= {began + at for at in run.joined.values()}
    moments |= {began + machine.ending for machine in run.machines.values() if machine.ending is not None}
    for at in sorted(moments):
        listed = [_listed(machine, price) for machine in run.machines.values() if _exists(machine, at - began)]
        serving = [worker.id for worker in listed if began + run.joined.get(worker.name or "", 1e12) <= at]
        store.history.note_workers(listed, serving, at, currency="USD")


def _listed(machine: Machine, price: Callable[[float | None], float | None]) -> Worker:
    created = Recorded.began + machine.created
    worker = replace(machine.worker, created_at=created, state=MachineState.RUNNING)
    return replace(worker, price_per_hour=price(worker.price_per_hour))


def _exists(machine: Machine, at: float) -> bool:
    """Until its end was ordered, as the journal has it for what is paid."""
    return machine.created <= at and (machine.ending is None or at < machine.ending)


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["simulate", "--last", "2d", "--json", *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_what_happened_is_found_again(cell: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    cell()
    document = shown(capsys)
    error, happened = document["backtest"]["error"], document["backtest"]["happened"]
    assert happened["launches"] > 10
    del error["median_wait_s"]  # half of the tasks wait for no worker: it jumps between seconds and a boot
    assert {name: round(error[name], 3) for name in error if error[name] > 0.02} == {}
    assert any(re.match(r"Machines boot in (39|40)\d s", each) for each in document["assumptions"])


def test_what_happened_is_simulated_with_the_catalogue_and_the_billing_in_force(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cell()
    own = tmp_path / "own.toml"
    own.write_text('[types]\n"m5.large" = { on_demand = 9.6 }\n')
    monkeypatch.setenv("CP_CAP_AUTOSCALE_PROVIDER", "local")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_LOCAL_CATALOG", str(own))
    monkeypatch.setenv("CP_CAP_AUTOSCALE_BILLING_STEP", "600")
    said = shown(capsys)["assumptions"]
    assert any(each.startswith(f"Prices are those of {own} (CP_CAP_AUTOSCALE_LOCAL_CATALOG)") for each in said)
    assert "Machines are billed in steps of 600 s, at least 60 s." in said


def test_a_record_that_the_simulation_cannot_explain_shows_as_an_error_and_nothing_is_recommended(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    cell(lambda price: 2 * (price or 0.0))
    smaller = "CP_CAP_AUTOSCALE_HYBRID_MAX_CORE_PER_NODE=4"
    assert 0.45 < shown(capsys)["backtest"]["error"]["price"] < 0.55
    assert main(["simulate", "--last", "2d", "--compare", f"today,{smaller}"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"Nothing is recommended: \S+ differs from today by \d+\.\d% in price, .* off by (4|5)\d\.\d%", out
    )
    assert "would have cost" not in out
    assert re.search(r"price \(USD\) +\d", out)


def test_a_gain_beyond_the_error_is_told(cell: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    cell()
    assert main(["simulate", "--last", "2d", "--compare", "static:20:m5.4xlarge"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"static:20:m5.4xlarge would have cost \d+\.\d% more than today", out)
    assert out.index("Backtest of the settings in force") < out.index("static:20")


def test_without_a_price_in_the_record_nothing_is_recommended(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cell(lambda _: None)
    page = tmp_path / "page.html"
    assert main(["simulate", "--last", "2d", "--compare", "today,static:20:m5.4xlarge", "--page", str(page)]) == 0
    assert "the record does not say what the workers cost" in capsys.readouterr().out
    assert "Backtest of the settings in force" in page.read_text()


def test_a_cell_without_records_says_what_is_missing(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--last", "2d"]) == 2
    assert "no job that ran on a worker ended since then" in capsys.readouterr().err
    for arguments in (["simulate"], ["simulate", "generated:5", "--last", "2d"]):
        assert main(arguments) == 2
        assert "name either a WORKLOAD or --last" in capsys.readouterr().err


def test_what_happened_is_simulated_with_the_scheduler_of_the_cell_unless_options_say_otherwise(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell()
    monkeypatch.setattr(_simulated, "shown_by_qconf", lambda *_: (RECORDED / "qconf" / "ssconf.txt").read_text())
    for options, weights in (
        ([], "0, urgency 0.5, waiting time 0.278"),
        (["--weight-priority", "3"], "3, urgency 0.5"),
    ):
        (said,) = (each for each in shown(capsys, *options)["assumptions"] if each.startswith("The scheduler runs"))
        assert f"Its weights: priority {weights}" in said


def test_boots_as_they_were_are_not_replaced_silently(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    cell()
    for given in (["--boot", "300s"], ["--failing", "0.5"], ["--spread", "0"]):
        assert main(["simulate", "--last", "2d", *given]) == 2
        assert f"--last takes boots and failures as they were here, and {given[0]} would" in capsys.readouterr().err


@pytest.mark.parametrize("part", (["--jobs", "5"], ["--skip", "5"]))
def test_all_that_happened_is_not_compared_with_a_part_of_it(
    cell: Callable[..., None], capsys: pytest.CaptureFixture[str], part: list[str]
) -> None:
    cell(lambda _: None)
    assert main(["simulate", "--last", "2d", *part]) == 2
    said = capsys.readouterr()
    assert "--jobs and --skip would simulate a part of it" in said.err
    assert not said.out


# -- the window --------------------------------------------------------------------------------------------------------


def a_life(number: int = 1, **changes: Any) -> Lifetime:
    life = Lifetime(f"i-{number}", f"w{number}", "m5.large", "execute", "on_demand", 0.1, 1000.0, 1100.0, None, 5000.0)
    return replace(life, **changes)


def past_of(tmp_path: Path, lines: list[str], *lives: Lifetime, since: float = 0.0, until: float = 9000.0) -> Past:
    (tmp_path / "accounting").write_text("\n".join(lines) + "\n")
    return read_past(tmp_path / "accounting", lives or [a_life()], since, until)


def test_a_job_that_ran_at_the_beginning_runs_on_and_its_wait_does_not_count(tmp_path: Path) -> None:
    lines = [a_line(1, 1000, 1200, 4000), a_line(2, 2500, 2600, 3000), a_line(3, 1100, 1500, 1900)]
    past = past_of(tmp_path, lines, since=2000.0)
    first, second = past.workload(AccountingOptions(16))
    assert (first.submitted, first.seconds, first.is_counted) == (0.0, 2000.0, False)
    assert (second.submitted, second.seconds, second.is_counted) == (500.0, 400.0, True)
    assert past.happened(Billing(0.0))["mean_wait_s"] == 100.0


def test_workers_are_paid_for_within_the_window_alone(tmp_path: Path) -> None:
    past = past_of(tmp_path, [a_line(1, 1000, 1200, 4000)], since=2000.0, until=4000.0)
    assert past.happened(Billing(0.0))["worker_hours"] == pytest.approx(2000 / 3600)
    assert past.happened(Billing(0.0))["price"] == pytest.approx(0.1 * 2000 / 3600)
    assert past.happened(Billing(0.0))["launches"] == 0


@pytest.mark.parametrize(
    ("billing", "since", "seconds"),
    (
        (Billing(), 0.0, 60.0 + 4000.0),
        (Billing(granularity=3600.0), 0.0, 3600.0 + 7200.0),
        (Billing(granularity=3600.0), 2000.0, 6200.0),
    ),
)
def test_what_happened_is_billed_as_what_is_simulated(
    tmp_path: Path, billing: Billing, since: float, seconds: float
) -> None:
    short = a_life(number=2, created_at=1000.0, ended_at=1027.0)
    past = past_of(tmp_path, [a_line(1, 1000, 1200, 4000)], a_life(), short, since=since)
    assert past.happened(billing)["worker_hours"] == pytest.approx(seconds / 3600)
    assert past.happened(billing)["price"] == pytest.approx(0.1 * seconds / 3600)


def test_jobs_on_persistent_hosts_are_left_out_and_counted(tmp_path: Path) -> None:
    past = past_of(tmp_path, [a_line(1, 1000, 1200, 4000), a_line(2, 1000, 1200, 4000, host="login.x.org")])
    assert [end.job for end in past.ends] == [1]
    assert "1 tasks that ran on persistent hosts are left out." in past.workload(AccountingOptions(16)).assumptions


def test_a_type_has_its_own_boot_time_if_enough_of_it_were_seen(tmp_path: Path) -> None:
    def joined(boot: float) -> float:
        return 1010.0 + boot + PassDurations().until_joined(boot)

    slow = [a_life(number, instance_type="m5.4xlarge", joined_at=joined(600.0)) for number in range(ENOUGH)]
    seldom = [a_life(90, instance_type="c5.large", joined_at=joined(300.0))]
    quick = [a_life(number, joined_at=joined(100.0)) for number in range(10, 20)]
    never = [a_life(99, joined_at=None)]
    delays = past_of(tmp_path, [a_line(1, 1000, 1200, 4000)], *slow, *seldom, *quick, *never).delays(Delays(join=10.0))
    assert delays.boots == pytest.approx({"m5.4xlarge": 600.0, "m5.large": 100.0}, rel=1e-3)
    assert delays.boot_of("c5.large") == pytest.approx(100.0, rel=1e-3)
    assert delays.failing == pytest.approx(1 / 17)


def test_passes_take_as_long_as_the_service_measured_unless_it_made_few() -> None:
    def measured(passes: int) -> Measures:
        parts = {"read": 6.0, "parse": 1.0, "decide": 3.0, "act": 5.0}
        return Measures(
            {"actions_total": {("launch", "DEMAND", "done"): 20.0, ("enrol", "BOOTED", "done"): 30.0}},
            {
                "pass_duration_seconds": {(): Histogram([passes], 15.0)},
                "pass_part_duration_seconds": {(name,): Histogram([passes], total) for name, total in parts.items()},
                "grid_engine_command_duration_seconds": {("qstat",): Histogram([9], 12.0)},
            },
        )

    given = PassDurations(polling_delay=7.0)
    assert durations_of(measured(PASSES_ENOUGH), given) == PassDurations(7.0, 10.0 / PASSES_ENOUGH, 0.1, 0.8)
    assert durations_of(measured(PASSES_ENOUGH - 1), given) == durations_of(Measures(), given) == given


def test_an_action_takes_as_long_as_those_of_its_kind_took() -> None:
    measured = Measures(
        {"actions_total": {("launch", "DEMAND", "done"): 20.0}},
        {
            "pass_duration_seconds": {(): Histogram([100], 30.0)},
            "pass_part_duration_seconds": {("read",): Histogram([100], 20.0), ("act",): Histogram([100], 4.0)},
        },
    )
    launches = [("launch", 1, 0.6)] * (ENOUGH - 1) + [("launch", 2, 9.0)]
    seldom = [("remove", 1, 5.0)] * (ENOUGH - 1)
    quick = [("enable", 4, 0.1)] * ENOUGH  # less than passes take for observing, in the mean
    found = durations_of(measured, PassDurations(), [*launches, *seldom, *quick])
    assert {kind: round(seconds, 6) for kind, seconds in found.of_kind.items()} == {"enable": 0.0, "launch": 1.733333}
    assert [found.of("launch"), found.of("remove")] == pytest.approx([10.4 / 6, 0.2])


def test_a_pass_that_launches_takes_as_long_as_a_launch_and_sees_later_what_came_meanwhile() -> None:
    """A task that comes while a launch takes five seconds is seen five seconds later."""
    from tests.simulation.playing import a_policy, jobs_of, numbered

    jobs = numbered(jobs_of(1, slots=2, pe="local"), jobs_of(1, submitted=2.0, slots=2, pe="local"))
    second = []
    for of_kind in ({}, {"launch": 5.0}):
        policy = a_policy(scale_up_batch=1)
        policy = replace(policy, queues=(replace(policy.queues[0], scale_up_timeout=0.0),), batch_delay=0.0)
        measures = a_simulation(jobs, policy, durations=PassDurations(of_kind=of_kind)).run()
        second.append(measures.launches_at[1][0])
    assert second[0] < 4.0
    assert second[1] > 5.0


def test_a_machine_boots_in_the_time_of_its_type() -> None:
    from tests.simulation.playing import a_policy, jobs_of

    delays = Delays(boots={"m5.large": 700.0})
    run = a_simulation(jobs_of(1), a_policy(), delays=delays)
    assert min(run.run().waits) > 700.0
    assert isinstance(run.cloud, Cloud)
