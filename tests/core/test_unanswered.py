"""Launches that were throttled are not made; orders without an answer are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.fleet import FailureKind, LaunchFailure, Order, OrderState
from autoscaler.core.model.memory import Event, Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.requests.orders import whole
from autoscaler.report.sentence import sentence
from tests.core.building import (
    LARGE,
    NOW,
    a_bucket,
    a_job,
    a_snapshot,
    an_order,
    category_of,
    codes,
    launched,
    note_codes,
)

ANSWER = "RequestLimitExceeded: Request limit exceeded."


def a_throttled(number: int = 1, *, age: float = 3.0, retry_at: float | None = None) -> tuple[Order, LaunchFailure]:
    order = replace(an_order(state=OrderState.FAILED, age=age + 1), id=f"order-{number}")
    key = a_bucket(LARGE).key
    return order, LaunchFailure(key, NOW - age, FailureKind.THROTTLED, ANSWER, order.id, retry_at=retry_at)


def test_a_throttled_launch_is_not_supply() -> None:
    made = plan(a_snapshot(a_job(), *a_throttled()))
    assert (launched(made), made.fitting, note_codes(made)) == ({}, 0, [Code.LAUNCH_THROTTLED])
    assert Code.LAUNCH_THROTTLED in codes(category_of(made).reason)
    assert made.due == NOW + 2


def test_the_sentence_has_the_clouds_answer_and_the_time_of_the_next_attempt() -> None:
    shown = sentence(plan(a_snapshot(a_job(), *a_throttled())))
    assert shown == (
        f"plan: 1 job waits; nothing to do: the provider accepts no launch now: {ANSWER}; "
        "the next attempt is after 2027-01-15 08:00:02 UTC, if it is still needed"
    )


def test_a_throttled_launch_is_retried_after_the_wait_if_still_needed() -> None:
    things = a_throttled(age=6)
    assert launched(plan(a_snapshot(a_job(), *things))) == {"m5.large": 1}
    assert launched(plan(a_snapshot(*things))) == {}


@pytest.mark.parametrize(("times", "wait"), ((1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (9, 60)))
def test_repeated_throttling_doubles_the_wait_up_to_a_minute(times: int, wait: int) -> None:
    things = [thing for number in range(times) for thing in a_throttled(number, age=1.0 + number)]
    assert plan(a_snapshot(a_job(), *things)).due == NOW - 1 + wait


def test_an_order_accepted_since_ends_the_wait_after_throttling() -> None:
    accepted = an_order(state=OrderState.ACCEPTED, age=1, ids=("i-9",))
    assert note_codes(plan(a_snapshot(a_job(slots=2), a_job(2, slots=2), *a_throttled(7), accepted))) == []


@pytest.mark.parametrize(("asked", "until"), ((90.0, 90.0), (1.0, 2.0), (7200.0, 597.0)))
def test_the_providers_retry_time_is_used_within_bounds(asked: float, until: float) -> None:
    assert plan(a_snapshot(a_job(), *a_throttled(retry_at=NOW + asked))).due == NOW + until


def test_a_throttled_launch_does_not_count_towards_limits() -> None:
    event = Event(NOW - 4, 100, "execute")
    other = Event(NOW - 50, 1, "execute")
    made = plan(a_snapshot(a_job(), *a_throttled(age=3), Memory(launches=(other, event))))
    assert made.memory.launches == (other,)


def test_an_order_without_an_answer_is_reported_as_unanswered() -> None:
    order = replace(an_order(2), message="connect timeout", asked_again_at=NOW + 7)
    made = plan(a_snapshot(a_job(), order))
    assert (launched(made), category_of(made).reason.code) == ({}, Code.WAITS_FOR_COMING)
    assert codes(category_of(made).reason) == [Code.WAITS_FOR_COMING, Code.ORDER_UNANSWERED]
    assert sentence(made) == (
        "plan: 1 job waits, 1 fits; nothing to do: no answer to an order of 2 m5.large: connect timeout; the "
        "autoscaler asks again after 2027-01-15 08:00:07 UTC"
    )


def test_orders_of_several_offers_are_merged_into_one() -> None:
    first = an_order(2, state=OrderState.ACCEPTED, ids=("i-1", "i-2"))
    second = replace(first, count=3, ids=("i-3",), state=OrderState.SENT)
    (order,) = whole([first, second]).values()
    assert (order.count, order.ids, order.state) == (5, ("i-1", "i-2", "i-3"), OrderState.SENT)
