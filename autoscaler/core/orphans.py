"""Machines that carry our tag and that no pass will ever manage: their node array is not ours any more, another machine
has their name, or nobody here has ever seen them. They end by a person's command only.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.fleet import MachineState, Worker
from autoscaler.core.life import Life, Machine
from autoscaler.core.model import Snapshot
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.sight import look


@dataclass(frozen=True, slots=True)
class Orphan:
    """One of them, and why it is one."""

    worker: Worker
    host: str | None
    """Its own execution host; None: it has none."""
    busy: bool
    """Whether Grid Engine lists a job or a reservation on that."""
    disabled: bool
    """Whether somebody lets no job in there."""
    reason: Reason


def find_orphans(snapshot: Snapshot) -> tuple[Orphan, ...]:
    """Oldest first. Machines whose end is under way are none."""
    sight = look(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    found = ((machine, _why(machine, snapshot)) for machine in sight.machines)
    return tuple(_orphan(machine, reason) for machine, reason in found if reason is not None)


def _why(machine: Machine, snapshot: Snapshot) -> Reason | None:
    worker = machine.worker
    if worker.state in (MachineState.STOPPING, MachineState.TERMINATED):
        return None
    if machine.life is Life.UNKNOWN_ARRAY:
        return because(Code.UNKNOWN_ARRAY, node_array=worker.node_array)
    if machine.life is Life.NAME_TAKEN:
        return because(Code.NAME_TAKEN)
    ordered = any(order.id == worker.order_id for order in snapshot.fleet.orders)
    if machine.before is None and not ordered:
        return because(Code.UNKNOWN_WORKER)
    return None


def _orphan(machine: Machine, reason: Reason) -> Orphan:
    host = machine.host
    if host is None:
        return Orphan(machine.worker, None, busy=False, disabled=False, reason=reason)
    closed = any("d" in instance.states for instance in host.instances)
    return Orphan(machine.worker, host.name, host.busy, closed, reason)
