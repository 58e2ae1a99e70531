"""How many more nodes can be created, by the limits and the provider's available count. Pure."""

from __future__ import annotations

from autoscaler.api.view import NO_ID, View
from autoscaler.core.limits.backoff import backoff_of
from autoscaler.core.model.fleet import InstanceType
from autoscaler.store.observations import SeenArray


def room(view: View, array: SeenArray, kind: InstanceType | None) -> int:
    """How many more nodes of this type the limits allow. Without a type, core limits are ignored."""
    family = array.extends or array.name
    root = view.array(family) or array
    shared, own = view.counted(family), [node for node in view.standing if node.node_array == array.name]
    coming = sum(view.coming.get(each.name, 0) for each in view.look.arrays if family in (each.name, each.extends))
    left = root.max_workers - len(shared) - coming
    if array.max_own_workers is not None:
        left = min(left, array.max_own_workers - len(own))
    if array.total_workers is not None:
        left = min(left, array.total_workers - len(view.standing) - sum(view.coming.values()))
    for most, nodes in ((root.max_cores, shared), (array.max_own_cores, own), (array.total_cores, view.standing)):
        if most is not None and kind is not None:
            left = min(left, (most - sum(node.vcpus for node in nodes)) // kind.vcpus)
    return max(0, left) if array.requested and not view.stopping else 0


def available(view: View, array: SeenArray, kind: InstanceType | None) -> int:
    """How many more nodes limits and provider allow, less the nodes that wait for a machine."""
    if unavailable(view, array, kind) is not None:
        return 0
    in_stock, most = offered(array, kind), room(view, array, kind)
    if in_stock is None:
        return most
    waiting = sum(
        node.seen is None and node.node_array == array.name and (kind is None or node.type == kind)
        for node in view.standing
    )
    return max(0, min(most, in_stock - waiting))


def unavailable(view: View, array: SeenArray, kind: InstanceType | None) -> str | None:
    """Why no machine of this type is available for a while; None: some may be."""
    refused = view.look.refused.get(array.name) or view.look.refused.get(array.extends or "")
    if refused is not None:
        return refused
    buckets = [bucket for bucket in array.buckets if kind is None or bucket.type.name == kind.name]
    backoffs = [backoff_of(bucket, view.backoffs, array) for bucket in buckets]
    first = next(iter(backoffs), None)
    return None if first is None or None in backoffs else first.message


def offered(array: SeenArray, kind: InstanceType | None) -> int | None:
    """How many more the provider reports as available; None: it reports no number."""
    buckets = [bucket for bucket in array.buckets if kind is None or bucket.type.name == kind.name]
    if not buckets:
        return None if kind is None and not array.buckets else 0
    counts = [0 if bucket.problem is not None else bucket.available for bucket in buckets]
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def placement_groups(array: SeenArray, kind: InstanceType) -> frozenset[str]:
    """The provider's placement groups that a caller can name."""
    names = {bucket.key.placement_group for bucket in array.buckets if bucket.type.name == kind.name}
    return frozenset(name for name in names if name and not NO_ID.search(name))
