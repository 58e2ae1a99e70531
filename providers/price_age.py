"""The age of a provider's catalogue prices, and the warning about old ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.interface import OLD_PRICES, Problem


def oldest_price(own: Path | None, cloud: str, region: str, *, only_own: bool = False) -> date | None:
    """The date of the oldest price of a region in the catalogue; None: no price is known, or none is dated.

    `own`: the operator's file, over the included one; `only_own`: only its figures.
    """
    came = load_catalog().offers if only_own else {}
    offers = [offer for name, offer in load_catalog(own).offers.items() if came.get(name) != offer]
    here = [offer for offer in offers if offer.cloud.lower() == cloud and offer.region == region]
    priced = [offer.as_of for offer in here if offer.as_of and (offer.on_demand, offer.spot) != (None, None)]
    return min((date.fromisoformat(each[:10]) for each in priced), default=None)


def of_old_prices(oldest: date | None, remedy: str) -> Iterator[Problem]:
    """A warning if they are too old."""
    if oldest is not None and (datetime.now(UTC).date() - oldest).days > OLD_PRICES:
        what = f"the prices, which a price cap uses, are of {oldest}, older than {OLD_PRICES} days"
        yield Problem(what, remedy, fatal=False)
