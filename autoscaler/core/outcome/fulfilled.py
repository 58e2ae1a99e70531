"""Ends of requests that the store has to note: nodes whose machine ended, and empty dynamic arrays."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.model.fleet import Ending, Worker
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.marks import EXPECTED_ENDS
from autoscaler.core.workers.worker_state import same_host


def lost_workers(snapshot: Snapshot) -> Mapping[str, Reason | None]:
    """Ids of machines that served created nodes and are gone (their provider says so, or they are no longer known),
    each with the failure; None: its end was requested.
    """
    listed = {worker.id: worker for worker in snapshot.fleet.workers}
    coming = {
        worker_id for order, _ in outstanding(snapshot.fleet, snapshot.policy, snapshot.now) for worker_id in order.ids
    }
    lost: dict[str, Reason | None] = {}
    for node in snapshot.requests.nodes:
        worker_id = node.worker_id
        if worker_id is None or worker_id in coming:
            continue
        worker, note = listed.get(worker_id), snapshot.memory.workers.get(worker_id)
        gone = not worker.exists if worker is not None else note is None or note.gone
        if gone:
            requested = _by_request(worker_id, worker, note, snapshot)
            lost[worker_id] = None if requested else _failure(worker, note, snapshot)
    return lost


def _by_request(worker_id: str, worker: Worker | None, note: WorkerNote | None, snapshot: Snapshot) -> bool:
    """Whether its end was requested. A machine that shut itself down after it served counts too."""
    host = (worker.name if worker else None) or (note.host if note else None)
    drained = snapshot.overrides.drain
    if worker_id in drained or (host is not None and any(same_host(name, host) for name in drained)):
        return True
    if note is None:
        return False
    released = worker is not None and worker.ending is Ending.RELEASED and note.joined_at is not None
    return released or note.disabling in EXPECTED_ENDS


def _failure(worker: Worker | None, note: WorkerNote | None, snapshot: Snapshot) -> Reason:
    message = worker.message if worker is not None else None
    came_up = note is not None and note.joined_at is not None
    if note is not None and note.stopped:
        return because(Code.STOPPED_FROM_OUTSIDE, message=message)
    if worker is not None and worker.failure is not None and not came_up:
        return because(Code.BOOT_FAILED, message=message)
    if note is not None and note.disabling is Disabling.BROKEN and note.quarantined is not None:
        return note.quarantined
    array = snapshot.policy.node_array(worker.node_array) if worker is not None else None
    if note is not None and array is not None and note.joined_at is None and note.terminated_at is not None:
        code = Code.JOIN_TIMEOUT if note.disabling is Disabling.ENROL else Code.BOOT_TIMEOUT
        return because(code, limit_s=array.boot_timeout, message=message)
    return because(Code.GONE)


def empty_arrays(snapshot: Snapshot) -> tuple[str, ...]:
    """Dynamic arrays that no request names any more, and without workers that exist or may still come."""
    used = {worker.node_array for worker in snapshot.fleet.workers if worker.exists}
    used |= {order.node_array for order, _ in outstanding(snapshot.fleet, snapshot.policy, snapshot.now)}
    notes = snapshot.memory.workers.values()
    used |= {note.bucket.node_array for note in notes if note.bucket is not None and not note.gone}
    used |= {node.node_array for node in snapshot.requests.nodes}
    # An array that a remaining array extends remains too.
    kept = [entry for entry in snapshot.requests.arrays if entry.requested or entry.name in used]
    used |= {entry.extends or "" for entry in kept}
    return tuple(
        definition.name
        for definition in snapshot.requests.arrays
        if definition.dynamic and not definition.requested and definition.name not in used
    )
