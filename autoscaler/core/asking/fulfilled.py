"""What the world has made of requests, for the store to forget: nodes whose machine ended, arrays that are empty."""

from __future__ import annotations

from autoscaler.core.model import Snapshot
from autoscaler.core.supply import outstanding


def lost_workers(snapshot: Snapshot) -> tuple[str, ...]:
    """Ids of machines that served created nodes and are gone: their provider says so, or nobody knows of them any
    more.
    """
    listed = {worker.id: worker for worker in snapshot.fleet.workers}
    coming = {
        worker_id for order, _ in outstanding(snapshot.fleet, snapshot.policy, snapshot.now) for worker_id in order.ids
    }
    lost = []
    for node in snapshot.requests.nodes:
        worker_id = node.worker_id
        if worker_id is None or worker_id in coming:
            continue
        worker, note = listed.get(worker_id), snapshot.memory.workers.get(worker_id)
        gone = not worker.exists if worker is not None else note is None or note.gone
        if gone:
            lost.append(worker_id)
    return tuple(lost)


def empty_arrays(snapshot: Snapshot) -> tuple[str, ...]:
    """Dynamic arrays that nobody wants any more and in which nothing is left or may still come."""
    used = {worker.node_array for worker in snapshot.fleet.workers if worker.exists}
    used |= {order.node_array for order, _ in outstanding(snapshot.fleet, snapshot.policy, snapshot.now)}
    notes = snapshot.memory.workers.values()
    used |= {note.bucket.node_array for note in notes if note.bucket is not None and not note.gone}
    used |= {node.node_array for node in snapshot.requests.nodes}
    # What one that stays extends stays, too.
    kept = [entry for entry in snapshot.requests.arrays if entry.wanted or entry.name in used]
    used |= {entry.extends or "" for entry in kept}
    return tuple(
        definition.name
        for definition in snapshot.requests.arrays
        if definition.dynamic and not definition.wanted and definition.name not in used
    )
