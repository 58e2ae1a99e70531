"""Launches that the provider did not take because of too many calls, and orders that it gave no answer to.

What was throttled was surely not made: nothing of it comes, and what is wanted is decided anew when the wait is over.
What got no answer may have been made: it counts as coming until a listing shows it or it is given up (rule 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.model.fleet import Fleet, LaunchFailure, Order, OrderState
from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.snapshot import JobCategoryVerdict

THROTTLED = "throttled"
FIRST_WAIT, LONGEST_WAIT = 5.0, 60.0
"""Seconds until the next launch after one that was throttled, doubled each time."""
WINDOW = 600.0
"""Seconds for which those are counted, and that a provider may have us wait."""


def throttled(fleet: Fleet, now: float) -> Reason | None:
    """Why nothing is launched just now, whatever for: a rate limit is the account's. None: it may be tried."""
    accepted = max((order.ordered_at for order in fleet.orders if order.state is OrderState.ACCEPTED), default=0.0)
    since = max(accepted, now - WINDOW)
    refused = sorted((each for each in fleet.failures if each.kind == THROTTLED and each.at > since), key=_at)
    if not refused:
        return None
    last, times = refused[-1], len({each.order_id for each in refused})
    until = last.at + min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (times - 1))
    if last.retry_at is not None:
        until = min(max(until, last.retry_at), last.at + WINDOW)
    return because(Code.LAUNCH_THROTTLED, message=last.message, until_at=until) if now < until else None


def _at(failure: LaunchFailure) -> float:
    return failure.at


def taken(launches: Sequence[Event], fleet: Fleet) -> tuple[Event, ...]:
    """Launches without those that were throttled: no limit and no brake counts what was surely not made."""
    refused = {each.order_id for each in fleet.failures if each.kind == THROTTLED}
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
            message=order.said,
            until_at=order.asked_again_at,
        )
        for order in orders
        if order.state is OrderState.SENT and order.said
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
