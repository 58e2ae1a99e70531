"""The offers here and their prices: instance types × zones × price types, as these settings allow.

Everything is asked for seldom and cached, so that a pass costs no call; only the very first one waits for the answers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from autoscaler.background import Executor, on_thread
from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, InstanceType, PriceType
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.catalogue import (
    ARCHITECTURES,
    Offered,
    Prices,
    catalog_prices,
    listed_prices,
    offered_types,
    one_type,
    spot_prices,
)
from autoscaler.providers.aws.launch_template import NO_ON_DEMAND, spot_only
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.aws.terms import Terms, look_up
from autoscaler.providers.cache import Cached
from autoscaler.providers.catalog import Catalog, Offer, load_catalog
from autoscaler.providers.interface import Refused
from autoscaler.providers.price_age import oldest_price

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(slots=True)
class Market:
    """Terms, types and prices of one region. Safe to be used by several threads."""

    calls: Calls
    settings: AwsSettings
    executor: Executor = on_thread
    catalog: Catalog = field(init=False)
    _terms: dict[tuple[str | None, int | None], Cached[Terms]] = field(default_factory=dict, init=False)
    """By image and disk."""
    _guard: threading.Lock = field(default_factory=threading.Lock, init=False)
    _offered: Cached[Mapping[str, Offered]] = field(init=False)
    _listed: Cached[Mapping[str, float]] = field(init=False)
    _spot: Cached[Mapping[tuple[str, str], float]] = field(init=False)
    _others: dict[str, InstanceType] = field(default_factory=dict, init=False)
    _made_of: tuple[object, ...] = field(default=(), init=False)
    _buckets: tuple[Bucket, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        self.catalog = load_catalog(self.settings.catalog)
        self._offered = Cached(self._ask_offered, DAY, executor=self.executor)
        self._listed = Cached(self._ask_listed, DAY, executor=self.executor)
        self._spot = Cached(self._ask_spot, 10 * MINUTE, executor=self.executor)

    def terms(self, settings: AwsSettings | None = None) -> Terms:
        """The common terms of all orders, or those of a node array with `settings` of its own. Raises ProviderError."""
        own = settings or self.settings
        key = own.image, own.disk
        with self._guard:
            kept = self._terms.setdefault(key, Cached(lambda: look_up(self.calls, own), HOUR, executor=self.executor))
        return kept.get()

    def forget_terms(self) -> None:
        """Something in them is gone: look them up anew."""
        with self._guard:
            self._terms.clear()

    def buckets(self) -> Sequence[Bucket]:
        """All that may be ordered; made anew only if an answer that it uses was renewed. Raises ProviderError.

        If nothing can ever be ordered (no such image), each type has that as its problem: existing workers still have
        to be managed.
        """
        try:
            terms, offered, prices = self.terms(), self._offered.get(), self._prices()
        except Refused as error:
            return self._none_can_be_had(str(error))
        made_of = (terms, offered, prices.on_demand, prices.spot)
        if [id(part) for part in made_of] != [id(part) for part in self._made_of]:
            arch = ARCHITECTURES.get(terms.arch or "")
            usable = [found for found in offered.values() if arch in (None, found.type.arch)]
            self._buckets = tuple(bucket for found in usable for bucket in self._buckets_of(found, terms, prices))
            self._made_of = made_of
        return self._buckets

    def type_of(self, name: str) -> InstanceType:
        """The size of any type, offered here or not. Raises ProviderError."""
        with contextlib.suppress(Refused):
            offered = self._offered.get()
            if name in offered:
                return offered[name].type
        if name not in self._others:
            self._others[name] = one_type(self.calls, name, self.catalog)
        return self._others[name]

    def prices(self) -> Prices:
        """The known prices. Raises ProviderError."""
        try:
            return self._prices()
        except Refused:
            return Prices()

    def offers(self, as_of: str) -> Sequence[Offer]:
        """Types and prices from AWS now; of spot prices the highest of the zones, since a price cap needs that one.

        Raises ProviderError, and Refused if the price list is empty.
        """
        offered, zones = self._offered.get(), self.terms().zones
        listed = listed_prices(self.calls, self.calls.region)
        if not listed:
            raise Refused("AWS's price list is empty: allow pricing:GetProducts and make its service reachable")
        spot = spot_prices(self.calls, offered)
        return [
            Offer(
                found.type,
                cloud="aws",
                region=self.calls.region,
                as_of=as_of,
                on_demand=listed.get(name),
                spot=max((spot[name, zone] for zone in zones if (name, zone) in spot), default=None),
            )
            for name, found in offered.items()
        ]

    def oldest_price(self) -> date | None:
        """The oldest on-demand price that is used where AWS gives none. Raises ProviderError."""
        asks = self.settings.prices == "ask" and bool(listed_prices(self.calls, self.calls.region))
        return oldest_price(self.settings.catalog, "aws", self.calls.region, only_own=asks)

    def _none_can_be_had(self, problem: str) -> Sequence[Bucket]:
        return tuple(
            replace(bucket, problem=problem)
            for bucket in self.catalog.buckets()
            if self.catalog.offers[bucket.type.name].cloud.lower() == "aws"
        )

    def _buckets_of(self, found: Offered, terms: Terms, prices: Prices) -> list[Bucket]:
        groups = self.settings.placement_groups
        arrays = [(ANY, ANY)] if ANY not in groups else []
        return [
            Bucket(
                BucketKey(found.type.name, array, zone, price_type, group),
                found.type,
                prices.price(found.type.name, zone, price_type),
                problem=NO_ON_DEMAND if price_type is PriceType.ON_DEMAND and spot_only(terms.template) else None,
            )
            for zone in sorted(found.zones & terms.zones)
            for price_type in found.price_types
            for array, group in (*arrays, *groups.items())
        ]

    def _prices(self) -> Prices:
        return Prices(self._listed.get(), self._spot.get())

    def _ask_offered(self) -> Mapping[str, Offered]:
        return offered_types(self.calls, self.terms().zones, self.settings.families, self.catalog)

    def _ask_listed(self) -> Mapping[str, float]:
        """AWS's list over the included figures, and the operator's own file over both."""
        region = self.calls.region
        known = catalog_prices(self.catalog, region, PriceType.ON_DEMAND)
        if self.settings.prices == "catalog":
            return known
        came = catalog_prices(load_catalog(), region, PriceType.ON_DEMAND)
        own = {name: price for name, price in known.items() if came.get(name) != price}
        return {**came, **listed_prices(self.calls, region), **own}

    def _ask_spot(self) -> Mapping[tuple[str, str], float]:
        offered, zones = self._offered.get(), self.terms().zones
        known = catalog_prices(self.catalog, self.calls.region, PriceType.SPOT)
        figures = {(name, zone): price for name, price in known.items() for zone in zones}
        if self.settings.prices == "catalog":
            return figures
        return {**figures, **spot_prices(self.calls, offered)}
