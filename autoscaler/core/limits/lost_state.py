"""A state that was lost while there were workers: the listing alone says then what was ordered, and it may lag.

Machines of ours whose order the journal does not have show that an earlier state had ordered them. Others, ordered just
before, may not be listed yet. So nothing is launched until listings have surely caught up. A machine without any order
was taken over from somebody else, and shows nothing.
"""

from __future__ import annotations

from autoscaler.core.model.fleet import Fleet
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, Reason, because

LISTINGS_LAG = 90.0
"""Seconds until a listing has every machine that was ordered before."""


def lost_at(memory: Memory, fleet: Fleet, now: float) -> float | None:
    """When the state began anew although machines of ours were there; None: it did not, or that is long ago."""
    if memory.lost_at is not None:
        return memory.lost_at if now - memory.lost_at < LISTINGS_LAG else None
    if memory.passes or memory.workers:
        return None
    known = {order.id for order in fleet.orders}
    ours = (worker.order_id for worker in fleet.workers if worker.exists)
    return now if any(order and order not in known for order in ours) else None


def wait_for_listings(memory: Memory, fleet: Fleet, now: float) -> Reason | None:
    """Why nothing is launched yet after the state was lost."""
    since = lost_at(memory, fleet, now)
    return None if since is None else because(Code.STATE_LOST, until_at=since + LISTINGS_LAG)
