"""Facts on VM sizes by region: from `conf/vm_sizes.json`, or a user's own file in its place.

The file has regions and sizes with the names of Azure's list of SKUs (`family`, `capabilities`), so a file of
cyclecloud-scalelib works as well. `*` holds sizes that are the same in every region. A region in `proxied-locations`
uses the other region's sizes if it has none of its own. `vm_sizes_text` makes such a file from the output of
`az vm list-skus --output json`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from autoscaler.constraints.documents import LARGEST_DOCUMENT, entries, listed, read_document, table, words, wrong
from autoscaler.constraints.json_text import below
from autoscaler.core.constraints.node import SizeFacts
from autoscaler.core.constraints.values import TOO_MUCH, Size
from autoscaler.core.model.fleet import InstanceType
from autoscaler.errors import SettingsError
from autoscaler.outside_files import read_regular

EVERYWHERE = "*"
PROXIES = "proxied-locations"
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class VmSizes:
    """Facts by region and size, and which region stands for another."""

    regions: Mapping[str, Mapping[str, SizeFacts]]
    proxies: Mapping[str, str]

    def facts(self, location: str, vm_size: str) -> SizeFacts | None:
        """The facts on a size: of that region, else of its proxy, else of all regions; None: unknown."""
        for region in (location, self.proxies.get(location, location), EVERYWHERE):
            if vm_size in self.regions.get(region, {}):
                return self.regions[region][vm_size]
        return None

    def type_of(self, location: str, vm_size: str, offered: InstanceType | None = None) -> InstanceType | None:
        """The instance type as the provider describes it, with a higher count of GPUs from here. A type that the
        provider does not describe comes from here alone, if its cores and memory are known. None: unknown.
        """
        facts = (self.facts(location, vm_size) or SizeFacts()).over(offered)
        if facts.vcpu_count is None or facts.memory is None:
            return None
        family = offered.family if offered else facts.vm_family or vm_size
        arch = {"arch": offered.arch} if offered else {}
        return InstanceType(vm_size, family, facts.vcpu_count, int(facts.memory), facts.gpu_count or 0, **arch)


def load_vm_sizes(own: Path | None = None) -> VmSizes:
    """The sizes of our file, or of the user's own. Raises SettingsError naming file and place."""
    try:
        if own is None:
            name = "conf/vm_sizes.json"
            text = (resources.files("autoscaler.conf") / "vm_sizes.json").read_text(encoding="utf-8")
        else:
            name, text = str(own), read_regular(own, LARGEST_DOCUMENT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read the VM sizes {own}: {error}; check its path") from error
    try:
        return vm_sizes_from(read_document(text))
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from error


def vm_sizes_from(value: Any) -> VmSizes:
    """The sizes of a document."""
    proxies: dict[str, str] = {}
    regions: dict[str, dict[str, SizeFacts]] = {}
    for name, part in entries(value, "the document").items():
        if name.replace("_", "-") == PROXIES:
            proxies = {at: words(to, below(name, at)) for at, to in entries(part, name).items()}
        else:
            regions[name] = {
                size: facts_from(record, below(name, size)) for size, record in entries(part, name).items()
            }
    return VmSizes(regions, proxies)


def facts_from(value: Any, at: str) -> SizeFacts:
    """The facts in a record of the file."""
    record = table(value, at)
    at_can = below(at, "capabilities")
    can = table(record.get("capabilities", {}), at_can)
    vcpus = _count(can, "vCPUsAvailable", at_can)
    gib = _amount(can, "MemoryGB", at_can)
    return SizeFacts(
        vm_family=words(record["family"], below(at, "family")) if "family" in record else None,
        vcpu_count=_count(can, "vCPUs", at_can) if vcpus is None else vcpus,
        vcpus_per_core=_count(can, "vCPUsPerCore", at_can),
        memory=None if gib is None else Size(gib * GIB),
        gpu_count=_count(can, "GPUs", at_can),
        infiniband=_truth(can, "RdmaEnabled", at_can),
    )


def record_of(facts: SizeFacts) -> dict[str, Any]:
    """The record with these facts."""
    can = {
        "vCPUs": facts.vcpu_count,
        "vCPUsPerCore": facts.vcpus_per_core,
        "MemoryGB": None if facts.memory is None else facts.memory / GIB,
        "GPUs": facts.gpu_count,
        "RdmaEnabled": facts.infiniband,
    }
    known = {"capabilities": {name: value for name, value in can.items() if value is not None}}
    return known if facts.vm_family is None else {"family": facts.vm_family, **known}


def _amount(can: Mapping[str, Any], name: str, at: str) -> float | None:
    """A number; Azure's own lists write them as text."""
    value = can.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str | None):
        wrong(below(at, name), f"a number is expected, not {value!r}")
    if value is None:
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        wrong(below(at, name), f"a number is expected, not {value!r}")
    if not 0 <= found < TOO_MUCH / GIB:
        wrong(below(at, name), f"a number of at least 0 is expected, not {value!r}")
    return found


def _count(can: Mapping[str, Any], name: str, at: str) -> int | None:
    found = _amount(can, name, at)
    if found is not None and found != int(found):
        wrong(below(at, name), f"a whole number is expected, not {can[name]!r}")
    return None if found is None else int(found)


def _truth(can: Mapping[str, Any], name: str, at: str) -> bool | None:
    match can.get(name):
        case None:
            return None
        case bool() as value:
            return value
        case "True" | "true":
            return True
        case "False" | "false":
            return False
        case value:
            return wrong(below(at, name), f"true or false is expected, not {value!r}")


MACHINES = "virtualMachines"


def vm_sizes_text(skus: Any, *, comment: str, only: Collection[str] = ()) -> str:
    """The file (JSON) of all sizes in a list of SKUs, by region, or of those named `only`; one line a size.

    Raises SettingsError with the place of an error, or for a name that is not in the list.
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
    if missing := sorted(set(only) - known):
        wrong("the list", f"it has no {', '.join(missing)}")
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
