"""Observing: everything or nothing, and never hanging."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autoscaler.background import on_thread
from autoscaler.constraints.rule_files import RuleFiles
from autoscaler.core.actions import Disable, Launch, LaunchSet, Terminate
from autoscaler.core.model.fleet import Interruption, OrderState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Plan
from autoscaler.engine.observe import Observer, list_all
from autoscaler.errors import GridEngineNotObservable, NotObservable, ProviderNotObservable
from autoscaler.local_zone import LocalZone
from autoscaler.process import Completed
from autoscaler.providers.interface import LaunchOrder, Throttled, Unreachable
from autoscaler.sge.notices import COMPLEX
from autoscaler.store.journal import Result
from tests.sge.printed import host, qhost
from tests.simulated.autoscaler import POLICY, TAG, World
from tests.simulated.executor import at_once


@pytest.fixture
def three_jobs(tmp_path: Path) -> World:
    world = World(tmp_path / "store.sqlite", persistent={"w1": 2})
    world.cluster.submit(3)
    world.cluster.schedule()
    return world


def observer(world: World, **changed: Any) -> Observer:
    provider = world.provider()
    made = Observer(
        world.cluster,
        provider,
        world.open_store(),
        POLICY,
        lambda job_categories, memory, policy, now, needs: (),
        UTC,
        clock=world.clock,
        stopwatch=world.clock,
        executor=at_once,
    )
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def test_a_snapshot_has_grid_engine_and_provider(three_jobs: World) -> None:
    snapshot = observer(three_jobs).observe().snapshot
    seen = (len(snapshot.cluster.hosts), snapshot.cluster.job_categories[0].count, len(snapshot.fleet.buckets) > 0)
    assert seen == (1, 1, True)


def test_unchanged_jobs_are_not_parsed_again(three_jobs: World) -> None:
    """A plan recognises judged jobs by identity."""
    watching = observer(three_jobs)
    first, second = (
        watching.observe().snapshot.cluster.job_categories,
        watching.observe().snapshot.cluster.job_categories,
    )
    assert first
    assert second is first


def test_a_qmaster_that_does_not_answer_is_not_observable(three_jobs: World) -> None:
    three_jobs.cluster.unobservable = 1
    with pytest.raises(GridEngineNotObservable):
        observer(three_jobs).observe()


def test_a_provider_that_does_not_answer_is_not_observable(three_jobs: World) -> None:
    three_jobs.cloud.faults.unreachable = 1
    with pytest.raises(ProviderNotObservable, match="did not answer"):
        observer(three_jobs).observe()


def test_every_command_of_grid_engine_gets_the_configured_timeout(three_jobs: World) -> None:
    given: list[float] = []

    def runner(argv: Sequence[str], *, timeout: float, **rest: Any) -> Completed:
        given.append(timeout)
        return three_jobs.cluster(argv, timeout=timeout, **rest)

    observer(three_jobs, runner=runner, grid_engine_timeout=7.0).observe()
    assert set(given) == {7.0}


def test_an_unchanged_pass_takes_three_commands_of_grid_engine(three_jobs: World) -> None:
    made = observer(three_jobs)
    made.observe()
    three_jobs.cluster.calls.clear()
    made.observe()
    assert [call[0] for call in three_jobs.cluster.calls] == ["qstat", "qhost", "qconf"]


def test_an_unchanged_pass_has_the_whole_configuration_for_a_record(three_jobs: World) -> None:
    made = observer(three_jobs)
    first, second = made.observe(), made.observe()
    assert set(second.outputs.qconf) == set(first.outputs.qconf) >= {"sc", "sel", "sq_main.q", "shgrp_@allhosts"}


def test_a_change_of_an_administrator_is_in_the_next_pass(three_jobs: World) -> None:
    made = observer(three_jobs)
    made.observe()
    three_jobs.cluster.slots["w1"] = 7
    assert made.observe().snapshot.cluster.queues["main.q"].slots_by_host["w1"] == 7


def test_any_error_of_a_providers_listing_is_not_observable(three_jobs: World) -> None:
    made = observer(three_jobs)

    def throttled() -> list[Any]:
        raise Throttled("too many calls")

    made.provider.workers = throttled  # type: ignore[method-assign]
    with pytest.raises(ProviderNotObservable, match="too many calls"):
        made.observe()


def test_a_provider_that_hangs_is_not_observable(three_jobs: World) -> None:
    never: Future[Any] = Future()
    made = observer(three_jobs, executor=lambda call, name: never, listing_deadline=0.01)
    with pytest.raises(ProviderNotObservable, match=r"within 0\.01 s"):
        made.observe()


def test_a_listing_gets_the_time_left_after_reading_grid_engine(three_jobs: World) -> None:
    waited: list[float | None] = []

    class Never(Future[Any]):
        def result(self, timeout: float | None = None) -> Any:
            waited.append(timeout)
            raise TimeoutError

    times = iter((0.0, 30.0))
    made = observer(
        three_jobs, executor=lambda call, name: Never(), stopwatch=lambda: next(times, 30.0), listing_deadline=100.0
    )
    with pytest.raises(ProviderNotObservable):
        made.observe()
    assert waited == [70.0]


def test_a_hanging_provider_gets_no_second_thread(three_jobs: World) -> None:
    threads: list[str] = []

    def hang(call: Callable[[], Any], name: str) -> Future[Any]:
        threads.append(name)
        return Future()

    made = observer(three_jobs, executor=hang, listing_deadline=0.01)
    for _ in range(3):
        with pytest.raises(ProviderNotObservable):
            made.observe()
    assert len(threads) == 1


def test_an_observation_that_took_too_long_is_stale(three_jobs: World) -> None:
    times = iter((0.0, 0.0, 500.0, 500.0, 500.0))
    with pytest.raises(NotObservable, match="stale"):
        observer(three_jobs, stopwatch=lambda: next(times, 500.0), listing_deadline=1000.0).observe()


def test_an_order_answered_during_the_observation_still_counts(three_jobs: World) -> None:
    """The listing was made before the answer: if the journal were read first, neither would show the machine."""
    made = observer(three_jobs)
    launch = Launch("execute", (LaunchSet((three_jobs.provider().buckets()[0],), 1),), because(Code.DEMAND))
    made.store.accept(Plan((launch,), Memory()), pass_number=1, at=three_jobs.clock.now)
    listing = made.provider.workers

    def answered_meanwhile() -> Any:
        listed = listing()
        record = made.store.journal.orders(0)[0]
        made.store.journal.close_order(record.id, "answered", three_jobs.clock.now)
        return listed

    made.provider.workers = answered_meanwhile  # type: ignore[method-assign]
    assert [order.state for order in made.observe().snapshot.fleet.orders] == [OrderState.FAILED]


@pytest.mark.parametrize(("tag", "coming"), (("", 2), (TAG, 2), ("another-tag", 0)))
def test_machines_of_a_former_tag_are_not_coming(three_jobs: World, tag: str, coming: int) -> None:
    """No listing shows them, whether they are there, have ended, or never came."""
    made = observer(three_jobs, tag=tag)
    bucket = three_jobs.provider().buckets()[0]
    launch = Launch("execute", (LaunchSet((bucket,), 2),), because(Code.DEMAND))
    made.store.accept(Plan((launch,), Memory()), pass_number=1, at=three_jobs.clock.now)
    order = made.store.journal.orders(0)[0]
    asked = LaunchOrder(f"{order.id}-0", order.id, TAG, "execute", (bucket,), 2, boot_script="")
    made.store.journal.send(asked, 0, three_jobs.clock.now)
    made.store.journal.answer(asked.token, ids=("a", "b"), failures=(), message="", at=three_jobs.clock.now)
    fleet = made.observe().snapshot.fleet
    assert sum(count for _, count in outstanding(fleet, POLICY, three_jobs.clock.now)) == coming


def test_resume_releases_the_brake_of_earlier_passes(three_jobs: World) -> None:
    made = observer(three_jobs)
    stopped = Memory(circuit_breaker=because(Code.CIRCUIT_BREAKER), kills_stopped=because(Code.KILLS_STOPPED))
    made.store.memory.save(stopped, three_jobs.clock.now)
    made.store.overrides.resume(who="ann", at=three_jobs.clock.now + 1)
    resumed = made.observe().snapshot.memory
    assert (resumed.circuit_breaker, resumed.kills_stopped) == (None, None)


def test_an_older_resume_does_not_release_a_newer_brake(three_jobs: World) -> None:
    made = observer(three_jobs)
    made.store.overrides.resume(who="ann", at=three_jobs.clock.now - 1)
    made.store.overrides.took_effect(made.store.overrides.load())
    made.store.memory.save(Memory(circuit_breaker=because(Code.CIRCUIT_BREAKER)), three_jobs.clock.now)
    assert made.observe().snapshot.memory.circuit_breaker is not None


def test_a_call_on_a_thread_raises_whatever_was_raised_in_it() -> None:
    def fail() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        on_thread(fail, "failing").result(120)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield LocalZone()
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("month", "hours"), ((1, 1), (7, 2)))
def test_the_local_time_zone_has_its_offset_in_summer_and_winter(berlin: LocalZone, month: int, hours: int) -> None:
    assert datetime(2026, month, 15, 12, tzinfo=berlin).utcoffset() == timedelta(hours=hours)


def test_a_zone_without_summer_time_is_read_with_glibc_2_31_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Debian 11: its mktime(3) knows no summer time there; that of Debian 12 makes one up."""
    real = time.mktime

    def mktime(fields: time.struct_time) -> float:
        if fields[8] == 1:
            raise OverflowError("mktime argument out of range")
        return real(fields)

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    monkeypatch.setattr(time, "mktime", mktime)
    read = datetime(2026, 11, 27, 23, 25, 28, tzinfo=LocalZone()).timestamp()
    monkeypatch.undo()
    time.tzset()
    assert read == datetime(2026, 11, 27, 17, 55, 28, tzinfo=UTC).timestamp()


def test_a_time_converted_to_the_local_time_zone_is_the_same_time(berlin: LocalZone) -> None:
    moment = datetime(2026, 7, 15, 12, tzinfo=UTC)
    assert moment.astimezone(berlin) == moment


def test_a_snapshot_has_the_interruption_notices_of_the_provider(three_jobs: World) -> None:
    order = LaunchOrder("t-0", "t", TAG, "execute", (three_jobs.cloud.catalog.buckets()[0],), 1, "")
    (worker_id,) = three_jobs.provider().launch(order).ids
    three_jobs.cloud.notices.append(Interruption(worker_id, three_jobs.clock.now + 120, "terminate"))
    assert observer(three_jobs).observe().snapshot.fleet.interruptions == tuple(three_jobs.cloud.notices)


def test_a_snapshot_has_one_interruption_notice_a_worker(three_jobs: World) -> None:
    provider = three_jobs.provider()
    order = LaunchOrder("t-0", "t", TAG, "execute", (three_jobs.cloud.catalog.buckets()[0],), 2, "")
    reported_twice, reported_once = provider.launch(order).ids
    three_jobs.clock.now += 60
    names = {worker.id: str(worker.name) for worker in provider.workers()}
    at = three_jobs.clock.now + 120
    three_jobs.cloud.notices.append(Interruption(reported_twice, at, "terminate"))
    loads = {"load_avg": "0.1", COMPLEX: f"terminate@{at:.0f}"}
    hosts = qhost(*(host(name, load=loads) for name in names.values()))

    def runner(argv: Sequence[str], **options: Any) -> Completed:
        done = three_jobs.cluster(argv, **options)
        return replace(done, stdout=hosts) if argv[0] == "qhost" else done

    seen = observer(three_jobs, runner=runner).observe().snapshot.fleet.interruptions
    assert [(notice.worker_id, notice.kind) for notice in seen] == [
        (reported_twice, "terminate"),
        (reported_once, "terminate"),
    ]


@pytest.mark.parametrize(
    ("missing", "result", "gone"),
    ((True, Result.DONE, True), (True, Result.FAILED, False), (False, Result.DONE, False)),
    ids=("terminated and no longer listed", "the call failed", "it was still listed"),
)
def test_a_worker_is_certainly_gone_once_terminated_and_not_listed(
    missing: bool, result: Result, gone: bool, three_jobs: World
) -> None:
    at, store = three_jobs.clock.now - 30, three_jobs.open_store()
    note = WorkerNote(at, host="w9", terminated_at=at, missing_since=at if missing else None)
    fence = Terminate("i-9", "w9", because(Code.FENCED))
    (item,) = store.journal.begin((fence,), pass_number=1, at=at, new_id=lambda: "")
    store.memory.save(Memory(passes=1, workers={"i-9": note}), at)
    store.journal.end(item.id, result, "", at + 1)
    store.close()
    assert observer(three_jobs).observe().snapshot.memory.workers["i-9"].gone is gone


@pytest.mark.parametrize(("result", "known"), ((Result.DONE, True), (Result.FAILED, False)))
def test_a_worker_counts_as_disabled_once_that_is_done_also_before_a_listing_shows_it(
    result: Result, known: bool, three_jobs: World
) -> None:
    """Whatever is seen of it later was changed by a person."""
    at, store = three_jobs.clock.now - 30, three_jobs.open_store()
    note = WorkerNote(at, host="w9", disabled_at=at, disabling=Disabling.IDLE)
    (item,) = store.journal.begin((Disable("i-9", "w9", because(Code.IDLE)),), pass_number=1, at=at, new_id=lambda: "")
    store.memory.save(Memory(passes=1, workers={"i-9": note}), at)
    store.journal.end(item.id, result, "", at + 1)
    store.close()
    assert observer(three_jobs).observe().snapshot.memory.workers["i-9"].seen_disabled is known


def test_a_snapshot_has_the_current_rules_and_sizes(three_jobs: World, tmp_path: Path) -> None:
    rules, sizes = tmp_path / "rules.json", tmp_path / "sizes.json"
    rules.write_text('{"idle_timeout": 7}')
    (type_,) = {bucket.type.name for bucket in observer(three_jobs).observe().snapshot.fleet.buckets[:1]}
    sizes.write_text(json.dumps({"*": {type_: {"capabilities": {"GPUs": 3}}}}))
    watching = observer(three_jobs, rule_files=RuleFiles.load(rules, sizes))
    rules.write_text('{"idle_timeout": 8}')
    snapshot = watching.observe().snapshot
    assert (snapshot.policy.node_arrays[0].idle_timeout, snapshot.fleet.buckets[0].type.gpus) == (8, 3)
    assert snapshot.policy.rules is not None


def test_a_worker_listed_on_two_pages_is_one_worker(three_jobs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = observer(three_jobs)
    bucket = watching.provider.buckets()[0]
    watching.provider.launch(LaunchOrder("t-0", "t", TAG, "execute", (bucket,), 2, "#!/bin/sh\n"))
    twice = [*watching.provider.workers(), *watching.provider.workers()]
    monkeypatch.setattr(watching.provider, "workers", lambda: twice)
    assert [worker.id for worker in list_all(watching.provider).workers] == ["fake-000001", "fake-000002"]


@pytest.mark.parametrize("error", (Unreachable("no right"), Throttled("too many calls"), KeyError("UpdateTime")))
def test_interruption_notices_fail_alone_and_are_told(three_jobs: World, error: Exception) -> None:
    """Those of the last listing stand; workers and buckets are read all the same."""
    three_jobs.cloud.machines.clear()
    watching = observer(three_jobs)
    notice = Interruption("fake-1", 10.0, "terminate")
    answers = iter(([notice], error))

    def interruptions() -> Sequence[Interruption]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    watching.provider.interruptions = interruptions  # type: ignore[attr-defined]
    before, after = (watching.observe().snapshot.fleet for _ in range(2))
    assert (before.interruptions, after.interruptions) == ((notice,), (notice,))
    assert list(watching.troubles()) == ["fake: interruption notices"]


@pytest.mark.parametrize("month", (7, 12))
def test_the_hour_that_a_change_of_the_clock_repeats_is_read_alike_whatever_was_read_before(
    berlin: LocalZone, month: int
) -> None:
    datetime(2026, month, 1, tzinfo=berlin).timestamp()
    read = [datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=fold).utcoffset() for fold in (0, 1)]
    assert read == [timedelta(hours=2), timedelta(hours=1)]
