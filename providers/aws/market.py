"""What can be had here and for how much: instance types × zones × price types, as far as these settings go.

Everything is asked seldom and kept, so that a pass costs no call; only the very first one waits for the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.fleet import ANY, Bucket, BucketKey, InstanceType, PriceType
from autoscaler.errand import Executor, on_thread
from providers.aws.calls import Calls
from providers.aws.catalogue import ARCHITECTURES, Offered, offered_types, one_type
from providers.aws.kept import Kept
from providers.aws.prices import Prices, catalog_prices, listed_prices, spot_prices
from providers.aws.settings import AwsSettings
from providers.aws.terms import Terms, look_up
from providers.catalog import Catalog, load_catalog

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(slots=True)
class Market:
    """Terms, types and prices of one region. Safe to be used by several threads."""

    calls: Calls
    settings: AwsSettings
    executor: Executor = on_thread
    catalog: Catalog = field(init=False)
    _terms: Kept[Terms] = field(init=False)
    _offered: Kept[Mapping[str, Offered]] = field(init=False)
    _listed: Kept[Mapping[str, float]] = field(init=False)
    _spot: Kept[Mapping[tuple[str, str], float]] = field(init=False)
    _others: dict[str, InstanceType] = field(default_factory=dict, init=False)
    _made_of: tuple[object, ...] = field(default=(), init=False)
    _buckets: tuple[Bucket, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.catalog = load_catalog(self.settings.catalog)
        self._terms = Kept(lambda: look_up(self.calls, self.settings), HOUR, executor=self.executor)
        self._offered = Kept(self._ask_offered, DAY, executor=self.executor)
        self._listed = Kept(self._ask_listed, DAY, executor=self.executor)
        self._spot = Kept(self._ask_spot, 10 * MINUTE, executor=self.executor)

    def terms(self) -> Terms:
        """What all orders have in common. Raises ProviderError."""
        return self._terms.get()

    def buckets(self) -> Sequence[Bucket]:
        """All that may be ordered; made anew only when an answer it rests on was renewed. Raises ProviderError."""
        terms, offered, prices = self._terms.get(), self._offered.get(), self._prices()
        made_of = (terms, offered, prices.on_demand, prices.spot)
        if [id(part) for part in made_of] != [id(part) for part in self._made_of]:
            arch = ARCHITECTURES.get(terms.arch or "")
            usable = [found for found in offered.values() if arch in (None, found.type.arch)]
            self._buckets = tuple(bucket for found in usable for bucket in self._buckets_of(found, terms, prices))
            self._made_of = made_of
        return self._buckets

    def type_of(self, name: str) -> InstanceType:
        """The size of any type, offered here or not. Raises ProviderError."""
        offered = self._offered.get()
        if name in offered:
            return offered[name].type
        if name not in self._others:
            self._others[name] = one_type(self.calls, name, self.catalog)
        return self._others[name]

    def price(self, name: str, zone: str, price_type: PriceType) -> float | None:
        return self._prices().price(name, zone, price_type)

    def _buckets_of(self, found: Offered, terms: Terms, prices: Prices) -> list[Bucket]:
        groups = self.settings.placement_groups
        arrays = [(ANY, ANY)] if ANY not in groups else []
        return [
            Bucket(
                BucketKey(found.type.name, array, zone, price_type, group),
                found.type,
                prices.price(found.type.name, zone, price_type),
            )
            for zone in sorted(found.zones & terms.zones)
            for price_type in found.price_types
            for array, group in (*arrays, *groups.items())
        ]

    def _prices(self) -> Prices:
        return Prices(self._listed.get(), self._spot.get())

    def _ask_offered(self) -> Mapping[str, Offered]:
        return offered_types(self.calls, self._terms.get().zones, self.settings.families, self.catalog)

    def _ask_listed(self) -> Mapping[str, float]:
        """AWS's list over the figures that come with us, and the operator's own file over both."""
        region = self.calls.region
        known = catalog_prices(self.catalog, region, PriceType.ON_DEMAND)
        if self.settings.prices == "catalog":
            return known
        came = catalog_prices(load_catalog(), region, PriceType.ON_DEMAND)
        own = {name: price for name, price in known.items() if came.get(name) != price}
        return {**came, **listed_prices(self.calls, region), **own}

    def _ask_spot(self) -> Mapping[tuple[str, str], float]:
        offered, zones = self._offered.get(), self._terms.get().zones
        known = catalog_prices(self.catalog, self.calls.region, PriceType.SPOT)
        figures = {(name, zone): price for name, price in known.items() for zone in zones}
        if self.settings.prices == "catalog":
            return figures
        return {**figures, **spot_prices(self.calls, offered)}
