"""Writes amounts of complexes in Grid Engine's notation; `model.complexes` reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.complexes import RESOURCE_MAP, TOO_MUCH
from autoscaler.core.model.demand_vector import Property

_LISTED_IDS = 64
"""More ids than this are written as a range."""


def written(value: float, kind: str) -> str:
    """An amount as Grid Engine takes it in `complex_values`: memory with the largest suffix that keeps it exact (`32G`,
    `7680M`).
    """
    if kind == "BOOL":
        return "TRUE" if value else "FALSE"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    whole = int(value)
    if kind == "MEMORY" and whole == value and whole > 0:
        for suffix, factor in (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10)):
            if whole % factor == 0:
                return f"{whole // factor}{suffix}"
    return str(whole) if whole == value else repr(value)


def shown_property(requested: Property, complexes: Mapping[str, Complex]) -> str:
    """A requested property for people, as `qsub -l` takes it: `mem_free=2G`."""
    kind = complexes[requested.name].type if requested.name in complexes else "STRING"
    try:
        value = written(float(requested.value), kind)
    except ValueError:
        value = requested.value
    return (
        f"{requested.name}={value}" if requested.relop in ("==", "<=") else f"{requested.name}{requested.relop}{value}"
    )


def configured(value: float, kind: str) -> str:
    """An amount as a host's `complex_values` take it: `written`, and for a resource map with an id for each unit, which
    older dialects require. '' for a resource map without units: such a host does not have it.
    """
    if kind != RESOURCE_MAP:
        return written(value, kind)
    count = int(min(value, TOO_MUCH))
    ids = f"0-{count - 1}" if count > _LISTED_IDS else " ".join(map(str, range(count)))
    return f"{count}({ids})" if count >= 1 else ""
