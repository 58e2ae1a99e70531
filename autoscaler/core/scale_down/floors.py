"""The floor of each node array (`min_workers`), how many of its workers stay, and how many are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autoscaler.core.model.reasons import Reason
from autoscaler.core.policy import Policy
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.overdue import counts_as_coming
from autoscaler.core.workers.step import PassContext


@dataclass(frozen=True, slots=True)
class Floor:
    """How many workers of an array must stay, and how many stay if no further worker leaves."""

    min_workers: int
    staying: int


def floors_of(
    observed: ObservedWorkers,
    policy: Policy,
    pass_context: PassContext,
    swapped_out: Mapping[str, Reason] = MappingProxyType({}),
) -> dict[str, Floor]:
    """The floor of each array. `swapped_out`: workers that leave for a stronger one and do not count as staying."""
    others: dict[str, int] = {}
    for worker in observed.coming:
        if worker.array is None or worker.worker.id in swapped_out or not counts_as_coming(worker, pass_context):
            continue
        others[worker.array.name] = others.get(worker.array.name, 0) + 1
    for worker in observed.in_service if swapped_out else ():
        if worker.array is not None and worker.worker.id in swapped_out:
            others[worker.array.name] = others.get(worker.array.name, 0) - 1
    return {
        array.name: Floor(
            array.limits.min_workers,
            observed.serving_in.get(array.name, 0) + others.get(array.name, 0),
        )
        for array in policy.node_arrays
    }


def short_of_floors(snapshot: Snapshot, floors: Mapping[str, Floor]) -> dict[str, int]:
    """By node array: how many workers are missing to reach `min_workers`; ordered ones count as there."""
    short = {name: floor.min_workers - floor.staying for name, floor in floors.items()}
    for order, count in outstanding(snapshot.fleet, snapshot.policy, snapshot.now):
        if order.node_array in short:
            short[order.node_array] -= count
    return short
