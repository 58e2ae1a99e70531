"""Machines with our tag that no pass manages: the settings no longer have their node array, another machine has their
name, or this store does not know them. Only a person's command ends them.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.fleet import MachineState, Worker
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Orphan:
    """A machine that no pass manages, and why."""

    worker: Worker
    host: str | None
    """Its own execution host; None: it has none."""
    busy: bool
    """Whether Grid Engine lists a job or a reservation on that host."""
    enabled: tuple[str, ...]
    """The queues whose instances on that host are enabled."""
    reason: Reason


def find_orphans(snapshot: Snapshot) -> tuple[Orphan, ...]:
    """All orphans, oldest first. Machines that are being terminated are not orphans."""
    observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    found = ((worker, _why(worker, snapshot)) for worker in observed.workers)
    return tuple(_orphan(worker, reason) for worker, reason in found if reason is not None)


def _why(worker: WorkerState, snapshot: Snapshot) -> Reason | None:
    machine = worker.worker
    if machine.state in (MachineState.STOPPING, MachineState.TERMINATED):
        return None
    if worker.decisive is Condition.UNKNOWN_ARRAY:
        return because(Code.UNKNOWN_NODE_ARRAY, node_array=machine.node_array)
    if worker.decisive is Condition.NAME_TAKEN:
        return because(Code.NAME_TAKEN)
    ordered = any(order.id == machine.order_id for order in snapshot.fleet.orders)
    if worker.before is None and not ordered:
        return because(Code.UNKNOWN_WORKER)
    return None


def _orphan(worker: WorkerState, reason: Reason) -> Orphan:
    host = worker.host
    if host is None:
        return Orphan(worker.worker, None, busy=False, enabled=(), reason=reason)
    enabled = tuple(instance.queue for instance in host.instances if "d" not in instance.states)
    return Orphan(worker.worker, host.name, host.busy, enabled, reason)
