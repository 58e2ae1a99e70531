"""The status of the cluster: its node arrays, their buckets, and how many more nodes each can have.

One bucket for each instance type of a node array, over all zones and price types. If the provider reports no number,
our own limits stand as the quota.
"""

from __future__ import annotations

from autoscaler.api.models import (
    BucketDefinition,
    BucketStatus,
    ClusterStatus,
    NodeArrayStatus,
    PlacementGroup,
    VirtualMachine,
)
from autoscaler.api.records import GIB, array_record, bucket_id, node_records
from autoscaler.api.room import available, offered, placement_groups
from autoscaler.api.view import STARTED, TERMINATED, Node, View
from autoscaler.core.model.fleet import InstanceType
from autoscaler.store.observations import SeenArray


def status_of(view: View, *, with_nodes: bool) -> ClusterStatus:
    """All of it; `with_nodes` adds node records and the names of each bucket's nodes."""
    own = [array for array in view.look.arrays if array.extends is None]
    stopping = view.look.stopping
    return ClusterStatus(
        state=STARTED,
        target_state=TERMINATED if stopping else STARTED,
        max_count=_least(sum(array.max_workers for array in own), *(array.total_workers for array in own)),
        max_core_count=_most_cores(view),
        nodearrays=[_array(view, array, with_nodes=with_nodes) for array in view.look.arrays],
        nodes=node_records(view) if with_nodes else None,
    )


def _array(view: View, array: SeenArray, *, with_nodes: bool) -> NodeArrayStatus:
    nodes = [node for node in view.standing if node.node_array == array.name]
    gone = {node.type.name: node.type for node in nodes if node.type is not None and node.type.name not in array.types}
    valid = [_bucket(view, array, kind, nodes, with_nodes=with_nodes, valid=True) for kind in array.types.values()]
    others = [_bucket(view, array, kind, nodes, with_nodes=with_nodes, valid=False) for kind in gone.values()]
    return NodeArrayStatus(
        name=array.name,
        max_count=_most(view, array),
        max_core_count=_array_cores(view, array),
        nodearray=array_record(view, array),
        buckets=[*valid, *others],
    )


def _bucket(
    view: View, array: SeenArray, kind: InstanceType, nodes: list[Node], *, with_nodes: bool, valid: bool
) -> BucketStatus:
    active = [node for node in nodes if node.type is not None and node.type.name == kind.name]
    left = available(view, array, kind) if valid else 0
    most = min(_most(view, array), _array_cores(view, array) // kind.vcpus)
    same_family = [node for node in view.standing if node.type is not None and node.type.family == kind.family]
    family, region = sum(node.vcpus for node in same_family), sum(node.vcpus for node in view.standing)
    in_stock = offered(array, kind)
    all_cores = max(_most_cores(view), region)
    # The provider's available count makes its quota, if it reports one; never less than what exists.
    quota = all_cores if in_stock is None else min(all_cores, max(family, family + in_stock * kind.vcpus))
    return BucketStatus(
        bucket_id=bucket_id(view, array.name, kind.name),
        definition=BucketDefinition(machine_type=kind.name),
        virtual_machine=VirtualMachine(
            vcpu_count=kind.vcpus,
            pcpu_count=kind.vcpus,
            gpu_count=kind.gpus,
            memory=round(kind.memory / GIB, 3),
            infiniband=False,
            vcpu_quota_count=kind.vcpus,
        ),
        valid=valid,
        invalid_reason="" if valid else "DisabledMachineType",
        active_count=len(active),
        active_core_count=len(active) * kind.vcpus,
        active_nodes=[node.name for node in active] if with_nodes else None,
        available_count=left,
        available_core_count=left * kind.vcpus,
        max_count=most,
        max_core_count=most * kind.vcpus,
        quota_count=quota // kind.vcpus,
        quota_core_count=quota,
        consumed_core_count=family,
        family_quota_count=quota // kind.vcpus,
        family_quota_core_count=quota,
        family_consumed_core_count=family,
        regional_quota_count=all_cores // kind.vcpus,
        regional_quota_core_count=all_cores,
        regional_consumed_core_count=region,
        max_placement_group_size=most,
        max_placement_group_core_size=most * kind.vcpus,
        placement_groups=_groups(placement_groups(array, kind), active),
        last_capacity_failure=view.failed.get(kind.name, -1.0),
        spot_placement_score="",
    )


def _groups(offered: frozenset[str], active: list[Node]) -> list[PlacementGroup]:
    """The provider's placement groups, also empty ones, and those that nodes name."""
    names = sorted(offered | {node.placement_group for node in active if node.placement_group})
    return [
        PlacementGroup(
            name=name,
            active_count=sum(node.placement_group == name for node in active),
            active_core_count=sum(node.vcpus for node in active if node.placement_group == name),
        )
        for name in names
    ]


def _most(view: View, array: SeenArray) -> int:
    root = view.array(array.extends or "") or array
    return _least(root.max_workers, array.max_own_workers, array.total_workers)


def _array_cores(view: View, array: SeenArray) -> int:
    """The core limit of an array; without one, the cores of its most workers of its largest type."""
    root = view.array(array.extends or "") or array
    largest = max((kind.vcpus for kind in array.types.values()), default=1)
    return _least(_most(view, array) * largest, root.max_cores, array.max_own_cores, array.total_cores)


def _most_cores(view: View) -> int:
    own = [array for array in view.look.arrays if array.extends is None]
    return _least(sum(_array_cores(view, array) for array in own), *(array.total_cores for array in own))


def _least(most: int, *limits: int | None) -> int:
    """The least of these; None is no limit."""
    return min((most, *(limit for limit in limits if limit is not None)))
