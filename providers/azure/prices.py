"""Azure's public list of retail prices, from which the operator makes a catalogue file to keep.

Only the operator's command reads the list: it is long, changes about once a month, and every pass must know prices
without a call. Dollars an hour, pay as you go, Linux.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from autoscaler.core.model.fleet import InstanceType
from autoscaler.providers.catalog import Offer
from autoscaler.providers.interface import Refused, Unreachable

TIMEOUT = (5.0, 30.0)
MOST_PAGES = 1000


@dataclass(frozen=True, slots=True)
class Price:
    """One size's prices an hour; None: the list has none."""

    on_demand: float | None = None
    spot: float | None = None


def ask_prices(location: str, address: str) -> Mapping[str, Price]:
    """Every size's prices in a region. Raises Unreachable: an incomplete list does not count."""
    wanted = f"serviceName eq 'Virtual Machines' and armRegionName eq '{location}' and priceType eq 'Consumption'"
    items: list[Mapping[str, Any]] = []
    query: Mapping[str, str] | None = {"$filter": wanted}
    for _ in range(MOST_PAGES):
        try:
            answer = requests.get(address, params=query, timeout=TIMEOUT)
            answer.raise_for_status()
            page = answer.json()
            items += page["Items"]
            # NextPageLink contains the query already.
            address, query = page.get("NextPageLink") or "", None
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise Unreachable(f"Azure's list of prices: {error}") from error
        if not address:
            return prices(items)
    raise Refused(f"Azure's list of prices has more than {MOST_PAGES} pages: it repeats itself")


def prices(items: Iterable[Mapping[str, Any]]) -> Mapping[str, Price]:
    """The list's entries by size. Windows, low priority (an older kind of spot) and other units are left out."""
    on_demand: dict[str, float] = {}
    spot: dict[str, float] = {}
    for item in items:
        name, product, kind = (str(item.get(key) or "") for key in ("armSkuName", "productName", "skuName"))
        plain = item.get("type") == "Consumption" and item.get("unitOfMeasure") == "1 Hour"
        price = item.get("retailPrice")
        if not name or not plain or "Windows" in product or not isinstance(price, int | float) or price <= 0:
            continue
        if kind.endswith(" Spot"):
            spot[name] = float(price)
        elif not kind.endswith(" Low Priority"):
            on_demand[name] = float(price)
    return {name: Price(on_demand.get(name), spot.get(name)) for name in sorted(on_demand.keys() | spot.keys())}


def offers(types: Iterable[InstanceType], known: Mapping[str, Price], location: str, as_of: str) -> list[Offer]:
    """These sizes at these prices. `as_of`: date of the figures, ISO 8601."""
    priced = [(type_, known.get(type_.name, Price())) for type_ in types]
    return [Offer(type_, "azure", location, "USD", as_of, price.on_demand, price.spot) for type_, price in priced]
