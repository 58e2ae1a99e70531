"""Machines that are accepted and end before they join count as failed launches, once each, with their cause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.fleet import Ending, MachineState, OrderState
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan
from autoscaler.report.sentence import sentence
from tests.core.building import (
    NOW,
    AWorker,
    a_failure,
    a_job,
    a_machine,
    a_snapshot,
    an_order,
    category_of,
    codes,
    launched,
    verdict_and_code,
)

CAUSE = "Client.InternalError: Client error on launch"
GONE = MachineState.TERMINATED


def dead(number: int = 1, **worker: Any) -> AWorker:
    """Of an order that was accepted a moment ago."""
    given = {"state": GONE, "age": 20.0, "failure": "boot", "message": CAUSE, "order_id": "order-1", **worker}
    return a_machine(None, id=f"i-{number}", **given)


ORDER = an_order(5, state=OrderState.ACCEPTED, ids=tuple(f"i-{number}" for number in range(1, 6)))


def counted(made: Plan) -> list[tuple[str, str, str, str]]:
    return [(each.worker_id, each.bucket.instance_type, each.kind, each.message) for each in made.failures]


def test_a_machine_that_ended_before_it_joined_is_a_failed_launch() -> None:
    made = plan(a_snapshot(dead(), ORDER))
    assert counted(made) == [("i-1", "m5.large", "boot", CAUSE)]


def test_a_failed_launch_counts_once_however_long_it_is_listed() -> None:
    first = plan(a_snapshot(dead(), ORDER))
    again = plan(a_snapshot(dead(), first.memory, now=NOW + 5))
    late = plan(a_snapshot(dead(), again.memory, now=NOW + 3600))
    assert (len(first.failures), again.failures, late.failures) == (1, (), ())


def test_five_failed_launches_cause_a_backoff_in_the_same_pass() -> None:
    made = plan(a_snapshot(*(dead(number) for number in range(1, 6)), ORDER, a_job()))
    assert (launched(made), [rest.failures for rest in made.memory.backoffs]) == ({}, [5])


def test_a_machine_that_is_stopping_already_counts_as_a_failed_launch() -> None:
    made = plan(a_snapshot(dead(state=MachineState.STOPPING), ORDER))
    gone = plan(a_snapshot(dead(), ORDER, made.memory, now=NOW + 5))
    assert (len(made.failures), len(gone.failures)) == (1, 0)


@pytest.mark.parametrize(
    "known",
    (
        WorkerNote(NOW - 60, joined_at=NOW - 30),  # it had joined: it is lost
        WorkerNote(NOW - 60, terminated_at=NOW - 5),  # we terminated it
        WorkerNote(NOW - 60, gone=True),  # observed so before, by a version that did not count it
    ),
)
def test_a_machine_that_joined_or_that_we_terminated_is_not_a_failed_launch(known: WorkerNote) -> None:
    assert plan(a_snapshot(replace(dead(), note=known), ORDER)).failures == ()


@pytest.mark.parametrize("ending", Ending)
def test_a_machine_that_ended_without_a_failure_is_not_a_failed_launch(ending: Ending) -> None:
    assert plan(a_snapshot(dead(failure=None, ending=ending), ORDER)).failures == ()


def test_after_a_store_loss_failures_of_unknown_orders_do_not_count() -> None:
    assert plan(a_snapshot(dead())).failures == ()


def test_a_machine_observed_alive_counts_however_old_its_order_is() -> None:
    alive = plan(a_snapshot(dead(state=MachineState.PENDING, failure=None)))
    assert len(plan(a_snapshot(dead(age=900), alive.memory, now=NOW + 5)).failures) == 1


def test_the_verdict_on_a_failed_launch_has_its_cause() -> None:
    named = replace(dead(), worker=replace(dead().worker, name="w1"))
    made = plan(a_snapshot(named, ORDER))
    again = plan(a_snapshot(named, made.memory, now=NOW + 5))
    (verdict,) = (each for each in made.workers if each.id == "i-1")
    assert (verdict.reason["message"], verdict_and_code(again, "w1")) == (CAUSE, ("wait", Code.ENDED_BEFORE_JOINING))


def test_the_sentence_reports_the_cause_once() -> None:
    made = plan(a_snapshot(dead(1), dead(2), ORDER, a_job()))
    assert f"2 m5.large ended before they joined ({CAUSE})" in sentence(made)
    assert "ended before" not in sentence(plan(a_snapshot(dead(1), dead(2), made.memory, a_job(), now=NOW + 5)))


def test_a_waiting_jobs_reason_names_launch_failures_before_the_next_launch() -> None:
    reason = category_of(plan(a_snapshot(a_failure(age=30), a_job()))).reason
    link = next(link for link in reason.trail[0].trail if link.code is Code.LAUNCHES_FAILED)
    assert (Code.LAUNCHES_FAILED in codes(reason), link["failures"], link["message"]) == (
        True,
        1,
        "Insufficient instance capacity.",
    )
