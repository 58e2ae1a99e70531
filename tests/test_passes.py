"""Whole passes in a simulated world: operator overrides, losses, and that nothing is done without a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.policy import CircuitBreaker, Policy
from autoscaler.engine.loop import Loop
from autoscaler.providers.cloud_pipeline.api import refusal
from autoscaler.providers.fake import FakeProvider, FakeSettings, Faults
from autoscaler.providers.interface import Launched, LaunchOrder, Throttled, Unreachable
from autoscaler.report.sentence import sentence
from autoscaler.report.status import Now, status, status_pairs
from autoscaler.store.overrides import Verb
from tests.simulated.autoscaler import POLICY, TAG, World, left_over, settle, start, step
from tests.simulated.cluster import ended_once


def world_of(directory: Path, *, policy: Policy = POLICY) -> World:
    return World(directory / "store.sqlite", policy=policy)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path)


def test_ten_jobs_run_once_and_their_workers_leave(world: World) -> None:
    world.cluster.submit(10, seconds=30)
    loop = start(world)
    settle(world, loop)
    assert (ended_once(world.cluster.jobs), left_over(world, loop)) == (True, [])


def test_in_an_unchanged_world_nothing_is_done(world: World) -> None:
    world.cluster.submit(2, seconds=1000)
    loop = start(world)
    for _ in range(8):
        step(world, loop)
    assert [step(world, loop).plan.actions for _ in range(3)] == [(), (), ()]  # type: ignore[union-attr]


def test_a_paused_autoscaler_launches_nothing(world: World) -> None:
    world.cluster.submit(2)
    loop = start(world)
    loop.store.overrides.ask(Verb.PAUSE, who="ann", at=world.clock.now)
    for _ in range(3):
        step(world, loop)
    assert world.cloud.machines == {}


def test_a_drained_worker_leaves_after_its_job_and_not_before(world: World) -> None:
    world.cluster.submit(1, seconds=100)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    loop.store.overrides.ask(Verb.DRAIN, who="ann", at=world.clock.now, host="fake-1")
    step(world, loop)
    running = world.cluster.jobs[0].host
    settle(world, loop)
    step(world, loop)
    assert (running, left_over(world, loop), loop.store.overrides.in_force()) == ("fake-1", [], ())


def test_a_kept_worker_stays_while_idle(world: World) -> None:
    world.cluster.submit(1, seconds=5)
    loop = start(world)
    for _ in range(4):
        step(world, loop)
    loop.store.overrides.ask(Verb.KEEP, who="ann", at=world.clock.now, host="fake-1")
    for _ in range(20):
        step(world, loop)
    assert [machine.name for machine in world.cloud.living(TAG)] == ["fake-1"]


def test_a_stop_removes_all_workers_after_their_jobs(world: World) -> None:
    world.cluster.submit(2, seconds=60)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    loop.store.overrides.ask(Verb.STOP_NOW, who="ann", at=world.clock.now)
    world.cluster.submit(5, seconds=60)
    for _ in range(20):
        step(world, loop)
    assert ([job.ended for job in world.cluster.jobs[:2]], left_over(world, loop), loop._released()) == (
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
    world: World, verb: Verb, *, kill: bool, lost: bool
) -> None:
    """The listing lags 45 s: an empty one does not show that all is gone."""
    world.cloud.faults = Faults(listing_lag=45.0, lost_answers=int(lost))
    loop = stopped(world, verb, kill=kill)
    for _ in range(40):
        step(world, loop)
        if loop._released():
            break
    assert (world.cloud.living(TAG), loop.may_come, loop.store.overrides.in_force()) == ([], "", ())
    assert not loop.store.overrides.may_come(verb)


@pytest.mark.parametrize("lost", (False, True), ids=("answered", "lost"))
def test_a_stop_names_what_may_come_if_no_listing_shows_it_in_time(world: World, *, lost: bool) -> None:
    world.cloud.faults = Faults(hidden_from=world.clock.now, lost_answers=int(lost))
    loop = stopped(world, Verb.STOP_NOW)
    began = world.clock.now
    for _ in range(40):
        step(world, loop)
        if loop._released():
            break
    words = "1 m5.large without an answer" if lost else "m5.large fake-000001"
    assert (loop.may_come, loop.store.overrides.may_come(Verb.STOP_NOW)) == (words, words)
    assert world.clock.now - began >= POLICY.order_grace - 15


def test_a_stop_does_not_wait_for_workers_that_came_and_went(world: World) -> None:
    """Their listing may leave them out soon after their end, which a second pass confirms."""
    world.cluster.submit(1, seconds=20)
    loop = start(world)
    settle(world, loop)
    world.cloud.machines.clear()
    loop.store.overrides.ask(Verb.STOP_NOW, who="ann", at=world.clock.now)
    step(world, loop)
    step(world, loop)
    assert (loop._released(), loop.may_come) == (True, "")


class Scheduling(FakeProvider):
    """A Cloud Pipeline that launches no run until a time, since it has just launched others."""

    until = 0.0

    def launch(self, order: LaunchOrder) -> Launched:
        if self.cloud.clock() < self.until:
            words = "Error: exceeded allowed number of scheduled at once runs: allowed '0', but actual '1'"
            raise refusal("POST run", words)
        return super().launch(order)


def test_a_platform_that_schedules_no_run_now_is_asked_again_soon_and_its_type_is_in_no_backoff(world: World) -> None:
    provider = Scheduling(FakeSettings(), cell=TAG, cloud=world.cloud)
    provider.until = lifted = world.clock.now + 200.0
    world.cluster.submit(1, seconds=60)
    loop = start(world, provider=provider)
    told = set()
    while world.clock.now < lifted + 75.0 and not world.cloud.machines:
        done = step(world, loop)
        assert done is not None
        assert done.plan.memory.backoffs == ()
        told |= {link.code for each in done.plan.job_categories for link in (each.reason, *each.reason.trail)}
    assert len(world.cloud.machines) == 1
    assert Code.LAUNCH_THROTTLED in told


class Others(FakeProvider):
    """Its machines are somebody else's, since a change-over."""

    def workers(self) -> list[Worker]:
        return []

    def handed_back(self) -> frozenset[str]:
        return frozenset(worker.id for worker in super().workers())


@pytest.mark.parametrize("verb", (Verb.STOP_NOW, Verb.STOP_DRAIN))
def test_a_stop_neither_waits_for_a_worker_that_is_somebody_elses_again_nor_touches_it(
    world: World, verb: Verb
) -> None:
    world.cluster.submit(1, seconds=60)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    (host,) = world.cluster.workers
    loop.store.close()
    loop = start(world, provider=Others(FakeSettings(), cell=TAG, cloud=world.cloud))
    loop.store.overrides.ask(verb, who="ann", at=world.clock.now)
    done = step(world, loop)
    released = loop._released()
    for _ in range(30):
        step(world, loop)
    assert done is not None
    assert (released, loop.may_come, done.plan.actions) == (True, "", ())
    assert ([*world.cluster.workers], len(world.cloud.living(TAG))) == ([host], 1)


def test_a_stop_names_a_known_worker_that_its_listing_leaves_out_for_good_while_it_reports(world: World) -> None:
    """Its host reports, so its end cannot be made certain."""
    world.cluster.submit(1, seconds=60)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    (machine,) = world.cloud.living(TAG)
    world.cloud.faults = Faults(hidden_from=0.0)
    loop.store.overrides.ask(Verb.STOP_DRAIN, who="ann", at=world.clock.now)
    began = world.clock.now
    for _ in range(200):
        step(world, loop)
        if loop._released():
            break
    assert loop.may_come == machine.id
    assert world.clock.now - began >= POLICY.order_grace + POLICY.silence_timeout - 30


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


def test_after_a_lost_store_workers_are_found_by_their_tag_and_jobs_run_once(world: World) -> None:
    world.cluster.submit(4, seconds=60)
    loop = start(world)
    for _ in range(6):
        step(world, loop)
    loop.store.close()
    world.store_file.unlink()
    loop = start(world)
    settle(world, loop)
    assert (ended_once(world.cluster.jobs), left_over(world, loop), len(world.cloud.machines)) == (True, [], 2)


def test_an_outage_of_qmaster_changes_nothing(world: World) -> None:
    world.cluster.submit(2, seconds=300)
    loop = start(world)
    for _ in range(5):
        step(world, loop)
    before = (loop.store.memory.load(), dict(world.cluster.slots), list(world.cloud.machines))
    world.cluster.unobservable = 10
    for _ in range(10):
        step(world, loop)
    assert (loop.store.memory.load(), dict(world.cluster.slots), list(world.cloud.machines)) == before


def shown(world: World, loop: Loop) -> dict[str, str]:
    now = Now(world.clock.now, "default", "fake", serving=True, holder=None)
    return dict(status_pairs(status(loop.store, now)))


def test_status_counts_a_worker_as_ordered_until_it_is_listed(world: World) -> None:
    world.cluster.submit(4, seconds=300)
    loop = start(world)
    loop.pass_once()
    ordered = shown(world, loop)["workers"]
    settled = [step(world, loop) for _ in range(4)] and shown(world, loop)["workers"]
    assert (ordered, settled) == ("0 additional, 2 ordered, 0 persistent", "2 additional, 0 persistent")


def test_status_does_not_count_an_ended_worker_as_ordered(world: World) -> None:
    world.cluster.submit(4, seconds=30)
    loop = start(world)
    settle(world, loop)
    step(world, loop)  # lists the machines as ended
    assert (len(world.cloud.machines), shown(world, loop)["workers"]) == (2, "0 additional, 0 persistent")


CAUSE = "Client.InternalError: Client error on launch"


def test_machines_that_die_after_acceptance_lead_to_backoff_and_are_reported(world: World) -> None:
    world.cloud.faults = Faults(dies_at_once=CAUSE)
    world.cluster.submit(1)
    loop = start(world)
    sentences = [sentence(done.plan) for _ in range(40) if (done := step(world, loop)) is not None]
    failures = loop.store.journal.failures(0)
    limit = world.policy.node_arrays[0].unavailability_count_failure
    assert 0 < len(world.cloud.machines) == len(failures) <= limit
    assert sum(CAUSE in each for each in sentences) >= len(failures)
    result = shown(world, loop)
    assert CAUSE in result["launches"]


def test_after_the_backoff_a_recovered_type_is_launched(world: World) -> None:
    world.cloud.faults = Faults(dies_at_once=CAUSE)
    world.cluster.submit(1, seconds=30)
    loop = start(world)
    for _ in range(40):
        step(world, loop)
    world.cloud.faults = Faults()
    world.cluster.advance(1800.0)
    settle(world, loop)
    assert (ended_once(world.cluster.jobs), left_over(world, loop)) == (True, [])


def test_after_a_lost_store_old_dead_machines_do_not_count_as_failures(world: World) -> None:
    world.cloud.faults = Faults(dies_at_once=CAUSE)
    world.cluster.submit(1)
    loop = start(world)
    for _ in range(40):
        step(world, loop)
    with loop.store.database.transaction():
        loop.store.memory.save(Memory(), world.clock.now)
        for table in ("attempts", "orders", "failures", "actions", "plans"):
            loop.store.database.execute(f"DELETE FROM {table}")
    world.cluster.jobs.clear()
    for _ in range(3):
        step(world, loop)
    assert loop.store.journal.failures(0) == ()


class Limited(FakeProvider):
    """Its cloud accepts no launch for now."""

    error: type[Throttled] | type[Unreachable] = Throttled

    def launch(self, order: LaunchOrder) -> Launched:
        self.cloud.calls.append("launch")
        raise self.error("too many calls")


def test_a_throttled_launch_is_reported_and_dropped_when_its_job_is_deleted(world: World) -> None:
    world.cluster.submit(1)
    limited = Limited(FakeSettings(), cell=TAG, cloud=world.cloud)
    loop = start(world, provider=limited)
    results = []
    for _ in range(5):
        results.append(sentence(loop.pass_once().plan))
        world.cluster.advance(2.0)
    tried, during = world.cloud.calls.count("launch"), shown(world, loop)
    world.cluster.jobs.clear()
    for _ in range(20):
        step(world, loop)
    assert (tried, world.cloud.calls.count("launch")) == (2, 2)
    assert any(
        "the provider accepts no launch now: too many calls; the next attempt is after" in each for each in results
    )
    assert "too many calls" in during["launches"]


def test_a_throttled_launch_is_carried_out_once_the_provider_accepts_it(world: World) -> None:
    world.cluster.submit(3, seconds=30)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeProvider, "launch", Limited.launch)
        patched.setattr(FakeProvider, "error", Throttled, raising=False)
        loop = start(world)
        for _ in range(10):
            step(world, loop)
    settle(world, loop)
    assert (ended_once(world.cluster.jobs), left_over(world, loop)) == (True, [])


def test_a_launch_without_an_answer_is_reported_as_such(world: World) -> None:
    limited = Limited(FakeSettings(), cell=TAG, cloud=world.cloud)
    limited.error = Unreachable
    world.cluster.submit(1)
    loop = start(world, provider=limited)
    sentences = [sentence(done.plan) for _ in range(4) if (done := step(world, loop)) is not None]
    assert any(
        ("no answer to an order of 1 m5.large: too many calls; the autoscaler asks again after") in each
        for each in sentences
    )
    assert "too many calls" in shown(world, loop)["no answer"]
