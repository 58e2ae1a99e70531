"""Which instance types a node array may use, and which requested types its provider does not offer at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autoscaler.core.model.fleet import Bucket, InstanceType
from autoscaler.core.policy import NodeArrayPolicy


def allowed_types(array: NodeArrayPolicy, buckets: Sequence[Bucket]) -> dict[str, InstanceType]:
    """The instance types that this node array may use, of those that the provider knows, available now or not."""
    known = {bucket.type.name: bucket.type for bucket in buckets if array.takes(bucket.key)}
    if not array.requested:
        return {}
    if array.machine_types:
        return {name: known[name] for name in array.machine_types if name in known}
    base = known.get(array.instance_type)
    if array.hybrid:
        array = array if array.family or base is None else replace(array, family=base.family)
        most = array.max_cores_per_worker or None
        return {
            name: type_
            for name, type_ in known.items()
            if array.of_family(type_.family) and (most is None or type_.vcpus <= most)
        }
    if base is None:
        return {}
    if array.descending:
        return {
            name: type_
            for name, type_ in known.items()
            if name == base.name or (type_.family == base.family and type_.vcpus < base.vcpus)
        }
    return {base.name: base}


def not_offered(array: NodeArrayPolicy, buckets: Sequence[Bucket]) -> tuple[str, ...]:
    """The machine types named for it if its provider has none of them; else the types that it has only at other price
    types. Empty if any of them could be had at some time, or if the provider reports no types at all.
    """
    mine = [bucket for bucket in buckets if array.takes(bucket.key)]
    types = allowed_types(replace(array, requested=True), mine)
    if not types:
        return array.machine_types if mine else ()
    if any(bucket.type.name in types and bucket.key.price_type in array.price_types for bucket in mine):
        return ()
    by_family = array.hybrid and not array.machine_types
    names = dict.fromkeys(type_.family if by_family else type_.name for type_ in types.values())
    return tuple(f"{price_type.value} {name}" for price_type in array.price_types for name in names)
