"""`explain JOB` tells what was done with a job, also when Grid Engine knows it no more."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC

import pytest

from autoscaler.core.actions import AskGridEngine, Hold, Kill, Question
from autoscaler.core.model import Plan
from autoscaler.core.plan import plan as decide
from autoscaler.core.reasons import Code, because
from autoscaler.report.explain import explain_host, explain_job, explain_past, host_lines, job_lines
from autoscaler.store.journal import Result
from autoscaler.store.store import Store
from tests.core.building import a_job, a_snapshot, a_worker
from tests.report.plans import plan, waiting

WHY = because(Code.UNKNOWN_PE, pe="mpi", queues=("main.q",), slots=100)


@pytest.fixture
def store() -> Store:
    """In which job 12 was held and then deleted."""
    store = Store.open(None)
    made = plan(Hold(("12", "14"), WHY), Kill(("12",), WHY), shapes=(waiting(1, reason=WHY),))
    for item in store.accept(made, pass_number=1, at=1_795_252_200.0):
        store.journal.end(item.id, Result.DONE, "", 1_795_252_201.0)
    store.history.explain(made.shapes, 1_795_252_200.0)
    return store


def test_a_deleted_job_is_explained_by_what_was_done_with_it(store: Store) -> None:
    told = explain_past(12, store.history.explanation(12), store.journal.outcomes_of_job(12))
    assert told is not None
    assert ([(act["kind"], act["result"], act["reason"]["code"]) for act in told["done"]], told["state"]) == (
        [("kill", "done", "UNKNOWN_PE"), ("hold", "done", "UNKNOWN_PE")],
        "ended",
    )


def test_its_lines_say_so(store: Store) -> None:
    told = explain_past(12, store.history.explanation(12), store.journal.outcomes_of_job(12))
    assert told is not None
    lines = list(job_lines(told))
    assert any(line.startswith("kill at ") and line.endswith(": done:") for line in lines)


def test_a_job_that_was_never_seen_waiting_is_explained_by_what_was_done_with_it(store: Store) -> None:
    told = explain_past(14, None, store.journal.outcomes_of_job(14))
    assert told is not None
    assert ([act["kind"] for act in told["done"]], told["waiting"]) == (["hold"], [])


def test_of_a_job_that_nobody_knows_nothing_is_told(store: Store) -> None:
    assert explain_past(99, store.history.explanation(99), store.journal.outcomes_of_job(99)) is None


@pytest.mark.parametrize(
    ("made", "kinds"),
    (
        (plan(AskGridEngine((Question(12, "a"),), (), WHY), shapes=(waiting(1),)), ["ask"]),
        (plan(Hold(("12.3-9:2",), WHY), shapes=(waiting(1),)), ["hold"]),
        (plan(Kill(("112",), WHY), shapes=(waiting(1),)), []),
    ),
)
def test_a_waiting_job_is_explained_with_what_this_pass_would_do(made: Plan, kinds: list[str]) -> None:
    told = explain_job(a_snapshot(a_job(12)), made, 12)
    assert told is not None
    assert [action["kind"] for action in told["actions"]] == kinds


def test_of_a_worker_times_are_told_as_times_and_lengths_as_lengths() -> None:
    world = a_snapshot(a_worker("w1", used=1))
    made = decide(world)
    ((worker_id, note),) = made.memory.workers.items()
    silent = replace(note, silent_s=12.5, price_per_hour=0.096, moved=("31", "32"))
    made = replace(made, memory=replace(made.memory, workers={worker_id: silent}))
    told = explain_host(world, made, "w1", UTC)
    assert told is not None
    lines = set(host_lines(told))
    wanted = {
        "remembered: silent 12s",
        "remembered: first seen 2027-01-15 07:00:00 UTC",
        "remembered: price per hour 0.096",
        "remembered: moved 31, 32",
    }
    assert (wanted - lines, [line for line in lines if "1970" in line or "<" in line]) == (set(), [])
    assert json.dumps(told["remembered"])
