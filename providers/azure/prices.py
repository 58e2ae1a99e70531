"""Azure's public list of retail prices, turned into a catalogue file that the operator keeps.

The list is asked by nobody but the operator: it is long, changes about once a month, and every pass must know prices
without a call. Dollars an hour, pay as you go, Linux.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from autoscaler.core.fleet import InstanceType
from providers.catalog import GIB
from providers.interface import Refused, Unreachable

LIST = "https://prices.azure.com/api/retail/prices"
TIMEOUT = (5.0, 30.0)
MOST_PAGES = 1000


@dataclass(frozen=True, slots=True)
class Price:
    """What one size costs an hour; None: the list does not say."""

    on_demand: float | None = None
    spot: float | None = None


def ask_prices(location: str, address: str = LIST) -> Mapping[str, Price]:
    """Every size's prices in a region. Raises Unreachable: a part of the list is none."""
    wanted = f"serviceName eq 'Virtual Machines' and armRegionName eq '{location}' and priceType eq 'Consumption'"
    items: list[Mapping[str, Any]] = []
    query: Mapping[str, str] | None = {"$filter": wanted}
    for _ in range(MOST_PAGES):
        try:
            answer = requests.get(address, params=query, timeout=TIMEOUT)
            answer.raise_for_status()
            page = answer.json()
            items += page["Items"]
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


def catalogue(types: Iterable[InstanceType], known: Mapping[str, Price], location: str, as_of: str) -> str:
    """A catalogue file (TOML) of these sizes at these prices, for `CP_CAP_AUTOSCALE_AZURE_CATALOG`.

    `as_of`: date of the figures, ISO 8601.
    """
    lines = [
        'cloud = "azure"',
        f"region = {json.dumps(location)}",
        'currency = "USD"',
        f"as_of = {as_of}",
        "",
        "[types]",
    ]
    for type_ in types:
        price = known.get(type_.name, Price())
        figures = {
            "vcpus": f"{type_.vcpus}",
            "memory_gib": f"{type_.memory / GIB:g}",
            "gpus": f"{type_.gpus}",
            "arch": json.dumps(type_.arch),
            "on_demand": None if price.on_demand is None else f"{price.on_demand:g}",
            "spot": None if price.spot is None else f"{price.spot:g}",
        }
        given = ", ".join(f"{name} = {value}" for name, value in figures.items() if value is not None)
        lines.append(f"{json.dumps(type_.name)} = {{ {given} }}")
    return "\n".join(lines) + "\n"
