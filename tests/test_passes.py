"""Whole passes in a simulated world: operator overrides, losses, and that nothing is done without a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.actions import Remove
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.policy import CircuitBreaker, Policy
from autoscaler.engine import actor
from autoscaler.engine.executors import together
from autoscaler.engine.loop import Loop
from autoscaler.providers.cloud_pipeline.api import refusal
from autoscaler.providers.fake import FakeProvider, FakeSettings, Faults
from autoscaler.providers.interface import Launched, LaunchOrder, Throttled, Unreachable
from autoscaler.report.sentence import sentence
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.store.journal import Result
from autoscaler.store.overrides import Verb
from tests.simulated.autoscaler import POLICY, TAG, World, left_over, settle, start, step
from tests.simulated.cluster import ended_once


def world_of(directory: Path, *, policy: Policy = POLICY) -> World:
    return World(directory / "store.sqlite", policy=policy)


@pytest.fixture
def empty_cell(tmp_path: Path) -> World:
    return world_of(tmp_path)


def test_ten_jobs_run_once_and_their_workers_leave(empty_cell: World) -> None:
    empty_cell.cluster.submit(10, seconds=30)
    loop = start(empty_cell)
    settle(empty_cell, loop)
    assert (ended_once(empty_cell.cluster.jobs), left_over(empty_cell, loop)) == (True, [])


def test_workers_whose_removal_has_to_wait_for_a_later_pass_leave_too(
    empty_cell: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(together, "REMOVED_AT_ONCE", 1)
    monkeypatch.setattr(actor, "REMOVING_FOR", -1.0)  # each pass removes one host
    empty_cell.cluster.submit(4, seconds=30)
    loop, results = start(empty_cell), list[list[Result]]()
    while left_over(empty_cell, loop) or not results:
        done = step(empty_cell, loop)
        assert done is not None
        results.append([each.result for each in done.outcomes if isinstance(each.action, Remove)])
        assert len(results) < 60
    assert [Result.DONE, Result.NOT_BEGUN] in results
    assert sum(each.count(Result.DONE) for each in results) == 2
    assert not any(record.levelname == "WARNING" for record in caplog.records)


def test_in_an_unchanged_world_nothing_is_done(empty_cell: World) -> None:
    empty_cell.cluster.submit(2, seconds=1000)
    loop = start(empty_cell)
    for _ in range(8):
        step(empty_cell, loop)
    assert [step(empty_cell, loop).plan.actions for _ in range(3)] == [(), (), ()]  # type: ignore[union-attr]


def test_a_paused_autoscaler_launches_nothing(empty_cell: World) -> None:
    empty_cell.cluster.submit(2)
    loop = start(empty_cell)
    loop.store.overrides.ask(Verb.PAUSE, who="ann", at=empty_cell.clock.now)
    for _ in range(3):
        step(empty_cell, loop)
    assert empty_cell.cloud.machines == {}


def test_a_drained_worker_leaves_after_its_job_and_not_before(empty_cell: World) -> None:
    empty_cell.cluster.submit(1, seconds=100)
    loop = start(empty_cell)
    for _ in range(5):
        step(empty_cell, loop)
    loop.store.overrides.ask(Verb.DRAIN, who="ann", at=empty_cell.clock.now, host="fake-1")
    step(empty_cell, loop)
    running = empty_cell.cluster.jobs[0].host
    settle(empty_cell, loop)
    step(empty_cell, loop)
    assert (running, left_over(empty_cell, loop), loop.store.overrides.in_force()) == ("fake-1", [], ())


def test_a_kept_worker_stays_while_idle(empty_cell: World) -> None:
    empty_cell.cluster.submit(1, seconds=5)
    loop = start(empty_cell)
    for _ in range(4):
        step(empty_cell, loop)
    loop.store.overrides.ask(Verb.KEEP, who="ann", at=empty_cell.clock.now, host="fake-1")
    for _ in range(20):
        step(empty_cell, loop)
    assert [machine.name for machine in empty_cell.cloud.living(TAG)] == ["fake-1"]


def test_a_stop_removes_all_workers_after_their_jobs(empty_cell: World) -> None:
    empty_cell.cluster.submit(2, seconds=60)
    loop = start(empty_cell)
    for _ in range(5):
        step(empty_cell, loop)
    loop.store.overrides.ask(Verb.STOP_NOW, who="ann", at=empty_cell.clock.now)
    empty_cell.cluster.submit(5, seconds=60)
    for _ in range(20):
        step(empty_cell, loop)
    assert ([job.ended for job in empty_cell.cluster.jobs[:2]], left_over(empty_cell, loop), loop._released()) == (
        [True, True],
        [],
        True,
    )


def stopped(world: World, verb: Verb, *, kill: bool = False) -> Loop:
    """A cell whose worker was launched just before a `stop`; `kill`: and its process was killed in between."""
    world.cluster.submit(1, seconds=20)
    loop = start(world)
    step(world, loop)
    assert len(world.cloud.machines) == 1
    loop.store.overrides.ask(verb, who="ann", at=world.clock.now)
    if kill:
        loop.store.close()
        loop = start(world)
    return loop


@pytest.mark.parametrize("verb", (Verb.STOP_NOW, Verb.STOP_DRAIN))
@pytest.mark.parametrize("kill", (False, True), ids=("", "killed"))
@pytest.mark.parametrize("lost", (False, True), ids=("answered", "lost"))
def test_a_stop_waits_for_a_worker_that_was_ordered_and_is_not_listed_yet(
    empty_cell: World, verb: Verb, *, kill: bool, lost: bool
) -> None:
    """The listing lags 45 s: an empty one does not show that all is gone."""
    empty_cell.cloud.faults = Faults(listing_lag=45.0, lost_answers=int(lost))
    loop = stopped(empty_cell, verb, kill=kill)
    for _ in range(40):
        step(empty_cell, loop)
        if loop._released():
            break
    assert (empty_cell.cloud.living(TAG), loop.may_come, loop.store.overrides.in_force()) == ([], "", ())
    assert not loop.store.overrides.may_come(verb)


@pytest.mark.parametrize("lost", (False, True), ids=("answered", "lost"))
def test_a_stop_names_what_may_come_if_no_listing_shows_it_in_time(empty_cell: World, *, lost: bool) -> None:
    empty_cell.cloud.faults = Faults(hidden_from=empty_cell.clock.now, lost_answers=int(lost))
    loop = stopped(empty_cell, Verb.STOP_NOW)
    began = empty_cell.clock.now
    for _ in range(40):
        step(empty_cell, loop)
        if loop._released():
            break
    words = "1 m5.large without an answer" if lost else "m5.large fake-000001"
    assert (loop.may_come, loop.store.overrides.may_come(Verb.STOP_NOW)) == (words, words)
    assert empty_cell.clock.now - began >= POLICY.order_grace - 15


def test_a_stop_does_not_wait_for_workers_that_came_and_went(empty_cell: World) -> None:
    """Their listing may leave them out soon after their end, which a second pass confirms."""
    empty_cell.cluster.submit(1, seconds=20)
    loop = start(empty_cell)
    settle(empty_cell, loop)
    empty_cell.cloud.machines.clear()
    loop.store.overrides.ask(Verb.STOP_NOW, who="ann", at=empty_cell.clock.now)
    step(empty_cell, loop)
    step(empty_cell, loop)
    assert (loop._released(), loop.may_come) == (True, "")


class Scheduling(FakeProvider):
    """A Cloud Pipeline that launches no run until a time, since it has just launched others."""

    until = 0.0

    def launch(self, order: LaunchOrder) -> Launched:
        if self.cloud.clock() < self.until:
            words = "Error: exceeded allowed number of scheduled at once runs: allowed '0', but actual '1'"
            raise refusal("POST run", words)
        return super().launch(order)


def test_a_platform_that_schedules_no_run_now_is_asked_again_soon_and_its_type_is_in_no_backoff(
    empty_cell: World,
) -> None:
    provider = Scheduling(FakeSettings(), cell=TAG, cloud=empty_cell.cloud)
    provider.until = lifted = empty_cell.clock.now + 200.0
    empty_cell.cluster.submit(1, seconds=60)
    loop = start(empty_cell, provider=provider)
    told = set()
    while empty_cell.clock.now < lifted + 75.0 and not empty_cell.cloud.machines:
        done = step(empty_cell, loop)
        assert done is not None
        assert done.plan.memory.backoffs == ()
        told |= {link.code for each in done.plan.job_categories for link in (each.reason, *each.reason.trail)}
    assert len(empty_cell.cloud.machines) == 1
    assert Code.LAUNCH_THROTTLED in told


class Others(FakeProvider):
    """Its machines are somebody else's, since a change-over."""

    def workers(self) -> list[Worker]:
        return []

    def handed_back(self) -> frozenset[str]:
        return frozenset(worker.id for worker in super().workers())


@pytest.mark.parametrize("verb", (Verb.STOP_NOW, Verb.STOP_DRAIN))
def test_a_stop_neither_waits_for_a_worker_that_is_somebody_elses_again_nor_touches_it(
    empty_cell: World, verb: Verb
) -> None:
    empty_cell.cluster.submit(1, seconds=60)
    loop = start(empty_cell)
    for _ in range(5):
        step(empty_cell, loop)
    (host,) = empty_cell.cluster.workers
    loop.store.close()
    loop = start(empty_cell, provider=Others(FakeSettings(), cell=TAG, cloud=empty_cell.cloud))
    loop.store.overrides.ask(verb, who="ann", at=empty_cell.clock.now)
    done = step(empty_cell, loop)
    released = loop._released()
    for _ in range(30):
        step(empty_cell, loop)
    assert done is not None
    assert (released, loop.may_come, done.plan.actions) == (True, "", ())
    assert ([*empty_cell.cluster.workers], len(empty_cell.cloud.living(TAG))) == ([host], 1)


def test_a_stop_names_a_known_worker_that_its_listing_leaves_out_for_good_while_it_reports(empty_cell: World) -> None:
    """Its host reports, so its end cannot be made certain."""
    empty_cell.cluster.submit(1, seconds=60)
    loop = start(empty_cell)
    for _ in range(5):
        step(empty_cell, loop)
    (machine,) = empty_cell.cloud.living(TAG)
    empty_cell.cloud.faults = Faults(hidden_from=0.0)
    loop.store.overrides.ask(Verb.STOP_DRAIN, who="ann", at=empty_cell.clock.now)
    began = empty_cell.clock.now
    for _ in range(200):
        step(empty_cell, loop)
        if loop._released():
            break
    assert loop.may_come == machine.id
    assert empty_cell.clock.now - began >= POLICY.order_grace + POLICY.silence_timeout - 30


def test_the_circuit_breaker_holds_until_a_person_resumes(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy=replace(POLICY, circuit_breaker=CircuitBreaker(window=600.0, max_removals=1)))
    world.cluster.submit(4, seconds=5)
    loop = start(world)
    for _ in range(20):
        step(world, loop)
    braked = len(world.cloud.living(TAG))
    loop.store.overrides.resume(who="ann", at=world.clock.now)
    loop.observer.policy = POLICY
    settle(world, loop)
    assert (braked, ended_once(world.cluster.jobs), left_over(world, loop)) == (2, True, [])


def test_launches_beyond_the_brake_window_follow_later(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy=replace(POLICY, circuit_breaker=CircuitBreaker(window=30.0, max_launches=1)))
    world.cluster.submit(4, seconds=60)
    loop = start(world)
    step(world, loop)
    step(world, loop)
    paced = len(world.cloud.machines)
    settle(world, loop)
    both = [machine.created_at for machine in world.cloud.machines.values()][:2]
    assert (paced, both[1] - both[0] >= 30.0, ended_once(world.cluster.jobs)) == (1, True, True)


def test_after_a_resume_old_removals_do_not_open_the_circuit_breaker_again(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy=replace(POLICY, circuit_breaker=CircuitBreaker(window=600.0, max_removals=2)))
    world.cluster.submit(4, seconds=5)
    loop = start(world)
    settle(world, loop)
    loop.observer.policy = replace(POLICY, circuit_breaker=CircuitBreaker(window=600.0, max_removals=1))
    pressed = step(world, loop)
    loop.store.overrides.resume(who="ann", at=world.clock.now)
    released = step(world, loop)
    assert pressed is not None
    assert released is not None
    assert (pressed.plan.memory.circuit_breaker is None, released.plan.memory.circuit_breaker) == (False, None)


def test_after_a_lost_store_workers_are_found_by_their_tag_and_jobs_run_once(empty_cell: World) -> None:
    empty_cell.cluster.submit(4, seconds=60)
    loop = start(empty_cell)
    for _ in range(6):
        step(empty_cell, loop)
    loop.store.close()
    empty_cell.store_file.unlink()
    loop = start(empty_cell)
    settle(empty_cell, loop)
    assert (ended_once(empty_cell.cluster.jobs), left_over(empty_cell, loop), len(empty_cell.cloud.machines)) == (
        True,
        [],
        2,
    )


def test_an_outage_of_qmaster_changes_nothing(empty_cell: World) -> None:
    empty_cell.cluster.submit(2, seconds=300)
    loop = start(empty_cell)
    for _ in range(5):
        step(empty_cell, loop)
    before = (loop.store.memory.load(), dict(empty_cell.cluster.slots), list(empty_cell.cloud.machines))
    empty_cell.cluster.unobservable = 10
    for _ in range(10):
        step(empty_cell, loop)
    assert (loop.store.memory.load(), dict(empty_cell.cluster.slots), list(empty_cell.cloud.machines)) == before


def shown(world: World, loop: Loop) -> dict[str, str]:
    now = Now(world.clock.now, "default", "fake", serving=True, holder=None)
    return dict(status_pairs(status(loop.store, now)))


def test_status_counts_a_worker_as_ordered_until_it_is_listed(empty_cell: World) -> None:
    empty_cell.cluster.submit(4, seconds=300)
    loop = start(empty_cell)
    loop.pass_once()
    ordered = shown(empty_cell, loop)["workers"]
    settled = [step(empty_cell, loop) for _ in range(4)] and shown(empty_cell, loop)["workers"]
    assert (ordered, settled) == ("0 additional, 2 ordered, 0 persistent", "2 additional, 0 persistent")


def test_status_does_not_count_an_ended_worker_as_ordered(empty_cell: World) -> None:
    empty_cell.cluster.submit(4, seconds=30)
    loop = start(empty_cell)
    settle(empty_cell, loop)
    step(empty_cell, loop)  # lists the machines as ended
    assert (len(empty_cell.cloud.machines), shown(empty_cell, loop)["workers"]) == (2, "0 additional, 0 persistent")


CAUSE = "Client.InternalError: Client error on launch"


def test_an_ended_worker_that_its_cloud_lists_no_more_is_not_waited_for(
    empty_cell: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clouds forget a machine at once. Its order is younger than `order_grace` then."""
    monkeypatch.setattr("autoscaler.providers.fake.LISTED_AFTER_END", 0.0)
    loop = start(empty_cell)
    empty_cell.cluster.submit(1, seconds=5)
    settle(empty_cell, loop)
    empty_cell.cluster.submit(1, seconds=5)
    before = empty_cell.clock.now
    assert settle(empty_cell, loop) < 60
    assert empty_cell.clock.now - before < POLICY.order_grace / 2
    assert len(empty_cell.cloud.machines) == 2


def test_machines_that_die_after_acceptance_lead_to_backoff_and_are_reported(empty_cell: World) -> None:
    empty_cell.cloud.faults = Faults(dies_at_once=CAUSE)
    empty_cell.cluster.submit(1)
    loop = start(empty_cell)
    sentences = [sentence(done.plan) for _ in range(40) if (done := step(empty_cell, loop)) is not None]
    failures = loop.store.journal.failures(0)
    limit = empty_cell.policy.node_arrays[0].unavailability_count_failure
    assert 0 < len(empty_cell.cloud.machines) == len(failures) <= limit
    assert sum(CAUSE in each for each in sentences) >= len(failures)
    result = shown(empty_cell, loop)
    assert CAUSE in result["launches"]


def test_after_the_backoff_a_recovered_type_is_launched(empty_cell: World) -> None:
    empty_cell.cloud.faults = Faults(dies_at_once=CAUSE)
    empty_cell.cluster.submit(1, seconds=30)
    loop = start(empty_cell)
    for _ in range(40):
        step(empty_cell, loop)
    empty_cell.cloud.faults = Faults()
    empty_cell.cluster.advance(1800.0)
    settle(empty_cell, loop)
    assert (ended_once(empty_cell.cluster.jobs), left_over(empty_cell, loop)) == (True, [])


def test_after_a_lost_store_old_dead_machines_do_not_count_as_failures(empty_cell: World) -> None:
    empty_cell.cloud.faults = Faults(dies_at_once=CAUSE)
    empty_cell.cluster.submit(1)
    loop = start(empty_cell)
    for _ in range(40):
        step(empty_cell, loop)
    assert loop.store.journal.failures(0) != ()
    with loop.store.database.transaction():
        loop.store.memory.save(Memory(), empty_cell.clock.now)
        for table in ("attempts", "orders", "failures", "actions", "plans"):
            loop.store.database.execute(f"DELETE FROM {table}")
    empty_cell.cluster.jobs.clear()
    for _ in range(3):
        step(empty_cell, loop)
    assert loop.store.journal.failures(0) == ()


class Limited(FakeProvider):
    """Its cloud accepts no launch for now."""

    error: type[Throttled] | type[Unreachable] = Throttled

    def launch(self, order: LaunchOrder) -> Launched:
        self.cloud.calls.append("launch")
        raise self.error("too many calls")


def test_a_throttled_launch_is_reported_and_dropped_when_its_job_is_deleted(empty_cell: World) -> None:
    empty_cell.cluster.submit(1)
    limited = Limited(FakeSettings(), cell=TAG, cloud=empty_cell.cloud)
    loop = start(empty_cell, provider=limited)
    results = []
    for _ in range(5):
        results.append(sentence(loop.pass_once().plan))
        empty_cell.cluster.advance(2.0)
    tried, during = empty_cell.cloud.calls.count("launch"), shown(empty_cell, loop)
    empty_cell.cluster.jobs.clear()
    for _ in range(20):
        step(empty_cell, loop)
    assert (tried, empty_cell.cloud.calls.count("launch")) == (2, 2)
    assert any(
        "the provider accepts no launch now: too many calls; the next attempt is after" in each for each in results
    )
    assert "too many calls" in during["launches"]


def test_a_throttled_launch_is_carried_out_once_the_provider_accepts_it(empty_cell: World) -> None:
    empty_cell.cluster.submit(3, seconds=30)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeProvider, "launch", Limited.launch)
        patched.setattr(FakeProvider, "error", Throttled, raising=False)
        loop = start(empty_cell)
        for _ in range(10):
            step(empty_cell, loop)
    settle(empty_cell, loop)
    assert (ended_once(empty_cell.cluster.jobs), left_over(empty_cell, loop)) == (True, [])


def test_a_launch_without_an_answer_is_reported_as_such(empty_cell: World) -> None:
    limited = Limited(FakeSettings(), cell=TAG, cloud=empty_cell.cloud)
    limited.error = Unreachable
    empty_cell.cluster.submit(1)
    loop = start(empty_cell, provider=limited)
    sentences = [sentence(done.plan) for _ in range(4) if (done := step(empty_cell, loop)) is not None]
    assert any(
        ("no answer to an order of 1 m5.large: too many calls; the autoscaler asks again after") in each
        for each in sentences
    )
    assert "too many calls" in shown(empty_cell, loop)["no answer"]
