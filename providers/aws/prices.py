"""What a type costs an hour, in US dollars: by AWS's price list and spot price history, else by the catalogue.

The operator's own catalogue wins over the price list (discounts are not in it). A price nobody tells stays unknown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from autoscaler.core.model.fleet import PriceType
from providers.aws.calls import Calls
from providers.catalog import Catalog
from providers.interface import ProviderError

PRODUCT = "Linux/UNIX"
FEW_TYPES = 100
"""So many types are asked for by name; more, and the whole region's history is the shorter question."""
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
    """The price list's on-demand prices of a region; empty where it may not be asked. Raises nothing."""
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in _LISTED.items()]
    filters.append({"Type": "TERM_MATCH", "Field": "regionCode", "Value": region})
    try:
        entries = list(
            calls.pages(
                "get_products", "PriceList", service="pricing", ServiceCode="AmazonEC2", Filters=filters, MaxResults=100
            )
        )
        return dict(found for entry in entries if (found := _listed(json.loads(entry))))
    except (ProviderError, ValueError):
        return {}


def spot_prices(calls: Calls, types: Collection[str]) -> Mapping[tuple[str, str], float]:
    """What spot machines cost now, by type and zone; empty where it may not be asked. Raises nothing."""
    named: dict[str, Any] = {"InstanceTypes": sorted(types)} if len(types) <= FEW_TYPES else {}
    now = datetime.now(UTC)
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    try:
        history = calls.pages(
            "describe_spot_price_history",
            "SpotPriceHistory",
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
    """The catalogue's figures, as far as they are this region's: another's prices would only look like knowledge."""
    found = {
        name: offer.price(price_type)
        for name, offer in catalog.offers.items()
        if offer.cloud.lower() == "aws" and offer.region == region
    }
    return {name: price for name, price in found.items() if price is not None}


def _listed(entry: Mapping[str, Any]) -> tuple[str, float] | None:
    """Type and dollars an hour of one entry of the price list; None for what is rented some other way."""
    name = entry.get("product", {}).get("attributes", {}).get("instanceType")
    for term in entry.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            price = float(dimension.get("pricePerUnit", {}).get("USD", 0))
            if name and dimension.get("unit") == "Hrs" and price > 0:
                return name, price
    return None
