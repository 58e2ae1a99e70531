"""What an execution host still needs to be a complete worker.

Our enrolment may have been cut short between two commands. A host that its own image made may lack values of complexes
that its type or rules give it, and its group. What the image gave it stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.model.cluster import Complex, ExecutionHost
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.placement.hosts import host_values_of, slots_of
from autoscaler.core.placement.placement import SLOTS
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.group_names import COMPLEX


def values_text(lacks: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in lacks)


Values = tuple[tuple[str, str], ...]
"""Of complexes, in Grid Engine's notation."""


def missing_values(
    worker: Worker, host: ExecutionHost, array: NodeArrayPolicy, complexes: Mapping[str, Complex], *, tried: bool
) -> Values:
    """By name; its group as the complex `group_id`. `tried`: it was to get them before, so that of a complex of which
    its execd reports a value as well, only that may be shown now.
    """
    shown = host.consumables.keys() | host.fixed.keys() | (host.load.keys() if tried else frozenset())
    offered = host_values_of(worker.type, array, complexes, worker.bucket).complex_values
    lacks = {name: value for name, value in offered if value and name not in shown}
    if worker.group_id and host.fixed.get(COMPLEX) != worker.group_id:
        lacks[COMPLEX] = worker.group_id
    return tuple(sorted(lacks.items()))


def half_enrolled(
    worker: Worker, host: ExecutionHost, note: WorkerNote, array: NodeArrayPolicy | None, *, enrols_itself: bool
) -> bool:
    """Whether an enrolment of ours was cut short between two of its commands: the host is there, but not in its queue,
    or without the slots that it gets last. It may then be enabled though no person enabled it.
    """
    if enrols_itself or array is None or note.disabling is not Disabling.ENROL or host.busy:
        return False
    slots = [instance.slots for instance in host.instances if instance.queue == array.queue]
    closed = amount(host.consumables.get(SLOTS, "1"), "INT") == 0
    return closed or slots != [slots_of(worker.type, array)]


def barely_made(host: ExecutionHost) -> bool:
    """Whether it is as the first command of an enrolment leaves it: in no queue, and without slots. A store that was
    lost since then cannot tell of that.
    """
    return not host.instances and not host.busy and amount(host.consumables.get(SLOTS, "1"), "INT") == 0
