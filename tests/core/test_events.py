"""Events: each step of a job has one event, equal ones are merged, and a pass without changes has none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from autoscaler.core.events.event import UNLISTED, EventKind, JobEvent, bounds, ranges, span, those_within, within
from autoscaler.core.events.events import COMPARED, PassEvents, events_of
from autoscaler.core.events.known import Accounted, KnownEvents
from autoscaler.core.events.running import LATE
from autoscaler.core.model.cluster import ExecutionHost, HostJob, JobDetail, QueueInstance
from autoscaler.core.model.fleet import Ending, FailureKind, MachineState, OrderState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.events import event_part
from autoscaler.store.events import KeptEvent
from tests.core.building import NOW, Thing, a_failure, a_host, a_job, a_machine, a_snapshot, a_worker, an_order, jobs

SUBMITTED, COUNTED, NOT_COUNTED, ORDERED, FAILED, JOINED, DISABLED, ENABLED, GONE, STARTED, ENDED = EventKind


def events_after(known: KnownEvents, snapshot: Snapshot, *accounted: Accounted) -> PassEvents:
    return events_of(known, snapshot, plan(snapshot), accounted)


def first(*things: Thing, now: float = NOW) -> PassEvents:
    return events_after(KnownEvents(), a_snapshot(*things, now=now))


def then(before: PassEvents, *things: Thing, accounted: Iterable[Accounted] = (), after: float = 10.0) -> PassEvents:
    return events_after(before.known, a_snapshot(*things, now=NOW + after), *accounted)


def summary(found: PassEvents, kind: EventKind | None = None) -> list[tuple[str, str, str]]:
    """Kind, jobs and tasks of each event."""
    return [(e.kind.value, e.jobs, e.tasks) for e in found.events if kind in (None, e.kind)]


def only(found: PassEvents, kind: EventKind) -> JobEvent:
    (event,) = (event for event in found.events if event.kind is kind)
    return event


def shown(event: JobEvent) -> str:
    text: str = event_part(KeptEvent(1, event))["text"]
    return text


def running(*runs: HostJob, host: str = "h1") -> ExecutionHost:
    return ExecutionHost(host, (QueueInstance("main.q", host, 9, len(runs), 0, "", runs),))


def a_run(job: int = 1, task: str = "", started: float = NOW - 3) -> HostJob:
    return HostJob(job, task, "r", 1, "ann", started)


def an_end(job: int = 1, task: str = "", host: str = "h1", *, failed: bool = False, began: bool = True) -> Accounted:
    how = "exit status 0" if not failed else "exit status 1, failed: in prolog"
    started = NOW + 1 if began else None
    return Accounted(job, task, "ann", host, "main.q", NOW - 9, started, NOW + 4, failed, how)


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_the_events_of_a_new_job_are_submitted_and_counted() -> None:
    found = first(a_job(7, waited=70, owner="ann", project="wind"))
    submitted, counted = only(found, SUBMITTED), only(found, COUNTED)
    assert (submitted.jobs, submitted.at, submitted.seen_at) == ("7", NOW - 70, NOW)
    assert (submitted.owner, submitted.project, submitted.count) == ("ann", "wind", 1)
    assert (counted.jobs, counted.at, counted.owner, counted.project) == ("7", NOW, "ann", "wind")
    assert counted.code


def test_a_project_known_only_from_qstat_j_is_in_the_events() -> None:
    detail = Memory(passes=7, details={7: JobDetail(7, NOW - 5, group="staff", project="wind")})
    assert {event.project for event in first(a_job(7, tasks="1-3:1", count=3), detail).events} == {"wind"}


def test_50000_jobs_of_a_category_are_one_event() -> None:
    found = first(jobs(50_000, owner="ann"))
    assert summary(found) == [("submitted", "1-50000", ""), ("counted", "1-50000", "")]
    assert [event.count for event in found.events] == [50_000, 50_000]


def test_submitted_jobs_of_an_owner_are_one_event_whatever_they_request() -> None:
    found = first(a_job(1, owner="ann"), a_job(2, slots=2, owner="ann"), a_job(3, owner="bob"))
    assert summary(found, SUBMITTED) == [("submitted", "1-2", ""), ("submitted", "3", "")]


def test_tasks_of_an_array_are_counted() -> None:
    assert only(first(a_job(4, tasks="1-40:1", count=40)), SUBMITTED).count == 40


def test_a_pass_without_changes_has_no_events() -> None:
    things = (a_job(1), running(a_run(2)), a_worker(used=0))
    assert not then(first(*things), *things).events


def test_the_event_of_a_new_job_of_a_known_category_names_only_that_job() -> None:
    found = then(first(jobs(3)), jobs(4))
    assert summary(found) == [("submitted", "4", ""), ("counted", "4", "")]


def test_a_held_job_does_not_count_until_it_is_released() -> None:
    held = first(a_job(1, state="hqw"))
    assert (summary(held)[1], only(held, NOT_COUNTED).code) == (("not_counted", "1", ""), "HELD")
    released = then(held, a_job(1))
    assert summary(released) == [("counted", "1", "")]
    assert summary(then(released, a_job(1, state="hqw"), after=20)) == [("not_counted", "1", "")]


def test_an_array_partly_beyond_its_limit_has_a_counted_event_only() -> None:
    detail = Memory(passes=7, details={5: JobDetail(5, NOW - 5, concurrency=2, group="staff")})
    found = first(a_job(5, tasks="1-9:1", count=9), detail)
    assert [event.kind for event in found.events] == [SUBMITTED, COUNTED]


def test_a_change_that_leaves_the_totals_equal_is_found_by_the_next_comparison() -> None:
    before = a_snapshot(a_job(1), a_job(2, state="hqw"))
    found, now = events_after(KnownEvents(), before), plan(before)
    turned = replace(now, job_categories=tuple(replace(each, counted=not each.counted) for each in now.job_categories))
    assert not events_of(found.known, replace(before, now=NOW + COMPARED - 1), turned, ()).events
    late = events_of(found.known, replace(before, now=NOW + COMPARED), turned, ())
    assert sorted(summary(late)) == [("counted", "2", ""), ("not_counted", "1", "")]


# -- orders and workers -----------------------------------------------------------------------------------------------


def test_an_order_event_names_all_jobs_of_its_categories() -> None:
    launching = first(jobs(3))
    (launch,) = plan(a_snapshot(jobs(3))).actions
    order = an_order(2, assignment=launch.assignment, planned_at=NOW)  # type: ignore[union-attr]
    event = only(then(launching, jobs(3), order), ORDERED)
    assert (event.jobs, event.count, event.order_id, event.at) == ("1-3", 3, "order-1", NOW)
    assert (event.code, event.message) == ("DEMAND", "2 m5.large of execute")


def test_an_order_for_no_job_has_one_event_without_jobs() -> None:
    found = first(an_order(1, planned_at=NOW - 20))
    event = only(found, ORDERED)
    assert (event.jobs, event.count, event.code) == ("", 0, "")
    assert not then(found, an_order(1, planned_at=NOW - 20, state=OrderState.ACCEPTED, ids=("i-1",))).events


def test_a_worker_has_a_joined_event_when_it_first_reports() -> None:
    assert not first(a_machine("w1")).events
    found = first(a_worker("w1", order_id="order-1"))
    event = only(found, JOINED)
    assert (event.hosts, event.worker_id, event.order_id) == (("w1",), "i-w1", "order-1")
    assert event.message == "m5.large of execute"
    assert not then(found, a_worker("w1", order_id="order-1")).events


def test_a_failed_launch_has_one_event_with_its_cause() -> None:
    """In two zones it is one failure; what an earlier pass counted is old."""
    old, new = a_failure(age=100.0), replace(a_failure(node_array="execute", zone="a"), order_id="o-1")
    twice = replace(new, bucket=replace(new.bucket, zone="b"))
    found = first(old, new, twice, Memory(passes=7, failures_seen=NOW - 80))
    event = only(found, FAILED)
    assert (event.order_id, event.code, event.at) == ("o-1", "capacity", NOW - 60)
    assert shown(event) == "launch failed: m5.large of execute: Insufficient instance capacity. (order o-1)"


def test_a_machine_that_never_joined_has_a_failed_event_with_its_output_and_no_gone_event() -> None:
    words = "never joined; it printed last: boot\nno route to host"
    failure = replace(
        a_failure(node_array="execute"), kind=FailureKind.BOOT, message=words, worker_id="i-w1", order_id="o-1"
    )
    dead = a_machine("w1", state=MachineState.TERMINATED, note=WorkerNote(NOW - 300))
    event = only(then(first(a_machine("w1")), dead, failure), FAILED)
    assert (event.worker_id, event.hosts, event.code) == ("i-w1", ("w1",), "boot")
    assert shown(event) == (
        "worker w1 never joined: m5.large of execute: it printed last: boot | no route to host (order o-1)"
    )
    assert not summary(then(first(a_machine("w1")), dead), GONE)


def test_a_silent_workers_disabled_enabled_and_gone_events_come_once_each() -> None:
    worker = a_worker("w1", order_id="o-1")
    silent = a_worker("w1", order_id="o-1", mark=Disabling.SILENT, disabled=20.0, heard=False)
    disabled = then(first(worker), silent)
    event = only(disabled, DISABLED)
    assert (event.at, event.code, event.worker_id, event.order_id) == (NOW - 20, "NO_LOAD_REPORT", "i-w1", "o-1")
    assert shown(event) == "worker w1 was disabled [NO_LOAD_REPORT]: m5.large of execute, i-w1 (order o-1)"
    assert not then(disabled, silent, after=20).events
    back = then(disabled, worker, after=30)
    assert [shown(each) for each in back.events] == ["worker w1 was enabled: m5.large of execute, i-w1 (order o-1)"]
    ended = a_machine("w1", order_id="o-1", state=MachineState.TERMINATED, note=worker.note)
    gone = then(back, ended, after=40)
    assert [shown(each) for each in gone.events] == ["worker w1 is gone [GONE]: m5.large of execute, i-w1 (order o-1)"]
    assert not then(gone, ended, after=50).events
    assert not then(gone, after=60).events


@pytest.mark.parametrize("name", ("w1", "i-w1"))
def test_the_disabled_event_of_a_drained_worker_has_who_drained_it(name: str) -> None:
    drained = a_worker("w1", mark=Disabling.COMMAND, disabled=20.0)
    overrides = Overrides(drain=frozenset({name, "w2"}), asked_by={name: "ann (page)", "w2": "bob"})
    words = "worker w1 was disabled [DRAINED_BY_COMMAND]: m5.large of execute, by command of ann (page), i-w1"
    assert shown(only(then(first(a_worker("w1")), drained, overrides), DISABLED)) == words
    unknown = then(first(a_worker("w1")), drained, replace(overrides, asked_by={}))
    assert shown(only(unknown, DISABLED)) == words.replace(", by command of ann (page)", "")


def test_a_worker_no_longer_listed_by_its_provider_has_a_gone_event() -> None:
    note = WorkerNote(NOW - 9e6, joined_at=NOW - 9e6, host="w1", missing_since=NOW - 8e6, left=True)
    event = only(then(first(a_worker("w1")), Memory(passes=7, workers={"i-w1": note})), GONE)
    assert (event.worker_id, event.hosts, event.code) == ("i-w1", ("w1",), "GONE")


@pytest.mark.parametrize(
    ("ending", "terminated", "stopped", "words"),
    (
        (Ending.UNKNOWN, None, False, "is gone [GONE]"),
        (Ending.INTERRUPTED, None, False, "is gone [RECLAIMED]"),
        (Ending.RELEASED, None, False, "is gone [SHUT_ITSELF_DOWN]"),
        (Ending.UNKNOWN, NOW - 5, False, "was terminated"),
        (Ending.UNKNOWN, NOW - 5, True, "is gone [STOPPED_FROM_OUTSIDE]"),
    ),
)
def test_the_gone_event_of_a_worker_has_its_cause(
    ending: Ending, terminated: float | None, stopped: bool, words: str
) -> None:
    note = WorkerNote(NOW - 300, joined_at=NOW - 200, host="w1", terminated_at=terminated, stopped=stopped)
    ended = a_machine("w1", state=MachineState.TERMINATED, ending=ending, note=note)
    event = only(then(first(a_worker("w1")), ended), GONE)
    assert shown(event) == f"worker w1 {words}: m5.large of execute, i-w1"


def test_events_of_a_worker_are_not_repeated_by_another_process() -> None:
    silent = a_worker("w1", mark=Disabling.SILENT, heard=False)
    assert silent.note is not None
    assert not summary(first(replace(silent, note=replace(silent.note, seen_disabled=True))), DISABLED)


def test_a_worker_that_joins_has_no_enabled_event() -> None:
    joining = a_worker("w1", mark=Disabling.ENROL)
    assert [event.kind for event in then(first(joining), a_worker("w1")).events if event.worker_id] in ([], [JOINED])


# -- running and ended -------------------------------------------------------------------------------------------------


def test_a_started_event_has_host_queue_and_time() -> None:
    event = only(then(first(a_job(1)), running(a_run(1, started=NOW + 4))), STARTED)
    assert (event.jobs, event.hosts, event.queue, event.at) == ("1", ("h1",), "main.q", NOW + 4)
    assert event.owner == "ann"


def test_tasks_that_start_on_one_host_are_one_event() -> None:
    found = first(running(*(a_run(3, str(task)) for task in (1, 2, 3, 7)), a_run(4), a_run(5)))
    assert summary(found, STARTED) == [("started", "3", "1-3,7"), ("started", "4-5", "")]


def test_a_job_on_several_hosts_has_one_started_event() -> None:
    event = only(first(running(a_run(1)), running(a_run(1), host="h2")), STARTED)
    assert (event.hosts, event.count) == (("h1", "h2"), 1)


def test_the_started_event_of_a_job_in_two_queues_names_no_queue() -> None:
    (instance,) = running(a_run(), host="h2").instances
    big = replace(running(host="h2"), instances=(replace(instance, queue="big.q"),))
    started = only(then(first(a_host("h1"), a_host("h2")), running(a_run(), host="h1"), big), STARTED)
    assert (started.queue, set(started.hosts)) == ("", {"h1", "h2"})
    assert event_part(KeptEvent(1, started))["text"].endswith("started on h1, h2")


@pytest.mark.parametrize(("failed", "code"), ((False, "ended"), (True, "failed")))
def test_the_ended_event_of_a_job_is_that_of_accounting(failed: bool, code: str) -> None:
    ran = first(running(a_run(1)))
    gone = then(ran, a_host())
    assert not gone.events  # accounting has it some seconds later
    ended = then(gone, a_host(), accounted=(an_end(failed=failed),), after=20)
    event = only(ended, ENDED)
    assert (event.jobs, event.hosts, event.at, event.code) == ("1", ("h1",), NOW + 4, code)
    assert shown(event).startswith(f"job 1 of ann {code} on main.q@h1: exit status")
    assert event.message.startswith("exit status")
    assert len(ended.events) == 1
    assert not ended.known.runs


def test_jobs_that_end_alike_are_one_event_with_first_and_last_time() -> None:
    ran = first(running(a_run(1), a_run(2)))
    ended = then(ran, a_host(), accounted=(an_end(1), replace(an_end(2), ended=NOW + 9)))
    event = only(ended, ENDED)
    assert (event.jobs, event.at, event.until) == ("1-2", NOW + 4, NOW + 9)


def test_a_job_missing_in_accounting_has_a_late_ended_event() -> None:
    gone = then(first(running(a_run(1))), a_host())
    assert not then(gone, a_host(), after=10 + LATE - 1).events
    event = only(then(gone, a_host(), after=10 + LATE), ENDED)
    assert (event.jobs, event.code) == ("1", "unknown")


def test_a_job_that_is_listed_again_has_no_ended_event() -> None:
    gone = then(first(running(a_run(1))), a_host())
    back = then(gone, running(a_run(1)), after=20)
    assert not then(back, running(a_run(1)), after=20 + LATE).events


def test_events_of_a_job_that_no_pass_observed_come_from_accounting() -> None:
    found = then(first(), a_host(), accounted=(an_end(6), an_end(7)))
    assert summary(found) == [("submitted", "6-7", ""), ("started", "6-7", ""), ("ended", "6-7", "")]
    assert only(found, SUBMITTED).at == NOW - 9


def test_a_job_that_waited_and_ran_between_two_passes_starts_and_ends() -> None:
    found = then(first(a_job(6)), a_host(), accounted=(an_end(6),))
    assert [event.kind for event in found.events] == [STARTED, ENDED]


def test_a_failed_start_has_no_started_event() -> None:
    found = then(first(a_job(6)), a_job(6, state="Eqw"), accounted=(an_end(6, failed=True, began=False),))
    assert [event.kind for event in found.events] == [NOT_COUNTED, ENDED]


def test_a_rescheduled_job_ends_on_one_host_and_starts_on_the_other() -> None:
    ran = first(running(a_run(1)))
    moved = then(ran, running(a_run(1, started=NOW + 5), host="h2"), accounted=(an_end(1, failed=True),))
    assert {(event.kind, event.hosts) for event in moved.events} == {(STARTED, ("h2",)), (ENDED, ("h1",))}


def test_a_rescheduled_job_has_one_ended_event_though_accounting_comes_after_its_next_start() -> None:
    elsewhere = running(a_run(1, started=NOW + 5), host="h2")
    moved = then(first(running(a_run(1))), elsewhere)
    assert [(event.kind, event.hosts) for event in moved.events] == [(STARTED, ("h2",))]
    assert ([run.hosts for run in moved.ended], [run.hosts for run in moved.started]) == ([("h1",)], [("h2",)])
    ended = then(moved, elsewhere, accounted=(an_end(1, failed=True),), after=20)
    assert [(event.kind, event.hosts) for event in ended.events] == [(ENDED, ("h1",))]
    moved_on = replace(only(ended, ENDED), message="exit status 0, failed: rescheduling")
    assert shown(moved_on).startswith("job 1 of ann was rescheduled from main.q@h1: ")
    assert not ended.ended  # the store has forgotten it, and knows the run on h2 by the same number
    assert not then(ended, elsewhere, after=30 + LATE).events
    unaccounted = only(then(moved, elsewhere, after=10 + LATE), ENDED)
    assert (unaccounted.hosts, unaccounted.at, unaccounted.code) == (("h1",), NOW + 10, "unknown")


@pytest.mark.parametrize("end", (an_end(), an_end(failed=True, began=False)), ids=("ended", "rescheduled"))
def test_a_job_still_listed_after_its_end_has_one_started_and_one_ended_event(end: Accounted) -> None:
    """The accounting is read after the listing, and a host that is gone is listed with its jobs."""
    ended = then(first(running(a_run(1))), running(a_run(1)), accounted=(end,))
    assert summary(ended) == [("ended", "1", "")]
    still = then(ended, running(a_run(1)), after=20)
    assert not still.events
    assert not then(then(still, a_host(), after=30), a_host(), after=40 + LATE).events
    assert summary(then(still, running(a_run(1, started=NOW + 25)), after=30)) == [("started", "1", "")]


def test_a_job_that_ends_after_its_first_listing_has_one_started_and_one_ended_event() -> None:
    found = then(first(), running(a_run(1)), accounted=(an_end(),))
    assert summary(found) == [("submitted", "1", ""), ("started", "1", ""), ("ended", "1", "")]
    assert not found.started  # the store need not know it
    assert not then(found, a_host(), after=20 + LATE).events


def test_an_unreadable_job_has_no_event() -> None:
    assert not first(running(HostJob(0, "", "?", 0))).events


# -- deleted while they waited ----------------------------------------------------------------------------------------


def test_an_unlisted_job_that_never_started_has_a_late_ended_event() -> None:
    """Late, because accounting may still have it."""
    waited = first(jobs(2), a_job(9))
    gone = then(waited, a_job(9), after=10)
    assert not gone.events
    assert not then(gone, a_job(9), after=10 + LATE - 1).events
    event = only(then(gone, a_job(9), after=10 + LATE), ENDED)
    assert (event.jobs, event.count, event.at, event.code) == ("1-2", 2, NOW + 10, UNLISTED)
    assert "deleted while it waited" in event.message
    later = then(gone, a_job(9), after=10 + LATE)
    assert not then(later, a_job(9), after=20 + LATE).events


def test_a_started_job_has_no_deleted_event() -> None:
    waited = first(jobs(2))
    ran = then(waited, running(a_run(1), a_run(2)))
    assert not then(ran, running(a_run(1), a_run(2)), after=10 + LATE).events


def test_a_job_that_ran_between_two_passes_has_no_deleted_event() -> None:
    waited = first(jobs(1))
    gone = then(waited)
    ended = then(gone, accounted=(an_end(1),), after=30)
    assert {event.kind for event in ended.events} == {STARTED, ENDED}
    assert not then(ended, after=60 + LATE).events


def test_a_job_that_waits_again_has_no_deleted_event() -> None:
    waited = first(jobs(2))
    gone = then(waited, a_job(2))
    back = then(gone, jobs(2), after=20)
    assert not then(back, jobs(2), after=60 + LATE).events


def test_an_altered_job_has_no_deleted_event() -> None:
    waited = first(a_job(1), a_job(2))
    altered = then(waited, a_job(1, slots=2), a_job(2))
    assert not summary(then(altered, a_job(1, slots=2), a_job(2), after=20 + LATE), ENDED)


# -- after a restart --------------------------------------------------------------------------------------------------


def test_events_are_not_repeated_by_another_process() -> None:
    things = (jobs(3), a_job(9, state="hqw"), running(a_run(20)), a_worker("w1"), an_order(planned_at=NOW - 20))
    before = first(*things)
    after = replace(KnownEvents(), **{name: getattr(before.known, name) for name in DURABLE})
    assert not events_after(after, a_snapshot(*things, now=NOW + 60)).events


DURABLE = ("submitted", "counted", "uncounted", "runs", "joined", "orders")
"""What the store has from earlier processes; the rest comes from listings alone."""


def test_events_from_before_the_kept_ones_are_not_repeated() -> None:
    old = KnownEvents(since=NOW - 1)
    found = events_after(old, a_snapshot(a_worker("w1"), an_order(planned_at=NOW - 20)))
    assert not found.events


def test_ended_jobs_are_forgotten_if_there_are_many() -> None:
    before = first(jobs(30_000))
    after = then(before, a_job(40_000))
    assert len(after.known.submitted) < 20_000
    assert 40_000 in after.known.counted


# -- ranges -----------------------------------------------------------------------------------------------------------


def test_ranges_are_read_as_they_were_written() -> None:
    text = ranges([9, 4, 5, 6, 7, 7])
    assert (text, bounds(text), span(text), ranges([])) == ("4-7,9", ((4, 7), (9, 9)), (4, 9), "")
    assert [number for number in range(12) if within(text, number)] == [4, 5, 6, 7, 9]
    assert those_within(text, {1, 5, 9, 70}) == {5, 9}


# -- whose it is, and where -------------------------------------------------------------------------------------------


def details_memory(*numbers: int, project: str = "wind") -> Memory:
    return Memory(passes=7, details={job: JobDetail(job, NOW - 5, group="staff", project=project) for job in numbers})


def test_every_event_of_a_job_names_its_project() -> None:
    """`qstat -j` details are forgotten when a job starts."""
    waiting = first(a_job(7), details_memory(7))
    started = events_after(waiting.known, a_snapshot(running(a_run(7)), details_memory(7), now=NOW + 10))
    found = [waiting, started, then(started, after=20.0), then(then(started, after=20.0), after=20.0 + LATE)]
    events = [event for each in found for event in each.events]
    assert [(event.kind, event.project) for event in events] == [
        (kind, "wind") for kind in (SUBMITTED, COUNTED, STARTED, ENDED)
    ]


@pytest.mark.parametrize("by", ("listing", "qstat -j"))
def test_the_event_of_a_job_deleted_while_it_waited_names_its_project(by: str) -> None:
    job = a_job(7, project="wind") if by == "listing" else a_job(7)
    waiting = first(job, details_memory(7))
    gone = events_after(waiting.known, a_snapshot(details_memory(7), now=NOW + 10))
    assert only(then(gone, after=10 + LATE), ENDED).project == "wind"


def test_events_on_a_worker_name_the_worker_and_its_order() -> None:
    worker = a_worker("w1", age=100, order_id="o1")
    before = first(a_job(7), worker)
    started = only(then(before, replace(worker, host=running(a_run(7), host="w1"))), STARTED)
    assert (started.worker_id, started.order_id) == (worker.worker.id, "o1")
    elsewhere = only(then(before, running(a_run(7))), STARTED)
    assert (elsewhere.worker_id, elsewhere.order_id) == ("", "")


@pytest.mark.parametrize(
    ("owners", "shared_owner"), ((("ann", "ann"), "ann"), (("ann", "ben"), "")), ids=("of one", "of two")
)
def test_an_order_event_names_owner_and_project_if_all_its_jobs_share_them(
    owners: tuple[str, str], shared_owner: str
) -> None:
    both = [a_job(number, owner=owner, project="wind", waited=70) for number, owner in enumerate(owners, 7)]
    before = first(*both)
    order = an_order(planned_at=NOW, assignment=tuple((key, 1) for key in before.known.serving))
    ordered = only(then(before, *both, order), ORDERED)
    assert (ordered.jobs, ordered.owner, ordered.project) == ("7-8", shared_owner, "wind")
