"""From machine to worker in service: booted, enrolled, reporting, enabled; or terminated in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Enrol, Terminate
from autoscaler.core.model.cluster import ExecutionHost, QueueInstance
from autoscaler.core.model.fleet import Ending, FailureKind, MachineState
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from tests.core.building import (
    LARGE,
    LONG_AGO,
    NOW,
    AWorker,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    codes,
    launched,
    verdict_and_code,
    verdict_of,
)

SEEN = WorkerNote(first_seen=LONG_AGO)
ENROLLED = replace(SEEN, disabled_at=NOW - 60, disabling=Disabling.ENROL, host="w1")


def test_a_pending_machine_is_waited_for() -> None:
    made = plan(a_snapshot(a_machine("w1", state=MachineState.PENDING)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.BOOTING))


def test_a_machine_without_a_name_is_waited_for() -> None:
    assert acts(plan(a_snapshot(a_machine(None)))) == []


def test_a_running_machine_is_enrolled_with_what_its_type_offers() -> None:
    made = plan(a_snapshot(a_machine("w1"), free_cores=1, gpu_complex="gpus", exclusive_complex="exclusive"))
    assert made.actions == (
        Enrol(
            worker_id="i-w1",
            host="w1",
            node_array="execute",
            queue="main.q",
            host_group="@allhosts",
            slots=1,
            complex_values=(("exclusive", "TRUE"), ("gpus", "0"), ("h_vmem", "8G")),
            reason=made.workers[0].reason,
        ),
    )


def test_an_enrolment_is_remembered_as_our_disabling() -> None:
    note = plan(a_snapshot(a_machine("w1"))).memory.workers["i-w1"]
    assert (note.disabling, note.disabled_at) == (Disabling.ENROL, NOW)


def test_an_enrolment_without_effect_is_not_repeated_at_once() -> None:
    assert acts(plan(a_snapshot(a_machine("w1", note=replace(ENROLLED, disabled_at=NOW - 14))))) == []


def test_an_enrolment_without_effect_is_repeated_after_a_while() -> None:
    assert acts(plan(a_snapshot(a_machine("w1", note=replace(ENROLLED, disabled_at=NOW - 15))))) == [("enrol", "w1")]


def test_a_host_without_a_load_report_stays_disabled() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.ENROL, heard=False, age=60)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.JOINING))


def test_a_host_is_enabled_once_it_reports() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.ENROL, age=60)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.JOINED))


def test_an_enabling_is_not_repeated_before_its_effect_can_show() -> None:
    worker = a_worker(mark=Disabling.ENROL, age=60)
    assert acts(plan(a_snapshot(replace(worker, note=replace(worker.note, enabled_at=NOW - 5))))) == []  # type: ignore[type-var]


def test_an_enabling_that_was_lost_is_repeated() -> None:
    worker = a_worker(mark=Disabling.ENROL, age=60)
    worker = replace(worker, note=replace(worker.note, enabled_at=NOW - 15))  # type: ignore[type-var]
    assert acts(plan(a_snapshot(worker))) == [("enable", "w1")]


def test_our_mark_is_removed_when_the_host_is_observed_enabled() -> None:
    worker = a_worker(mark=Disabling.ENROL, states="")
    worker = replace(worker, note=replace(worker.note, enabled_at=NOW - 5))  # type: ignore[type-var]
    note = plan(a_snapshot(worker)).memory.workers["i-w1"]
    assert (note.disabling, note.enabled_at, note.idle_since) == (None, None, NOW)


def test_joining_goes_on_while_paused() -> None:
    made = plan(a_snapshot(a_machine("w1"), a_worker("w2", mark=Disabling.ENROL), Overrides(paused=True)))
    assert acts(made) == [("enable", "w2"), ("enrol", "w1")]


def test_a_machine_that_does_not_come_up_in_time_is_terminated_as_a_boot_failure() -> None:
    made = plan(a_snapshot(a_machine("w1", state=MachineState.PENDING, age=900, note=SEEN, message="no capacity")))
    assert made.actions == (Terminate("i-w1", "w1", made.workers[0].reason, failure=FailureKind.BOOT),)


def test_a_machine_that_its_provider_reports_as_failed_is_terminated_at_once() -> None:
    failed = a_machine("w1", state=MachineState.PENDING, age=5, failure="capacity", message="AllocationFailed")
    made = plan(a_snapshot(failed))
    assert made.actions == (
        Terminate("i-w1", "w1", because(Code.BOOT_FAILED, message="AllocationFailed"), failure=FailureKind.CAPACITY),
    )


STOPPED: dict[str, Any] = {"state": MachineState.PENDING, "ending": Ending.STOPPED, "message": "it is stopped"}


@pytest.mark.parametrize("age", (5.0, 900.0))
def test_a_machine_that_somebody_stops_before_it_joins_is_terminated_at_once_and_counts_as_no_failure(
    age: float,
) -> None:
    made = plan(a_snapshot(a_machine("w1", age=age, note=SEEN, **STOPPED)))
    reason = because(Code.STOPPED_FROM_OUTSIDE, message="it is stopped")
    assert made.actions == (Terminate("i-w1", "w1", reason, failure=None),)


def test_a_worker_that_somebody_stops_while_it_is_enrolled_counts_as_no_failure() -> None:
    """Its execution host is removed first; by then only our memory knows that it was stopped."""
    enrolled = plan(a_snapshot(a_worker(mark=Disabling.ENROL, heard=False, states="du", **STOPPED)))
    note = replace(enrolled.memory.workers["i-w1"], retired_at=NOW, disabling=Disabling.ENROL)
    assert note.stopped
    removed = plan(a_snapshot(a_machine("w1", note=note, **STOPPED), now=NOW + 60))
    assert [(type(each), getattr(each, "failure", None)) for each in removed.actions] == [(Terminate, None)]


def test_a_stopped_machine_that_somebody_starts_again_joins() -> None:
    stopped = plan(a_snapshot(a_machine("w1", note=SEEN, **STOPPED), Overrides(keep=frozenset({"w1"}))))
    again = plan(a_snapshot(a_machine("w1", note=stopped.memory.workers["i-w1"]), now=NOW + 5))
    assert (acts(again), again.memory.workers["i-w1"].stopped) == ([("enrol", "w1")], False)


def test_a_late_machine_that_a_person_keeps_is_not_terminated() -> None:
    late = a_machine("w1", state=MachineState.PENDING, age=900, note=SEEN)
    assert acts(plan(a_snapshot(late, Overrides(keep=frozenset({"w1"}))))) == []
    assert acts(plan(a_snapshot(late))) == [("terminate", "w1")]


def test_a_kept_running_machine_is_enrolled_however_late() -> None:
    late = a_machine("w1", age=900, note=SEEN)
    assert acts(plan(a_snapshot(late, Overrides(keep=frozenset({"w1"}))))) == [("enrol", "w1")]


def test_a_machine_just_within_its_time_is_waited_for() -> None:
    assert acts(plan(a_snapshot(a_machine("w1", state=MachineState.PENDING, age=899, note=SEEN)))) == []


def test_an_old_machine_observed_for_the_first_time_is_enrolled() -> None:
    assert acts(plan(a_snapshot(a_machine("w1", age=9999)))) == [("enrol", "w1")]


def test_the_boot_timeout_of_an_old_machine_begins_when_it_is_first_observed() -> None:
    ages = (899, 900)
    made = [
        plan(a_snapshot(a_machine("w1", state=MachineState.PENDING, age=9999, note=WorkerNote(first_seen=NOW - age))))
        for age in ages
    ]
    assert [acts(one) for one in made] == [[], [("terminate", "w1")]]


def test_a_host_that_never_reports_is_removed_first() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.ENROL, heard=False, age=900, empty=60)))
    assert acts(made) == [("remove", "w1")]


def test_a_removed_machine_that_never_joined_is_terminated_as_a_boot_failure() -> None:
    made = plan(a_snapshot(a_machine("w1", note=replace(ENROLLED, retired_at=NOW - 5))))
    assert [getattr(action, "failure", "") for action in made.actions] == ["boot"]


def test_a_machine_that_a_person_drains_before_it_joined_is_not_a_boot_failure() -> None:
    retired = a_machine("w1", note=replace(ENROLLED, retired_at=NOW - 5))
    made = plan(a_snapshot(retired, Overrides(drain=frozenset({"w1"}))))
    assert [getattr(action, "failure", "") for action in made.actions] == [None]


def test_a_joined_machine_that_a_person_removed_from_grid_engine_is_enrolled_again() -> None:
    made = plan(a_snapshot(a_machine("w1", age=9999, note=replace(SEEN, joined_at=LONG_AGO))))
    assert acts(made) == [("enrol", "w1")]


def test_a_late_machine_does_not_count_as_supply() -> None:
    late = a_machine("w1", state=MachineState.PENDING, age=900, note=SEEN)
    made = plan(a_snapshot(a_job(slots=2), late))
    assert ("launch", {"m5.large": 1}) in acts(made)


@pytest.mark.parametrize(
    ("instances", "slots", "known", "action"),
    (
        ((), "0", False, [("enrol", "w1")]),
        ((), "2", False, []),
        (a_host("w1").instances, "0", False, []),
        ((), "0", True, []),
    ),
    ids=("just made", "in no queue", "without slots", "joined before"),
)
def test_after_a_store_loss_an_enrolment_is_completed_only_if_it_had_just_begun(
    instances: tuple[QueueInstance, ...], slots: str, known: bool, action: list[tuple[str, object]]
) -> None:
    host = ExecutionHost("w1", instances, heard=True, consumables={"slots": slots})
    first = a_snapshot(a_worker(host=host, known=known), idle_timeout=600)
    made = plan(first)
    assert (acts(made), acts(plan(replace(first, memory=made.memory, now=NOW + 15)))) == ([], action)


LATE = QueueInstance("late.q", "w1", 2, 0, 0)
"""A queue that has the host besides, enabled."""


def joining_with(late: QueueInstance, *, heard: bool = True, age: float = 60.0, **more: Any) -> AWorker:
    host = a_host("w1", states="d", heard=heard, more=(late,))
    return a_worker(host=host, mark=Disabling.ENROL, age=age, heard=heard, **more)


def test_a_queue_that_appears_on_a_joining_worker_is_no_persons_doing() -> None:
    made = plan(a_snapshot(joining_with(LATE), Memory(passes=5)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.JOINED))


def test_a_late_worker_with_a_new_queue_is_given_back_like_any_other() -> None:
    late = joining_with(LATE, heard=False, age=900, disabled=900)
    assert acts(plan(a_snapshot(late))) == [("disable", "w1")]


def test_a_joining_worker_that_a_person_stops_leaves_although_a_new_queue_is_enabled_there() -> None:
    made = plan(a_snapshot(joining_with(LATE), Overrides(stop="now")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.STOPPING))


def test_a_new_queue_on_a_worker_whose_own_queue_is_closed_is_disabled_too() -> None:
    p1, first = a_host("p1", states="d"), joining_with(LATE)
    made = plan(a_snapshot(p1, first, a_job()))
    note = made.memory.workers["i-w1"]
    assert (acts(made), note.disabling) == ([("disable", "w1")], Disabling.ENROL)


@pytest.mark.parametrize("states", ("", "d"))
def test_a_worker_that_its_image_made_a_host_of_another_queue_is_enrolled(states: str) -> None:
    host = ExecutionHost("w1", (replace(LATE, states=states),), heard=True)
    machine = replace(a_machine("w1", age=60, note=WorkerNote(first_seen=NOW - 60)), host=host)
    first = a_snapshot(machine, Memory(passes=5))
    made = plan(first)
    later = plan(replace(first, memory=made.memory, now=NOW + 15))
    assert (acts(made), acts(later)) == ([], [("enrol", "w1")])


def test_a_worker_that_a_person_took_out_of_its_queue_is_not_enrolled_again() -> None:
    note = replace(SEEN, joined_at=LONG_AGO, enrolling_since=LONG_AGO, host="w1")
    host = ExecutionHost("w1", (LATE,), heard=True)
    first = a_snapshot(replace(a_machine("w1", age=9999, note=note), host=host), Memory(passes=5))
    made = plan(first)
    later = plan(replace(first, memory=made.memory, now=NOW + 15))
    assert (acts(made), acts(later)) == ([], [])


def test_workers_that_enrol_themselves_are_not_enrolled_by_us() -> None:
    assert acts(plan(a_snapshot(a_machine("w1"), enrols_itself=True))) == []


COMPLETE = a_host("w1", states="d", consumables={"h_vmem": "8G"})
"""With all that its type is to have."""


def self_enrolled(host: ExecutionHost, **worker: Any) -> AWorker:
    """A worker whose image has just made it this execution host."""
    return a_worker(known=False, host=host, **worker)


def test_a_self_enrolled_worker_is_enabled_when_it_is_ready() -> None:
    assert acts(plan(a_snapshot(self_enrolled(COMPLETE), enrols_itself=True))) == [("enable", "w1")]


@pytest.mark.parametrize(
    ("host", "expected"),
    (
        pytest.param(COMPLETE, ("keep", Code.DISABLED_BY_HAND), id="complete"),
        pytest.param(a_host("w1", states="d"), ("enrol", Code.INCOMPLETE), id="incomplete"),
    ),
)
def test_after_a_store_loss_a_disabled_self_enrolled_worker_is_not_enabled(
    host: ExecutionHost, expected: tuple[str, Code]
) -> None:
    made = plan(a_snapshot(self_enrolled(host), Memory(), enrols_itself=True))
    later = plan(replace(a_snapshot(self_enrolled(host), enrols_itself=True), memory=made.memory, now=NOW + 15))

    assert verdict_and_code(made, "w1") == expected
    assert "enable" not in [action.kind for action in (*made.actions, *later.actions)]


@pytest.mark.parametrize(
    ("jobs", "expected"),
    (
        pytest.param(0, ("enable", Code.JOINED), id="empty"),
        pytest.param(1, ("keep", Code.DISABLED_BY_HAND), id="busy"),
    ),
)
def test_a_disabled_worker_that_is_taken_over_joins_unless_it_has_jobs(jobs: int, expected: tuple[str, Code]) -> None:
    """The autoscaler before ours ended between the set-up of the worker and its own enabling of it."""
    host = a_host("w1", states="d", used=jobs, consumables=COMPLETE.consumables)
    made = plan(a_snapshot(self_enrolled(host, taken_over=True), Memory(), enrols_itself=True))
    assert verdict_and_code(made, "w1") == expected


def test_after_a_store_loss_a_silent_disabled_self_enrolled_worker_is_not_enabled_later() -> None:
    silent = a_host("w1", states="du", heard=False, consumables=COMPLETE.consumables)
    made = plan(a_snapshot(self_enrolled(silent), Memory(), enrols_itself=True))
    later = replace(a_snapshot(self_enrolled(COMPLETE), enrols_itself=True), memory=made.memory, now=NOW + 15)
    at_last = replace(later, memory=plan(later).memory, now=NOW + 30)

    assert not [*made.actions, *plan(later).actions, *plan(at_last).actions]
    assert verdict_and_code(plan(at_last), "w1") == ("keep", Code.DISABLED_BY_HAND)


def test_a_self_enrolled_worker_gets_missing_values_before_it_is_enabled() -> None:
    has = a_host("w1", slots=3, states="d", consumables={"gpus": "7"})
    made = plan(a_snapshot(self_enrolled(has), enrols_itself=True, gpu_complex="gpus", exclusive_complex="exclusive"))
    assert made.actions == (
        Enrol(
            worker_id="i-w1",
            host="w1",
            node_array="execute",
            queue="main.q",
            host_group="@allhosts",
            slots=3,
            complex_values=(("exclusive", "TRUE"), ("h_vmem", "8G")),
            reason=because(Code.INCOMPLETE, lacks="exclusive=TRUE, h_vmem=8G"),
            joined=True,
        ),
    )


def test_a_self_enrolled_worker_is_left_alone_until_it_is_ready() -> None:
    bare = a_host("w1", states="d")
    assert acts(plan(a_snapshot(self_enrolled(bare, ready=False), enrols_itself=True))) == []


INCOMPLETE = replace(ENROLLED, joined_at=NOW - 60, seen_disabled=True)
"""Of a worker that was observed incomplete."""


@pytest.mark.parametrize(("ago", "again"), ((14, []), (15, [("enrol", "w1")])))
def test_missing_values_of_a_self_enrolled_host_are_set_again_after_a_while(
    ago: float, again: list[tuple[str, object]]
) -> None:
    worker = replace(self_enrolled(a_host("w1", states="d")), note=replace(INCOMPLETE, completed_at=NOW - ago))
    assert acts(plan(a_snapshot(worker, enrols_itself=True))) == again


def test_a_value_that_the_execd_reports_is_not_waited_for() -> None:
    reports = a_host("w1", states="d", load={"h_vmem": "3G"})
    worker = replace(self_enrolled(reports), note=replace(INCOMPLETE, completed_at=NOW - 5))
    assert acts(plan(a_snapshot(worker, enrols_itself=True))) == [("enable", "w1")]


def test_a_host_that_stays_incomplete_is_removed_with_that_reason() -> None:
    late = replace(INCOMPLETE, disabled_at=NOW - 900, empty_since=NOW - 60, completed_at=NOW - 20)
    made = plan(a_snapshot(replace(self_enrolled(a_host("w1", states="d")), note=late), enrols_itself=True))
    assert acts(made) == [("remove", "w1")]
    assert codes(verdict_of(made, "w1").reason) == [Code.EMPTY, Code.INCOMPLETE_TIMEOUT]


def test_an_incomplete_host_that_a_person_enabled_is_completed() -> None:
    worker = replace(self_enrolled(a_host("w1")), note=INCOMPLETE)
    assert acts(plan(a_snapshot(worker, enrols_itself=True))) == [("enrol", "w1")]


def test_an_incomplete_host_that_runs_a_job_is_left_alone() -> None:
    worker = replace(self_enrolled(a_host("w1", used=1)), note=INCOMPLETE)
    assert verdict_and_code(plan(a_snapshot(worker, enrols_itself=True)), "w1") == ("keep", Code.RUNS_JOBS)


def test_a_silent_self_enrolled_host_not_disabled_yet_counts_as_joining() -> None:
    """It makes itself a host, and disables itself with the next command."""
    made = plan(a_snapshot(self_enrolled(a_host("w1", heard=False)), enrols_itself=True))
    assert (acts(made), made.memory.workers["i-w1"].disabling) == ([], Disabling.ENROL)


@pytest.mark.parametrize(
    ("host", "ready", "action"),
    (
        (a_host("w1"), True, [("enrol", "w1")]),
        (a_host("w1"), False, []),
        (a_host("w1", used=1), True, []),
        (replace(COMPLETE, instances=a_host("w1").instances), True, []),
    ),
    ids=("incomplete", "not ready", "runs a job", "complete"),
)
def test_a_worker_that_its_image_enabled_is_completed_if_ready_and_empty(
    host: ExecutionHost, ready: bool, action: list[tuple[str, object]]
) -> None:
    assert acts(plan(a_snapshot(self_enrolled(host, ready=ready), enrols_itself=True))) == action


def test_a_self_enrolled_worker_that_is_not_ready_stays_disabled() -> None:
    ready, not_ready = (a_worker(states="d", known=False, ready=each) for each in (True, False))
    assert acts(plan(a_snapshot(not_ready, enrols_itself=True))) == []
    assert acts(plan(a_snapshot(ready, enrols_itself=True))) != []


def test_a_self_enrolled_worker_that_a_person_disabled_later_is_left_alone() -> None:
    made = plan(a_snapshot(a_worker(states="d"), enrols_itself=True))
    assert verdict_and_code(made, "w1") == ("keep", Code.DISABLED_BY_HAND)


def test_stop_now_terminates_a_booting_machine() -> None:
    made = plan(a_snapshot(a_machine("w1", state=MachineState.PENDING), Overrides(stop="now")))
    assert [(type(action).__name__, getattr(action, "failure", None)) for action in made.actions] == [
        ("Terminate", None)
    ]


DRAIN = Overrides(stop="drain")


@pytest.mark.parametrize(
    ("machine", "action"),
    (
        (a_machine("w1", state=MachineState.PENDING), ("terminate", "w1")),
        (a_machine("w1"), ("terminate", "w1")),
        (a_worker(mark=Disabling.ENROL, heard=True, age=60), None),
        (a_worker(mark=Disabling.ENROL, empty=60), ("remove", "w1")),
    ),
    ids=("booting", "running", "reporting", "observed empty"),
)
def test_stop_drain_without_waiting_jobs_removes_joining_workers(
    machine: AWorker, action: tuple[str, str] | None
) -> None:
    assert acts(plan(a_snapshot(machine, DRAIN))) == ([action] if action else [])


def test_during_stop_drain_a_machine_that_a_waiting_job_may_use_is_enrolled() -> None:
    assert acts(plan(a_snapshot(a_machine("w1"), a_job(slots=2), DRAIN))) == [("enrol", "w1")]


def test_during_stop_drain_a_machine_that_a_person_keeps_is_enrolled() -> None:
    overrides = replace(DRAIN, keep=frozenset({"w1"}))
    assert acts(plan(a_snapshot(a_machine("w1"), overrides))) == [("enrol", "w1")]


def test_a_machine_terminated_by_stop_drain_before_it_joined_is_not_a_failure() -> None:
    retired = replace(ENROLLED, retired_at=NOW - 100)
    (action,) = plan(a_snapshot(a_machine("w1", note=retired), DRAIN)).actions
    assert isinstance(action, Terminate)
    assert action.failure is None


def test_a_machine_whose_name_a_newer_one_has_is_set_aside() -> None:
    old = a_machine("w1", id="i-old", age=5000, note=replace(SEEN, retired_at=NOW - 100))
    new = a_worker("w1", id="i-new", used=1)
    made = plan(a_snapshot(old, new))
    assert {verdict.id: verdict.reason.code for verdict in made.workers} == {
        "i-old": Code.NAME_TAKEN,
        "i-new": Code.RUNS_JOBS,
    }


def test_a_removed_machine_is_not_terminated_while_a_host_of_its_name_runs_jobs() -> None:
    found = a_machine("w1", note=replace(SEEN, retired_at=NOW - 100))
    assert acts(plan(a_snapshot(found, a_host("w1", used=1)))) == []


def test_full_and_short_host_names_match() -> None:
    made = plan(a_snapshot(a_machine("w1.cluster.local", type_=LARGE), a_host("w1")))
    assert [verdict.id for verdict in made.workers] == ["i-w1.cluster.local"]


def test_names_in_different_domains_are_different_hosts() -> None:
    made = plan(a_snapshot(a_machine("w1.cluster.local"), a_host("w1.other.local"), Memory()))
    assert verdict_and_code(made, "w1.other.local") == ("keep", Code.PERSISTENT)


def test_a_joining_worker_that_a_person_enables_still_counts_as_coming() -> None:
    early = a_worker(mark=Disabling.ENROL, heard=False, states="u", age=60.0)
    assert early.note is not None
    early = replace(early, note=replace(early.note, seen_disabled=True, first_seen=NOW - 60, joined_at=None))
    made = plan(a_snapshot(early, a_job(waited=9999)))
    assert (launched(made), verdict_and_code(made, "w1")) == ({}, ("wait", Code.JOINING))


def test_a_host_whose_enrolment_is_undone_repeatedly_leaves_after_the_boot_timeout() -> None:
    """Its slots are taken away each time: it reported, and is enrolled again and again."""
    note = replace(ENROLLED, disabled_at=NOW - 30, enrolling_since=NOW - 1000, joined_at=NOW - 950)
    worker = replace(a_worker("w1", host=a_host("w1", slots=0, states="d"), age=1000), note=note)
    made = plan(a_snapshot(worker, boot_timeout=900))
    assert not any(isinstance(action, Enrol) for action in made.actions)
    assert verdict_and_code(made, "w1")[1] is not Code.BOOTED  # it leaves


def test_an_enrolment_that_is_tried_again_counts_from_its_first_try() -> None:
    note = replace(ENROLLED, disabled_at=NOW - 60, enrolling_since=NOW - 300)
    made = plan(a_snapshot(a_machine("w1", note=note)))
    assert [type(action) for action in made.actions] == [Enrol]
    assert made.memory.workers["i-w1"].enrolling_since == NOW - 300


def test_the_reason_of_an_enrolment_has_the_boot_time() -> None:
    (enrol,) = plan(a_snapshot(a_machine(age=75.0))).actions
    assert (enrol.reason.code, enrol.reason["after_s"]) == (Code.BOOTED, 75.0)
