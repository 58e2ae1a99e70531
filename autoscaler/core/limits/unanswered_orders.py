"""Launches that the provider throttled, and orders that it did not answer.

A throttled launch was surely not made: no worker of it comes, and after the wait the plan decides anew. An order
without an answer may have been made: it counts as coming until a listing shows it or it is given up (rule 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.model.fleet import FailureKind, Fleet, LaunchFailure, Order, OrderState
from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.waits import doubled_wait
from autoscaler.core.snapshot import JobCategoryVerdict

FIRST_WAIT, LONGEST_WAIT = 5.0, 60.0
"""Seconds until the next launch after one that was throttled, doubled each time."""
WINDOW = 600.0
"""Seconds for which throttled launches count, and the longest wait that a provider may ask for."""


def throttled(fleet: Fleet, now: float) -> Reason | None:
    """Why nothing at all is launched just now: a rate limit holds for the account. None: launches may be tried."""
    accepted = max((order.ordered_at for order in fleet.orders if order.state is OrderState.ACCEPTED), default=0.0)
    since = max(accepted, now - WINDOW)
    refused = sorted(
        (each for each in fleet.failures if each.kind == FailureKind.THROTTLED and each.at > since), key=_at
    )
    if not refused:
        return None
    last, times = refused[-1], len({each.order_id for each in refused})
    until = last.at + doubled_wait(times, FIRST_WAIT, LONGEST_WAIT)
    if last.retry_at is not None:
        until = min(max(until, last.retry_at), last.at + WINDOW)
    return because(Code.LAUNCH_THROTTLED, message=last.message, until_at=until) if now < until else None


def _at(failure: LaunchFailure) -> float:
    return failure.at


def taken(launches: Sequence[Event], fleet: Fleet) -> tuple[Event, ...]:
    """Launches without throttled ones: these were surely not made, so no limit and no circuit breaker counts them."""
    refused = {each.order_id for each in fleet.failures if each.kind == FailureKind.THROTTLED}
    orders = [order for order in fleet.orders if order.state is OrderState.FAILED and order.id in refused]
    left = list(launches)
    for order in orders:
        same = (each for each in left if (each.at, each.node_array) == (order.ordered_at, order.node_array))
        if (event := next(same, None)) is not None:
            left.remove(event)
    return tuple(left)


def unanswered(orders: Sequence[Order]) -> tuple[Reason, ...]:
    """For each order that is requested again because it got no answer: the error, and the time of the next request."""
    return tuple(
        because(
            Code.ORDER_UNANSWERED,
            count=order.count,
            type=order.type.name,
            message=order.message,
            until_at=order.asked_again_at,
        )
        for order in orders
        if order.state is OrderState.SENT and order.message
    )


def mark_uncertain(
    verdicts: Sequence[JobCategoryVerdict], open_orders: Sequence[Reason]
) -> tuple[JobCategoryVerdict, ...]:
    """Marks jobs that wait for coming workers if it is not certain that these come."""
    if not open_orders:
        return tuple(verdicts)
    return tuple(
        replace(verdict, reason=verdict.reason.then(open_orders[0]))
        if verdict.reason.code is Code.WAITS_FOR_COMING
        else verdict
        for verdict in verdicts
    )
