"""The values that an execution host still needs to be a complete worker.

Our enrolment may have been cut short between two commands. If its own image enrolled a host, values of complexes that
its type or rules give it may be missing, and its group. Values that the image gave it stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.model.cluster import Complex, ExecutionHost
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.memory import Disabling, WorkerNote
from autoscaler.core.placement.hosts import host_values_of, slots_of
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.group_names import COMPLEX


def values_text(values: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in values)


Values = tuple[tuple[str, str], ...]
"""Values of complexes, in Grid Engine's notation."""


def missing_values(
    worker: Worker, host: ExecutionHost, array: NodeArrayPolicy, complexes: Mapping[str, Complex], *, tried: bool
) -> Values:
    """By name; its group as the complex `group_id`. `tried`: an earlier pass gave it the values. Then a load value
    counts too, because Grid Engine may show only that of a complex which the execd also reports.
    """
    shown = host.consumables.keys() | host.fixed.keys() | (host.load.keys() if tried else frozenset())
    offered = host_values_of(worker.type, array, complexes, worker.bucket).complex_values
    missing = {name: value for name, value in offered if value and name not in shown}
    if worker.group_id and host.fixed.get(COMPLEX) != worker.group_id:
        missing[COMPLEX] = worker.group_id
    return tuple(sorted(missing.items()))


def has_slots(host: ExecutionHost) -> bool:
    """Whether the host itself has any slot: an enrolment gives them last."""
    return amount(host.consumables.get(SLOTS, "1"), "INT") != 0


def half_enrolled(
    worker: Worker, host: ExecutionHost, note: WorkerNote, array: NodeArrayPolicy | None, *, enrols_itself: bool
) -> bool:
    """Whether an enrolment of ours was cut short between two of its commands: the host exists, but not in its queue, or
    without the slots that it gets last. It may then be enabled although no person enabled it.
    """
    if enrols_itself or array is None or note.disabling is not Disabling.ENROL or host.busy:
        return False
    return not has_slots(host) or not _queue_has_its_slots(worker, host, array)


def cut_short(worker: Worker, host: ExecutionHost, array: NodeArrayPolicy | None) -> bool:
    """Whether the host alone shows that an enrolment was cut short, for the case that the store was lost: the host has
    no slots, and its queue does not have this worker's number of slots.
    """
    if host.busy or has_slots(host):
        return False
    return not host.instances or (array is not None and not _queue_has_its_slots(worker, host, array))


def _queue_has_its_slots(worker: Worker, host: ExecutionHost, array: NodeArrayPolicy) -> bool:
    slots = [instance.slots for instance in host.instances if instance.queue == array.queue]
    return slots == [slots_of(worker.type, array)]
