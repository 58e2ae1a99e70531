"""What if an action fails, and the world moves on? The next pass decides as if it had never been planned."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from autoscaler.core.actions import Annotate, Disable, Enable, Enrol, Launch, Release, Remove, Reschedule, Terminate
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.fleet import LaunchFailure, MachineState, Order, OrderState
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.plan import plan
from autoscaler.core.recovery.recovery_steps import TRY_AGAIN
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.unsatisfiable.unwritten import RETRY, RETRY_REFUSED, with_unwritten
from autoscaler.core.workers.marks import FOR_GOOD
from tests.core.building import NOW, Thing, a_failure, a_host, a_job, a_snapshot, an_order, jobs, launched
from tests.core.test_deadlock import UNSATISFIABLE, a_history, jobs_acted_on, to_the_end
from tests.core.test_phases import REACHED
from tests.core.test_recovery import GONE, YES, disabled_by_us, lost
from tests.core.test_recovery import seen as seen_lost
from tests.core.transition_rows import observed_in
from tests.core.worker_observations import MARKS, OURS, Observation, snapshot_of

REVOCABLE = (Disable, Enable, Enrol, Remove)
"""Actions after which, if they fail, nothing of them is remembered. Others are below."""
LATER = 60.0
"""Seconds after which a failed action may be tried again."""
PLACES = ("open", "closed", "partly", "busy", "closed and busy")
COMBINED = [
    Observation(host=host, mark=mark, heard=heard, idle=4000.0, empty=300.0, disabled=disabled)
    for host, mark, heard, disabled in itertools.product(PLACES, MARKS, (True, False), (20.0, 4000.0))
]
SEEN = [
    seen
    for seen in [*(seen for _, _, seen in REACHED), *COMBINED]
    # Without a queue instance it counts as disabled anyway. A mark of an image has the time of the observation.
    if seen.host not in ("bare", "unqueued") and not seen.enrols_itself
    if seen.listed not in (MachineState.TERMINATED, "left out and gone")  # nothing depends on the order of its steps
]


def observed_notes(snapshot: Snapshot) -> Mapping[str, WorkerNote]:
    """What a pass remembers of workers that observes and plans nothing."""
    return {worker.worker.id: worker.note for worker in observed_in(snapshot).known}


def on_ours(made: Plan) -> list[tuple[str, str]]:
    """Launches, and what is done with the worker, with why."""
    return [
        (action.kind, action.reason.code)
        for action in made.actions
        if isinstance(action, Launch) or getattr(action, "worker_id", None) == OURS
    ]


@cache
def planned_by(seen: Observation) -> tuple[Plan, set[type]]:
    """The plan, and which revocable actions it has that change something."""
    made = plan(snapshot_of(seen))
    kinds = {type(each) for each in made.actions if isinstance(each, REVOCABLE) and each.worker_id == OURS}
    note = made.memory.workers.get(OURS)
    if note is None or note.disabling in FOR_GOOD:
        return made, set()
    disabled = seen.host in ("closed", "closed and busy", "reserved")
    if seen.fenced is not None and seen.mark is None:
        return made, set()  # the end of a fence is an effect of its own
    return made, kinds - {Disable if disabled else Enable}


@pytest.mark.parametrize("kind", REVOCABLE)
@pytest.mark.parametrize("override", ("", "drain", "keep"))
@pytest.mark.parametrize("waiting", (0, 5))
def test_after_a_failed_action_the_next_pass_decides_as_if_it_had_not_been_planned(
    kind: type, waiting: int, override: str
) -> None:
    judged = 0
    for seen in SEEN:
        made, kinds = planned_by(seen)
        if kind not in kinds:
            continue
        judged += 1
        first, moved_on = snapshot_of(seen), snapshot_of(replace(seen, waiting=waiting, override=override))
        then = replace(moved_on, now=first.now + LATER, memory=made.memory)
        unplanned = replace(then, memory=replace(made.memory, workers={**made.memory.workers, **observed_notes(first)}))
        assert on_ours(plan(then)) == on_ours(plan(unplanned)), (seen, made.actions)
    assert judged


# -- a termination -----------------------------------------------------------------------------------------------------


def ends_ours(made: Plan) -> bool:
    return any(isinstance(action, Terminate | Remove) and action.worker_id == OURS for action in made.actions)


def terminated(seen: Observation) -> Plan | None:
    """The plan, if it terminates the worker."""
    made, _ = planned_by(seen)
    found = (action for action in made.actions if isinstance(action, Terminate) and action.worker_id == OURS)
    return None if next(found, None) is None else made


def test_a_termination_that_failed_is_planned_again() -> None:
    judged = 0
    for seen in SEEN:
        made = terminated(seen)
        if made is None or not isinstance(seen.listed, MachineState) or seen.listed is MachineState.STOPPING:
            continue
        judged += 1
        snapshot, again = snapshot_of(seen), False
        for later in range(60, 901, 60):
            made = plan(replace(snapshot, now=snapshot.now + later, memory=made.memory))
            again = again or ends_ours(made)
        assert again, seen
    assert judged


def test_a_worker_that_runs_jobs_after_a_termination_that_failed_is_not_ended() -> None:
    """Grid Engine has its host again, it reports, and jobs run there."""
    judged = 0
    for seen in SEEN:
        made = terminated(seen)
        busy = replace(seen, host="busy", heard=True, silent=None, notice="", listed=MachineState.RUNNING)
        if made is None or not seen.others_heard or seen.taken:
            continue
        judged += 1
        first = snapshot_of(busy)
        for later in (60, 120, 180):
            made = plan(replace(first, now=first.now + later, memory=made.memory))
            assert not ends_ours(made), (seen, later)
    assert judged


# -- a reschedule ------------------------------------------------------------------------------------------------------

RAN = HostJob(9000, "", "r", 2, "user", hard=(("slots", "2"),))
MOVED_ON: Mapping[str, tuple[Thing, ...]] = {
    "nothing changed": (lost(RAN),),
    "another job is seen there": (lost(RAN, HostJob(9001, "", "r", 1)),),
    "its owner deleted it": (lost(replace(RAN, state="dr")),),
    "it left the host": (disabled_by_us(Disabling.LOST, used=0, state=GONE, states="du"),),
    "it waits again": (
        disabled_by_us(Disabling.LOST, used=0, state=GONE, states="du"),
        a_job(9000, state="Rq", waited=900.0),
    ),
    "the machine is there after all": (disabled_by_us(Disabling.LOST, used=1),),
    "the host left": (),
}


@pytest.mark.parametrize("now", MOVED_ON)
def test_after_a_reschedule_that_failed_the_next_pass_decides_as_if_it_had_not_been_planned(now: str) -> None:
    """Again if the job is still there, never for a job that left its host, nor on a machine that is well."""
    details = tuple(replace(YES, job=job) for job in (9000, 9001))
    before = observed_notes(first := seen_lost(lost(RAN), details=details))
    made = plan(first)
    assert [each.jobs for each in made.actions if isinstance(each, Reschedule)] == [("9000",)]
    moved_on = seen_lost(*MOVED_ON[now], details=details, now=NOW + LATER)
    then, unplanned = (
        plan(replace(moved_on, memory=replace(made.memory, workers=workers)))
        for workers in (made.memory.workers, {**made.memory.workers, **before})
    )
    assert [(each.kind, each) for each in then.actions] == [(each.kind, each) for each in unplanned.actions]
    expected = {"nothing changed": {"9000"}, "another job is seen there": {"9000", "9001"}}
    assert {job for each in then.actions if isinstance(each, Reschedule) for job in each.jobs} == expected.get(
        now, set()
    )


def test_a_reschedule_that_keeps_failing_is_tried_three_times_and_again_later() -> None:
    memory, planned = None, []
    for later in range(0, 1501, 60):
        world = seen_lost(lost(RAN), details=(YES,), now=NOW + later)
        made = plan(world if memory is None else replace(world, memory=memory))
        memory = made.memory
        planned += [later for each in made.actions if isinstance(each, Reschedule)]
    assert (planned[:3], len(planned) > 3, planned[3] - planned[2] >= TRY_AGAIN) == ([0, 60, 120], True, True)


# -- a launch ----------------------------------------------------------------------------------------------------------


def after_a_launch(*things: Thing, failures: tuple[LaunchFailure, ...] = (), orders: tuple[Order, ...] = ()) -> Plan:
    """The plan a minute after a launch for three jobs, of which this is known, and these things are there."""
    made = plan(a_snapshot(jobs(3, waited=900.0)))
    assert sum(launched(made).values())
    moved_on = a_snapshot(*things)
    fleet = replace(moved_on.fleet, failures=failures, orders=orders)
    return plan(replace(moved_on, fleet=fleet, memory=made.memory, now=NOW + LATER))


REFUSED = an_order(2, state=OrderState.FAILED, age=-1.0)
ONCE = replace(a_failure(age=-1.0), order_id="order-1")


@pytest.mark.parametrize(("orders", "failures"), (((), ()), ((REFUSED,), (ONCE,))), ids=("never sent", "refused"))
def test_a_launch_that_failed_is_made_again_if_its_jobs_still_wait_and_only_then(
    orders: tuple[Order, ...], failures: tuple[LaunchFailure, ...]
) -> None:
    again = after_a_launch(jobs(3, waited=960.0), orders=orders, failures=failures)
    assert sum(launched(again).values()) == 2
    none = after_a_launch(orders=orders, failures=failures)
    assert (launched(none), none.waiting) == ({}, 0)
    fits = after_a_launch(jobs(3, waited=960.0), a_host(slots=3), orders=orders, failures=failures)
    assert launched(fits) == {}
    other = after_a_launch(a_job(9, waited=900.0), orders=orders, failures=failures)
    assert sum(launched(other).values()) == 1


# -- actions on jobs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", (True, False))
def test_a_deletion_or_hold_that_failed_is_planned_again_unless_the_job_has_changed(kill: bool) -> None:
    history = a_history(UNSATISFIABLE, kill=kill)
    assert jobs_acted_on(to_the_end(history)) == ["1"]
    world, memory = history.world, history.world.memory
    again = [jobs_acted_on(history.observe(30.0)) for _ in range(4)]
    assert ["1"] in again
    history.world = replace(world, memory=memory)
    history.job_categories(a_job(slots=2))
    assert [jobs_acted_on(history.observe(30.0)) for _ in range(4)] == [[]] * 4


def test_a_release_that_failed_is_planned_again_as_long_as_the_job_could_run() -> None:
    history = a_history(UNSATISFIABLE, kill=False)
    to_the_end(history)
    held = replace(UNSATISFIABLE, ask=replace(UNSATISFIABLE.ask, state="hqw"))
    history.job_categories(held)
    history.observe(10.0)
    small = replace(held, ask=replace(held.ask, slots_min=2, slots_max=2))
    history.job_categories(small)
    released = [any(isinstance(each, Release) for each in history.observe(30.0).actions) for _ in range(5)]
    assert sum(released) >= 2
    history.job_categories(held)
    assert not any(isinstance(each, Release) for _ in range(4) for each in history.observe(30.0).actions)


@pytest.mark.parametrize("refused", (True, False))
def test_a_text_for_an_unsatisfiable_job_that_could_not_be_written_is_written_later(refused: bool) -> None:
    """Also the one that it can run after all."""
    history = a_history(UNSATISFIABLE, answer=None)
    history.observe()
    assert written(history.observe(1.0)) == ["1"]
    failed_at = history.now
    history.world = with_failed_text(history.world, failed_at, refused=refused)
    delay = RETRY_REFUSED if refused else RETRY
    assert [written(history.observe(later)) for later in (1.0, delay - 2.0, 1.0, 1.0)] == [[], [], ["1"], []]
    history.job_categories(a_job(slots=2))
    assert written(history.observe(1.0)) == ["1"]
    history.world = with_failed_text(history.world, history.now, refused=refused)
    assert [written(history.observe(later)) for later in (1.0, delay - 2.0, 1.0, 1.0)] == [[], [], ["1"], []]


def written(made: Plan) -> list[str]:
    return [job for action in made.actions if isinstance(action, Annotate) for job in action.jobs]


def with_failed_text(world: Snapshot, at: float, *, refused: bool) -> Snapshot:
    assert world.memory.annotated_at == at
    notes = with_unwritten(world.memory.unsatisfiable_jobs, [(("1",), refused)], at)
    return replace(world, memory=replace(world.memory, unsatisfiable_jobs=notes))
