"""The `Configuration` of a node array, merged over that of the arrays that it extends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from autoscaler.core.model.request_sets import ArrayDefinition
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.worker_configuration import flat


def configuration_of(node_array: str, definitions: Iterable[ArrayDefinition]) -> dict[str, Any]:
    """By dotted key. An array's own values win, key by key; an array that nobody defined has none. An array of groups
    (`execute:64`) has the values of the array in its name.
    """
    known = {definition.name: definition for definition in definitions}
    lineage: list[ArrayDefinition] = []
    name: str | None = node_array
    while name:
        definition = known.get(name)
        if definition in lineage:
            break
        if definition is not None:
            lineage.append(definition)
        name = name.rpartition(GROUPS)[0] if definition is None else definition.extends
    values: dict[str, Any] = {}
    for definition in reversed(lineage):
        values |= flat(json.loads(definition.configuration))
    return values
