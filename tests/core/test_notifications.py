"""Which notifications are due: each cause once, when it has lasted, and once more when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from autoscaler.core.actions import Hold, Kill
from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.fleet import BucketKey, Ending, FailureKind, MachineState
from autoscaler.core.model.memory import Backoff, Disabling, Memory, ProtectedArray, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.notifications.causes import (
    BLIND_FOR,
    BY_NAME,
    KINDS,
    MOST_OF_A_KIND,
    SET_ASIDE_FOR,
    NotificationContext,
    Observed,
)
from autoscaler.core.notifications.due import AGAIN, SETTLED, KnownCauses, Notification, notifications_due, title_of
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.notifications import remedy_of
from tests.core.building import LONG_AGO, NOW, AWorker, a_host, a_machine, a_snapshot, a_worker, jobs
from tests.core.test_budgets import ANN, CELL, under

CIRCUIT_BREAKER = because(Code.CIRCUIT_BREAKER, what="removals", count=300, most=200, window_s=600.0)


def passing(memory: Memory, *, actions: tuple[Hold | Kill, ...] = ()) -> Observed:
    """A pass that left this memory."""
    return Observed(a_snapshot(), Plan(actions, memory))


def due_in_turn(
    contexts: Sequence[NotificationContext], known: KnownCauses | None = None, *, resolved: bool = True
) -> list[list[Notification]]:
    """What becomes due in each context."""
    known, found = known or KnownCauses(), []
    for context in contexts:
        due = notifications_due(known, context, resolved=resolved)
        known = due.known
        found.append(list(due.notifications))
    return found


def at(seconds: float, observed: Observed | None, **more: object) -> NotificationContext:
    return replace(NotificationContext(NOW + seconds, observed), **more)  # type: ignore[arg-type]


TRIPPED, CALM = passing(Memory(circuit_breaker=CIRCUIT_BREAKER)), passing(Memory())


def decided(snapshot: Snapshot) -> Observed:
    return Observed(snapshot, plan(snapshot))


def test_a_cause_is_notified_once_with_its_reason() -> None:
    first, second, later = due_in_turn([at(0, TRIPPED), at(1, TRIPPED), at(7200, TRIPPED)])
    assert first == [Notification("circuit_breaker", "", NOW, CIRCUIT_BREAKER)]
    assert (second, later) == ([], [])


@pytest.mark.parametrize(
    ("aside", "code"),
    (
        (a_worker(states="d"), Code.DISABLED_BY_HAND),
        (a_worker(node_array="forgotten"), Code.UNKNOWN_NODE_ARRAY),
    ),
    ids=("disabled by hand", "unknown node array"),
)
def test_a_worker_that_costs_and_on_which_only_a_person_decides_is_notified(aside: AWorker, code: Code) -> None:
    memory = Memory(passes=5)
    observed, stops = decided(a_snapshot(aside, memory)), decided(a_snapshot(aside, memory, Overrides(stop="now")))
    early, late = due_in_turn([at(0, observed), at(SET_ASIDE_FOR, observed)])
    (at_once,) = due_in_turn([at(0, stops)])
    assert ([(each.subject, each.reason.code) for each in late], early) == ([("w1", code)], [])
    assert [each.subject for each in at_once] == ["w1"]


def test_workers_that_fell_silent_together_are_notified_once_for_their_zone() -> None:
    note = WorkerNote(LONG_AGO, joined_at=LONG_AGO, silent_s=595.0, disabling=Disabling.SILENT, disabled_at=LONG_AGO)
    silent = [a_worker(f"w{n}", heard=False, states="du", used=1, zone="a") for n in (1, 2)]
    workers = [replace(each, note=replace(note, host=each.worker.name, seen_disabled=True)) for each in silent]
    snapshot = a_snapshot(a_host("p1"), *workers, Memory(passes=5, observed_at=NOW - 10))
    observed = decided(replace(snapshot, policy=replace(snapshot.policy, silence_timeout=600.0)))
    (found,) = due_in_turn([at(0, observed)])
    assert [(each.kind, each.subject, each.reason.code) for each in found] == [
        ("silent_workers", "a", Code.SILENT_TOGETHER)
    ]


def test_a_worker_in_service_is_not_notified_as_set_aside() -> None:
    observed = decided(a_snapshot(a_worker(), Memory(passes=5)))
    assert due_in_turn([at(0, observed), at(SET_ASIDE_FOR, observed)]) == [[], []]


def test_the_end_of_a_cause_is_notified_once_settled() -> None:
    contexts = [at(0, TRIPPED), at(10, CALM), at(20, CALM), at(11 + SETTLED, CALM), at(12 + SETTLED, CALM)]
    assert [len(each) for each in due_in_turn(contexts)] == [1, 0, 0, 1, 0]
    assert due_in_turn(contexts)[3] == [
        Notification("circuit_breaker", "", NOW + 11 + SETTLED, CIRCUIT_BREAKER, passed=True)
    ]


def test_the_end_of_one_cause_is_notified_while_another_of_its_kind_lasts() -> None:
    both = passing(Memory(stopped={"execute": "refused", "gpu": "refused"}))
    one = passing(Memory(stopped={"execute": "refused"}))
    found = due_in_turn([at(0, both), at(10, one), at(11 + SETTLED, one)])
    assert [[(each.subject, each.passed) for each in news] for news in found[1:]] == [[], [("gpu", True)]]


def test_the_end_of_a_cause_is_not_notified_if_turned_off() -> None:
    contexts = [at(0, TRIPPED), at(10, CALM), at(11 + SETTLED, CALM)]
    assert [len(each) for each in due_in_turn(contexts, resolved=False)] == [1, 0, 0]


def test_a_short_gap_is_not_notified_as_an_end() -> None:
    contexts = [at(0, TRIPPED), at(10, CALM), at(20, TRIPPED), at(200, TRIPPED)]
    assert [len(each) for each in due_in_turn(contexts)] == [1, 0, 0, 0]


def test_a_recurring_cause_is_notified_once_an_hour() -> None:
    """A minute of it, two minutes without, for three hours."""
    contexts = [at(60 * minute, TRIPPED if minute % 3 == 0 else CALM) for minute in range(180)]
    begun = [each.at for news in due_in_turn(contexts) for each in news if not each.passed]
    assert len(begun) == 3
    assert all(later - earlier >= AGAIN for earlier, later in pairwise(begun))


def test_a_failed_observation_neither_notifies_nor_ends_a_cause() -> None:
    blind = [at(seconds, None, unobserved="no qstat") for seconds in (1, 100, 500)]
    assert [len(each) for each in due_in_turn([at(0, TRIPPED), *blind, at(501, TRIPPED)])] == [1, 0, 0, 0, 0]


def test_an_outage_is_notified_when_it_lasts_and_when_it_ends() -> None:
    contexts = [
        at(0, None, unobserved="no qstat"),
        at(BLIND_FOR - 1, None, unobserved="no qstat"),
        at(BLIND_FOR, None, unobserved="no qstat"),
        at(BLIND_FOR + 1, CALM),
        at(BLIND_FOR + 2 + SETTLED, CALM),
    ]
    found = due_in_turn(contexts)
    assert [len(each) for each in found] == [0, 0, 1, 0, 1]
    assert found[2][0].reason == because(Code.NOT_OBSERVED, why="no qstat")


def test_the_known_causes_are_unchanged_if_nothing_happened() -> None:
    known = notifications_due(KnownCauses(), at(0, TRIPPED)).known
    assert notifications_due(known, at(5, TRIPPED)).known is known


def test_a_limit_that_keeps_jobs_waiting_is_notified_after_half_an_hour() -> None:
    limited = a_snapshot(jobs(9, waited=600.0), a_worker("w1", used=2), limits=Limits(max_workers=1))
    seen = decided(limited)
    found = due_in_turn([at(0, seen), at(1799, seen), at(1800, seen)])
    assert [[(each.kind, each.subject) for each in news] for news in found] == [[], [], [("limit", "max_workers")]]


def test_a_limit_that_keeps_no_jobs_waiting_is_not_notified() -> None:
    seen = decided(a_snapshot(a_worker("w1", used=2), limits=Limits(max_workers=1)))
    assert due_in_turn([at(0, seen), at(3600, seen)]) == [[], []]


@pytest.mark.parametrize("ending", (Ending.UNKNOWN, Ending.INTERRUPTED))
def test_a_worker_whose_machine_ended_unasked_is_notified_as_lost(ending: Ending) -> None:
    gone = a_machine("w1", state=MachineState.TERMINATED, note=WorkerNote(LONG_AGO, joined_at=LONG_AGO), ending=ending)
    assert [(each.kind, each.subject) for each in due_in_turn([at(0, decided(a_snapshot(gone)))])[0]] == [
        ("lost_worker", "w1")
    ]


@pytest.mark.parametrize(
    ("used", "named", "more"), ((2, ("9000", "9001"), None), (9, ("9000", "9001", "9002", "9003", "9004"), 4))
)
def test_a_notification_of_a_lost_worker_names_a_few_of_its_jobs(
    used: int, named: tuple[str, ...], more: int | None
) -> None:
    lost = a_worker("w1", used=used, state=MachineState.TERMINATED)
    lost = replace(lost, note=WorkerNote(LONG_AGO, joined_at=LONG_AGO, host="w1"))
    ((notification,),) = due_in_turn([at(0, decided(a_snapshot(lost)))])
    told = notification.reason
    assert (notification.kind, told.code, told["jobs"], dict(told.facts).get("more")) == (
        "lost_worker",
        Code.LOST_WITH_JOBS,
        named,
        more,
    )
    assert "qmod -f -rj JOB" in remedy_of(told)


@pytest.mark.parametrize(
    ("note", "ending"),
    (
        (WorkerNote(LONG_AGO, joined_at=LONG_AGO), Ending.RELEASED),
        (WorkerNote(LONG_AGO, joined_at=LONG_AGO, terminated_at=NOW - 5, retired_at=NOW - 9), Ending.UNKNOWN),
        (WorkerNote(LONG_AGO, joined_at=LONG_AGO, retired_at=NOW - 9), Ending.UNKNOWN),
        (WorkerNote(LONG_AGO), Ending.UNKNOWN),
    ),
    ids=("shut itself down", "ended by us", "removed by us", "never joined"),
)
def test_a_worker_that_left_is_not_notified_as_lost(note: WorkerNote, ending: Ending) -> None:
    gone = a_machine("w1", state=MachineState.TERMINATED, note=note, ending=ending)
    assert due_in_turn([at(0, decided(a_snapshot(gone)))]) == [[]]


def test_a_fenced_worker_is_notified_as_lost_without_an_end() -> None:
    note = WorkerNote(LONG_AGO, joined_at=LONG_AGO, fenced_at=NOW - 5)
    seen = Observed(a_snapshot(a_worker("w1")), Plan((), Memory(workers={"i-w1": note})))
    found = due_in_turn([at(0, seen), at(10, CALM), at(200, CALM)])
    assert [[each.subject for each in news] for news in found] == [["w1"], [], []]


def backoff(message: str = "no capacity") -> Backoff:
    return Backoff(BucketKey("m5.large", "execute"), NOW + 1800, 5, FailureKind.CAPACITY, message, NOW)


@pytest.mark.parametrize(
    ("kind", "memory"),
    (
        ("protected_mode", Memory(protected={"execute": ProtectedArray(stopped=because(Code.PROTECTED_MODE))})),
        ("array_stopped", Memory(stopped={"execute": "no such image"})),
        ("launches_refused", Memory(backoffs=(backoff(),))),
    ),
)
def test_stopped_arrays_and_backoffs_in_memory_are_notified(kind: str, memory: Memory) -> None:
    assert [each.kind for each in due_in_turn([at(0, passing(memory))])[0]] == [kind]


@pytest.mark.parametrize("action", (Hold, Kill))
def test_unsatisfiable_jobs_are_notified_and_lost_ones_are_not(action: type[Hold | Kill]) -> None:
    why = because(Code.TOO_MANY_SLOTS)
    proven = action(("12",), why, asks=(JobRequest(state="qw"),))
    lost = action(("13",), why)
    found = due_in_turn([at(0, passing(Memory(), actions=(proven, lost)))])[0]
    assert [(each.kind, each.subject) for each in found] == [("unsatisfiable_job", "job 12")]


def test_an_unknown_kind_of_notification_is_titled_by_its_name() -> None:
    assert (title_of("lost_worker"), title_of("some_later_kind")) == ("lost worker", "some later kind")


def test_old_prices_are_notified() -> None:
    today = datetime.fromtimestamp(NOW, UTC).date()
    old, young = today.replace(year=today.year - 1), today
    (news,) = due_in_turn([at(0, CALM, oldest_price=old)])
    assert [(each.kind, each.subject, each.reason.code) for each in news] == [("old_prices", "", Code.OLD_PRICES)]
    assert due_in_turn([at(0, CALM, oldest_price=young)]) == [[]]


def test_notifications_of_one_kind_are_bounded() -> None:
    stopped = {f"array{number}": "no such image" for number in range(MOST_OF_A_KIND + 50)}
    assert len(due_in_turn([at(0, passing(Memory(stopped=stopped)))])[0]) == MOST_OF_A_KIND


def test_names_of_notification_kinds_are_unique() -> None:
    assert len(BY_NAME) == len(KINDS)


def test_a_worker_that_cannot_be_terminated_is_notified_with_the_reason() -> None:
    refused: Reason = because(Code.END_REFUSED, times=3, again_at=NOW + 60, message="protected from termination")
    snapshot = a_snapshot(a_worker("w1"))
    verdicts = plan(snapshot).workers
    shown = Plan((), Memory(), workers=tuple(replace(each, reason=refused) for each in verdicts if each.id))
    assert [each.reason for each in due_in_turn([at(0, Observed(snapshot, shown))])[0]] == [refused]


def test_each_budget_level_is_notified_once_and_a_new_month_is_not() -> None:
    def spent(cell: float, ann: float) -> Observed:
        return decided(under(a_snapshot(), cell=(CELL, cell), ann=(ANN, ann)))

    months = ((100.0, 10.0), (250.0, 10.0), (260.0, 90.0), (500.0, 101.0), (510.0, 102.0), (0.0, 0.0), (0.0, 0.0))
    found = due_in_turn([at(600 * number, spent(*each)) for number, each in enumerate(months)])
    assert [[(each.kind, each.subject) for each in news] for news in found] == [
        [],
        [("budget", "the cell, 50 %")],
        [("budget", "user ann, 80 %")],
        [("budget", "the cell, 100 %"), ("budget", "user ann, 100 %")],
        [],
        [],
        [],
    ]
    assert (found[1][0].reason.code, found[1][0].reason["budget"]) == (Code.BUDGET_LEVEL, 500.0)
    again = due_in_turn(
        [at(600 * number, spent(260.0, 0.0) if number % 9 == 0 else spent(0.0, 0.0)) for number in range(10)]
    )
    assert [len(news) for news in again] == [1, *[0] * 8, 1]
