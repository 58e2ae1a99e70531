"""Workers that fell silent, that their cloud takes, or that are gone: silence is not death, and no job runs twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Hold, Kill, Launch, Release, Reschedule, Terminate
from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.model.cluster import ExecutionHost, HostJob, JobDetail, QueueInstance
from autoscaler.core.model.fleet import Ending, Interruption, MachineState, OrderState, RefusedEnd
from autoscaler.core.model.memory import Disabling, HeldJob, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, LostJobs
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    LONG_AGO,
    NOW,
    AWorker,
    Thing,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    an_order,
    codes,
    fate,
    launched,
    told,
    verdict_of,
)

GONE = MachineState.TERMINATED
YES = JobDetail(9000, looked_at=NOW - 5, rerun=True)
NO = replace(YES, rerun=False)
BY_QUEUE = replace(YES, rerun=None)
CHECKPOINTING = replace(BY_QUEUE, restarts=True)


def seen(
    *things: Thing,
    notices: tuple[Interruption, ...] = (),
    details: tuple[JobDetail, ...] = (),
    looked_at: float | None = NOW - 10,
    lost_jobs: LostJobs = LostJobs.REPORT,
    **world: Any,
) -> Snapshot:
    """A world with notices, answers of `qstat -j`, and an earlier look."""
    made = a_snapshot(*things, **world)
    return replace(
        made,
        fleet=replace(made.fleet, interruptions=notices),
        cluster=replace(made.cluster, details={detail.job: detail for detail in details}),
        memory=replace(made.memory, looked_at=looked_at),
        policy=replace(made.policy, silence_timeout=600.0, lost_jobs=lost_jobs),
    )


def silent(name: str = "w1", seconds: float = 0.0, **worker: Any) -> AWorker:
    """A worker that was silent for so long at the last look."""
    made = a_worker(name, heard=False, states=worker.pop("states", "u"), **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, silent_s=seconds))


def closed(mark: Disabling, **worker: Any) -> AWorker:
    """A worker that we disabled with this mark, and saw disabled."""
    states = worker.pop("states", "d")
    made = a_worker(mark=mark, states=states, heard="u" not in states, **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, seen_disabled=True))


def lost(*jobs: HostJob, others: tuple[QueueInstance, ...] = (), **worker: Any) -> AWorker:
    """A worker whose machine is gone, already closed, with these jobs (else one) on its host."""
    made = closed(Disabling.LOST, used=0 if jobs else 1, state=GONE, states="du", **worker)
    if not jobs:
        return made
    instance = QueueInstance("main.q", "w1", 2, len(jobs), 0, "du", jobs)
    return replace(made, host=ExecutionHost("w1", (instance, *others), heard=False))


def notice(worker: AWorker, seconds: float, kind: str = "terminate") -> tuple[Interruption, ...]:
    return (Interruption(worker.worker.id, NOW + seconds, kind),)


def of(made: Plan, kind: type) -> list[Any]:
    return [action for action in made.actions if isinstance(action, kind)]


# -- silence -----------------------------------------------------------------------------------------------------

HEARD = a_host("h1")


def test_a_worker_silent_for_a_moment_is_only_watched() -> None:
    made = plan(seen(HEARD, silent(seconds=20, used=1)))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.NO_LOAD_REPORT))


def test_a_worker_that_stays_silent_lets_no_further_job_in() -> None:
    made = plan(seen(HEARD, silent(seconds=100, used=1)))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.SILENT))


def test_a_worker_is_not_closed_while_no_host_at_all_is_heard() -> None:
    made = plan(seen(silent("w1", 9999, used=1), silent("w2", 9999)))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([], [Code.NO_LOAD_REPORT, Code.ALL_SILENT])


def test_silence_does_not_count_while_no_host_at_all_is_heard() -> None:
    assert plan(seen(silent(seconds=50))).memory.workers["i-w1"].silent_s == 50


def test_time_between_two_looks_counts_as_silence() -> None:
    assert plan(seen(HEARD, silent(seconds=20))).memory.workers["i-w1"].silent_s == 30


def test_of_an_hour_in_which_nobody_looked_little_counts_as_silence() -> None:
    made = plan(seen(HEARD, silent(seconds=20), looked_at=NOW - 3600))
    assert made.memory.workers["i-w1"].silent_s == 140


def test_silence_begins_at_the_first_look_that_hears_nothing() -> None:
    made = plan(seen(HEARD, a_worker(heard=False, states="u")))
    assert made.memory.workers["i-w1"].silent_s == 0


def test_a_silent_worker_is_no_supply_and_still_counts_against_the_limits() -> None:
    job = a_job(slots=2, waited=9999)
    mute = closed(Disabling.SILENT, used=0, states="du")
    assert launched(plan(seen(mute, full(), job))) == {"m5.large": 1}
    assert launched(plan(seen(mute, full(), job, limits=Limits(max_workers=1)))) == {}


def full() -> ExecutionHost:
    """A persistent host that is heard and full."""
    return a_host("h2", used=2)


def test_a_silent_worker_that_is_heard_again_is_enabled() -> None:
    made = plan(seen(HEARD, closed(Disabling.SILENT, used=1)))
    assert (acts(made), told(made, "w1")) == ([("enable", "w1")], ("enable", Code.LOAD_REPORTS_AGAIN))


def test_a_worker_disabled_by_hand_is_not_enabled_when_its_silence_ends() -> None:
    made = plan(seen(HEARD, a_worker(used=1, states="d")))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def test_a_worker_disabled_by_hand_is_never_fenced() -> None:
    made = plan(seen(HEARD, silent(seconds=9999, used=1, states="du")))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def too_silent(**worker: Any) -> AWorker:
    made = closed(Disabling.SILENT, used=worker.pop("used", 1), states="du", **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, silent_s=595.0))


def test_a_worker_silent_for_too_long_is_ended_with_its_jobs_untouched() -> None:
    made = plan(seen(HEARD, too_silent(), details=(YES,)))
    assert (acts(made), told(made, "w1")) == ([("terminate", "w1")], ("terminate", Code.FENCED))


def test_an_empty_worker_silent_for_too_long_leaves_as_any_other() -> None:
    assert acts(plan(seen(HEARD, too_silent(used=0, empty=60.0)))) == [("remove", "w1")]


def test_a_draining_worker_that_fell_silent_with_a_job_is_ended_too() -> None:
    worker = too_silent()
    assert worker.note is not None
    drained = replace(worker, note=replace(worker.note, disabling=Disabling.COMMAND))
    assert acts(plan(seen(HEARD, drained))) == [("terminate", "w1")]


def test_a_worker_that_a_person_keeps_is_never_fenced() -> None:
    made = plan(seen(HEARD, too_silent(), Overrides(keep=frozenset({"w1"}))))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.KEPT_BY_COMMAND))


def test_nobody_is_fenced_while_paused() -> None:
    assert acts(plan(seen(HEARD, too_silent(), Overrides(paused=True)))) == []


def test_a_fence_counts_for_the_brake_once() -> None:
    first = plan(seen(HEARD, too_silent()))
    later = seen(HEARD, too_silent(), replace(first.memory, looked_at=NOW), now=NOW + 60)
    again = plan(replace(later, memory=first.memory))
    assert (len(first.memory.removals), acts(again), len(again.memory.removals)) == (1, [("terminate", "w1")], 1)


def fenced(heard: bool, ago: float) -> AWorker:
    worker = closed(Disabling.SILENT, used=1, states="d" if heard else "du")
    assert worker.note is not None
    at = NOW - ago
    return replace(worker, note=replace(worker.note, silent_s=None, fenced_at=at, terminated_at=at))


def test_a_fenced_worker_that_is_heard_again_may_still_end_and_lets_no_job_in() -> None:
    made = plan(seen(HEARD, fenced(heard=True, ago=60)))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.ENDING))


def test_a_fence_that_evidently_did_not_come_about_is_called_off() -> None:
    made = plan(seen(HEARD, fenced(heard=True, ago=700)))
    assert (acts(made), made.memory.workers["i-w1"].fenced_at) == ([("enable", "w1")], None)


# -- gone --------------------------------------------------------------------------------------------------------


def test_a_host_whose_machine_is_gone_is_closed_first() -> None:
    made = plan(seen(a_worker(used=1, state=GONE), details=(YES,)))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.GONE))


def test_whether_lost_jobs_may_start_again_is_asked_before_anything_is_done() -> None:
    first = plan(seen(lost()))
    asked = details_wanted((), first.memory, seen().policy, NOW)
    assert (acts(first), asked, first.due) == ([], (9000,), NOW + 1)


def test_a_job_that_there_was_no_room_to_ask_about_is_not_taken_for_one_without_an_answer() -> None:
    """More jobs were lost than one look asks about."""
    jobs = tuple(HostJob(number, "", "r", 1) for number in (11, 12, 13))
    few = replace(seen().policy, detail_lookups=2)
    first = plan(replace(seen(lost(*jobs)), policy=few))
    answered = seen(lost(*jobs), details=(replace(NO, job=11), replace(NO, job=12)), now=NOW + 1)
    second = plan(replace(answered, policy=few, memory=first.memory))
    assert (first.memory.asked, second.memory.asked, of(second, Reschedule)) == ((11, 12), (13,), [])


@pytest.mark.parametrize(
    ("detail", "rerun", "forced"), ((YES, False, False), (BY_QUEUE, True, False), (CHECKPOINTING, False, True))
)
def test_jobs_that_may_start_again_are_pushed_back_once_their_machine_is_gone(
    detail: JobDetail, rerun: bool, forced: bool
) -> None:
    world = seen(lost(), details=(detail,))
    queues = {"main.q": replace(world.cluster.queues["main.q"], rerun=rerun)}
    made = plan(replace(world, cluster=replace(world.cluster, queues=queues)))
    assert [(action.jobs, action.forced) for action in of(made, Reschedule)] == [(("9000",), forced)]


@pytest.mark.parametrize("place", ("w1", "@allhosts"))
@pytest.mark.parametrize("may", (True, False))
def test_the_rerun_of_the_hosts_of_a_lost_job_decides(place: str, may: bool) -> None:
    world = seen(lost(), details=(BY_QUEUE,), lost_jobs=LostJobs.DELETE)
    queues = {"main.q": replace(world.cluster.queues["main.q"], rerun=not may, rerun_by_host={place: may})}
    cluster = replace(world.cluster, queues=queues, host_groups={"@allhosts": ("h1", "w1")})
    made = plan(replace(world, cluster=cluster))
    assert [type(action) for action in made.actions if isinstance(action, Reschedule | Kill)] == [
        Reschedule if may else Kill
    ]


def test_a_task_is_pushed_back_by_its_own_name() -> None:
    made = plan(seen(lost(HostJob(12, "3", "r", 1)), details=(replace(YES, job=12),)))
    assert [action.jobs for action in of(made, Reschedule)] == [("12.3",)]


def test_n_comes_before_the_queue_and_checkpointing() -> None:
    made = plan(seen(lost(), details=(replace(NO, restarts=True),)))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.LOST_JOBS_STAY))


@pytest.mark.parametrize(("wish", "kind"), ((LostJobs.DELETE, Kill), (LostJobs.FORCE, Reschedule)))
def test_jobs_that_may_not_start_again_are_deleted_or_forced_as_set(wish: LostJobs, kind: type) -> None:
    made = plan(seen(lost(), details=(NO,), lost_jobs=wish))
    assert [type(action) for action in made.actions] == [kind]
    assert made.actions[0].lost if isinstance(made.actions[0], Kill) else made.actions[0].forced  # type: ignore[union-attr]


def test_a_lost_job_that_its_owner_deleted_is_deleted_by_force() -> None:
    made = plan(seen(lost(HostJob(12, "", "dr", 1))))
    assert [(action.jobs, action.lost) for action in of(made, Kill)] == [(("12",), True)]


def test_the_same_jobs_are_not_pushed_back_again_at_once() -> None:
    first = plan(seen(lost(), details=(YES,)))
    again = plan(replace(seen(lost(), details=(YES,), now=NOW + 1), memory=first.memory))
    assert (len(first.actions), acts(again)) == (1, [])


def in_vain(ago: float) -> AWorker:
    """A lost worker whose job was last pushed back this many seconds ago, as often as it is tried."""
    worker = lost()
    assert worker.note is not None
    return replace(worker, note=replace(worker.note, moved=("9000",), moved_at=NOW - ago, moves=3))


def test_what_grid_engine_does_not_push_back_is_reported_in_the_end() -> None:
    made = plan(seen(in_vain(60), details=(YES,)))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.LOST_JOBS_STAY))


def test_what_was_tried_in_vain_is_tried_again_after_a_while() -> None:
    assert [action.jobs for action in of(plan(seen(in_vain(601), details=(YES,))), Reschedule)] == [("9000",)]


def test_a_host_without_a_machine_and_without_jobs_is_removed() -> None:
    made = plan(seen(closed(Disabling.LOST, used=0, state=GONE, states="du")))
    assert (acts(made), len(made.memory.removals)) == ([("remove", "w1")], 0)


def test_a_host_that_a_person_disabled_is_removed_when_its_machine_is_gone() -> None:
    assert acts(plan(seen(a_worker(states="du", heard=False, state=GONE)))) == [("remove", "w1")]


def test_a_host_that_was_enrolled_anew_is_removed_when_its_machine_is_gone_before_the_next_look() -> None:
    """A person had taken it out of Grid Engine."""
    served = a_worker()
    first = plan(replace(seen(replace(served, host=None)), now=NOW))
    again = plan(replace(seen(replace(served, host=None), now=NOW + 1), memory=first.memory))
    gone = replace(served, worker=replace(served.worker, state=GONE), host=a_host("w1", heard=False, states="du"))
    last = plan(replace(seen(gone, now=NOW + 2), memory=again.memory))
    assert (acts(first), acts(again)) == ([("enrol", "w1")], [])
    assert [(told.name, told.id) for told in last.workers] == [("w1", "i-w1")]


def test_a_worker_that_shut_itself_down_is_no_failure() -> None:
    made = plan(seen(a_worker(states="u", heard=False, state=GONE, ending=Ending.RELEASED)))
    assert (told(made, "w1"), made.memory.rests) == (("disable", Code.SHUT_ITSELF_DOWN), ())


def test_nothing_is_pushed_back_or_removed_while_paused() -> None:
    assert acts(plan(seen(lost(), Overrides(paused=True), details=(YES,)))) == []


def test_a_worker_that_is_ending_unasked_lets_no_further_job_in() -> None:
    made = plan(seen(a_worker(used=1, state=MachineState.STOPPING)))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.ENDING))


STOPPED: dict[str, Any] = {"state": MachineState.PENDING, "failure": "boot", "message": "it is stopped"}


def test_a_stopped_worker_lets_no_further_job_in_although_grid_engine_still_hears_it() -> None:
    made = plan(seen(a_worker(used=1, **STOPPED)))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.ENDING))


def test_a_stopped_worker_is_ended_once_it_was_silent_for_too_long() -> None:
    busy = closed(Disabling.LOST, used=1, states="du", **STOPPED)
    assert busy.note is not None
    made = plan(seen(HEARD, replace(busy, note=replace(busy.note, silent_s=700.0))))
    assert [type(action) for action in made.actions] == [Terminate]


def test_a_stopped_machine_that_never_joined_is_ended_at_once() -> None:
    made = plan(a_snapshot(a_machine(None, id="i-1", age=20.0, **STOPPED), a_job()))
    assert "i-1" in [action.worker_id for action in of(made, Terminate)]


def test_a_stopped_worker_that_a_person_disabled_is_left_alone() -> None:
    made = plan(seen(a_worker(states="d", **STOPPED)))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


@pytest.mark.parametrize(
    ("times", "since", "asked"),
    ((1, 59.0, False), (1, 60.0, True), (3, 239.0, False), (3, 240.0, True), (9, 3599.0, False), (9, 3600.0, True)),
)
def test_an_end_that_was_refused_is_asked_for_ever_more_seldom(times: int, since: float, asked: bool) -> None:
    made = refused(times, since)
    assert ([type(action) for action in made.actions] == [Terminate]) is asked
    if not asked:
        assert told(made, "w1") == ("wait", Code.END_REFUSED)


def test_a_person_who_resumes_has_a_refused_end_asked_for_at_once() -> None:
    assert [type(action) for action in refused(3, 10.0, Overrides(resumed_at=NOW - 5)).actions] == [Terminate]


def refused(times: int, since: float, *things: Thing) -> Plan:
    """The plan for an end that was refused this many times, the last time so long ago."""
    fleet_of = seen(a_machine("w1", id="i-1", age=20.0, **STOPPED), *things)
    ends = (RefusedEnd("i-1", NOW - since, times, "protected"),)
    return plan(replace(fleet_of, fleet=replace(fleet_of.fleet, refused_ends=ends)))


# -- jobs over several hosts -------------------------------------------------------------------------------------

PART = HostJob(12, "", "r", 1)
RERUN = replace(YES, job=12)
LIVING = replace(a_host("h1", used=1), instances=(QueueInstance("main.q", "h1", 2, 1, 0, "", (PART,)),))


def test_a_job_that_still_runs_on_a_living_host_is_held_before_it_is_pushed_back() -> None:
    made = plan(seen(LIVING, lost(PART), details=(RERUN,)))
    assert ([action.jobs for action in of(made, Hold)], of(made, Reschedule)) == ([("12",)], [])
    assert made.memory.held_back["12"].hosts == ("h1",)


def held_world(state: str, note: HeldJob, *things: Thing, **world: Any) -> Snapshot:
    part = replace(PART, state=state)
    living = replace(LIVING, instances=(replace(LIVING.instances[0], jobs=(part,)),))
    made = seen(living, lost(part), *things, details=(RERUN,), **world)
    return replace(made, memory=replace(made.memory, held_back={"12": note}))


def test_it_is_pushed_back_only_when_its_hold_is_seen() -> None:
    note = HeldJob(("h1",), NOW - 60)
    assert of(plan(held_world("r", note)), Reschedule) == []
    assert [action.jobs for action in of(plan(held_world("hr", note)), Reschedule)] == [("12",)]


@pytest.mark.parametrize(("after", "released"), ((150.0, False), (156.0, True)))
def test_its_hold_is_lifted_when_its_other_part_has_had_the_time_to_end(after: float, released: bool) -> None:
    world = seen(a_host("h1"), a_job(12, state="hRq"))
    note = HeldJob(("h1",), NOW - 200, pushed_at=NOW - after)
    made = plan(replace(world, memory=replace(world.memory, held_back={"12": note})))
    assert bool(of(made, Release)) is released


def test_its_hold_stays_while_the_other_host_is_silent() -> None:
    world = seen(a_host("h1", heard=False, states="u"), a_job(12, state="hRq"))
    note = HeldJob(("h1",), NOW - 9999, pushed_at=NOW - 9000)
    made = plan(replace(world, memory=replace(world.memory, held_back={"12": note})))
    assert (acts(made), list(made.memory.held_back)) == ([], ["12"])


def lifted(state: str, ago: float, *things: Thing) -> Plan:
    world = seen(a_host("h1"), a_job(12, state=state), *things)
    note = HeldJob(("h1",), NOW - 9999, pushed_at=NOW - 9900, released_at=NOW - ago)
    return plan(replace(world, memory=replace(world.memory, held_back={"12": note})))


def test_a_lifted_hold_that_a_queue_master_brings_back_is_lifted_again() -> None:
    assert list(lifted("Rq", 600).memory.held_back) == ["12"]
    assert [action.jobs for action in of(lifted("hRq", 600), Release)] == [("12",)]


def test_a_lifted_hold_is_forgotten_in_the_end() -> None:
    assert lifted("Rq", 3601).memory.held_back == {}


def test_a_lifted_hold_is_forgotten_once_its_job_runs() -> None:
    world = seen(LIVING)
    note = HeldJob(("h1",), NOW - 200, pushed_at=NOW - 100, released_at=NOW - 10)
    assert plan(replace(world, memory=replace(world.memory, held_back={"12": note}))).memory.held_back == {}


# -- notices -----------------------------------------------------------------------------------------------------


def test_a_worker_with_a_notice_lets_no_further_job_in_at_once() -> None:
    worker = a_worker(used=1)
    made = plan(seen(worker, notices=notice(worker, 120)))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.INTERRUPTED))


def test_a_worker_with_a_notice_is_no_supply() -> None:
    worker = a_worker()
    job = a_job(slots=2, waited=9999)
    assert launched(plan(seen(worker, job))) == {}
    assert launched(plan(seen(worker, job, notices=notice(worker, 120)))) == {"m5.large": 1}


def leaving(**worker: Any) -> AWorker:
    return closed(Disabling.INTERRUPTED, used=worker.pop("used", 2), **worker)


SECOND = replace(YES, job=9001)


def test_the_replacement_of_work_that_may_start_again_is_ordered_before_it_is_gone() -> None:
    worker = leaving()
    made = plan(seen(worker, notices=notice(worker, 120), details=(YES, SECOND)))
    assert (launched(made), of(made, Terminate)) == ({"m5.large": 1}, [])


def test_nothing_replaces_work_that_may_not_start_again() -> None:
    worker = leaving()
    assert launched(plan(seen(worker, notices=notice(worker, 120), details=(NO, replace(NO, job=9001))))) == {}


def test_a_replacement_that_is_there_already_is_not_ordered_again() -> None:
    worker = leaving()
    assert acts(plan(seen(worker, a_machine("w2", age=5), notices=notice(worker, 120), details=(YES, SECOND)))) == [
        ("enrol", "w2")
    ]


def test_where_the_limits_leave_no_room_the_replacement_waits_and_it_is_said() -> None:
    worker = leaving()
    world = seen(worker, notices=notice(worker, 120), details=(YES, SECOND), limits=Limits(max_workers=1))
    made = plan(world)
    assert (launched(made), [code for note in made.notes for code in codes(note)]) == (
        {},
        [Code.LAUNCH_WANTED, Code.CAPPED],
    )


def test_an_idle_worker_is_kept_for_work_that_will_be_pushed_back() -> None:
    worker = leaving()
    world = seen(worker, a_worker("w2", idle=9999), notices=notice(worker, 120), details=(YES, SECOND))
    assert acts(plan(world)) == []


def test_a_worker_whose_jobs_may_all_start_again_is_ended_shortly_before_it_is_taken() -> None:
    worker = leaving()
    made = plan(seen(worker, notices=notice(worker, 25), details=(YES, SECOND)))
    assert (told(made, "w1"), of(made, Reschedule)) == (("terminate", Code.TERMINATED_BEFORE_INTERRUPTION), [])


@pytest.mark.parametrize("details", ((YES, replace(NO, job=9001)), (YES,)), ids=("one may not", "one is not known"))
def test_a_worker_with_a_job_that_may_not_start_again_is_left_to_the_last_second(
    details: tuple[JobDetail, ...],
) -> None:
    worker = leaving()
    assert of(plan(seen(worker, notices=notice(worker, 1), details=details)), Terminate) == []


def test_an_empty_worker_with_a_notice_leaves_at_once() -> None:
    worker = leaving(used=0, empty=60.0)
    assert acts(plan(seen(worker, notices=notice(worker, 120)))) == [("remove", "w1")]


def test_a_machine_that_boots_with_a_notice_is_given_back() -> None:
    worker = a_machine(age=20)
    assert acts(plan(seen(worker, notices=notice(worker, 120)))) == [("terminate", "w1")]


def test_a_notice_that_is_withdrawn_puts_the_worker_back_into_service() -> None:
    made = plan(seen(leaving()))
    assert (acts(made), told(made, "w1")) == ([("enable", "w1")], ("enable", Code.INTERRUPTION_WITHDRAWN))


def test_a_plan_is_due_again_when_a_notice_comes_close() -> None:
    worker = leaving()
    assert plan(seen(worker, notices=notice(worker, 120), details=(YES, SECOND), limits=Limits(1))).due == NOW + 90


def test_advice_closes_a_busy_worker_that_nothing_needs_and_ends_nothing() -> None:
    worker = a_worker(used=1)
    made = plan(seen(worker, notices=notice(worker, 0, "rebalance")))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.REBALANCE_RECOMMENDED))


def test_advice_is_not_taken_where_a_waiting_job_needs_the_worker() -> None:
    worker = a_worker(used=1)
    assert acts(plan(seen(worker, a_job(waited=9999), notices=notice(worker, 0, "rebalance")))) == []


# -- names that return -------------------------------------------------------------------------------------------


def elder(host: ExecutionHost | None, **changes: Any) -> AWorker:
    made = lost(id="i-old")
    assert made.note is not None
    return AWorker(replace(made.worker, name="w1"), host, replace(made.note, **changes))


def older(started: float = LONG_AGO) -> ExecutionHost:
    job = HostJob(9000, "", "r", 1, started=started)
    return ExecutionHost("w1", (QueueInstance("main.q", "w1", 2, 1, 0, "d", (job,)),))


NEWER = a_machine("w1", id="i-new", age=60)


@pytest.mark.parametrize("began", (LONG_AGO, NOW - 60), ids=("long before", "in the second in which that was made"))
def test_jobs_of_an_older_machine_are_pushed_back_before_the_newer_one_of_its_name_joins(began: float) -> None:
    made = plan(seen(elder(older(began)), NEWER, details=(YES,)))
    assert [(type(action), action.worker_id) for action in made.actions] == [(Reschedule, "i-old")]  # type: ignore[union-attr]
    assert Code.NAME_STILL_USED in {verdict.reason.code for verdict in made.workers}


def test_the_older_machines_entry_is_removed_before_the_newer_one_joins() -> None:
    empty = a_host("w1", states="d", heard=False)
    made = plan(seen(elder(empty), NEWER))
    assert [(name, host) for name, host in acts(made)] == [("remove", "w1")]


def test_the_newer_machine_joins_when_the_older_entry_is_gone() -> None:
    assert acts(plan(seen(elder(None), NEWER))) == [("enrol", "w1")]


def test_what_runs_on_the_newer_machine_already_is_not_pushed_back() -> None:
    made = plan(seen(elder(older(NOW - 10)), NEWER, details=(YES,)))
    assert of(made, Reschedule) == []
    assert acts(made) == [("enable", "w1")]


def test_the_older_entry_is_found_although_its_machine_is_listed_no_more() -> None:
    gone = elder(older(), gone=True, missing_since=NOW - 60)
    world = seen(gone, NEWER, details=(YES,))
    made = plan(replace(world, fleet=replace(world.fleet, workers=(NEWER.worker,))))
    assert [action.worker_id for action in of(made, Reschedule)] == ["i-old"]


# -- missing -----------------------------------------------------------------------------------------------------


def unlisted(missing: float, **changes: Any) -> Snapshot:
    worker = too_silent()
    assert worker.note is not None
    note = replace(worker.note, missing_since=NOW - missing, **changes)
    world = seen(HEARD, replace(worker, note=note), details=(YES,))
    return replace(world, fleet=replace(world.fleet, workers=()))


def test_a_silent_worker_that_no_listing_shows_for_long_is_asked_to_end() -> None:
    made = plan(unlisted(700))
    assert (acts(made), told(made, "w1")) == ([("terminate", "w1")], ("terminate", Code.UNLISTED_AND_SILENT))


def test_a_listing_that_leaves_out_a_worker_proves_nothing() -> None:
    made = plan(unlisted(500))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.NOT_LISTED))


def test_jobs_of_a_worker_that_was_asked_to_end_and_is_listed_no_more_are_pushed_back() -> None:
    made = plan(unlisted(700, gone=True))
    assert [action.jobs for action in of(made, Reschedule)] == [("9000",)]


def test_a_note_without_a_word_of_the_provider_is_no_proof_of_an_end() -> None:
    note = WorkerNote(first_seen=LONG_AGO, host="w1", heard_at=LONG_AGO)
    world = seen(replace(a_worker(used=1), note=note))
    made = plan(replace(world, fleet=replace(world.fleet, workers=())))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.NOT_LISTED))


def test_jobs_of_a_worker_that_a_listing_leaves_out_are_not_taken_for_those_of_a_dead_one_of_its_name() -> None:
    dead = a_machine("w1", id="i-dead", state=GONE, age=3000.0, note=WorkerNote(first_seen=LONG_AGO, host="w1"))
    world = seen(a_host("h1"), dead, a_worker("w1", used=1), details=(YES,))
    hidden = replace(world, fleet=replace(world.fleet, workers=(dead.worker,)))
    made = plan(hidden)
    assert (of(made, Reschedule), acts(made)) == ([], [])


def test_the_entry_of_a_worker_that_a_listing_leaves_out_is_not_removed_for_a_dead_one_that_had_left() -> None:
    note = WorkerNote(first_seen=LONG_AGO, host="w1", left=True)
    dead = a_machine("w1", id="i-dead", state=GONE, age=3000.0, note=note)
    world = seen(a_host("h1"), dead, a_worker("w1", states="d", known=False))
    made = plan(replace(world, fleet=replace(world.fleet, workers=(dead.worker,))))
    assert acts(made) == []


def only_seen_ended(*, first_seen: float | None = None, heard: bool = True, **world: Any) -> Snapshot:
    """The store was lost; a machine is listed as ended, and an execution host bears its name, with a job."""
    known = None if first_seen is None else WorkerNote(first_seen, host="w1", gone=True, only_ended=True)
    worker = replace(a_worker(used=1, state=GONE, heard=heard, states="" if heard else "u"), note=known)
    return seen(HEARD, worker, details=(NO,), lost_jobs=LostJobs.DELETE, **world)


@pytest.mark.parametrize(
    ("first_seen", "heard"), ((None, True), (None, False), (LONG_AGO, True), (NOW - 60, False)), ids=str
)
def test_a_host_that_may_be_a_living_machines_is_not_taken_for_that_of_one_only_ever_seen_ended(
    first_seen: float | None, heard: bool
) -> None:
    made = plan(only_seen_ended(first_seen=first_seen, heard=heard))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.GONE))


@pytest.mark.parametrize("listed", (True, False))
def test_a_silent_host_that_no_listing_explains_for_long_is_what_the_ended_machine_left(listed: bool) -> None:
    world = only_seen_ended(first_seen=NOW - 601, heard=False)
    made = plan(world if listed else replace(world, fleet=replace(world.fleet, workers=())))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.GONE))


def test_a_machine_that_a_look_showed_alive_is_remembered_as_such_when_it_ends() -> None:
    first = plan(seen(a_worker(known=False)))
    ended = plan(replace(seen(a_worker(known=False, state=GONE)), memory=first.memory))
    assert [ended.memory.workers["i-w1"].only_ended, plan(only_seen_ended()).memory.workers["i-w1"].only_ended] == [
        False,
        True,
    ]


def test_what_a_person_disabled_in_part_is_not_disabled_whole_by_us_when_its_machine_is_gone() -> None:
    """It would be enabled whole for the next machine of its name."""
    half = replace(
        a_host("w1", heard=False, states="du"), instances=(*a_host("w1", states="du").instances, OTHER_INSTANCE)
    )
    made = plan(seen(a_worker(host=half, state=GONE)))
    assert acts(made) == [("remove", "w1")]


def test_another_queue_that_a_person_disabled_stays_disabled_for_the_next_machine_of_its_name() -> None:
    theirs = replace(OTHER_INSTANCE, states="d")
    gone = plan(seen(a_worker(host=a_host("w1", more=(theirs,)), state=GONE)))
    elder = gone.memory.workers["i-w1"]
    # A job of the next machine shows whose the host is now.
    world = seen(a_machine("w1", id="i-2", age=5.0), a_host("w1", used=1, states="d", more=(theirs,)))
    made = plan(replace(world, memory=replace(world.memory, workers={"i-w1": elder})))
    assert (acts(gone), elder.left_disabled) == ([("disable", "w1")], ("other.q",))
    assert made.memory.workers["i-2"].left_disabled == ("other.q",)


OTHER_INSTANCE = QueueInstance("other.q", "w1", 1, 0, 0, "u")


def test_a_host_that_a_person_disabled_is_not_taken_for_disabled_by_us_by_the_next_machine_of_its_name() -> None:
    """Its removal, which leaves a mark, was refused."""
    elder_note = WorkerNote(LONG_AGO, host="w1", disabling=Disabling.LOST, retired_at=NOW - 60)
    gone = replace(a_worker(host=a_host("w1", states="d", reserved=1), state=GONE), note=elder_note)
    made = plan(seen(gone, a_machine("w1", id="i-2", age=5.0)))
    assert (acts(made), made.memory.workers["i-2"].disabling) == ([], None)


def test_a_reserved_slot_on_a_dead_machines_host_leaves_the_next_machine_of_its_name_on_its_way() -> None:
    """Rule 3: the host stays the dead machine's, and the next one is supply (seed 979 of the campaign)."""
    elder_note = WorkerNote(LONG_AGO, heard_at=LONG_AGO, host="w1", disabling=Disabling.LOST, disabled_at=NOW - 60)
    gone = replace(a_worker(host=a_host("w1", states="d", reserved=1), state=GONE), note=elder_note)
    booting = a_machine("w1", id="i-2", age=5.0, state=MachineState.PENDING)
    made = plan(seen(gone, booting, a_job(), details=(JobDetail(1, looked_at=NOW - 5, group="users"),)))
    assert (of(made, Launch), fate(made)) == ([], Code.WAITS_FOR_COMING)


@pytest.mark.parametrize(
    ("age", "state", "launches"),
    ((5.0, MachineState.PENDING, 0), (60.0, MachineState.RUNNING, 0), (7200.0, MachineState.RUNNING, 1)),
)
def test_a_silent_host_of_its_name_does_not_eclipse_a_machine_on_its_way(
    age: float, state: MachineState, launches: int
) -> None:
    """After a lost store nothing tells whose host it is; an old machine, though, fell silent."""
    gone = replace(a_worker(host=a_host("w1", heard=False, states="u"), state=GONE), note=None)
    full = a_host("h1", used=2)
    made = plan(seen(full, gone, a_machine("w1", id="i-2", age=age, state=state), a_job(slots=2)))
    assert len(of(made, Launch)) == launches


@pytest.mark.parametrize(("noted", "state"), (((), "t"), (("9000",), "r")), ids=("on its way", "taken by the newer"))
def test_a_job_that_the_older_machine_never_took_is_not_pushed_back_from_the_newer_one_of_its_name(
    noted: tuple[str, ...], state: str
) -> None:
    made = older()
    jobs = tuple(replace(job, state=state) for job in made.jobs)
    host = replace(made, heard=True, instances=(replace(made.instances[0], states="", jobs=jobs),))
    made_before = elder(host, on_their_way=noted)
    newer = a_machine("w1", id="i-2", age=120.0)
    assert of(plan(seen(made_before, newer, details=(YES,))), Reschedule) == []
    assert of(plan(seen(elder(older()), newer, details=(YES,))), Reschedule) != []


def test_a_job_that_the_older_machine_may_have_begun_is_told_of_until_it_is_gone() -> None:
    made = older()
    jobs = tuple(replace(job, state="r") for job in made.jobs)
    host = replace(made, heard=True, instances=(replace(made.instances[0], states="", jobs=jobs),))
    newer = a_machine("w1", id="i-2", age=120.0)
    first = plan(seen(elder(host, on_their_way=("9000",)), newer, details=(YES,)))
    now_its_own = AWorker(newer.worker, host, first.memory.workers["i-2"])
    still = plan(seen(now_its_own))
    ended = replace(host, instances=(replace(host.instances[0], jobs=(), used=0),))
    gone = plan(seen(AWorker(newer.worker, ended, still.memory.workers["i-2"])))
    told = [[note for note in made.notes if note.code is Code.JOBS_UNCERTAIN] for made in (first, still, gone)]
    assert [len(notes) for notes in told] == [1, 1, 0]


def test_what_is_on_its_way_to_a_machine_is_noted() -> None:
    on_its_way = replace(a_host("w1", used=1, job_state="t"))
    assert plan(seen(a_worker(host=on_its_way))).memory.workers["i-w1"].on_their_way == ("9000",)


def test_what_was_on_its_way_to_a_machine_stays_noted_once_that_is_gone() -> None:
    """The newer machine of its name, which took it, may not be listed yet."""
    taken = closed(Disabling.LOST, used=1, state=GONE, states="d")
    assert taken.note is not None
    made = plan(seen(replace(taken, note=replace(taken.note, on_their_way=("9000",)))))
    assert made.memory.workers["i-w1"].on_their_way == ("9000",)


def test_nothing_is_pushed_back_from_a_name_that_is_heard_while_an_ordered_machine_is_not_listed() -> None:
    """That machine may bear the name, and run the jobs."""
    heard = closed(Disabling.LOST, used=1, state=GONE, states="d")
    coming = an_order(ids=("i-9",), state=OrderState.ACCEPTED)
    waits = plan(seen(heard, coming, details=(YES,)))
    unheard = plan(seen(lost(), coming, details=(YES,)))
    listed = plan(seen(heard, coming, a_machine("w9", id="i-9"), details=(YES,)))
    assert [told(made, "w1")[1] for made in (waits, unheard, listed)] == [
        Code.NAME_MAY_BE_REUSED,
        Code.LOST_JOBS_RESCHEDULED,
        Code.LOST_JOBS_RESCHEDULED,
    ]
    assert [bool(of(made, Reschedule)) for made in (waits, unheard, listed)] == [False, True, True]


@pytest.mark.parametrize("pushed", (None, NOW - 9900), ids=("not pushed back", "pushed back"))
def test_a_hold_is_lifted_only_after_its_job_was_pushed_back_and_runs_nowhere(pushed: float | None) -> None:
    """Else its other part, which lives, would go on beside a second start (rule 7)."""
    note = HeldJob(("h1",), NOW - 9999, pushed_at=pushed)
    assert of(plan(held_world("hr", note)), Release) == []
    waiting = seen(a_host("h1"), a_job(12, state="hRq"))
    made = plan(replace(waiting, memory=replace(waiting.memory, held_back={"12": note})))
    assert bool(of(made, Release)) is (pushed is not None)
    standing = seen(LIVING, a_job(12, state="hRq"))
    assert of(plan(replace(standing, memory=replace(standing.memory, held_back={"12": note}))), Release) == []


def test_a_worker_that_no_listing_shows_and_whose_name_a_newer_machine_has_is_asked_to_end() -> None:
    old = elder(older(), missing_since=NOW - 700)
    world = seen(old, NEWER, details=(YES,))
    made = plan(replace(world, fleet=replace(world.fleet, workers=(NEWER.worker,))))
    assert [(action.worker_id, action.reason.code) for action in of(made, Terminate)] == [
        ("i-old", Code.UNLISTED_AND_REPLACED)
    ]
