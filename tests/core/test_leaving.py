"""How a worker leaves: disabled, observed empty twice, removed, terminated; and which never leave (rules 1, 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Enable
from autoscaler.core.model.cluster import ExecutionHost, QueueInstance
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.workers.marks import FOR_GOOD, MARKS
from autoscaler.core.workers.worker_observation import LATE_EFFECT
from autoscaler.report.sentence import brief
from autoscaler.report.wording import text
from tests.core.building import (
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
    jobs,
    verdict_and_code,
    verdict_of,
)

IDLE, BROKEN, COMMAND = Disabling.IDLE, Disabling.BROKEN, Disabling.COMMAND


def with_note(worker: AWorker, **changes: object) -> AWorker:
    assert worker.note is not None
    return replace(worker, note=replace(worker.note, **changes))  # type: ignore[arg-type]


def test_a_disabled_worker_observed_empty_once_waits_for_a_second_observation() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.SECOND_OBSERVATION))


def test_the_first_observation_of_a_worker_disabled_and_empty_is_remembered() -> None:
    note = plan(a_snapshot(a_worker(mark=IDLE))).memory.workers["i-w1"]
    assert (note.seen_disabled, note.empty_since) == (True, NOW)


def test_two_observations_within_a_scheduler_interval_do_not_suffice_for_a_removal() -> None:
    assert acts(plan(a_snapshot(a_worker(mark=IDLE, empty=14.9)))) == []


def test_a_worker_is_removed_after_two_observations_a_scheduler_interval_apart() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=15)))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([("remove", "w1")], [Code.EMPTY, Code.IDLE])


@pytest.mark.parametrize(("seconds", "expected"), ((5, []), (60, [("remove", "w1")])))
def test_a_worker_enabled_a_moment_ago_is_not_removed_before_that_can_show(
    seconds: float, expected: list[tuple[str, str]]
) -> None:
    """Also if the job it was enabled for is served by now: a job may be on its way to it."""
    enabled = with_note(a_worker(mark=IDLE, empty=60), enabled_at=NOW - seconds)
    assert acts(plan(a_snapshot(enabled))) == expected


def test_an_observed_job_resets_the_two_observations() -> None:
    busy = plan(a_snapshot(a_worker(mark=IDLE, empty=60, used=1))).memory
    assert busy.workers["i-w1"].empty_since is None


@pytest.mark.parametrize("state", ("r", "s", "S", "T", "t", "Rr", "dr", "dt"))
@pytest.mark.parametrize("mark", (IDLE, BROKEN, COMMAND, Disabling.STOP, Disabling.ENROL))
def test_a_job_in_any_state_keeps_a_disabled_worker(state: str, mark: Disabling) -> None:
    host = a_host("w1", used=1, job_state=state, states="d")
    assert acts(plan(a_snapshot(a_worker(mark=mark, empty=999, host=host, heard=False)))) in ([], [("enable", "w1")])


def test_a_reserved_slot_keeps_a_disabled_worker() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=99, host=a_host("w1", reserved=1, states="d"))))
    assert (acts(made), verdict_of(made, "w1").reason.code) == ([], Code.RESERVED)


def test_a_job_in_another_queue_keeps_a_disabled_worker() -> None:
    other = QueueInstance("other.q", "w1", 2, 1, 0, "d", a_host("w1", used=1).instances[0].jobs)
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=99, host=a_host("w1", states="d", more=(other,)))))
    assert acts(made) == []


def test_a_worker_with_an_enabled_queue_instance_is_not_removed() -> None:
    other = QueueInstance("other.q", "w1", 2, 0, 0, "")
    worker = with_note(a_worker(mark=IDLE, host=a_host("w1", states="d", more=(other,))), empty_since=NOW - 99)
    assert ("remove", "w1") not in acts(plan(a_snapshot(worker)))


def test_a_draining_worker_is_disabled_in_a_queue_added_later() -> None:
    other = QueueInstance("other.q", "w1", 2, 0, 0, "")
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=15, host=a_host("w1", states="d", more=(other,)))))
    assert acts(made) == [("disable", "w1")]
    note = made.memory.workers["i-w1"]
    assert (note.disabling, note.empty_since) == (IDLE, None)


def drained_in_two_queues(own: str, other: str, *, enabled: float | None = None) -> AWorker:
    """A worker that drains, with the states of its two queues; both were disabled."""
    host = a_host("w1", states=own, more=(QueueInstance("other.q", "w1", 2, 0, 0, other),))
    worker = a_worker(host=host, mark=IDLE, empty=60)
    assert worker.note is not None
    at = None if enabled is None else NOW - enabled
    return replace(worker, note=replace(worker.note, disabled_queues=("main.q", "other.q"), enabled_at=at))


def test_a_person_may_enable_only_its_own_queue_of_a_draining_worker() -> None:
    made = plan(a_snapshot(drained_in_two_queues("", "d")))
    assert (acts(made), made.memory.workers["i-w1"].disabling) == ([], None)


def test_an_own_queue_that_a_person_disables_once_ours_were_enabled_is_theirs() -> None:
    made = plan(a_snapshot(drained_in_two_queues("d", "", enabled=5)))
    assert verdict_and_code(made, "w1") == ("keep", Code.DISABLED_BY_HAND)


def test_a_failed_enabling_and_a_new_queue_are_no_persons_doing() -> None:
    host = a_host("w1", states="d", more=(QueueInstance("new.q", "w1", 2, 0, 0),))
    worker = a_worker(host=host, mark=IDLE, empty=60)
    assert worker.note is not None
    note = replace(worker.note, disabled_queues=("main.q",), enabled_at=NOW - 60)
    made = plan(a_snapshot(replace(worker, note=note)))
    assert (acts(made), made.memory.workers["i-w1"].disabling) == ([("disable", "w1")], IDLE)


def test_a_disabling_without_effect_is_repeated_after_a_while() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, states="", disabled=15, idle=900)))
    assert acts(made) == [("disable", "w1")]


def test_a_disabling_without_effect_is_not_repeated_at_once() -> None:
    assert acts(plan(a_snapshot(a_worker(mark=IDLE, states="", disabled=14, idle=900)))) == []


def without_effect(**more: Any) -> AWorker:
    """A worker that `qmod -d` was to disable as idle a moment ago, and that still shows as enabled."""
    return a_worker(mark=IDLE, states="", disabled=5, idle=900, **more)


def test_a_worker_whose_disabling_failed_is_supply_for_jobs_that_came_since() -> None:
    made = plan(a_snapshot(a_job(), without_effect()))
    assert (acts(made), verdict_of(made, "w1").verdict) == ([], "keep")


@pytest.mark.parametrize("seconds", (5, 15, 60))
def test_a_worker_that_became_busy_after_its_disabling_failed_is_not_closed_as_idle(seconds: float) -> None:
    busy = a_worker(mark=IDLE, states="", disabled=seconds, idle=900, used=1)
    made = plan(a_snapshot(busy))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.RUNS_JOBS))


@pytest.mark.parametrize("mark", sorted(FOR_GOOD))
def test_a_worker_that_leaves_for_good_is_disabled_again_if_that_failed(mark: Disabling) -> None:
    assert acts(plan(a_snapshot(a_worker(mark=mark, states="", disabled=60)))) == [("disable", "w1")]


@pytest.mark.parametrize(("seconds", "mark"), ((60, IDLE), (LATE_EFFECT, None)))
def test_a_disabling_that_takes_effect_late_is_ours_for_a_while(seconds: float, mark: Disabling | None) -> None:
    note = WorkerNote(LONG_AGO, joined_at=LONG_AGO, host="w1", tried=IDLE, tried_at=NOW - seconds)
    made = plan(a_snapshot(replace(a_worker(states="d"), note=note)))
    assert made.memory.workers["i-w1"].disabling is mark


def test_a_failed_disabling_counts_for_the_batch_until_it_is_tried_again() -> None:
    made = plan(a_snapshot(without_effect(), a_worker("w2", idle=900), scale_down_batch=1))
    assert acts(made) == []


def test_a_draining_worker_that_jobs_need_is_enabled_instead_of_a_launch() -> None:
    made = plan(a_snapshot(a_job(), a_worker(mark=IDLE, empty=99)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.NEEDED_AGAIN))


def test_a_draining_worker_is_not_enabled_for_jobs_that_fit_elsewhere() -> None:
    assert acts(plan(a_snapshot(a_job(), a_host(), a_worker(mark=IDLE, empty=99)))) == [("remove", "w1")]


def test_a_draining_worker_is_not_enabled_for_jobs_that_do_not_fit_on_it() -> None:
    made = plan(a_snapshot(a_job(slots=4), a_worker(mark=IDLE, empty=99)))
    assert acts(made) == [("remove", "w1")]


def test_only_as_many_draining_workers_are_enabled_as_needed() -> None:
    workers = [a_worker(f"w{n}", mark=IDLE, empty=99) for n in range(3)]
    assert acts(plan(a_snapshot(jobs(2), *workers))) == [("enable", "w0"), ("remove", "w1"), ("remove", "w2")]


def test_a_worker_disabled_as_broken_is_not_enabled_for_jobs() -> None:
    assert ("enable", "w1") not in acts(plan(a_snapshot(a_job(), a_worker(mark=BROKEN))))


def test_a_worker_whose_removal_has_begun_is_not_enabled_for_jobs() -> None:
    host = ExecutionHost("w1", (), heard=True)
    worker = with_note(a_worker(mark=IDLE, empty=99, host=host), retired_at=NOW - 5)
    assert ("enable", "w1") not in acts(plan(a_snapshot(a_job(), worker)))


def test_a_worker_whose_removal_failed_is_enabled_for_jobs_that_came_since() -> None:
    worker = with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 5)
    assert acts(plan(a_snapshot(a_job(), worker))) == [("enable", "w1")]


def test_a_removal_that_fails_again_and_again_counts_once_for_the_circuit_breaker() -> None:
    worker = with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 99)
    made = plan(a_snapshot(worker))
    assert (acts(made), made.memory.removals) == ([("remove", "w1")], ())


def test_a_removal_is_not_repeated_before_its_effect_can_show() -> None:
    assert acts(plan(a_snapshot(with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 14)))) == []


def test_a_removal_that_was_lost_is_repeated() -> None:
    made = plan(a_snapshot(with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 15)))
    assert acts(made) == [("remove", "w1")]


def test_a_removal_is_cancelled_if_a_job_started() -> None:
    made = plan(a_snapshot(with_note(a_worker(mark=IDLE, empty=99, used=1), retired_at=NOW - 15)))
    assert (acts(made), made.memory.workers["i-w1"].retired_at) == ([], None)


RETIRED = WorkerNote(first_seen=LONG_AGO, disabling=IDLE, disabled_at=NOW - 99, retired_at=NOW - 5, host="w1")


def test_a_machine_that_is_no_longer_an_execution_host_is_terminated() -> None:
    made = plan(a_snapshot(a_machine(note=RETIRED)))
    assert (acts(made), verdict_and_code(made, "w1")) == (
        [("terminate", "w1")],
        ("terminate", Code.REMOVED_FROM_GRID_ENGINE),
    )


def test_a_termination_is_not_repeated_at_once() -> None:
    assert acts(plan(a_snapshot(a_machine(note=replace(RETIRED, terminated_at=NOW - 14))))) == []


def test_a_termination_without_effect_is_repeated_after_a_while() -> None:
    made = plan(a_snapshot(a_machine(note=replace(RETIRED, terminated_at=NOW - 15))))
    assert acts(made) == [("terminate", "w1")]


def test_a_stopping_machine_is_not_terminated_again() -> None:
    made = plan(a_snapshot(a_machine(note=RETIRED, state=MachineState.STOPPING)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.ENDING))


def test_a_host_listed_only_by_qconf_is_still_an_execution_host() -> None:
    made = a_snapshot(a_machine(note=RETIRED))
    known = replace(made, cluster=replace(made.cluster, execution_hosts=frozenset({"w1"})))
    assert ("terminate", "w1") not in acts(plan(known))


# -- people ------------------------------------------------------------------------------------------------------


def test_a_host_that_a_person_disabled_is_left_alone() -> None:
    made = plan(a_snapshot(a_worker(states="d", idle=9999)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def test_a_host_disabled_by_a_calendar_is_not_disabled_by_hand() -> None:
    assert verdict_and_code(plan(a_snapshot(a_worker(states="D"))), "w1")[1] is not Code.DISABLED_BY_HAND


def test_a_host_that_a_person_enabled_again_is_left_in_service() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, states="", empty=99, disabled=99)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.ENABLED_BY_HAND))


def test_once_a_worker_is_observed_enabled_its_draining_is_forgotten() -> None:
    """Else what it is disabled for the next time would begin with what was observed the last time."""
    enabled = with_note(a_worker(mark=IDLE, used=1, empty=60, states=""), enabled_at=NOW - 5)
    note = plan(a_snapshot(enabled)).memory.workers["i-w1"]
    assert (note.disabling, note.disabled_at, note.seen_disabled, note.enabled_at) == (None, None, False, None)


def test_the_idle_time_of_a_host_that_a_person_enabled_begins_again() -> None:
    note = plan(a_snapshot(a_worker(mark=IDLE, states="", empty=99))).memory.workers["i-w1"]
    assert (note.disabling, note.idle_since) == (None, NOW)


def test_a_persistent_host_is_never_touched() -> None:
    made = plan(a_snapshot(a_host("h1"), a_host("master")))
    assert [(verdict.verdict, verdict.reason.code) for verdict in made.workers] == [
        ("keep", Code.PERSISTENT),
        ("keep", Code.QMASTER_HOST),
    ]


def test_a_silent_host_with_the_name_of_a_worker_that_has_left_is_recognised_and_never_touched() -> None:
    seen = a_snapshot(a_host("w9", heard=False, states="u"), a_host("h1", heard=False, states="u"))
    made = plan(replace(seen, memory=replace(seen.memory, left_hosts=("w9",))))
    assert {verdict.name: (verdict.verdict, verdict.reason.code) for verdict in made.workers} == {
        "h1": ("keep", Code.PERSISTENT),
        "w9": ("keep", Code.HOST_OF_LEFT_WORKER),
    }
    assert made.actions == ()


def test_a_worker_of_an_unknown_node_array_is_never_touched() -> None:
    made = plan(a_snapshot(a_worker(idle=9999, node_array="gone"), a_machine("w2", node_array="gone")))
    assert (acts(made), verdict_and_code(made, "w2")) == ([], ("keep", Code.UNKNOWN_NODE_ARRAY))


@pytest.mark.parametrize(
    ("worker", "does"),
    (
        (a_worker("w1", node_array="gone", used=1), "disable"),
        (a_worker("w1", node_array="gone", states="d"), "disable"),
        (a_worker("w1", node_array="gone", mark=Disabling.COMMAND, empty=99, used=1), None),
        (a_worker("w1", node_array="gone", mark=Disabling.COMMAND, empty=99), "remove"),
        (a_machine("w1", node_array="gone"), "terminate"),
    ),
)
def test_a_drained_worker_of_an_unknown_node_array_leaves_like_any_other(worker: AWorker, does: str | None) -> None:
    made = plan(a_snapshot(worker, Overrides(drain=frozenset({"w1"}))))
    assert acts(made) == ([] if does is None else [(does, "w1")])


def test_an_idle_worker_without_a_load_report_is_only_reported() -> None:
    made = plan(a_snapshot(a_worker(idle=9999, heard=False, states="u")))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.NO_LOAD_REPORT))


def test_an_unlisted_worker_is_only_reported() -> None:
    seen = a_snapshot(a_worker(idle=9999))
    unlisted = replace(seen, fleet=replace(seen.fleet, workers=()))
    made = plan(unlisted)
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("wait", Code.NOT_LISTED))


def test_an_unlisted_workers_note_is_kept() -> None:
    seen = a_snapshot(a_machine(note=RETIRED))
    note = plan(replace(seen, fleet=replace(seen.fleet, workers=()))).memory.workers["i-w1"]
    assert (note.retired_at, note.missing_since) == (NOW - 5, NOW)


def test_a_worker_unlisted_for_long_is_forgotten() -> None:
    seen = a_snapshot(a_machine(note=replace(RETIRED, missing_since=NOW - 600)))
    assert plan(replace(seen, fleet=replace(seen.fleet, workers=()))).memory.workers == {}


# -- commands ----------------------------------------------------------------------------------------------------


def test_a_drained_worker_is_disabled_even_while_it_runs_jobs() -> None:
    made = plan(a_snapshot(a_worker(used=2), Overrides(drain=frozenset({"w1"}))))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("disable", "w1")], ("disable", Code.DRAINED_BY_COMMAND))


@pytest.mark.parametrize(
    ("overrides", "words"),
    (
        (Overrides(drain=frozenset({"w1"}), asked_by={"w1": "ann"}), "drained by command of ann"),
        (Overrides(drain=frozenset({"i-w1"}), asked_by={"i-w1": "ann", "w1": "bob"}), "drained by command of ann"),
        (Overrides(keep=frozenset({"w1"}), asked_by={"w1": "ann"}), "kept by command of ann"),
        (Overrides(drain=frozenset({"w1"})), "drained by command"),
    ),
)
def test_a_reason_names_who_keeps_or_drains_a_worker(overrides: Overrides, words: str) -> None:
    made = plan(a_snapshot(a_worker(idle=999), overrides))
    assert brief(verdict_of(made, "w1").reason) == words


@pytest.mark.parametrize("how", ("now", "drain"))
def test_a_reason_names_who_stops_the_autoscaler(how: str) -> None:
    made = plan(a_snapshot(a_worker(idle=999), Overrides(stop=how, stopped_by="ann")))
    assert text(verdict_of(made, "w1").reason) == f"the autoscaler stops ({how}) and releases its workers: ann"


def test_a_drained_worker_that_is_set_aside_leaves_by_the_name_of_who_drains_it() -> None:
    by_ann = Overrides(drain=frozenset({"w1"}), asked_by={"w1": "ann"})
    made = plan(a_snapshot(a_worker(node_array="former"), by_ann))
    assert text(verdict_of(made, "w1").reason) == "a person drains it: ann"


def test_a_drained_worker_is_not_enabled_for_jobs() -> None:
    made = plan(a_snapshot(a_job(), a_worker(mark=COMMAND, empty=99), Overrides(drain=frozenset({"w1"}))))
    assert ("remove", "w1") in acts(made)


def test_a_worker_that_a_person_disabled_can_be_drained() -> None:
    made = plan(a_snapshot(a_worker(states="d"), Overrides(drain=frozenset({"w1"}))))
    assert acts(made) == [("disable", "w1")]


def test_a_kept_worker_is_never_disabled() -> None:
    made = plan(a_snapshot(a_worker(idle=9999), Overrides(keep=frozenset({"w1"}))))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.KEPT_BY_COMMAND))


def test_a_kept_worker_that_was_draining_is_enabled() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=99), Overrides(keep=frozenset({"w1"}))))
    assert acts(made) == [("enable", "w1")]


@pytest.mark.parametrize("mark", sorted(FOR_GOOD))
def test_a_kept_worker_that_drains_for_good_is_neither_removed_nor_enabled(mark: Disabling) -> None:
    made = plan(a_snapshot(a_job(), a_worker(mark=mark, empty=99), Overrides(keep=frozenset({"w1"}))))
    assert ("enable", "w1") not in acts(made)
    assert ("remove", "w1") not in acts(made)
    assert verdict_and_code(made, "w1") == ("keep", Code.KEPT_BY_COMMAND)


@pytest.mark.parametrize("mark", sorted(FOR_GOOD))
def test_a_worker_that_drains_for_good_is_removed_despite_keep_alive(mark: Disabling) -> None:
    made = plan(a_snapshot(a_worker(mark=mark, empty=99), keep_alive=("night",)))
    assert acts(made) == [("remove", "w1")]


def test_stop_now_disables_all_workers_in_service_except_kept_ones() -> None:
    workers = (a_worker("w1", used=1), a_worker("w2"), a_worker("w3"))
    made = plan(a_snapshot(*workers, jobs(9), Overrides(stop="now", keep=frozenset({"w3"}))))
    assert sorted(acts(made)) == [("disable", "w1"), ("disable", "w2")]


def test_stop_drain_keeps_workers_for_waiting_jobs_and_launches_none() -> None:
    workers = (a_worker("w1", used=1), a_worker("w2"))
    assert acts(plan(a_snapshot(*workers, jobs(9), Overrides(stop="drain")))) == []


def test_stop_drain_disables_all_unneeded_workers_at_once() -> None:
    workers = (a_worker("w1", used=2), a_worker("w2"), a_worker("w3"), a_worker("w4"))
    made = plan(a_snapshot(*workers, jobs(1), Overrides(stop="drain"), limits=Limits(min_workers=2)))
    assert (len(acts(made)), {verdict for verdict, _ in acts(made)}) == (2, {"disable"})


def test_stop_drain_removes_workers_even_while_paused() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.STOP, empty=60), Overrides(stop="drain", paused=True)))
    assert acts(made) == [("remove", "w1")]


def test_stop_now_removes_an_empty_worker_that_was_only_enrolled() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.ENROL, empty=60), Overrides(stop="now")))
    assert acts(made) == [("remove", "w1")]


def test_stop_now_removes_workers_even_while_paused() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.STOP, empty=60), Overrides(stop="now", paused=True)))
    assert acts(made) == [("remove", "w1")]


def test_a_pause_stops_scale_down() -> None:
    workers = (a_worker("w1", idle=999), a_worker("w2", mark=IDLE, empty=99), a_machine("w3", note=RETIRED))
    made = plan(a_snapshot(*workers, Overrides(paused=True, paused_by="ann")))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([], [Code.IDLE, Code.PAUSED])


def test_every_disabling_mark_has_a_row() -> None:
    assert set(MARKS) == set(Disabling)


@pytest.mark.parametrize("stop", (None, "drain", "now"))
def test_a_hand_disabled_worker_leaves_only_by_drain_and_not_by_stop(stop: str | None) -> None:
    by_hand = a_worker(states="d")
    left, drained = (plan(a_snapshot(by_hand, Overrides(stop=stop, drain=frozenset(hosts)))) for hosts in ((), ("w1",)))
    assert (acts(left), verdict_and_code(left, "w1")[1], verdict_and_code(drained, "w1")[1]) == (
        [],
        Code.DISABLED_BY_HAND,
        Code.DRAINED_BY_COMMAND,
    )
    assert acts(drained)


# -- a command undone -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", (COMMAND, Disabling.STOP))
@pytest.mark.parametrize("used", (0, 2))
def test_a_worker_is_enabled_when_the_command_that_disabled_it_is_undone(mark: Disabling, used: int) -> None:
    made = plan(a_snapshot(a_worker(mark=mark, used=used)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.COMMAND_UNDONE))


@pytest.mark.parametrize("overrides", (Overrides(drain=frozenset({"w1"})), Overrides(stop="now")))
def test_a_worker_is_not_enabled_while_its_command_holds(overrides: Overrides) -> None:
    assert ("enable", "w1") not in acts(plan(a_snapshot(a_worker(mark=COMMAND, used=2), overrides)))


def test_a_worker_hand_disabled_before_a_drain_stays_disabled_when_the_drain_is_undone() -> None:
    drained = plan(a_snapshot(a_worker(states="d", used=2), Overrides(drain=frozenset({"w1"}))))
    note = drained.memory.workers["i-w1"]
    assert (note.disabling, note.left_disabled) == (COMMAND, ("main.q",))
    undone = plan(a_snapshot(replace(a_worker(states="d", used=2), note=note)))
    note = undone.memory.workers["i-w1"]
    assert (acts(undone), verdict_and_code(undone, "w1")[1], note.disabling) == ([], Code.DISABLED_BY_HAND, None)
    after = plan(a_snapshot(replace(a_worker(states="d", used=2), note=note)))
    assert (acts(after), verdict_and_code(after, "w1")[1]) == ([], Code.DISABLED_BY_HAND)


def test_an_earlier_disabling_by_hand_is_forgotten_when_an_enabled_worker_is_drained() -> None:
    worker = a_worker(used=2)
    assert worker.note is not None
    before = replace(worker, note=replace(worker.note, left_disabled=("main.q",)))
    drained = plan(a_snapshot(before, Overrides(drain=frozenset({"w1"}))))
    assert (acts(drained), drained.memory.workers["i-w1"].left_disabled) == ([("disable", "w1")], ())


def with_other(states: str, other: str, **kwargs: Any) -> AWorker:
    """A worker of main.q on which other.q has slots, too, with the state letters of each."""
    there = QueueInstance("other.q", "w1", 2, 0, 0, other)
    return a_worker(host=a_host("w1", states=states, used=kwargs.pop("used", 0), more=(there,)), **kwargs)


def test_a_worker_with_another_queue_hand_disabled_serves_jobs_and_leaves_like_any_other() -> None:
    busy, idle = plan(a_snapshot(with_other("", "d", used=1))), plan(a_snapshot(with_other("", "d", idle=9999)))
    room = plan(a_snapshot(a_job(), with_other("", "d", idle=9999)))
    assert (verdict_and_code(busy, "w1")[1], acts(idle), acts(room)) == (Code.RUNS_JOBS, [("disable", "w1")], [])
    assert idle.memory.workers["i-w1"].left_disabled == ("other.q",)


@pytest.mark.parametrize("states", (("d", ""), ("d", "d")))
def test_a_worker_with_its_own_queue_hand_disabled_is_left_alone(states: tuple[str, str]) -> None:
    made = plan(a_snapshot(with_other(*states, idle=9999)))
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


@pytest.mark.parametrize("states", (("", "d"), ("d", "")))
def test_after_stop_now_only_queues_that_no_person_had_disabled_are_enabled_again(
    states: tuple[str, str],
) -> None:
    opened = tuple(queue for queue, letters in zip(("main.q", "other.q"), states, strict=True) if not letters)
    stopped = plan(a_snapshot(with_other(*states, used=1), Overrides(stop="now")))
    note = stopped.memory.workers["i-w1"]
    assert (acts(stopped), verdict_and_code(stopped, "w1")[1]) == ([("disable", "w1")], Code.STOPPING)
    resumed = plan(a_snapshot(replace(with_other("d", "d", used=1), note=replace(note, seen_disabled=True))))
    assert [(action.kind, action.queues) for action in resumed.actions if isinstance(action, Enable)] == [
        ("enable", opened)
    ]


def test_a_queue_that_a_person_enables_during_a_drain_is_enabled_when_the_drain_is_undone() -> None:
    drain = Overrides(drain=frozenset({"w1"}))
    disabled = plan(a_snapshot(with_other("", "d", used=1), drain)).memory.workers["i-w1"]
    opened = replace(with_other("d", "", used=1), note=replace(disabled, seen_disabled=True, disabled_at=NOW - 60))
    again = plan(a_snapshot(opened, drain))
    note = again.memory.workers["i-w1"]
    assert (disabled.left_disabled, acts(again), note.left_disabled) == (("other.q",), [("disable", "w1")], ())
    undone = plan(a_snapshot(replace(with_other("d", "d", used=1), note=replace(note, seen_disabled=True))))
    assert [action.queues for action in undone.actions if isinstance(action, Enable)] == [()]


def test_stop_drain_disables_an_empty_worker_with_another_queue_hand_disabled() -> None:
    made = plan(a_snapshot(with_other("", "d", idle=0), Overrides(stop="drain")))
    assert (acts(made), verdict_and_code(made, "w1")[1]) == ([("disable", "w1")], Code.STOPPING)


def test_stop_now_leaves_a_wholly_hand_disabled_worker_alone() -> None:
    assert acts(plan(a_snapshot(with_other("d", "d"), Overrides(stop="now")))) == []


def test_a_draining_worker_whose_queue_a_person_had_disabled_is_not_supply() -> None:
    """Enabled for that job it would be idle again: the job would wait for ever."""
    in_part = with_note(with_other("d", "d", mark=IDLE, empty=5), left_disabled=("main.q",))
    whole = with_note(a_worker(mark=IDLE, empty=5), left_disabled=("main.q",))
    for worker in (in_part, whole):
        assert [kind for kind, _ in acts(plan(a_snapshot(a_job(), worker)))] == ["launch"]


def test_an_earlier_hand_disabled_worker_is_not_enabled_when_its_drain_is_undone() -> None:
    worker = with_note(a_worker(mark=COMMAND, empty=5), left_disabled=("main.q",))
    for more in ((a_job(),), (Overrides(keep=frozenset({"w1"})),)):
        made = plan(a_snapshot(worker, *more))
        assert (verdict_and_code(made, "w1")[1], ("enable", "w1") in acts(made)) == (Code.DISABLED_BY_HAND, False)


def test_our_mark_is_removed_when_a_person_enables_the_worker_though_another_queue_stays_disabled() -> None:
    worker = with_note(with_other("", "d", mark=IDLE), left_disabled=("other.q",), seen_disabled=True)
    note = plan(a_snapshot(worker)).memory.workers["i-w1"]
    assert (note.disabling, note.left_disabled) == (None, ())
