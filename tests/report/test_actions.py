"""Every kind of action is handled everywhere: no part of the program forgets one."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from autoscaler.core.actions import Action, ActionKind, Launch
from autoscaler.engine.actor import OfProvider
from autoscaler.engine.executors.execute import OneCall
from autoscaler.report.document import action_part, document
from autoscaler.report.schema import part_of
from autoscaler.report.sentence import sentence
from autoscaler.report.tables import print_plan
from autoscaler.store import encoding
from autoscaler.store.store import Store
from tests.report.one_of_each import ONE_OF_EACH
from tests.report.plans import plan, snapshot

KINDS = ActionKind.__subclasses__()
each_action = pytest.mark.parametrize("action", ONE_OF_EACH, ids=lambda action: action.kind)


def test_the_list_of_kinds_is_complete() -> None:
    assert set(get_args(Action)) == set(KINDS)


def test_one_action_of_every_kind_is_tested_here() -> None:
    assert [type(action) for action in ONE_OF_EACH] == list(KINDS)


def test_every_kind_is_an_order_or_has_its_own_executor() -> None:
    assert {*get_args(OneCall), Launch} == set(KINDS)


def test_exactly_the_actions_of_the_provider_run_off_the_loop_thread() -> None:
    """Launches have threads of their own anyway."""
    assert {kind for kind in KINDS if kind.calls_provider} == {Launch, *get_args(OfProvider)}


def test_kinds_and_order_numbers_are_unique() -> None:
    assert len({kind.kind for kind in KINDS}) == len({kind.order for kind in KINDS}) == len(KINDS)


def test_actions_that_bring_capacity_go_first_and_those_that_remove_it_late() -> None:
    assert [kind.kind for kind in sorted(KINDS, key=lambda kind: kind.order)] == [
        *("enable", "enrol", "release", "reschedule", "launch", "annotate", "hold", "kill", "restart", "reimage"),
        *("terminate", "remove", "disable", "ask", "tell_waiting", "renumber"),
    ]


def test_an_action_class_without_an_order_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="order"):
        type("Forgotten", (ActionKind,), {}, kind="forgotten", verb="forgetting")


@each_action
def test_its_json_matches_the_declaration(action: Action) -> None:
    kind: Any = type(action)
    assert part_of(kind).model_validate(action_part(action)).model_dump() == action_part(action)


@each_action
def test_the_journal_stores_it_completely(action: Action) -> None:
    assert encoding.read(encoding.write(action), type(action)) == action


@each_action
def test_the_journal_stores_its_kind_worker_and_host(action: Action) -> None:
    store = Store.open(None)
    store.journal.begin([action], pass_number=1, at=1.0, new_id=lambda: "order-1")
    row = store.database.row("SELECT kind, worker_id, host FROM actions")
    assert row is not None
    assert tuple(row) == (action.kind, getattr(action, "worker_id", None), getattr(action, "host", None))


@each_action
def test_the_sentence_of_a_pass_has_its_verb(action: Action) -> None:
    assert action.verb in sentence(plan(action))


@each_action
def test_the_table_shows_its_kind(action: Action, capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(document(snapshot(), plan(action), {}))
    assert action.kind in capsys.readouterr().out
