"""Which instance types the region's zones have, their sizes, which of them these settings offer, and their prices.

EC2 is asked once a day. If that is not allowed, the types of `conf/catalog/` are used, in every zone with a subnet.
Prices are US dollars an hour: of AWS's price list and spot price history, else the catalogue's. The operator's own
catalogue wins over the price list (discounts are not in it). A price in none of them stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autoscaler.core.model.fleet import InstanceType, PriceType
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.catalog import Catalog, family_of
from autoscaler.providers.interface import ProviderError, Refused

MIB = 1024**2
# EC2 refuses a larger MaxResults.
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
    """A type that is not offered here and yet runs, such as one whose family was removed from the settings."""
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


PRODUCT = "Linux/UNIX"
FEW_TYPES = 100
"""This many types are requested by name; for more, the whole region's history is the shorter request."""
_LISTED = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Plain machines: the price list has every combination."""


@dataclass(frozen=True, slots=True)
class Prices:
    """On-demand by type; spot by type and zone."""

    on_demand: Mapping[str, float] = field(default_factory=dict)
    spot: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def price(self, name: str, zone: str, price_type: PriceType) -> float | None:
        if price_type is PriceType.SPOT:
            return self.spot.get((name, zone))
        return self.on_demand.get(name)


def listed_prices(calls: Calls, region: str) -> Mapping[str, float]:
    """The price list's on-demand prices of a region; empty if access is not allowed. Raises nothing."""
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in _LISTED.items()]
    filters.append({"Type": "TERM_MATCH", "Field": "regionCode", "Value": region})
    try:
        entries = list(
            calls.pages(
                "get_products", "PriceList", service="pricing", ServiceCode="AmazonEC2", Filters=filters, MaxResults=100
            )
        )
        # Each entry of a PriceList is a text with JSON in it.
        return dict(found for entry in entries if (found := _listed(json.loads(entry))))
    except (ProviderError, ValueError):
        return {}


def spot_prices(calls: Calls, types: Collection[str]) -> Mapping[tuple[str, str], float]:
    """The present price of spot machines, by type and zone; empty if access is not allowed. Raises nothing."""
    named: dict[str, Any] = {"InstanceTypes": sorted(types)} if len(types) <= FEW_TYPES else {}
    now = datetime.now(UTC)
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    try:
        history = calls.pages(
            "describe_spot_price_history",
            "SpotPriceHistory",
            # For one moment EC2 gives the last change before it: the price in force.
            StartTime=now,
            EndTime=now,
            ProductDescriptions=[PRODUCT, f"{PRODUCT} (Amazon VPC)"],
            MaxResults=1000,
            **named,
        )
        for entry in history:
            key = entry["InstanceType"], entry["AvailabilityZone"]
            found = entry["Timestamp"], float(entry["SpotPrice"])
            latest[key] = max(found, latest.get(key, found))
    except (ProviderError, KeyError, ValueError):
        return {}
    return {key: price for key, (_, price) in latest.items()}


def catalog_prices(catalog: Catalog, region: str, price_type: PriceType) -> Mapping[str, float]:
    """The catalogue's figures if they are of this region: another region's prices are wrong here."""
    found = {
        name: offer.price(price_type)
        for name, offer in catalog.offers.items()
        if offer.cloud.lower() == "aws" and offer.region == region
    }
    return {name: price for name, price in found.items() if price is not None}


def _listed(entry: Mapping[str, Any]) -> tuple[str, float] | None:
    """Type and dollars an hour of one entry of the price list; None for other kinds of rent."""
    name = entry.get("product", {}).get("attributes", {}).get("instanceType")
    for term in entry.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            price = float(dimension.get("pricePerUnit", {}).get("USD", 0))
            if name and dimension.get("unit") == "Hrs" and price > 0:
                return name, price
    return None
