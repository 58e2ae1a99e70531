"""Which workers have what is scarce: a consumable, as GPUs, that other workers of their queue do not have at all.

Jobs that need none of it would take their slots, and another such worker would have to be bought for one that does.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.fleet import InstanceType, Worker
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.policy import NodeArrayPolicy

KindOfWorker = tuple[str, str]
"""Names of its node array and of its instance type."""


def kind_of_worker(worker: Worker) -> KindOfWorker:
    return worker.node_array, worker.type.name


def scarce_kinds(
    kinds: Mapping[KindOfWorker, tuple[InstanceType, NodeArrayPolicy]], complexes: Mapping[str, Complex]
) -> frozenset[KindOfWorker]:
    """Those of these kinds that have some of a consumable of which another one has none."""
    has = {
        kind: {name for name, amount in host_values_of(type_, array, complexes).consumables if amount > 0}
        for kind, (type_, array) in kinds.items()
    }
    all_have = frozenset.intersection(*map(frozenset, has.values())) if has else frozenset()
    return frozenset(kind for kind, names in has.items() if names - all_have)
