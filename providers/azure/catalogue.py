"""The region's sizes, this subscription's restrictions of them, and the rest of its quotas. Pure.

Resource SKUs have sizes, zones and restrictions; usages have quotas. A quota counts vCPUs by family and by region, and
those of spot machines separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.core.model.fleet import ANY, InstanceType, PriceType
from autoscaler.providers.catalog import GIB, family_of

ARCHITECTURES = {"x64": "lx-amd64", "Arm64": "lx-arm64"}
REGIONAL, SPOT, MACHINES = "cores", "lowPriorityCores", "virtualMachines"
"""Usages that every machine counts in: regional vCPUs, those of spot, machines."""


@dataclass(frozen=True, slots=True)
class Size:
    """One size as it can be ordered here."""

    type: InstanceType
    quota_family: str
    """Name of the usage that its vCPUs count in."""
    zones: frozenset[str]
    spot: bool
    infiniband: bool
    restricted: str | None = None
    """Why it is not available in the whole region."""
    restricted_zones: Mapping[str, str] = field(default_factory=dict)
    """Why it is not available in single zones."""

    def problem(self, zone: str) -> str | None:
        """Why it is not available in `zone`, by restrictions."""
        if self.restricted:
            return self.restricted
        if zone != ANY and zone not in self.zones:
            return f"Azure does not offer it in zone {zone}"
        return self.restricted_zones.get(zone)


@dataclass(frozen=True, slots=True)
class Quota:
    """One usage of the region."""

    name: str
    words: str
    used: int
    limit: int

    @property
    def left(self) -> int:
        return max(0, self.limit - self.used)


def sizes(skus: Iterable[Mapping[str, Any]], location: str) -> dict[str, Size]:
    """Every size of machine in a listing of resource SKUs; those without vCPUs or known architecture are left out."""
    found: dict[str, Size] = {}
    for sku in skus:
        if sku.get("resourceType") == MACHINES and (size := _size(sku, location)) is not None:
            found[size.type.name] = size
    return found


def quotas(usages: Iterable[Mapping[str, Any]]) -> dict[str, Quota]:
    """Every usage of a region by its name."""
    found: dict[str, Quota] = {}
    for usage in usages:
        name = usage["name"]
        words = str(name.get("localizedValue") or name["value"])
        found[name["value"]] = Quota(name["value"], words, int(usage["currentValue"]), int(usage["limit"]))
    return found


def counting(size: Size, price_type: PriceType, known: Mapping[str, Quota]) -> Sequence[tuple[Quota, int]]:
    """The quotas that one machine counts in, each with the amount."""
    vcpus = size.type.vcpus
    cores = (SPOT,) if price_type is PriceType.SPOT else (size.quota_family, REGIONAL)
    counted = [(known[name], vcpus) for name in cores if name in known]
    return [*counted, (known[MACHINES], 1)] if MACHINES in known else counted


def available(size: Size, price_type: PriceType, known: Mapping[str, Quota]) -> int | None:
    """How many more the quotas allow; None: unknown."""
    return min((quota.left // each for quota, each in counting(size, price_type, known)), default=None)


def never(size: Size, price_type: PriceType, known: Mapping[str, Quota]) -> str | None:
    """Why the quotas would not allow a single one even if nothing else ran; None: they would."""
    for quota, each in counting(size, price_type, known):
        if quota.limit < each:
            return f"the quota {quota.words} is {quota.limit}, and one takes {each}: ask Azure for more"
    return None


def _size(sku: Mapping[str, Any], location: str) -> Size | None:
    name = str(sku["name"])
    # Azure writes all capabilities as text: "True", "4".
    can = {each["name"]: str(each["value"]) for each in sku.get("capabilities") or ()}
    # Of a constrained size (`Standard_E4-2s_v5`) `vCPUs` counts those that are switched off, too.
    vcpus, memory = can.get("vCPUsAvailable") or can.get("vCPUs") or "", can.get("MemoryGB", "")
    arch = ARCHITECTURES.get(can.get("CpuArchitectureType", "x64"))
    if not vcpus.isdecimal() or not memory or arch is None:
        return None
    zones = {
        str(zone)
        for each in sku.get("locationInfo") or ()
        # Resource SKUs write a region in either case (`EastUS`).
        if str(each.get("location") or "").lower() == location
        for zone in each.get("zones") or ()
    }
    whole, parts = _restrictions(sku, location)
    return Size(
        type=InstanceType(
            name=name,
            family=family_of(name, "azure"),
            vcpus=int(vcpus),
            memory=int(float(memory) * GIB),
            gpus=int(can["GPUs"]) if can.get("GPUs", "").isdecimal() else 0,
            arch=arch,
        ),
        quota_family=str(sku.get("family") or ""),
        zones=frozenset(zones),
        spot=can.get("LowPriorityCapable") == "True",
        infiniband=can.get("RdmaEnabled") == "True",
        restricted=whole,
        restricted_zones=parts,
    )


def _restrictions(sku: Mapping[str, Any], location: str) -> tuple[str | None, Mapping[str, str]]:
    """Why it is not available in the region, and why not in single zones of it."""
    whole: str | None = None
    parts: dict[str, str] = {}
    for each in sku.get("restrictions") or ():
        reason = str(each.get("reasonCode") or "restricted")
        words = f"{reason}: Azure restricts it for this subscription"
        where = each.get("restrictionInfo") or {}
        if each.get("type") == "Zone":
            parts |= {str(zone): f"{words} in zone {zone}" for zone in where.get("zones") or ()}
        elif location in (str(place).lower() for place in each.get("values") or where.get("locations") or (location,)):
            whole = f"{words} in {location}"
    return whole, parts
