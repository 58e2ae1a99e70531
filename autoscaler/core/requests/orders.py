"""Orders with workers that no listing shows yet (rule 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from autoscaler.core.model.fleet import Fleet, Order, OrderState
from autoscaler.core.model.memory import Memory
from autoscaler.core.policy import Policy
from autoscaler.core.readable.remembered import LastValue

_OUTSTANDING = LastValue[tuple[tuple[Order, int], ...]]()


def outstanding(fleet: Fleet, policy: Policy, now: float) -> tuple[tuple[Order, int], ...]:
    """Orders with workers that the listing does not show yet, and how many (rule 3)."""
    if not fleet.orders:
        return ()
    arguments = (fleet.orders, fleet.workers, policy.order_grace, now)
    return _OUTSTANDING.value_of(arguments, lambda: tuple(_outstanding(fleet, policy, now)))


def _outstanding(fleet: Fleet, policy: Policy, now: float) -> list[tuple[Order, int]]:
    listed = {worker.id for worker in fleet.workers}
    acknowledged = {worker_id for order in fleet.orders for worker_id in order.ids}
    by_order: dict[str, int] = {}
    for worker in fleet.workers:
        if worker.order_id and worker.id not in acknowledged:
            by_order[worker.order_id] = by_order.get(worker.order_id, 0) + 1
    found: list[tuple[Order, int]] = []
    for order in fleet.orders:
        if order.state is OrderState.SENT:
            # Several offers of one set are orders of one id: a worker belongs to one of them, but not to a known one.
            shown = min(order.count, by_order.get(order.id, 0))
            by_order[order.id] = by_order.get(order.id, 0) - shown
            count = order.count - shown
        elif order.state is OrderState.ACCEPTED and now - order.ordered_at < policy.order_grace:
            count = sum(worker_id not in listed for worker_id in order.ids)
        else:
            count = 0
        if count > 0:
            found.append((order, count))
    return found


def still_coming(orders: Iterable[Order], listed: Collection[str], memory: Memory) -> tuple[Order, ...]:
    """The orders without the machines that came, whose end was asked for, and that no listing shows any more: some
    clouds leave them out at once, and they do not come again. `listed`: ids of the workers that are listed.
    """
    ended = {
        worker_id
        for worker_id, note in memory.workers.items()
        if (note.gone or note.terminated_at is not None) and worker_id not in listed
    }
    if not ended:
        return tuple(orders)
    return tuple(
        replace(order, ids=tuple(one for one in order.ids if one not in ended)) if ended & {*order.ids} else order
        for order in orders
    )


def named(coming: Iterable[tuple[Order, int]]) -> Iterator[tuple[Order, tuple[str, ...]]]:
    """The same orders with a name in the supply for each worker that is not listed yet. Offers of one set share the
    order's id; their workers' names differ.
    """
    used: Counter[str] = Counter()
    for order, count in coming:
        first = used[order.id]
        used[order.id] += count
        yield order, tuple(f"{order.id}#{number}" for number in range(first, first + count))


def whole(orders: Iterable[Order]) -> dict[str, Order]:
    """Orders by id, each once: a set of several offers has the workers of all, and is open as long as one is."""
    found: dict[str, Order] = {}
    for order in orders:
        known = found.get(order.id)
        if known is None:
            found[order.id] = order
        else:
            state = OrderState.SENT if OrderState.SENT in (known.state, order.state) else known.state
            found[order.id] = replace(known, ids=(*known.ids, *order.ids), count=known.count + order.count, state=state)
    return found
