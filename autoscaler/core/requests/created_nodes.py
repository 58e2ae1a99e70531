"""Nodes that callers created one by one: which worker serves which, and which still need one.

The nth worker of the provider's answer serves the nth node of an order. The loop writes that into the node's row; until
then, it follows from the order. A node that had a worker gets another only after a retry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.model.fleet import Fleet, Order, OrderState
from autoscaler.core.model.request_sets import CreatedNode

NodeRequest = tuple[str, str | None, str | None]
"""What nodes of one launch have in common: node array, machine type, placement group."""


@dataclass(frozen=True, slots=True)
class Service:
    """Which workers serve which created nodes."""

    by_worker: Mapping[str, CreatedNode] = field(default_factory=dict)
    """By worker id: the node it serves."""
    unserved: tuple[CreatedNode, ...] = ()
    """Nodes without a worker, and without an order for one; oldest first."""
    ordered: frozenset[str] = frozenset()
    """Ids of orders for nodes: their workers serve nothing else."""


def serve(nodes: Sequence[CreatedNode], fleet: Fleet) -> Service:
    """Find the worker of each node."""
    found = bindings(fleet.orders, {node.id: node.lost for node in nodes if node.lost})
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


def bindings(orders: Sequence[Order], lost: Mapping[str, Collection[str]] = MappingProxyType({})) -> dict[str, str]:
    """Node id → worker id, for nodes whose order was answered. If a node was ordered twice (the first order failed),
    the first worker that is not one of its lost ones.
    """
    found: dict[str, str] = {}
    for node, worker_id in answers(orders):
        if worker_id not in lost.get(node, ()):
            found.setdefault(node, worker_id)
    return found


def answers(orders: Sequence[Order]) -> Iterator[tuple[str, str]]:
    """Node id and worker id of every worker that came for a node, by the time of its order."""
    for order in sorted(orders, key=lambda order: order.ordered_at):
        yield from zip(order.nodes, order.ids, strict=False)


def by_request(nodes: Sequence[CreatedNode]) -> Mapping[NodeRequest, tuple[CreatedNode, ...]]:
    """Nodes that one launch can bring, in the order in which they were created."""
    together: dict[NodeRequest, list[CreatedNode]] = {}
    for node in nodes:
        together.setdefault((node.node_array, node.machine_type, node.placement_group), []).append(node)
    return {request: tuple(alike) for request, alike in together.items()}
