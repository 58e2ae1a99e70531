"""How a worker leaves: disabled first, seen empty twice, removed, ended; and who is never touched (rules 1 and 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.actions import Enable
from autoscaler.core.model.cluster import QueueInstance
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.workers.marks import FOR_GOOD, MARKS
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
    told,
    verdict_of,
)

IDLE, BROKEN, COMMAND = Disabling.IDLE, Disabling.BROKEN, Disabling.COMMAND


def with_note(worker: AWorker, **changes: object) -> AWorker:
    assert worker.note is not None
    return replace(worker, note=replace(worker.note, **changes))  # type: ignore[arg-type]


def test_a_disabled_worker_seen_empty_for_the_first_time_is_looked_at_again() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE)))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.SECOND_OBSERVATION))


def test_the_first_look_at_it_disabled_and_empty_is_remembered() -> None:
    note = plan(a_snapshot(a_worker(mark=IDLE))).memory.workers["i-w1"]
    assert (note.seen_disabled, note.empty_since) == (True, NOW)


def test_two_looks_less_than_a_scheduler_interval_apart_are_not_enough() -> None:
    assert acts(plan(a_snapshot(a_worker(mark=IDLE, empty=14.9)))) == []


def test_two_looks_a_scheduler_interval_apart_let_it_go() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=15)))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([("remove", "w1")], [Code.EMPTY, Code.IDLE])


@pytest.mark.parametrize(("seconds", "expected"), ((5, []), (60, [("remove", "w1")])))
def test_one_that_was_let_in_a_moment_ago_is_not_removed_before_that_can_show(
    seconds: float, expected: list[tuple[str, str]]
) -> None:
    """Also where what it was let in for is served by now: a job may be on its way to it."""
    let_in = with_note(a_worker(mark=IDLE, empty=60), enabled_at=NOW - seconds)
    assert acts(plan(a_snapshot(let_in))) == expected


def test_a_job_seen_on_it_makes_the_two_looks_begin_anew() -> None:
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


def test_a_worker_of_which_one_queue_is_open_is_not_removed() -> None:
    other = QueueInstance("other.q", "w1", 2, 0, 0, "")
    worker = with_note(a_worker(mark=IDLE, host=a_host("w1", states="d", more=(other,))), empty_since=NOW - 99)
    assert ("remove", "w1") not in acts(plan(a_snapshot(worker)))


def test_a_disabled_worker_that_gets_one_more_queue_is_disabled_there_too_and_leaves() -> None:
    other = QueueInstance("other.q", "w1", 2, 0, 0, "")
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=15, host=a_host("w1", states="d", more=(other,)))))
    assert acts(made) == [("disable", "w1")]
    note = made.memory.workers["i-w1"]
    assert (note.disabling, note.empty_since) == (IDLE, None)


def test_a_disabling_that_did_not_show_is_repeated_after_a_while() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, states="", disabled=15)))
    assert acts(made) == [("disable", "w1")]


def test_a_disabling_that_did_not_show_is_not_repeated_at_once() -> None:
    assert acts(plan(a_snapshot(a_worker(mark=IDLE, states="", disabled=14)))) == []


def test_a_draining_worker_that_waiting_jobs_can_use_is_enabled_rather_than_one_launched() -> None:
    made = plan(a_snapshot(a_job(), a_worker(mark=IDLE, empty=99)))
    assert (acts(made), told(made, "w1")) == ([("enable", "w1")], ("enable", Code.NEEDED_AGAIN))


def test_jobs_that_fit_elsewhere_do_not_call_it_back() -> None:
    assert acts(plan(a_snapshot(a_job(), a_host(), a_worker(mark=IDLE, empty=99)))) == [("remove", "w1")]


def test_jobs_that_do_not_fit_on_it_do_not_call_it_back() -> None:
    made = plan(a_snapshot(a_job(slots=4), a_worker(mark=IDLE, empty=99)))
    assert acts(made) == [("remove", "w1")]


def test_only_as_many_are_called_back_as_needed() -> None:
    workers = [a_worker(f"w{n}", mark=IDLE, empty=99) for n in range(3)]
    assert acts(plan(a_snapshot(jobs(2), *workers))) == [("enable", "w0"), ("remove", "w1"), ("remove", "w2")]


def test_a_worker_whose_queue_instance_failed_is_not_called_back() -> None:
    assert ("enable", "w1") not in acts(plan(a_snapshot(a_job(), a_worker(mark=BROKEN))))


def test_a_removed_worker_is_not_called_back() -> None:
    worker = with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 5)
    assert ("enable", "w1") not in acts(plan(a_snapshot(a_job(), worker)))


def test_a_removal_is_not_repeated_before_its_effect_can_show() -> None:
    assert acts(plan(a_snapshot(with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 14)))) == []


def test_a_removal_that_was_lost_is_repeated() -> None:
    made = plan(a_snapshot(with_note(a_worker(mark=IDLE, empty=99), retired_at=NOW - 15)))
    assert acts(made) == [("remove", "w1")]


def test_a_removal_refused_for_a_job_is_taken_back() -> None:
    made = plan(a_snapshot(with_note(a_worker(mark=IDLE, empty=99, used=1), retired_at=NOW - 15)))
    assert (acts(made), made.memory.workers["i-w1"].retired_at) == ([], None)


RETIRED = WorkerNote(first_seen=LONG_AGO, disabling=IDLE, disabled_at=NOW - 99, retired_at=NOW - 5, host="w1")


def test_a_machine_that_is_no_execution_host_any_more_is_ended() -> None:
    made = plan(a_snapshot(a_machine(note=RETIRED)))
    assert (acts(made), told(made, "w1")) == ([("terminate", "w1")], ("terminate", Code.REMOVED_FROM_GRID_ENGINE))


def test_a_machine_being_ended_is_not_ended_again_at_once() -> None:
    assert acts(plan(a_snapshot(a_machine(note=replace(RETIRED, terminated_at=NOW - 14))))) == []


def test_an_ending_that_did_not_show_is_repeated() -> None:
    made = plan(a_snapshot(a_machine(note=replace(RETIRED, terminated_at=NOW - 15))))
    assert acts(made) == [("terminate", "w1")]


def test_a_stopping_machine_is_left_to_end() -> None:
    made = plan(a_snapshot(a_machine(note=RETIRED, state=MachineState.STOPPING)))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.ENDING))


def test_a_host_known_by_qconf_only_is_still_an_execution_host() -> None:
    made = a_snapshot(a_machine(note=RETIRED))
    known = replace(made, cluster=replace(made.cluster, execution_hosts=frozenset({"w1"})))
    assert ("terminate", "w1") not in acts(plan(known))


# -- people ------------------------------------------------------------------------------------------------------


def test_a_host_that_a_person_disabled_is_left_alone() -> None:
    made = plan(a_snapshot(a_worker(states="d", idle=9999)))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def test_a_host_disabled_by_a_calendar_is_not_disabled_by_hand() -> None:
    assert told(plan(a_snapshot(a_worker(states="D"))), "w1")[1] is not Code.DISABLED_BY_HAND


def test_a_host_that_a_person_enabled_again_is_left_in_service() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, states="", empty=99, disabled=99)))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.ENABLED_BY_HAND))


def test_once_it_is_seen_enabled_nothing_of_its_leaving_is_remembered() -> None:
    """Else what it is disabled for the next time would begin with what was seen the last time."""
    let_in = with_note(a_worker(mark=IDLE, used=1, empty=60, states=""), enabled_at=NOW - 5)
    note = plan(a_snapshot(let_in)).memory.workers["i-w1"]
    assert (note.disabling, note.disabled_at, note.seen_disabled, note.enabled_at) == (None, None, False, None)


def test_a_host_that_a_person_enabled_again_must_be_idle_anew() -> None:
    note = plan(a_snapshot(a_worker(mark=IDLE, states="", empty=99))).memory.workers["i-w1"]
    assert (note.disabling, note.idle_since) == (None, NOW)


def test_a_persistent_host_is_never_touched() -> None:
    made = plan(a_snapshot(a_host("h1"), a_host("master")))
    assert [(verdict.verdict, verdict.reason.code) for verdict in made.workers] == [
        ("keep", Code.PERSISTENT),
        ("keep", Code.QMASTER_HOST),
    ]


def test_a_worker_of_an_unknown_node_array_is_never_touched() -> None:
    made = plan(a_snapshot(a_worker(idle=9999, node_array="gone"), a_machine("w2", node_array="gone")))
    assert (acts(made), told(made, "w2")) == ([], ("keep", Code.UNKNOWN_NODE_ARRAY))


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
def test_a_worker_of_an_unknown_node_array_leaves_as_others_do_when_a_person_drains_it(
    worker: AWorker, does: str | None
) -> None:
    made = plan(a_snapshot(worker, Overrides(drain=frozenset({"w1"}))))
    assert acts(made) == ([] if does is None else [(does, "w1")])


def test_an_unheard_worker_is_only_reported() -> None:
    made = plan(a_snapshot(a_worker(idle=9999, heard=False, states="u")))
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.NO_LOAD_REPORT))


def test_a_worker_that_the_listing_leaves_out_is_only_reported() -> None:
    seen = a_snapshot(a_worker(idle=9999))
    unlisted = replace(seen, fleet=replace(seen.fleet, workers=()))
    made = plan(unlisted)
    assert (acts(made), told(made, "w1")) == ([], ("wait", Code.NOT_LISTED))


def test_what_is_known_of_a_worker_outlives_a_lagging_listing() -> None:
    seen = a_snapshot(a_machine(note=RETIRED))
    note = plan(replace(seen, fleet=replace(seen.fleet, workers=()))).memory.workers["i-w1"]
    assert (note.retired_at, note.missing_since) == (NOW - 5, NOW)


def test_a_worker_that_stays_missing_is_forgotten() -> None:
    seen = a_snapshot(a_machine(note=replace(RETIRED, missing_since=NOW - 600)))
    assert plan(replace(seen, fleet=replace(seen.fleet, workers=()))).memory.workers == {}


# -- commands ----------------------------------------------------------------------------------------------------


def test_a_drained_worker_is_disabled_even_while_it_runs_jobs() -> None:
    made = plan(a_snapshot(a_worker(used=2), Overrides(drain=frozenset({"w1"}))))
    assert (acts(made), told(made, "w1")) == ([("disable", "w1")], ("disable", Code.DRAINED_BY_COMMAND))


def test_a_drained_worker_is_not_called_back() -> None:
    made = plan(a_snapshot(a_job(), a_worker(mark=COMMAND, empty=99), Overrides(drain=frozenset({"w1"}))))
    assert ("remove", "w1") in acts(made)


def test_a_worker_that_a_person_disabled_can_be_drained() -> None:
    made = plan(a_snapshot(a_worker(states="d"), Overrides(drain=frozenset({"w1"}))))
    assert acts(made) == [("disable", "w1")]


def test_a_kept_worker_is_never_disabled() -> None:
    made = plan(a_snapshot(a_worker(idle=9999), Overrides(keep=frozenset({"w1"}))))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.KEPT_BY_COMMAND))


def test_a_kept_worker_that_was_draining_is_enabled() -> None:
    made = plan(a_snapshot(a_worker(mark=IDLE, empty=99), Overrides(keep=frozenset({"w1"}))))
    assert acts(made) == [("enable", "w1")]


@pytest.mark.parametrize("mark", sorted(FOR_GOOD))
def test_one_that_leaves_for_good_and_that_a_person_keeps_is_neither_removed_nor_let_in(mark: Disabling) -> None:
    made = plan(a_snapshot(a_job(), a_worker(mark=mark, empty=99), Overrides(keep=frozenset({"w1"}))))
    assert ("enable", "w1") not in acts(made)
    assert ("remove", "w1") not in acts(made)
    assert told(made, "w1") == ("keep", Code.KEPT_BY_COMMAND)


@pytest.mark.parametrize("mark", sorted(FOR_GOOD))
def test_one_that_leaves_for_good_leaves_although_a_rule_would_keep_it(mark: Disabling) -> None:
    made = plan(a_snapshot(a_worker(mark=mark, empty=99), keep_alive=("night",)))
    assert acts(made) == [("remove", "w1")]


def test_stop_now_disables_all_in_service_but_those_kept() -> None:
    workers = (a_worker("w1", used=1), a_worker("w2"), a_worker("w3"))
    made = plan(a_snapshot(*workers, jobs(9), Overrides(stop="now", keep=frozenset({"w3"}))))
    assert sorted(acts(made)) == [("disable", "w1"), ("disable", "w2")]


def test_stop_drain_lets_workers_serve_what_waits_and_launches_none() -> None:
    workers = (a_worker("w1", used=1), a_worker("w2"))
    assert acts(plan(a_snapshot(*workers, jobs(9), Overrides(stop="drain")))) == []


def test_stop_drain_lets_all_go_at_once_that_nothing_needs() -> None:
    workers = (a_worker("w1", used=2), a_worker("w2"), a_worker("w3"), a_worker("w4"))
    made = plan(a_snapshot(*workers, jobs(1), Overrides(stop="drain"), limits=Limits(min_workers=2)))
    assert (len(acts(made)), {verdict for verdict, _ in acts(made)}) == (2, {"disable"})


def test_stop_drain_releases_even_while_paused() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.STOP, empty=60), Overrides(stop="drain", paused=True)))
    assert acts(made) == [("remove", "w1")]


def test_stop_removes_what_is_empty_and_was_enrolled_only() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.ENROL, empty=60), Overrides(stop="now")))
    assert acts(made) == [("remove", "w1")]


def test_stop_releases_even_while_paused() -> None:
    made = plan(a_snapshot(a_worker(mark=Disabling.STOP, empty=60), Overrides(stop="now", paused=True)))
    assert acts(made) == [("remove", "w1")]


def test_paused_lets_nobody_go() -> None:
    workers = (a_worker("w1", idle=999), a_worker("w2", mark=IDLE, empty=99), a_machine("w3", note=RETIRED))
    made = plan(a_snapshot(*workers, Overrides(paused=True, paused_by="ann")))
    assert (acts(made), codes(verdict_of(made, "w1").reason)) == ([], [Code.IDLE, Code.PAUSED])


def test_every_mark_has_a_row() -> None:
    assert set(MARKS) == set(Disabling)


@pytest.mark.parametrize("stop", (None, "drain", "now"))
def test_a_person_may_drain_what_a_person_disabled_whatever_else_is_stopped(stop: str | None) -> None:
    by_hand = a_worker(states="d")
    left, drained = (plan(a_snapshot(by_hand, Overrides(stop=stop, drain=frozenset(hosts)))) for hosts in ((), ("w1",)))
    assert (acts(left), told(left, "w1")[1], told(drained, "w1")[1]) == (
        [],
        Code.DISABLED_BY_HAND,
        Code.DRAINED_BY_COMMAND,
    )
    assert acts(drained)


# -- a command taken back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", (COMMAND, Disabling.STOP))
@pytest.mark.parametrize("used", (0, 2))
def test_a_worker_is_enabled_when_the_command_that_disabled_it_is_taken_back(mark: Disabling, used: int) -> None:
    made = plan(a_snapshot(a_worker(mark=mark, used=used)))
    assert (acts(made), told(made, "w1")) == ([("enable", "w1")], ("enable", Code.COMMAND_UNDONE))


@pytest.mark.parametrize("overrides", (Overrides(drain=frozenset({"w1"})), Overrides(stop="now")))
def test_while_the_command_holds_it_stays_disabled(overrides: Overrides) -> None:
    assert ("enable", "w1") not in acts(plan(a_snapshot(a_worker(mark=COMMAND, used=2), overrides)))


def test_a_worker_that_a_person_had_disabled_before_it_was_drained_stays_that_persons() -> None:
    drained = plan(a_snapshot(a_worker(states="d", used=2), Overrides(drain=frozenset({"w1"}))))
    note = drained.memory.workers["i-w1"]
    assert (note.disabling, note.left_disabled) == (COMMAND, ("main.q",))
    undone = plan(a_snapshot(replace(a_worker(states="d", used=2), note=note)))
    note = undone.memory.workers["i-w1"]
    assert (acts(undone), told(undone, "w1")[1], note.disabling) == ([], Code.DISABLED_BY_HAND, None)
    after = plan(a_snapshot(replace(a_worker(states="d", used=2), note=note)))
    assert (acts(after), told(after, "w1")[1]) == ([], Code.DISABLED_BY_HAND)


def test_what_a_person_disabled_once_is_forgotten_when_an_open_worker_is_drained() -> None:
    worker = a_worker(used=2)
    assert worker.note is not None
    before = replace(worker, note=replace(worker.note, left_disabled=("main.q",)))
    drained = plan(a_snapshot(before, Overrides(drain=frozenset({"w1"}))))
    assert (acts(drained), drained.memory.workers["i-w1"].left_disabled) == ([("disable", "w1")], ())


def with_other(states: str, other: str, **kwargs: Any) -> AWorker:
    """A worker of main.q on which other.q has slots, too, with the state letters of each."""
    there = QueueInstance("other.q", "w1", 2, 0, 0, other)
    return a_worker(host=a_host("w1", states=states, used=kwargs.pop("used", 0), more=(there,)), **kwargs)


def test_a_worker_of_which_a_person_disabled_another_queue_only_serves_on_and_leaves_like_others() -> None:
    busy, idle = plan(a_snapshot(with_other("", "d", used=1))), plan(a_snapshot(with_other("", "d", idle=9999)))
    room = plan(a_snapshot(a_job(), with_other("", "d", idle=9999)))
    assert (told(busy, "w1")[1], acts(idle), acts(room)) == (Code.RUNS_JOBS, [("disable", "w1")], [])
    assert idle.memory.workers["i-w1"].left_disabled == ("other.q",)


@pytest.mark.parametrize("states", (("d", ""), ("d", "d")))
def test_a_worker_of_which_a_person_disabled_its_own_queue_stays_that_persons(states: tuple[str, str]) -> None:
    made = plan(a_snapshot(with_other(*states, idle=9999)))
    assert (acts(made), told(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


@pytest.mark.parametrize("states", (("", "d"), ("d", "")))
def test_stop_now_disables_what_a_person_had_disabled_in_part_and_a_resume_enables_the_rest_only(
    states: tuple[str, str],
) -> None:
    opened = tuple(queue for queue, letters in zip(("main.q", "other.q"), states, strict=True) if not letters)
    stopped = plan(a_snapshot(with_other(*states, used=1), Overrides(stop="now")))
    note = stopped.memory.workers["i-w1"]
    assert (acts(stopped), told(stopped, "w1")[1]) == ([("disable", "w1")], Code.STOPPING)
    resumed = plan(a_snapshot(replace(with_other("d", "d", used=1), note=replace(note, seen_disabled=True))))
    assert [(action.kind, action.queues) for action in resumed.actions if isinstance(action, Enable)] == [
        ("enable", opened)
    ]


def test_stop_drain_takes_an_empty_worker_of_which_a_person_disabled_another_queue() -> None:
    made = plan(a_snapshot(with_other("", "d", idle=0), Overrides(stop="drain")))
    assert (acts(made), told(made, "w1")[1]) == ([("disable", "w1")], Code.STOPPING)


def test_a_worker_that_a_person_disabled_whole_is_left_alone_by_stop_now() -> None:
    assert acts(plan(a_snapshot(with_other("d", "d"), Overrides(stop="now")))) == []


def test_a_queue_that_a_person_had_disabled_on_a_draining_worker_is_no_room() -> None:
    """Enabled for that job it would be idle again: the job would wait for ever."""
    in_part = with_note(with_other("d", "d", mark=IDLE, empty=5), left_disabled=("main.q",))
    whole = with_note(a_worker(mark=IDLE, empty=5), left_disabled=("main.q",))
    for worker in (in_part, whole):
        assert [kind for kind, _ in acts(plan(a_snapshot(a_job(), worker)))] == ["launch"]


def test_a_worker_that_a_person_had_disabled_is_not_enabled_when_its_drain_is_undone() -> None:
    worker = with_note(a_worker(mark=COMMAND, empty=5), left_disabled=("main.q",))
    for more in ((a_job(),), (Overrides(keep=frozenset({"w1"})),)):
        made = plan(a_snapshot(worker, *more))
        assert (told(made, "w1")[1], ("enable", "w1") in acts(made)) == (Code.DISABLED_BY_HAND, False)


def test_a_person_who_enables_what_we_disabled_has_it_back_though_another_queue_stays_disabled() -> None:
    worker = with_note(with_other("", "d", mark=IDLE), left_disabled=("other.q",), seen_disabled=True)
    note = plan(a_snapshot(worker)).memory.workers["i-w1"]
    assert (note.disabling, note.left_disabled) == (None, ())
