"""Workers that are silent, interrupted or gone: a silent worker may still run, and no job runs twice."""

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
    launched,
    reason_code,
    verdict_and_code,
    verdict_of,
)

GONE = MachineState.TERMINATED
YES = JobDetail(9000, read_at=NOW - 5, rerun=True)
NO = replace(YES, rerun=False)
BY_QUEUE = replace(YES, rerun=None)
CHECKPOINTING = replace(BY_QUEUE, restarts=True)


def seen(
    *things: Thing,
    notices: tuple[Interruption, ...] = (),
    details: tuple[JobDetail, ...] = (),
    observed_at: float | None = NOW - 10,
    lost_jobs: LostJobs = LostJobs.REPORT,
    **world: Any,
) -> Snapshot:
    """A snapshot with interruption notices, answers of `qstat -j`, and an earlier observation."""
    made = a_snapshot(*things, **world)
    return replace(
        made,
        fleet=replace(made.fleet, interruptions=notices),
        cluster=replace(made.cluster, details={detail.job: detail for detail in details}),
        memory=replace(made.memory, observed_at=observed_at),
        policy=replace(made.policy, silence_timeout=600.0, lost_jobs=lost_jobs),
    )


def silent(name: str = "w1", seconds: float = 0.0, **worker: Any) -> AWorker:
    """A worker that was silent for so long at the last observation."""
    made = a_worker(name, heard=False, states=worker.pop("states", "u"), **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, silent_s=seconds))


def disabled_by_us(mark: Disabling, **worker: Any) -> AWorker:
    """A worker that we disabled with this mark, and saw disabled."""
    states = worker.pop("states", "d")
    made = a_worker(mark=mark, states=states, heard="u" not in states, **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, seen_disabled=True))


def lost(*jobs: HostJob, others: tuple[QueueInstance, ...] = (), **worker: Any) -> AWorker:
    """A worker whose machine is gone, already disabled, with these jobs (else one) on its host."""
    made = disabled_by_us(Disabling.LOST, used=0 if jobs else 1, state=GONE, states="du", **worker)
    if not jobs:
        return made
    instance = QueueInstance("main.q", "w1", 2, len(jobs), 0, "du", jobs)
    return replace(made, host=ExecutionHost("w1", (instance, *others), heard=False))


def notice(worker: AWorker, seconds: float, kind: str = "terminate") -> tuple[Interruption, ...]:
    return (Interruption(worker.worker.id, NOW + seconds, kind),)


def of(made: Plan, kind: type) -> list[Any]:
    return [action for action in made.actions if isinstance(action, kind)]


# -- silence -----------------------------------------------------------------------------------------------------

REPORTING = a_host("h1")
VOUCHING = a_worker("w9", used=1)
"""Another worker, which reports: the network between qmaster and the workers is fine."""


def test_a_worker_silent_for_a_moment_is_only_reported() -> None:
    made = plan(seen(REPORTING, silent(seconds=20, used=1)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.NO_LOAD_REPORT))


def test_a_worker_that_stays_silent_is_disabled() -> None:
    made = plan(seen(REPORTING, silent(seconds=100, used=1)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.SILENT))


def test_a_silent_worker_is_not_disabled_while_all_hosts_are_silent() -> None:
    made = plan(seen(silent("w1", 9999, used=1), silent("w2", 9999)))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([], [Code.NO_LOAD_REPORT, Code.ALL_SILENT])


def test_silence_does_not_accumulate_while_all_hosts_are_silent() -> None:
    assert plan(seen(silent(seconds=50))).memory.workers["i-w1"].silent_s == 50


def test_the_time_between_two_observations_counts_as_silence() -> None:
    assert plan(seen(REPORTING, silent(seconds=20))).memory.workers["i-w1"].silent_s == 30


def test_of_an_hour_without_observations_only_two_minutes_count_as_silence() -> None:
    made = plan(seen(REPORTING, silent(seconds=20), observed_at=NOW - 3600))
    assert made.memory.workers["i-w1"].silent_s == 140


def test_silence_begins_at_the_first_observation_without_a_load_report() -> None:
    made = plan(seen(REPORTING, a_worker(heard=False, states="u")))
    assert made.memory.workers["i-w1"].silent_s == 0


def test_a_silent_worker_is_not_supply_but_counts_towards_the_limits() -> None:
    job = a_job(slots=2, waited=9999)
    mute = disabled_by_us(Disabling.SILENT, used=0, states="du")
    assert launched(plan(seen(mute, full(), job))) == {"m5.large": 1}
    assert launched(plan(seen(mute, full(), job, limits=Limits(max_workers=1)))) == {}


def full() -> ExecutionHost:
    """A persistent host that reports and is full."""
    return a_host("h2", used=2)


def test_a_silent_worker_is_enabled_when_it_reports_again() -> None:
    made = plan(seen(REPORTING, disabled_by_us(Disabling.SILENT, used=1)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.LOAD_REPORTS_AGAIN))


def test_a_reporting_worker_disabled_by_hand_is_not_enabled() -> None:
    made = plan(seen(REPORTING, a_worker(used=1, states="d")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def test_a_worker_disabled_by_hand_is_never_fenced() -> None:
    made = plan(seen(REPORTING, silent(seconds=9999, used=1, states="du")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def silent_too_long(**worker: Any) -> AWorker:
    made = disabled_by_us(Disabling.SILENT, used=worker.pop("used", 1), states="du", **worker)
    assert made.note is not None
    return replace(made, note=replace(made.note, silent_s=595.0))


def test_a_worker_silent_for_too_long_is_terminated_and_its_jobs_are_left_alone() -> None:
    made = plan(seen(VOUCHING, silent_too_long(), details=(YES,)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("terminate", "w1")], ("terminate", Code.FENCED))


@pytest.mark.parametrize(
    ("others", "code"),
    (
        ((REPORTING,), Code.NOBODY_VOUCHES),
        ((REPORTING, silent("w2", 570, used=1)), Code.SILENT_TOGETHER),
        ((REPORTING, VOUCHING, silent("w2", 570, used=1)), Code.SILENT_TOGETHER),
        ((REPORTING, a_worker("w9", used=1, zone="b")), Code.NOBODY_VOUCHES),
    ),
    ids=("the only worker", "all workers", "several, while another reports", "the only one of its zone"),
)
@pytest.mark.parametrize("mark", (Disabling.SILENT, Disabling.COMMAND))
def test_silence_that_may_have_a_common_cause_ends_no_machine(
    mark: Disabling, others: tuple[Thing, ...], code: Code
) -> None:
    worker = silent_too_long(zone="a" if code is Code.NOBODY_VOUCHES else "")
    assert worker.note is not None
    worker = replace(worker, note=replace(worker.note, disabling=mark))
    made = plan(seen(worker, *others))
    assert (of(made, Terminate), verdict_and_code(made, "w1")) == ([], ("wait", code))


@pytest.mark.parametrize(
    "others",
    (
        (VOUCHING, silent("w2", 30, used=1)),
        (a_worker("w9", used=1, zone="a"), silent("w2", 590, used=1, zone="b")),
    ),
    ids=("one that fell silent later", "one of another zone"),
)
def test_a_worker_that_fell_silent_alone_is_terminated_although_others_are_silent(others: tuple[Thing, ...]) -> None:
    zone = "a" if others[0] is not VOUCHING else ""
    made = plan(seen(REPORTING, silent_too_long(zone=zone), *others))
    assert [action.host for action in of(made, Terminate)] == ["w1"]


@pytest.mark.parametrize(("returns", "ends"), ((1810, 2400), (1820, 2410)), ids=("with another", "after another"))
def test_the_worker_whose_link_comes_back_last_is_ended_once_it_was_silent_alone_for_the_timeout(
    returns: int, ends: int
) -> None:
    """Three workers fall silent together. After 1810 s w2 reports again, w3 at the same time or later, and w1 never."""
    memory, ended = None, []
    for seconds in range(0, ends + 10, 10):
        workers = [
            a_worker(name, used=1)
            if back is not None and seconds >= back
            else a_worker(name, used=1, heard=False, states="du" if seconds > 100 else "u")
            for name, back in (("w1", None), ("w2", 1810), ("w3", returns))
        ]
        world = seen(REPORTING, *workers, now=NOW + seconds)
        made = plan(world if memory is None else replace(world, memory=memory))
        memory = made.memory
        ended += [(action.host, seconds) for action in of(made, Terminate)]
    assert ended == [("w1", ends)]


def test_time_without_observations_does_not_end_a_worker_that_was_silent_with_others() -> None:
    """No process ran for an hour; then the others report."""
    first = plan(seen(REPORTING, silent_too_long(), silent("w2", 590, used=1)))
    later = seen(REPORTING, silent_too_long(), a_worker("w2", used=1), now=NOW + 3600)
    made = plan(replace(later, memory=first.memory))
    assert (of(made, Terminate), verdict_and_code(made, "w1")) == ([], ("wait", Code.VOUCHED_LATELY))


def test_a_silent_worker_whose_silence_proves_nothing_is_terminated_once_a_person_drains_it() -> None:
    drains = Overrides(drain=frozenset({"w1"}))
    made = plan(seen(REPORTING, silent_too_long(), silent("w2", 590, used=1), drains))
    assert [action.host for action in of(made, Terminate)] == ["w1"]


def test_a_stop_of_all_is_no_word_on_a_silent_worker() -> None:
    made = plan(seen(REPORTING, silent_too_long(), silent("w2", 590, used=1), Overrides(stop="now")))
    assert of(made, Terminate) == []


def test_an_empty_worker_silent_for_too_long_is_removed() -> None:
    assert acts(plan(seen(REPORTING, silent_too_long(used=0, empty=60.0)))) == [("remove", "w1")]


def test_a_busy_draining_worker_that_fell_silent_is_terminated() -> None:
    worker = silent_too_long()
    assert worker.note is not None
    drained = replace(worker, note=replace(worker.note, disabling=Disabling.COMMAND))
    assert acts(plan(seen(VOUCHING, drained))) == [("terminate", "w1")]


def test_a_worker_that_a_person_keeps_is_never_fenced() -> None:
    made = plan(seen(VOUCHING, silent_too_long(), Overrides(keep=frozenset({"w1"}))))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.KEPT_BY_COMMAND))


def test_no_worker_is_fenced_while_paused() -> None:
    assert acts(plan(seen(VOUCHING, silent_too_long(), Overrides(paused=True)))) == []


def test_a_fence_counts_for_the_circuit_breaker_once() -> None:
    first = plan(seen(VOUCHING, silent_too_long()))
    later = seen(VOUCHING, silent_too_long(), replace(first.memory, observed_at=NOW), now=NOW + 60)
    again = plan(replace(later, memory=first.memory))
    assert (len(first.memory.removals), acts(again), len(again.memory.removals)) == (1, [("terminate", "w1")], 1)


def fenced(heard: bool, ago: float) -> AWorker:
    worker = disabled_by_us(Disabling.SILENT, used=1, states="d" if heard else "du")
    assert worker.note is not None
    at = NOW - ago
    return replace(worker, note=replace(worker.note, silent_s=None, fenced_at=at, terminated_at=at))


def test_a_fenced_worker_that_reports_again_stays_disabled_at_first() -> None:
    made = plan(seen(REPORTING, fenced(heard=True, ago=60)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.ENDING))


def test_a_fence_is_cancelled_if_the_worker_still_reports_much_later() -> None:
    made = plan(seen(REPORTING, fenced(heard=True, ago=700)))
    assert (acts(made), made.memory.workers["i-w1"].fenced_at) == ([("enable", "w1")], None)


# -- gone --------------------------------------------------------------------------------------------------------


def test_a_host_whose_machine_is_gone_is_disabled_first() -> None:
    made = plan(seen(a_worker(used=1, state=GONE), details=(YES,)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.GONE))


def test_qstat_j_is_run_for_lost_jobs_before_any_action() -> None:
    first = plan(seen(lost()))
    asked = details_wanted((), first.memory, seen().policy, NOW)
    assert (acts(first), asked, first.due) == ([], (9000,), NOW + 1)


def test_a_lost_job_beyond_the_lookup_limit_is_looked_up_in_the_next_pass() -> None:
    """More jobs were lost than one pass asks about."""
    jobs = tuple(HostJob(number, "", "r", 1) for number in (11, 12, 13))
    few = replace(seen().policy, detail_lookups=2)
    first = plan(replace(seen(lost(*jobs)), policy=few))
    answered = seen(lost(*jobs), details=(replace(NO, job=11), replace(NO, job=12)), now=NOW + 1)
    second = plan(replace(answered, policy=few, memory=first.memory))
    assert (first.memory.lookups, second.memory.lookups, of(second, Reschedule)) == ((11, 12), (13,), [])


def test_lost_jobs_of_one_owner_without_an_answer_leave_room_for_those_of_others() -> None:
    jobs = (*(HostJob(number, "", "r", 1, "eve") for number in range(11, 21)), HostJob(90, "", "r", 1, "ann"))
    made = plan(replace(seen(lost(*jobs)), policy=replace(seen().policy, detail_lookups=2)))
    assert made.memory.lookups == (11, 90)


@pytest.mark.parametrize(
    ("detail", "rerun", "forced"), ((YES, False, False), (BY_QUEUE, True, False), (CHECKPOINTING, False, True))
)
def test_rerunnable_jobs_are_rescheduled_once_their_machine_is_gone(
    detail: JobDetail, rerun: bool, forced: bool
) -> None:
    world = seen(lost(), details=(detail,))
    queues = {"main.q": replace(world.cluster.queues["main.q"], rerun=rerun)}
    made = plan(replace(world, cluster=replace(world.cluster, queues=queues)))
    assert [(action.jobs, action.forced) for action in of(made, Reschedule)] == [(("9000",), forced)]


@pytest.mark.parametrize("place", ("w1", "@allhosts"))
@pytest.mark.parametrize("may", (True, False))
def test_the_queues_rerun_value_for_the_host_decides_on_a_lost_job(place: str, may: bool) -> None:
    world = seen(lost(), details=(BY_QUEUE,), lost_jobs=LostJobs.DELETE)
    queues = {"main.q": replace(world.cluster.queues["main.q"], rerun=not may, rerun_by_host={place: may})}
    cluster = replace(world.cluster, queues=queues, host_groups={"@allhosts": ("h1", "w1")})
    made = plan(replace(world, cluster=cluster))
    assert [type(action) for action in made.actions if isinstance(action, Reschedule | Kill)] == [
        Reschedule if may else Kill
    ]


def test_a_lost_task_is_rescheduled_by_its_own_id() -> None:
    made = plan(seen(lost(HostJob(12, "3", "r", 1)), details=(replace(YES, job=12),)))
    assert [action.jobs for action in of(made, Reschedule)] == [("12.3",)]


def test_qsub_r_n_overrides_the_queue_and_checkpointing() -> None:
    made = plan(seen(lost(), details=(replace(NO, restarts=True),)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.LOST_JOBS_STAY))


@pytest.mark.parametrize(("setting", "kind"), ((LostJobs.DELETE, Kill), (LostJobs.FORCE, Reschedule)))
def test_jobs_that_may_not_start_again_are_deleted_or_forced_as_configured(setting: LostJobs, kind: type) -> None:
    made = plan(seen(lost(), details=(NO,), lost_jobs=setting))
    assert [type(action) for action in made.actions] == [kind]
    assert made.actions[0].lost if isinstance(made.actions[0], Kill) else made.actions[0].forced  # type: ignore[union-attr]


def test_a_lost_job_that_its_owner_deleted_is_deleted_by_force() -> None:
    made = plan(seen(lost(HostJob(12, "", "dr", 1))))
    assert [(action.jobs, action.lost) for action in of(made, Kill)] == [(("12",), True)]


def test_the_same_jobs_are_not_rescheduled_again_at_once() -> None:
    first = plan(seen(lost(), details=(YES,)))
    again = plan(replace(seen(lost(), details=(YES,), now=NOW + 1), memory=first.memory))
    assert (len(first.actions), acts(again)) == (1, [])


def rescheduled_without_effect(ago: float) -> AWorker:
    """A lost worker whose job was last rescheduled this many seconds ago, as often as is tried."""
    worker = lost()
    assert worker.note is not None
    return replace(worker, note=replace(worker.note, moved=("9000",), moved_at=NOW - ago, moves=3))


def test_jobs_that_grid_engine_does_not_reschedule_are_finally_reported() -> None:
    made = plan(seen(rescheduled_without_effect(60), details=(YES,)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.LOST_JOBS_STAY))


def test_a_reschedule_without_effect_is_retried_after_a_while() -> None:
    assert [action.jobs for action in of(plan(seen(rescheduled_without_effect(601), details=(YES,))), Reschedule)] == [
        ("9000",)
    ]


def test_a_host_without_a_machine_and_without_jobs_is_removed() -> None:
    made = plan(seen(disabled_by_us(Disabling.LOST, used=0, state=GONE, states="du")))
    assert (acts(made), len(made.memory.removals)) == ([("remove", "w1")], 0)


def test_a_host_that_a_person_disabled_is_removed_when_its_machine_is_gone() -> None:
    assert acts(plan(seen(a_worker(states="du", heard=False, state=GONE)))) == [("remove", "w1")]


def test_a_re_enrolled_host_whose_machine_vanishes_is_still_that_machines() -> None:
    """A person had taken it out of Grid Engine."""
    served = a_worker()
    first = plan(replace(seen(replace(served, host=None)), now=NOW))
    again = plan(replace(seen(replace(served, host=None), now=NOW + 1), memory=first.memory))
    gone = replace(served, worker=replace(served.worker, state=GONE), host=a_host("w1", heard=False, states="du"))
    last = plan(replace(seen(gone, now=NOW + 2), memory=again.memory))
    assert (acts(first), acts(again)) == ([("enrol", "w1")], [])
    assert [(verdict.name, verdict.id) for verdict in last.workers] == [("w1", "i-w1")]


def test_a_worker_that_shut_itself_down_is_not_a_failure() -> None:
    made = plan(seen(a_worker(states="u", heard=False, state=GONE, ending=Ending.RELEASED)))
    assert (verdict_and_code(made, "w1"), made.memory.backoffs) == (("disable", Code.SHUT_ITSELF_DOWN), ())


def test_nothing_is_rescheduled_or_removed_while_paused() -> None:
    assert acts(plan(seen(lost(), Overrides(paused=True), details=(YES,)))) == []
    assert acts(plan(seen(lost(), details=(YES,)))) != []


def test_a_worker_whose_machine_is_stopping_unasked_is_disabled() -> None:
    made = plan(seen(a_worker(used=1, state=MachineState.STOPPING)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.ENDING))


STOPPED: dict[str, Any] = {"state": MachineState.PENDING, "ending": Ending.STOPPED, "message": "it is stopped"}


@pytest.mark.parametrize(
    ("how", "code"), (("ending", Code.STOPPED_FROM_OUTSIDE), ("failure", Code.ENDING)), ids=("stopped", "failed")
)
def test_a_worker_that_is_down_is_disabled_although_it_still_reports(how: str, code: Code) -> None:
    down = STOPPED if how == "ending" else {"state": MachineState.PENDING, "failure": "boot"}
    made = plan(seen(a_worker(used=1, **down)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", code))


def test_a_stopped_worker_silent_for_too_long_is_terminated() -> None:
    busy = disabled_by_us(Disabling.LOST, used=1, states="du", **STOPPED)
    assert busy.note is not None
    made = plan(seen(REPORTING, replace(busy, note=replace(busy.note, silent_s=700.0))))
    assert [type(action) for action in made.actions] == [Terminate]


def test_a_stopped_machine_that_never_joined_is_terminated_at_once() -> None:
    made = plan(a_snapshot(a_machine(None, id="i-1", age=20.0, **STOPPED), a_job()))
    assert "i-1" in [action.worker_id for action in of(made, Terminate)]


def test_a_stopped_worker_that_a_person_disabled_is_left_alone() -> None:
    made = plan(seen(a_worker(states="d", **STOPPED)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


@pytest.mark.parametrize(
    ("times", "since", "asked"),
    ((1, 59.0, False), (1, 60.0, True), (3, 239.0, False), (3, 240.0, True), (9, 3599.0, False), (9, 3600.0, True)),
)
def test_a_refused_termination_is_retried_at_growing_intervals(times: int, since: float, asked: bool) -> None:
    made = refused(times, since)
    assert ([type(action) for action in made.actions] == [Terminate]) is asked
    if not asked:
        assert verdict_and_code(made, "w1") == ("wait", Code.END_REFUSED)


def test_a_refused_termination_is_retried_at_once_after_a_resume() -> None:
    assert [type(action) for action in refused(3, 10.0, Overrides(resumed_at=NOW - 5)).actions] == [Terminate]


def refused(times: int, since: float, *things: Thing) -> Plan:
    """The plan for an end that was refused this many times, the last time so long ago."""
    fleet_of = seen(a_machine("w1", id="i-1", age=20.0, **STOPPED), *things)
    ends = (RefusedEnd("i-1", NOW - since, times, "protected"),)
    return plan(replace(fleet_of, fleet=replace(fleet_of.fleet, refused_ends=ends)))


# -- jobs over several hosts -------------------------------------------------------------------------------------

PART = HostJob(12, "", "r", 1)
RERUN = replace(YES, job=12)
LIVE = replace(a_host("h1", used=1), instances=(QueueInstance("main.q", "h1", 2, 1, 0, "", (PART,)),))


def test_a_lost_job_that_also_runs_on_a_live_host_is_held_before_it_is_rescheduled() -> None:
    made = plan(seen(LIVE, lost(PART), details=(RERUN,)))
    assert ([action.jobs for action in of(made, Hold)], of(made, Reschedule)) == ([("12",)], [])
    assert made.memory.held_back["12"].hosts == ("h1",)


def held_world(state: str, note: HeldJob, *things: Thing, **world: Any) -> Snapshot:
    part = replace(PART, state=state)
    live = replace(LIVE, instances=(replace(LIVE.instances[0], jobs=(part,)),))
    made = seen(live, lost(part), *things, details=(RERUN,), **world)
    return replace(made, memory=replace(made.memory, held_back={"12": note}))


def test_a_held_lost_job_is_rescheduled_only_once_its_hold_is_observed() -> None:
    note = HeldJob(("h1",), NOW - 60)
    assert of(plan(held_world("r", note)), Reschedule) == []
    assert [action.jobs for action in of(plan(held_world("hr", note)), Reschedule)] == [("12",)]


@pytest.mark.parametrize(("after", "expected"), ((150.0, False), (156.0, True)))
def test_the_hold_is_released_when_the_other_part_had_time_to_end(after: float, expected: bool) -> None:
    world = seen(a_host("h1"), a_job(12, state="hRq"))
    note = HeldJob(("h1",), NOW - 200, rescheduled_at=NOW - after)
    made = plan(replace(world, memory=replace(world.memory, held_back={"12": note})))
    assert bool(of(made, Release)) is expected


def test_the_hold_stays_while_the_other_host_is_silent() -> None:
    world = seen(a_host("h1", heard=False, states="u"), a_job(12, state="hRq"))
    note = HeldJob(("h1",), NOW - 9999, rescheduled_at=NOW - 9000)
    made = plan(replace(world, memory=replace(world.memory, held_back={"12": note})))
    assert (acts(made), list(made.memory.held_back)) == ([], ["12"])


def released(state: str, ago: float, *things: Thing) -> Plan:
    world = seen(a_host("h1"), a_job(12, state=state), *things)
    note = HeldJob(("h1",), NOW - 9999, rescheduled_at=NOW - 9900, released_at=NOW - ago)
    return plan(replace(world, memory=replace(world.memory, held_back={"12": note})))


def test_a_released_hold_that_reappears_is_released_again() -> None:
    assert list(released("Rq", 600).memory.held_back) == ["12"]
    assert [action.jobs for action in of(released("hRq", 600), Release)] == [("12",)]


def test_a_released_hold_is_forgotten_after_an_hour() -> None:
    assert released("Rq", 3601).memory.held_back == {}


def test_a_released_hold_is_forgotten_once_its_job_runs() -> None:
    world = seen(LIVE)
    note = HeldJob(("h1",), NOW - 200, rescheduled_at=NOW - 100, released_at=NOW - 10)
    assert plan(replace(world, memory=replace(world.memory, held_back={"12": note}))).memory.held_back == {}


# -- interruption notices ---------------------------------------------------------------------------------------------


def test_an_interrupted_worker_is_disabled_at_once() -> None:
    worker = a_worker(used=1)
    made = plan(seen(worker, notices=notice(worker, 120)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.INTERRUPTED))


def test_an_interrupted_worker_is_not_supply() -> None:
    worker = a_worker()
    job = a_job(slots=2, waited=9999)
    assert launched(plan(seen(worker, job))) == {}
    assert launched(plan(seen(worker, job, notices=notice(worker, 120)))) == {"m5.large": 1}


def leaving(**worker: Any) -> AWorker:
    return disabled_by_us(Disabling.INTERRUPTED, used=worker.pop("used", 2), **worker)


SECOND = replace(YES, job=9001)


def test_a_replacement_is_ordered_for_rerunnable_jobs_before_an_interruption() -> None:
    worker = leaving()
    made = plan(seen(worker, notices=notice(worker, 120), details=(YES, SECOND)))
    assert (launched(made), of(made, Terminate)) == ({"m5.large": 1}, [])


def test_no_replacement_is_ordered_for_jobs_that_may_not_start_again() -> None:
    worker = leaving()
    assert launched(plan(seen(worker, notices=notice(worker, 120), details=(NO, replace(NO, job=9001))))) == {}


def test_an_existing_replacement_is_not_ordered_again() -> None:
    worker = leaving()
    assert acts(plan(seen(worker, a_machine("w2", age=5), notices=notice(worker, 120), details=(YES, SECOND)))) == [
        ("enrol", "w2")
    ]


def test_a_replacement_beyond_the_limits_waits_and_is_reported() -> None:
    worker = leaving()
    world = seen(worker, notices=notice(worker, 120), details=(YES, SECOND), limits=Limits(max_workers=1))
    made = plan(world)
    assert (launched(made), [code for note in made.notes for code in codes(note)]) == (
        {},
        [Code.LAUNCH_WANTED, Code.CAPPED],
    )


def test_an_idle_worker_is_kept_for_jobs_that_will_be_rescheduled() -> None:
    worker = leaving()
    notices = notice(worker, 120)
    assert acts(plan(seen(worker, a_worker("w2", idle=9999), notices=notices, details=(YES, SECOND)))) == []
    never = replace(YES, rerun=False), replace(SECOND, rerun=False)
    assert acts(plan(seen(worker, a_worker("w2", idle=9999), notices=notices, details=never))) == [("disable", "w2")]


def test_an_interrupted_worker_with_only_rerunnable_jobs_is_terminated_shortly_before() -> None:
    worker = leaving()
    made = plan(seen(worker, notices=notice(worker, 25), details=(YES, SECOND)))
    assert (verdict_and_code(made, "w1"), of(made, Reschedule)) == (
        ("terminate", Code.TERMINATED_BEFORE_INTERRUPTION),
        [],
    )


@pytest.mark.parametrize("details", ((YES, replace(NO, job=9001)), (YES,)), ids=("one may not", "one is not known"))
def test_an_interrupted_worker_with_a_job_not_known_to_be_rerunnable_is_not_terminated(
    details: tuple[JobDetail, ...],
) -> None:
    worker = leaving()
    assert of(plan(seen(worker, notices=notice(worker, 1), details=details)), Terminate) == []


def test_an_empty_interrupted_worker_is_removed_at_once() -> None:
    worker = leaving(used=0, empty=60.0)
    assert acts(plan(seen(worker, notices=notice(worker, 120)))) == [("remove", "w1")]


def test_an_interrupted_booting_machine_is_terminated() -> None:
    worker = a_machine(age=20)
    assert acts(plan(seen(worker, notices=notice(worker, 120)))) == [("terminate", "w1")]


def test_a_worker_is_enabled_when_its_interruption_notice_is_withdrawn() -> None:
    made = plan(seen(leaving()))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.INTERRUPTION_WITHDRAWN))


def test_the_next_pass_is_due_shortly_before_an_interruption() -> None:
    worker = leaving()
    assert plan(seen(worker, notices=notice(worker, 120), details=(YES, SECOND), limits=Limits(1))).due == NOW + 90


def test_a_rebalance_recommendation_only_disables_a_busy_worker_that_nothing_needs() -> None:
    worker = a_worker(used=1)
    made = plan(seen(worker, notices=notice(worker, 0, "rebalance")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.REBALANCE_RECOMMENDED))


def test_a_rebalance_recommendation_is_ignored_if_a_waiting_job_needs_the_worker() -> None:
    worker = a_worker(used=1)
    assert acts(plan(seen(worker, a_job(waited=9999), notices=notice(worker, 0, "rebalance")))) == []


# -- names that return -------------------------------------------------------------------------------------------


def older_machine(host: ExecutionHost | None, **changes: Any) -> AWorker:
    made = lost(id="i-old")
    assert made.note is not None
    return AWorker(replace(made.worker, name="w1"), host, replace(made.note, **changes))


def older_host(started: float = LONG_AGO) -> ExecutionHost:
    job = HostJob(9000, "", "r", 1, started=started)
    return ExecutionHost("w1", (QueueInstance("main.q", "w1", 2, 1, 0, "d", (job,)),))


NEWER = a_machine("w1", id="i-new", age=60)


@pytest.mark.parametrize("began", (LONG_AGO, NOW - 60), ids=("long before", "in the second in which that was made"))
def test_jobs_of_an_older_machine_are_rescheduled_before_a_newer_one_of_its_name_joins(began: float) -> None:
    made = plan(seen(older_machine(older_host(began)), NEWER, details=(YES,)))
    assert [(type(action), action.worker_id) for action in made.actions] == [(Reschedule, "i-old")]  # type: ignore[union-attr]
    assert Code.NAME_STILL_USED in {verdict.reason.code for verdict in made.workers}


def test_the_older_machines_host_is_removed_before_the_newer_one_joins() -> None:
    empty = a_host("w1", states="d", heard=False)
    made = plan(seen(older_machine(empty), NEWER))
    assert [(name, host) for name, host in acts(made)] == [("remove", "w1")]


def test_the_newer_machine_is_enrolled_when_the_older_ones_host_is_gone() -> None:
    assert acts(plan(seen(older_machine(None), NEWER))) == [("enrol", "w1")]


def test_jobs_already_on_the_newer_machine_are_not_rescheduled() -> None:
    made = plan(seen(older_machine(older_host(NOW - 10)), NEWER, details=(YES,)))
    assert of(made, Reschedule) == []
    assert acts(made) == [("enable", "w1")]


def test_jobs_of_an_older_machine_are_rescheduled_though_it_is_unlisted() -> None:
    gone = older_machine(older_host(), gone=True, missing_since=NOW - 60)
    world = seen(gone, NEWER, details=(YES,))
    made = plan(replace(world, fleet=replace(world.fleet, workers=(NEWER.worker,))))
    assert [action.worker_id for action in of(made, Reschedule)] == ["i-old"]


# -- unlisted --------------------------------------------------------------------------------------------------


def unlisted(missing: float, **changes: Any) -> Snapshot:
    worker = silent_too_long()
    assert worker.note is not None
    note = replace(worker.note, missing_since=NOW - missing, **changes)
    world = seen(REPORTING, replace(worker, note=note), details=(YES,))
    return replace(world, fleet=replace(world.fleet, workers=()))


def test_a_silent_worker_unlisted_for_long_is_terminated() -> None:
    made = plan(unlisted(700))
    assert (acts(made), verdict_and_code(made, "w1")) == (
        [("terminate", "w1")],
        ("terminate", Code.UNLISTED_AND_SILENT),
    )


def test_a_recently_unlisted_worker_is_left_alone() -> None:
    made = plan(unlisted(500))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.NOT_LISTED))


def test_jobs_of_an_unlisted_worker_known_to_be_gone_are_rescheduled() -> None:
    made = plan(unlisted(700, gone=True))
    assert [action.jobs for action in of(made, Reschedule)] == [("9000",)]


def test_a_worker_never_listed_is_not_taken_for_gone() -> None:
    note = WorkerNote(first_seen=LONG_AGO, host="w1", joined_at=LONG_AGO)
    world = seen(replace(a_worker(used=1), note=note))
    made = plan(replace(world, fleet=replace(world.fleet, workers=())))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.NOT_LISTED))


def test_jobs_of_an_unlisted_worker_are_not_taken_for_those_of_a_terminated_namesake() -> None:
    dead = a_machine("w1", id="i-dead", state=GONE, age=3000.0, note=WorkerNote(first_seen=LONG_AGO, host="w1"))
    world = seen(a_host("h1"), dead, a_worker("w1", used=1), details=(YES,))
    hidden = replace(world, fleet=replace(world.fleet, workers=(dead.worker,)))
    made = plan(hidden)
    assert (of(made, Reschedule), acts(made)) == ([], [])


def test_the_host_of_an_unlisted_worker_is_not_removed_for_a_terminated_namesake() -> None:
    note = WorkerNote(first_seen=LONG_AGO, host="w1", left=True)
    dead = a_machine("w1", id="i-dead", state=GONE, age=3000.0, note=note)
    world = seen(a_host("h1"), dead, a_worker("w1", states="d", known=False))
    made = plan(replace(world, fleet=replace(world.fleet, workers=(dead.worker,))))
    assert acts(made) == []


def only_seen_ended(*, first_seen: float | None = None, heard: bool = True, **world: Any) -> Snapshot:
    """The store was lost; a machine is listed as terminated, and an execution host has its name, with a job."""
    known = None if first_seen is None else WorkerNote(first_seen, host="w1", gone=True, only_ended=True)
    worker = replace(a_worker(used=1, state=GONE, heard=heard, states="" if heard else "u"), note=known)
    return seen(REPORTING, worker, details=(NO,), lost_jobs=LostJobs.DELETE, **world)


@pytest.mark.parametrize(
    ("first_seen", "heard"), ((None, True), (None, False), (LONG_AGO, True), (NOW - 60, False)), ids=str
)
def test_a_host_of_the_name_of_a_machine_only_observed_terminated_is_left_alone(
    first_seen: float | None, heard: bool
) -> None:
    made = plan(only_seen_ended(first_seen=first_seen, heard=heard))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.GONE))


@pytest.mark.parametrize("listed", (True, False))
def test_a_host_silent_for_long_belongs_to_the_terminated_machine_of_its_name(listed: bool) -> None:
    world = only_seen_ended(first_seen=NOW - 601, heard=False)
    made = plan(world if listed else replace(world, fleet=replace(world.fleet, workers=())))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.GONE))


def test_a_machine_observed_alive_is_not_remembered_as_only_observed_terminated() -> None:
    first = plan(seen(a_worker(known=False)))
    ended = plan(replace(seen(a_worker(known=False, state=GONE)), memory=first.memory))
    assert [ended.memory.workers["i-w1"].only_ended, plan(only_seen_ended()).memory.workers["i-w1"].only_ended] == [
        False,
        True,
    ]


def test_a_partly_hand_disabled_host_of_a_gone_machine_is_removed_without_disabling() -> None:
    """It would be enabled whole for the next machine of its name."""
    half = replace(
        a_host("w1", heard=False, states="du"), instances=(*a_host("w1", states="du").instances, OTHER_INSTANCE)
    )
    made = plan(seen(a_worker(host=half, state=GONE)))
    assert acts(made) == [("remove", "w1")]


def test_a_hand_disabled_other_queue_is_remembered_for_the_next_machine_of_the_name() -> None:
    theirs = replace(OTHER_INSTANCE, states="d")
    gone = plan(seen(a_worker(host=a_host("w1", more=(theirs,)), state=GONE)))
    elder = gone.memory.workers["i-w1"]
    # A job of the next machine shows whose the host is now.
    world = seen(a_machine("w1", id="i-2", age=5.0), a_host("w1", used=1, states="d", more=(theirs,)))
    made = plan(replace(world, memory=replace(world.memory, workers={"i-w1": elder})))
    assert (acts(gone), elder.left_disabled) == ([("disable", "w1")], ("other.q",))
    assert made.memory.workers["i-2"].left_disabled == ("other.q",)


OTHER_INSTANCE = QueueInstance("other.q", "w1", 1, 0, 0, "u")


def test_a_hand_disabled_host_does_not_count_as_ours_for_the_next_machine_of_its_name() -> None:
    """Its removal, which leaves a mark, was refused."""
    older_note = WorkerNote(LONG_AGO, host="w1", disabling=Disabling.LOST, retired_at=NOW - 60)
    gone = replace(a_worker(host=a_host("w1", states="d", reserved=1), state=GONE), note=older_note)
    made = plan(seen(gone, a_machine("w1", id="i-2", age=5.0)))
    assert (acts(made), made.memory.workers["i-2"].disabling) == ([], None)


def test_a_machine_still_counts_as_coming_while_a_gone_namesakes_host_has_a_reserved_slot() -> None:
    """Rule 3: the host stays the dead machine's, and the next one is supply (seed 979 of the campaign)."""
    older_note = WorkerNote(LONG_AGO, joined_at=LONG_AGO, host="w1", disabling=Disabling.LOST, disabled_at=NOW - 60)
    gone = replace(a_worker(host=a_host("w1", states="d", reserved=1), state=GONE), note=older_note)
    booting = a_machine("w1", id="i-2", age=5.0, state=MachineState.PENDING)
    made = plan(seen(gone, booting, a_job(), details=(JobDetail(1, read_at=NOW - 5, group="users"),)))
    assert (of(made, Launch), reason_code(made)) == ([], Code.WAITS_FOR_COMING)


@pytest.mark.parametrize(
    ("age", "state", "launches"),
    ((5.0, MachineState.PENDING, 0), (60.0, MachineState.RUNNING, 0), (7200.0, MachineState.RUNNING, 1)),
)
def test_a_silent_host_of_its_name_does_not_hide_a_booting_machine(
    age: float, state: MachineState, launches: int
) -> None:
    """After a lost store it is unknown whose host it is; an old machine, though, fell silent."""
    gone = replace(a_worker(host=a_host("w1", heard=False, states="u"), state=GONE), note=None)
    full = a_host("h1", used=2)
    newer = a_machine("w1", id="i-2", age=age, state=state)
    made = plan(seen(full, gone, newer, a_job(slots=2), observed_at=None))
    assert len(of(made, Launch)) == launches


@pytest.mark.parametrize(("noted", "state"), (((), "t"), (("9000",), "r")), ids=("on its way", "taken by the newer"))
def test_a_job_that_the_older_machine_never_took_is_not_rescheduled_from_its_successor(
    noted: tuple[str, ...], state: str
) -> None:
    made = older_host()
    jobs = tuple(replace(job, state=state) for job in made.jobs)
    host = replace(made, heard=True, instances=(replace(made.instances[0], states="", jobs=jobs),))
    made_before = older_machine(host, on_their_way=noted)
    newer = a_machine("w1", id="i-2", age=120.0)
    assert of(plan(seen(made_before, newer, details=(YES,))), Reschedule) == []
    assert of(plan(seen(older_machine(older_host()), newer, details=(YES,))), Reschedule) != []


def test_a_job_that_the_older_machine_may_have_begun_is_reported_until_it_is_gone() -> None:
    made = older_host()
    jobs = tuple(replace(job, state="r") for job in made.jobs)
    host = replace(made, heard=True, instances=(replace(made.instances[0], states="", jobs=jobs),))
    newer = a_machine("w1", id="i-2", age=120.0)
    first = plan(seen(older_machine(host, on_their_way=("9000",)), newer, details=(YES,)))
    now_its_own = AWorker(newer.worker, host, first.memory.workers["i-2"])
    still = plan(seen(now_its_own))
    ended = replace(host, instances=(replace(host.instances[0], jobs=(), used=0),))
    gone = plan(seen(AWorker(newer.worker, ended, still.memory.workers["i-2"])))
    uncertain = [[note for note in made.notes if note.code is Code.JOBS_UNCERTAIN] for made in (first, still, gone)]
    assert [len(notes) for notes in uncertain] == [1, 1, 0]


def test_jobs_in_transfer_to_a_machine_are_remembered() -> None:
    on_its_way = replace(a_host("w1", used=1, job_state="t"))
    assert plan(seen(a_worker(host=on_its_way))).memory.workers["i-w1"].on_their_way == ("9000",)


def test_jobs_in_transfer_to_a_machine_are_remembered_once_it_is_gone() -> None:
    """The newer machine of its name, which took it, may not be listed yet."""
    taken = disabled_by_us(Disabling.LOST, used=1, state=GONE, states="d")
    assert taken.note is not None
    made = plan(seen(replace(taken, note=replace(taken.note, on_their_way=("9000",)))))
    assert made.memory.workers["i-w1"].on_their_way == ("9000",)


def test_no_job_is_rescheduled_from_a_reporting_host_while_an_order_is_unlisted() -> None:
    """That machine may have the name, and run the jobs."""
    heard = disabled_by_us(Disabling.LOST, used=1, state=GONE, states="d")
    coming = an_order(ids=("i-9",), state=OrderState.ACCEPTED)
    waits = plan(seen(heard, coming, details=(YES,)))
    unheard = plan(seen(lost(), coming, details=(YES,)))
    listed = plan(seen(heard, coming, a_machine("w9", id="i-9"), details=(YES,)))
    assert [verdict_and_code(made, "w1")[1] for made in (waits, unheard, listed)] == [
        Code.NAME_MAY_BE_REUSED,
        Code.LOST_JOBS_RESCHEDULED,
        Code.LOST_JOBS_RESCHEDULED,
    ]
    assert [bool(of(made, Reschedule)) for made in (waits, unheard, listed)] == [False, True, True]


@pytest.mark.parametrize("rescheduled", (None, NOW - 9900), ids=("not rescheduled", "rescheduled"))
def test_a_hold_is_released_only_after_its_job_was_rescheduled_and_runs_nowhere(rescheduled: float | None) -> None:
    """Else its other part, which still runs, would go on beside a second start (rule 7)."""
    note = HeldJob(("h1",), NOW - 9999, rescheduled_at=rescheduled)
    assert of(plan(held_world("hr", note)), Release) == []
    waiting = seen(a_host("h1"), a_job(12, state="hRq"))
    made = plan(replace(waiting, memory=replace(waiting.memory, held_back={"12": note})))
    assert bool(of(made, Release)) is (rescheduled is not None)
    standing = seen(LIVE, a_job(12, state="hRq"))
    assert of(plan(replace(standing, memory=replace(standing.memory, held_back={"12": note}))), Release) == []


def test_an_unlisted_worker_whose_name_a_newer_machine_has_is_terminated() -> None:
    old = older_machine(older_host(), missing_since=NOW - 700)
    world = seen(old, NEWER, details=(YES,))
    made = plan(replace(world, fleet=replace(world.fleet, workers=(NEWER.worker,))))
    assert [(action.worker_id, action.reason.code) for action in of(made, Terminate)] == [
        ("i-old", Code.UNLISTED_AND_REPLACED)
    ]
