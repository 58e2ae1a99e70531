"""Which instance types the region's zones have, how large they are, and which of them these settings offer.

Asked of EC2 once a day. Where that is not allowed, the types of `conf/catalog/` stand in, in every zone with a subnet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.core.model.fleet import InstanceType, PriceType
from providers.aws.calls import Calls
from providers.catalog import Catalog, family_of
from providers.interface import Refused

MIB = 1024**2
MOST_TYPES_A_PAGE, MOST_OFFERINGS_A_PAGE = 100, 1000
ARCHITECTURES = {"x86_64": "lx-amd64", "arm64": "lx-arm64"}
USAGES = {"on-demand": PriceType.ON_DEMAND, "spot": PriceType.SPOT}


@dataclass(frozen=True, slots=True)
class Offered:
    """One instance type as it can be ordered here."""

    type: InstanceType
    price_types: tuple[PriceType, ...]
    zones: frozenset[str]


def offered_types(
    calls: Calls, zones: Iterable[str], families: tuple[str, ...], known: Catalog
) -> Mapping[str, Offered]:
    """All types of `families` (none named: all) that any of `zones` has. Raises Unreachable, Throttled."""
    wanted = frozenset(zones)
    try:
        offered = _asked(calls, wanted, families)
    except Refused:
        offered = _from_catalog(known, wanted)
    return {name: found for name, found in offered.items() if not families or found.type.family in families}


def one_type(calls: Calls, name: str, known: Catalog) -> InstanceType:
    """A type that is not offered here and yet runs, such as one whose family was taken out of the settings."""
    try:
        (details,) = calls.ask("describe_instance_types", InstanceTypes=[name])["InstanceTypes"]
    except Refused:
        return known.types[name] if name in known.types else InstanceType(name, family_of(name, "aws"), 1, 0)
    return _type(details) or InstanceType(name, family_of(name, "aws"), 1, 0)


def _asked(calls: Calls, zones: frozenset[str], families: tuple[str, ...]) -> dict[str, Offered]:
    filters = [{"Name": "instance-type", "Values": [f"{family}.*" for family in families]}] if families else []
    details = calls.pages("describe_instance_types", "InstanceTypes", Filters=filters, MaxResults=MOST_TYPES_A_PAGE)
    types = {found["InstanceType"]: found for found in details}
    places: dict[str, set[str]] = {}
    offerings = calls.pages(
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "location", "Values": sorted(zones)}],
        MaxResults=MOST_OFFERINGS_A_PAGE,
    )
    for offering in offerings:
        places.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    offered = {}
    for name, found in types.items():
        type_ = _type(found)
        price_types = tuple(USAGES[usage] for usage in USAGES if usage in found.get("SupportedUsageClasses", ()))
        if type_ is not None and price_types and name in places:
            offered[name] = Offered(type_, price_types, frozenset(places[name]) & zones)
    return offered


def _from_catalog(known: Catalog, zones: frozenset[str]) -> dict[str, Offered]:
    return {
        name: Offered(offer.type, tuple(PriceType), zones)
        for name, offer in known.offers.items()
        if offer.cloud.lower() == "aws"
    }


def _type(found: Mapping[str, Any]) -> InstanceType | None:
    """None for a machine that no execution daemon is built for (a Mac's architecture, say)."""
    name = found["InstanceType"]
    architectures = found.get("ProcessorInfo", {}).get("SupportedArchitectures", ())
    arch = next((ARCHITECTURES[each] for each in architectures if each in ARCHITECTURES), None)
    if arch is None:
        return None
    return InstanceType(
        name=name,
        family=family_of(name, "aws"),
        vcpus=int(found["VCpuInfo"]["DefaultVCpus"]),
        memory=int(found["MemoryInfo"]["SizeInMiB"]) * MIB,
        gpus=sum(int(gpu.get("Count", 0)) for gpu in found.get("GpuInfo", {}).get("Gpus", ())),
        arch=arch,
    )
