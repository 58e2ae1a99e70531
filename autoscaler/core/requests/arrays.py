"""The node arrays that are in force: those of the settings as live requests change them, and those that callers made.

A dynamic array stems from one of the settings and counts against that one's limits. Limits of a request (`MaxCount`,
`MaxCoreCount`) only tighten these (rule 5). Pure: the same requests give the same policy in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autoscaler.core.model.fleet import Bucket, Fleet
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.request_sets import ArrayDefinition, Requests
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.requests.instance_types import not_offered

GROUPS = ":"
"""Separates an array's name and the size of its groups in the name of an array of groups (`execute:64`)."""


def in_force(policy: Policy, requests: Requests, present: Iterable[str] = (), buckets: Sequence[Bucket] = ()) -> Policy:
    """The policy with the node arrays in force: those of the settings in their order, then dynamic ones by name.
    `present`: names of arrays that workers or orders carry. An array of groups whose definition was lost is recognised
    by its name, and is not wanted. `buckets`: what the provider offers, if known.

    A second call with the same requests changes nothing.
    """
    definitions = {definition.name: definition for definition in requests.arrays}
    own = tuple(
        _as_offered(_changed(array, definitions.get(array.name)), array, buckets)
        for array in policy.node_arrays
        if array.extends is None
    )
    if not own:
        return policy
    roots = {array.name: array for array in own}
    dynamic = {name: entry for name, entry in definitions.items() if entry.dynamic and name not in roots}
    lost = {
        name: ArrayDefinition(
            name, dynamic=True, extends=parent, group_cores=int(size) if size.isdecimal() else None, requested=False
        )
        for name in present
        for parent, _, size in (name.rpartition(GROUPS),)
        if parent and name not in roots and name not in dynamic and (parent in roots or parent in dynamic)
    }
    called_for = {node.node_array for node in requests.nodes}
    dynamic = {
        name: each if each.requested else replace(each, requested=name in called_for, keep_alive=())
        for name, each in dynamic.items()
    }
    made = tuple(_dynamic(entry, {**dynamic, **lost}, own) for _, entry in sorted({**dynamic, **lost}.items()))
    return replace(policy, node_arrays=(*own, *made))


def arrays_present(fleet: Fleet, memory: Memory) -> frozenset[str]:
    """Names of the node arrays that workers, orders or remembered workers carry."""
    remembered = (note.bucket.node_array for note in memory.workers.values() if note.bucket is not None)
    carried = (*(worker.node_array for worker in fleet.workers), *(order.node_array for order in fleet.orders))
    return frozenset((*carried, *remembered))


def family_of(array: NodeArrayPolicy) -> str:
    """Name of the array of the settings whose limits hold for it."""
    return array.extends or array.name


def families(policy: Policy) -> Mapping[str, tuple[NodeArrayPolicy, ...]]:
    """All arrays by the one of the settings that they stem from; that one comes first."""
    return {
        root.name: tuple(array for array in policy.node_arrays if family_of(array) == root.name)
        for root in policy.node_arrays
        if root.extends is None
    }


def _changed(array: NodeArrayPolicy, definition: ArrayDefinition | None) -> NodeArrayPolicy:
    """An array of the settings, as live requests define it."""
    limits = replace(array.limits, max_own_workers=None, max_own_cores=None)
    plain = replace(array, machine_types=(), unknown_types=(), keep_alive=(), limits=limits)
    return plain if definition is None or not definition.requested else _defined(plain, definition)


def _as_offered(array: NodeArrayPolicy, settings: NodeArrayPolicy, buckets: Sequence[Bucket]) -> NodeArrayPolicy:
    """The array with the types of the settings if the provider offers none that a caller named. A caller's typing error
    must not take from the queue's jobs what the settings give them.
    """
    as_set = not array.machine_types and array.price_types == settings.price_types
    types = () if as_set else not_offered(array, buckets)
    return replace(array, machine_types=(), price_types=settings.price_types, unknown_types=types) if types else array


def _dynamic(
    entry: ArrayDefinition, dynamic: Mapping[str, ArrayDefinition], own: tuple[NodeArrayPolicy, ...]
) -> NodeArrayPolicy:
    """The array that a caller made, based on the one that it extends, which may be dynamic itself."""
    lineage = [entry]
    while (parent := dynamic.get(lineage[-1].extends or "")) is not None and parent not in lineage:
        lineage.append(parent)
    named = lineage[-1].extends
    root = next((array for array in own if array.name == named), own[0])
    array = replace(root, unknown_types=())  # its own definition names its types
    for ancestor in reversed(lineage):
        array = _defined(array, ancestor)
    return replace(
        array,
        name=entry.name,
        extends=root.name,
        limits=replace(array.limits, min_workers=0),
        keep_alive=array.keep_alive if entry.requested else (),
        group_cores=entry.group_cores,
        group_count=entry.group_count,
        requested=entry.requested,
    )


def _defined(array: NodeArrayPolicy, definition: ArrayDefinition) -> NodeArrayPolicy:
    return replace(
        array,
        machine_types=definition.machine_types or array.machine_types,
        keep_alive=definition.kept_by if definition.keep_alive else array.keep_alive,
        health_check=_health_check(array, definition),
        price_types=(definition.price_type,) if definition.price_type is not None else array.price_types,
        limits=replace(
            array.limits,
            max_own_workers=_lower(array.limits.max_own_workers, definition.max_count),
            max_own_cores=_lower(array.limits.max_own_cores, definition.max_cores),
        ),
    )


def _health_check(array: NodeArrayPolicy, definition: ArrayDefinition) -> tuple[str, ...]:
    """Callers can only choose among the operator's commands, because these run on this machine."""
    if definition.health_check is None:
        return array.health_check
    return (f"{array.health_checks}/{definition.health_check}",)


def _lower(one: int | None, other: int | None) -> int | None:
    given = [value for value in (one, other) if value is not None]
    return min(given, default=None)
