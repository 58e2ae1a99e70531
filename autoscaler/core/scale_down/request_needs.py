"""The requests of callers besides the queues' own demand, by one observation: the needs of request sets and created
nodes, and which workers ask to stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.requests.created_nodes import Service, serve
from autoscaler.core.requests.orders import named, outstanding
from autoscaler.core.requests.targets import Need, needs_of
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.observed import ObservedWorkers


@dataclass(frozen=True, slots=True)
class RequestNeeds:
    """The requests that hold now."""

    needs: Mapping[str, Need]
    service: Service

    @property
    def nodes(self) -> dict[str, Reason]:
        """By id of each worker that serves a created node: the reason to keep it."""
        return {
            worker_id: because(Code.CREATED_NODE, node=node.name) for worker_id, node in self.service.by_worker.items()
        }


ASKED_OF_LATE = 600.0
"""Seconds for which a worker of a group counts as asking to stop, if it has not been busy since."""


def stop_requests_of(snapshot: Snapshot) -> frozenset[str]:
    """Ids of workers that ask to stop, and of workers of groups that asked recently; without workers that a person
    enabled since.
    """
    notes, since = snapshot.memory.workers, snapshot.now - ASKED_OF_LATE
    asked = [(worker_id, note) for worker_id, note in notes.items() if note.asked_to_stop_at is not None]
    of_late = {worker_id for worker_id, note in asked if _still_asks(note, since)}
    return frozenset(
        worker_id
        for worker_id in snapshot.requests.auto_stops | of_late
        if worker_id not in notes or not notes[worker_id].stop_undone
    )


def _still_asks(note: WorkerNote, since: float) -> bool:
    asked_to_stop_at, idle_since = note.asked_to_stop_at, note.idle_since
    return (
        asked_to_stop_at is not None
        and asked_to_stop_at > since
        and idle_since is not None
        and idle_since <= asked_to_stop_at
    )


def read_request_needs(snapshot: Snapshot) -> RequestNeeds:
    """Read the requests; after a `stop` none holds."""
    if snapshot.overrides.stop is not None:
        return RequestNeeds({}, serve((), snapshot.fleet))
    needs = needs_of(snapshot.requests, snapshot.policy, snapshot.now)
    return RequestNeeds(needs, serve(snapshot.requests.nodes, snapshot.fleet))


def coming_for_requests(needs: RequestNeeds, snapshot: Snapshot, observed: ObservedWorkers) -> frozenset[str]:
    """Names of the coming supply that callers requested: jobs use other supply first."""
    orders = {order.id for order in snapshot.fleet.orders if order.for_requests} | needs.service.ordered
    if not orders and not needs.service.by_worker:
        return frozenset()
    coming = (worker.worker for worker in observed.workers if worker.coming)
    names = {each.id for each in coming if each.order_id in orders or each.id in needs.service.by_worker}
    for order, of_order in named(outstanding(snapshot.fleet, snapshot.policy, snapshot.now)):
        if order.id in orders:
            names.update(of_order)
    return frozenset(names)
