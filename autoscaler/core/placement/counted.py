"""What rules count that Grid Engine does not, as consumables of hosts, so that placement takes of them without knowing
rules.

A resource that tasks take (`rules.mem`); and of an entry whose tasks take one thing on this node and another on that
(`or`, `xor`), how many of them a node has room for (`rules.apply[0]`).
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.node_room import room_for
from autoscaler.core.constraints.ruleset import Entry, Rules
from autoscaler.core.constraints.values import is_number
from autoscaler.core.model.cluster import Complex, Consumable

COUNTED = "rules."
"""Begins the names of these."""


def counted_names(rules: Rules, complexes: Mapping[str, Complex]) -> frozenset[str]:
    """All of them."""
    return frozenset(COUNTED + name for name in (*uncounted(rules, complexes), *tried(rules)))


def counted(rules: Rules, node: Node, complexes: Mapping[str, Complex]) -> dict[str, float]:
    """What a node has of these."""
    found = {name: node.resources.get(name) for name in uncounted(rules, complexes)}
    found |= {place: room_for(entry.parts.asked, node, place) for place, entry in tried(rules).items()}
    return {COUNTED + name: value for name, value in found.items() if is_number(value)}


def tried(rules: Rules) -> dict[str, Entry]:
    """Entries whose tasks take what depends on the node, by place: of these a node has room for so many."""
    return {entry.place: entry for entry in rules.entries if entry.parts.tried}


def uncounted(rules: Rules, complexes: Mapping[str, Complex]) -> frozenset[str]:
    """Resources that tasks take and no complex of Grid Engine counts."""
    names = {name for entry in rules.entries for name, _ in entry.parts.takes}
    return frozenset(name for name in names if counting(rules, name, complexes) is None)


def counting(rules: Rules, resource: str, complexes: Mapping[str, Complex]) -> Complex | None:
    """The complex by which Grid Engine counts a resource, if it does."""
    for name in rules.complexes_of(resource):
        entry = complexes.get(name)
        if entry is not None and entry.consumable is not Consumable.NO and entry.relop != "EXCL":
            return entry
    return None
