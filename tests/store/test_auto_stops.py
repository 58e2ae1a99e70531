"""The stored questions of workers that ask to stop: every answer comes from a pass, and STOPS is never withdrawn."""

from __future__ import annotations

from pathlib import Path

from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.core.snapshot import Plan
from autoscaler.store.auto_stops import Answered
from autoscaler.store.store import Store

NOW = 10_000.0
WHY = because(Code.NEEDED_AGAIN, node_array="execute")
STOPS, STAYS = AutoStopAnswer.STOPS, AutoStopAnswer.STAYS


def ask_and_answer(
    store: Store, answer: AutoStopAnswer, *, asked: float = NOW, at: float = NOW, reason: Reason = WHY
) -> None:
    store.auto_stops.ask("i-1", asked)
    store.auto_stops.answer("i-1", answer, reason, at)


def test_a_question_is_open_until_it_is_answered(empty_store: Store) -> None:
    empty_store.auto_stops.ask("i-1", NOW)
    before = empty_store.auto_stops.open()
    empty_store.auto_stops.answer("i-1", STAYS, WHY, NOW + 1)
    assert (before, empty_store.auto_stops.open()) == (frozenset({"i-1"}), frozenset())


def test_an_answer_based_on_an_earlier_observation_is_ignored(empty_store: Store) -> None:
    ask_and_answer(empty_store, STAYS, asked=NOW, at=NOW - 0.5)
    assert (empty_store.auto_stops.answered("i-1", NOW), empty_store.auto_stops.open()) == (None, frozenset({"i-1"}))


def test_a_worker_that_stays_may_ask_again_and_gets_a_new_answer(empty_store: Store) -> None:
    ask_and_answer(empty_store, STAYS)
    empty_store.auto_stops.ask("i-1", NOW + 5)
    assert (empty_store.auto_stops.answered("i-1", NOW + 5), empty_store.auto_stops.open()) == (
        None,
        frozenset({"i-1"}),
    )


def test_the_question_of_a_stopping_worker_is_open_until_it_is_gone(empty_store: Store) -> None:
    ask_and_answer(empty_store, STOPS)
    before = empty_store.auto_stops.open()
    empty_store.auto_stops.end(["i-1"])
    assert (before, empty_store.auto_stops.open()) == (frozenset({"i-1"}), frozenset())


def test_a_stop_answer_is_never_withdrawn(empty_store: Store) -> None:
    ask_and_answer(empty_store, STOPS)
    ask_and_answer(empty_store, STAYS, asked=NOW + 9, at=NOW + 9)
    assert empty_store.auto_stops.answered("i-1", NOW + 9) == Answered("i-1", NOW, STOPS, WHY)


def test_enabling_the_worker_by_hand_withdraws_a_stop_answer(empty_store: Store) -> None:
    ask_and_answer(empty_store, STOPS)
    ask_and_answer(empty_store, STAYS, asked=NOW + 10, at=NOW + 10, reason=because(Code.ENABLED_BY_HAND))
    found = empty_store.auto_stops.answered("i-1", NOW)
    assert found is not None
    assert (found.answer, found.reason.code, empty_store.auto_stops.open()) == (
        STAYS,
        Code.ENABLED_BY_HAND,
        frozenset(),
    )


def test_an_answer_without_a_question_is_not_stored(empty_store: Store) -> None:
    empty_store.auto_stops.answer("i-1", STOPS, WHY, NOW)
    assert (empty_store.auto_stops.open(), empty_store.auto_stops.answered("i-1", 0.0)) == (frozenset(), None)


def test_an_answer_is_stored_together_with_its_plan(empty_store: Store, tmp_path: Path) -> None:
    empty_store.auto_stops.ask("i-1", NOW)
    empty_store.accept(Plan((), Memory(passes=7), auto_stops={"i-1": (STOPS, WHY)}), pass_number=7, at=NOW + 1)
    again = Store.open(tmp_path / "store.sqlite")
    kept = again.auto_stops.answered("i-1", NOW), again.memory.load().passes
    again.close()
    assert kept == (Answered("i-1", NOW + 1, STOPS, WHY), 7)


def test_only_closed_questions_are_forgotten(empty_store: Store) -> None:
    ask_and_answer(empty_store, STAYS)
    empty_store.auto_stops.ask("i-2", NOW)
    empty_store.auto_stops.ask("i-3", NOW)
    empty_store.auto_stops.answer("i-3", STOPS, WHY, NOW)
    empty_store.auto_stops.forget(NOW + 1)
    assert (empty_store.auto_stops.answered("i-1", 0.0), empty_store.auto_stops.open()) == (
        None,
        frozenset({"i-2", "i-3"}),
    )
