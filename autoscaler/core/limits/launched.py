"""How many workers launches brought. Until its orders are answered, a launch counts as the most that it may bring, then
as the workers that were given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from autoscaler.core.model.changed import changed
from autoscaler.core.model.fleet import Order, OrderState
from autoscaler.core.model.memory import Event
from autoscaler.core.requests.orders import whole
from autoscaler.core.snapshot import Snapshot


def settled(snapshot: Snapshot) -> Snapshot:
    """The same, with the remembered launches as the journal knows them by now."""
    launches = brought(snapshot.memory.launches, snapshot.fleet.orders)
    return changed(snapshot, memory=changed(snapshot.memory, launches=launches))


def brought(launches: Sequence[Event], orders: Sequence[Order]) -> tuple[Event, ...]:
    """These launches; if all orders of a launch are answered, with the number of workers that they brought. If an order
    is not known (any more), its launch stays as it is.
    """
    known: dict[tuple[str, float | None], list[Order]] = defaultdict(list)
    for order in whole(orders).values():
        known[order.node_array, order.planned_at].append(order)
    alike: dict[tuple[str, float | None], list[int]] = defaultdict(list)
    for at, event in enumerate(launches):
        alike[event.node_array, event.at].append(at)
    found = list(launches)
    for key, positions in alike.items():
        answers = known[key]
        if len(answers) != len(positions) or any(order.state is OrderState.SENT for order in answers):
            continue
        for at, order in zip(positions, answers, strict=True):
            found[at] = changed(found[at], launched=len(order.ids))
    return tuple(found)
