"""Workers that were ordered and that no listing has shown: a stop waits for them as long as listings may lag, since
nothing else would end them, and names those that may still come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.core.model.fleet import Order, OrderState
from autoscaler.store.journal import OrderRecord
from autoscaler.store.store import Store

RELEASED = " have been removed and terminated"


@dataclass(frozen=True, slots=True)
class Unseen:
    """Workers of one offer of an order."""

    words: str
    """`m5.large i-1`, or `2 m5.large without an answer`."""
    since: float
    """The time of the answer, or of the order if it was given up without one."""
    count: int


def unseen(store: Store, since: float) -> tuple[Unseen, ...]:
    """Of orders that were answered, or given up, after `since`: what no listing has shown. Open orders are not among
    them: they are waited for anyway.
    """
    records = [record for record in store.journal.orders(since) if record.closed]
    ids = {worker_id for record in records for attempt in record.attempts for worker_id in attempt.ids}
    shown = {life.worker_id for life in store.history.lives_of(ids)}
    ended = store.journal.ended(ids - shown)
    return tuple(each for record in records for each in _of(record, shown | ended) if each.since > since)


def _of(record: OrderRecord, shown: frozenset[str] | set[str]) -> Iterator[Unseen]:
    for order in record.as_orders():
        if order.state is OrderState.ACCEPTED:
            hidden = [worker_id for worker_id in order.ids if worker_id not in shown]
            if hidden:
                yield Unseen(f"{order.type.name} {', '.join(hidden)}", order.ordered_at, len(hidden))
    if missing := record.never_answered:
        yield Unseen(f"{missing} {_type(record)} without an answer", record.ordered_at, missing)


def _type(record: OrderRecord) -> str:
    order: Order = record.as_orders()[0]
    return order.type.name


def may_still_come(machines: str) -> str:
    """What a person is told at the end of a stop that could not wait any longer."""
    return (
        f"{machines} may still come, and costs money then: no listing of the provider showed it in time. Look for it "
        "there, and run `sge-autoscaler orphans`, which lists and ends such machines"
    )
