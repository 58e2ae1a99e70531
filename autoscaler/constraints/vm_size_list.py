"""A file of VM sizes made of Azure's list of SKUs, as `az vm list-skus --output json` prints it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from autoscaler.constraints.documents import listed, table, words, wrong
from autoscaler.constraints.json_text import below
from autoscaler.constraints.vm_sizes import facts_from, record_of

MACHINES = "virtualMachines"


def vm_sizes_text(skus: Any, *, comment: str, only: Collection[str] = ()) -> str:
    """The file (JSON) of all sizes in a list of SKUs, by region, or of those named `only`; one line a size.

    Raises SettingsError with the place of what cannot be understood, or for a name that the list does not have.
    """
    regions: dict[str, dict[str, Any]] = {}
    for number, part in enumerate(listed(skus, "the list")):
        at = f"[{number}]"
        sku = table(part, at)
        if sku.get("resourceType", MACHINES) != MACHINES:
            continue
        name = words(sku.get("name"), below(at, "name"))
        if only and name not in only:
            continue
        for region in listed(sku.get("locations"), below(at, "locations")):
            record = {"capabilities": _capabilities(sku.get("capabilities"), below(at, "capabilities"))}
            if sku.get("family"):
                record["family"] = sku["family"]
            found = record_of(facts_from(record, at))
            regions.setdefault(words(region, below(at, "locations")).lower(), {})[name] = found
    known = {name for sizes in regions.values() for name in sizes}
    if lacking := sorted(set(only) - known):
        wrong("the list", f"it has no {', '.join(lacking)}")
    if not regions:
        wrong("the list", f"it has no {MACHINES}: print it with `az vm list-skus --resource-type {MACHINES}`")
    return _text(regions, comment)


def _capabilities(value: Any, at: str) -> dict[str, Any]:
    """By name; Azure lists them as pairs."""
    pairs = [table(part, f"{at}[{number}]") for number, part in enumerate(listed(value or [], at))]
    return {str(pair.get("name")): pair.get("value") for pair in pairs}


def _text(regions: dict[str, dict[str, Any]], comment: str) -> str:
    parts = [f'  "_comment_": {json.dumps(comment)}']
    for region, sizes in sorted(regions.items()):
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(record)}" for name, record in sorted(sizes.items()))
        parts.append(f"  {json.dumps(region)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
