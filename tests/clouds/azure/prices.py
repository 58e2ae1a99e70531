"""The played list of retail prices, two entries a page: public, asked without a token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.clouds.azure.answers import Reply, error
from tests.clouds.azure.region import LOCATION

PAGE = 2
FILTER = f"serviceName eq 'Virtual Machines' and armRegionName eq '{LOCATION}' and priceType eq 'Consumption'"


def _entry(size: str, price: float, kind: str = "") -> dict[str, Any]:
    name = size.removeprefix("Standard_").replace("_", " ")
    return {
        "currencyCode": "USD",
        "retailPrice": price,
        "armRegionName": LOCATION,
        "armSkuName": size,
        "skuName": f"{name} {kind}".strip(),
        "productName": "Virtual Machines of a series",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
    }


ENTRIES = (
    _entry("Standard_D2s_v5", 0.096),
    _entry("Standard_D2s_v5", 0.0173, "Spot"),
    _entry("Standard_D4s_v5", 0.192),
    _entry("Standard_D2s_v5", 0.0192, "Low Priority"),
    _entry("Standard_Unknown_v9", 1.0),
)


def price_page(query: Mapping[str, str], host: str) -> Reply:
    """One page, with the address of the next; whatever else is asked is refused."""
    if query.get("$filter") != FILTER or query.keys() - {"$filter", "$skip"}:
        return error(400, "BadRequest", f"this list answers to {FILTER!r} only")
    first = int(query.get("$skip", 0))
    more = f"{host}/api/retail/prices?$filter={FILTER}&$skip={first + PAGE}" if first + PAGE < len(ENTRIES) else None
    return Reply(200, {"Items": list(ENTRIES[first : first + PAGE]), "NextPageLink": more, "Count": PAGE})
