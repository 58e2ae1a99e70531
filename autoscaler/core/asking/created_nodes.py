"""Nodes that callers created one by one: which worker serves which, and which still need one.

The nth node of an order is served by the nth worker that the provider answered with. The loop writes that into the
node's row; until it has, the order itself tells. A node that had a worker never gets another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.fleet import Fleet, Order, OrderState
from autoscaler.core.request_sets import CreatedNode

Wish = tuple[str, str | None, str | None]
"""What nodes that are launched together have in common: node array, machine type, placement group."""


@dataclass(frozen=True, slots=True)
class Service:
    """How created nodes fare."""

    by_worker: Mapping[str, CreatedNode] = field(default_factory=dict)
    """By worker id: the node it serves."""
    unserved: tuple[CreatedNode, ...] = ()
    """Those that have no worker, and for which none is ordered; oldest first."""
    ordered: frozenset[str] = frozenset()
    """Ids of orders for nodes: no worker of theirs is anybody else's."""


def serve(nodes: Sequence[CreatedNode], fleet: Fleet) -> Service:
    """Who serves whom now."""
    found = bindings(fleet.orders)
    by_worker: dict[str, CreatedNode] = {}
    unserved: list[CreatedNode] = []
    awaited = {node for order in fleet.orders if order.state is OrderState.SENT for node in order.nodes}
    for node in nodes:
        worker_id = node.worker_id or found.get(node.id)
        if worker_id is not None:
            by_worker[worker_id] = node
        elif node.id not in awaited:
            unserved.append(node)
    live = {node.id for node in nodes}
    orders = frozenset(order.id for order in fleet.orders if not live.isdisjoint(order.nodes))
    return Service(by_worker, tuple(unserved), orders)


def bindings(orders: Sequence[Order]) -> dict[str, str]:
    """Node id → worker id, of nodes whose order was answered. Where a node was ordered twice (the first order failed),
    the first answer holds.
    """
    found: dict[str, str] = {}
    for order in sorted(orders, key=lambda order: order.ordered_at):
        for node, worker_id in zip(order.nodes, order.ids, strict=False):
            found.setdefault(node, worker_id)
    return found


def by_wish(nodes: Sequence[CreatedNode]) -> Mapping[Wish, tuple[CreatedNode, ...]]:
    """Nodes that one launch can bring, in the order in which they were created."""
    together: dict[Wish, list[CreatedNode]] = {}
    for node in nodes:
        together.setdefault((node.node_array, node.machine_type, node.placement_group), []).append(node)
    return {wish: tuple(alike) for wish, alike in together.items()}
