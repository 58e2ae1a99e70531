"""Resources that only rules count, as consumables of hosts, so that placement takes of them without knowing rules.

These are resources that tasks take (`rules.mem`). If the tasks of an entry take different things on different nodes
(`or`, `xor`), the consumable is the number of such tasks that a node has room for (`rules.apply[0]`).
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.node_room import room_for
from autoscaler.core.constraints.ruleset import Entry, Rules
from autoscaler.core.constraints.values import is_number
from autoscaler.core.model.cluster import Complex, Consumable

COUNTED = "rules."
"""Their names begin with it."""


def counted_names(rules: Rules, complexes: Mapping[str, Complex]) -> frozenset[str]:
    """The names of all of them."""
    return frozenset(COUNTED + name for name in (*uncounted(rules, complexes), *tried(rules)))


def counted(rules: Rules, node: Node, complexes: Mapping[str, Complex]) -> dict[str, float]:
    """The amounts that a node has of these."""
    found = {name: node.resources.get(name) for name in uncounted(rules, complexes)}
    found |= {place: room_for(entry.parts.checked, node, place) for place, entry in tried(rules).items()}
    return {COUNTED + name: value for name, value in found.items() if is_number(value)}


def tried(rules: Rules) -> dict[str, Entry]:
    """By place, the entries whose tasks take amounts that depend on the node: a node has room for a number of these
    tasks.
    """
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
