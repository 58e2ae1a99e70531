"""The offers here and their prices: sizes × zones × price types × availability sets, as these settings allow.

Sizes are asked for once a day and quotas once a minute, on another thread; only the first call waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.background import Executor, on_thread
from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, InstanceType, PriceType
from autoscaler.providers.advice import Advice
from autoscaler.providers.azure.calls import Calls
from autoscaler.providers.azure.catalogue import Quota, Size, available, never, quotas, sizes
from autoscaler.providers.azure.image_disks import data_disks
from autoscaler.providers.azure.prices import ask_prices, offers
from autoscaler.providers.azure.settings import AzureSettings
from autoscaler.providers.cache import Cached
from autoscaler.providers.catalog import Catalog, Offer, family_of, load_catalog
from autoscaler.providers.interface import Refused, Unreachable

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(slots=True)
class Market:
    """Sizes, quotas and prices of one region. Safe to be used by several threads."""

    calls: Calls
    settings: AzureSettings
    executor: Executor = on_thread
    advice: Advice = field(default_factory=Advice)
    catalog: Catalog = field(init=False)
    _sizes: Cached[Mapping[str, Size]] = field(init=False)
    _quotas: Cached[Mapping[str, Quota]] = field(init=False)
    _data_disks: Cached[tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.catalog = load_catalog(self.settings.catalog)
        self._sizes = Cached(self._ask_sizes, DAY, executor=self.executor)
        self._quotas = Cached(self._ask_quotas, MINUTE, executor=self.executor)
        self._data_disks = Cached(self._ask_data_disks, HOUR, executor=self.executor)

    def buckets(self) -> Sequence[Bucket]:
        """All that may be ordered, and the problems of the others. Raises ProviderError."""
        nothing: Mapping[str, Quota] = {}
        known = self.advice.read("quotas", self._quotas.get, nothing)
        return [bucket for size in self._offered() for bucket in self._buckets_of(size, known)]

    def _offered(self) -> list[Size]:
        families = self.settings.families
        return [size for size in self._sizes.get().values() if not families or size.type.family in families]

    def type_of(self, name: str) -> InstanceType:
        """The size of any machine, offered here or not. Raises ProviderError."""
        offered = self._sizes.get()
        if name in offered:
            return offered[name].type
        if name in self.catalog.types:
            return self.catalog.types[name]
        return InstanceType(name, family_of(name, "azure"), 1, 0)

    def quotas(self) -> Mapping[str, Quota]:
        """As they are now. Raises ProviderError."""
        return self._ask_quotas()

    def offers(self, as_of: str) -> Sequence[Offer]:
        """Sizes as this subscription has them now, at the prices of Azure's list. Raises ProviderError."""
        location = self.settings.location
        known = ask_prices(location, self.settings.price_list)
        return offers((size.type for size in self._offered()), known, location, as_of)

    def price(self, name: str, price_type: PriceType) -> float | None:
        """The catalogue's figure if it is of this region: another region's price is wrong here."""
        offer = self.catalog.offers.get(name)
        if offer is None or offer.cloud.lower() != "azure" or offer.region != self.settings.location:
            return None
        return offer.price(price_type)

    def data_disks(self) -> Sequence[int]:
        """Of the image, by number. Raises Unreachable, Throttled."""
        return self._data_disks.get()

    def _ask_data_disks(self) -> tuple[int, ...]:
        """None if the image may not be read: `check` reports that."""
        try:
            return data_disks(self.calls, self.settings)
        except Refused:
            return ()
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable(f"the image cannot be understood: {error!r}") from error

    def _ask_quotas(self) -> Mapping[str, Quota]:
        """The present usages."""
        location = self.settings.location
        found = self.calls.pages("the usages", lambda client, **more: client.usage.list(location, **more))
        try:
            return quotas(found)
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable(f"the usages cannot be understood: {error!r}") from error

    def _ask_sizes(self) -> Mapping[str, Size]:
        location = self.settings.location
        wanted = f"location eq '{location}'"
        found = self.calls.pages(
            "the resource SKUs", lambda client, **more: client.resource_skus.list(filter=wanted, **more)
        )
        try:
            return sizes(found, location)
        except (KeyError, TypeError, ValueError) as error:
            raise Unreachable(f"the resource SKUs cannot be understood: {error!r}") from error

    def _buckets_of(self, size: Size, known: Mapping[str, Quota]) -> list[Bucket]:
        """In no set: anywhere; in a set: on demand and in no zone, since Azure accepts nothing else there."""
        name = size.type.name
        keys = [
            BucketKey(name, ANY, zone, price_type)
            for zone in self.settings.zones or (ANY,)
            for price_type in PriceType
            if price_type is PriceType.ON_DEMAND or size.spot
        ]
        sets = self.settings.availability_sets
        keys += [BucketKey(name, array, placement_group=group) for array, group in sets.items()]
        return [self._bucket(size, key, known) for key in keys]

    def _bucket(self, size: Size, key: BucketKey, known: Mapping[str, Quota]) -> Bucket:
        problem = size.problem(key.zone) or never(size, key.price_type, known)
        if size.infiniband and key.placement_group == ANY:
            problem = problem or (
                "its InfiniBand works only inside one availability set, which allows neither zones nor spot: "
                "name one in CP_CAP_AUTOSCALE_AZURE_AVAILABILITY_SETS"
            )
        return Bucket(
            key=key,
            type=size.type,
            price_per_hour=self.price(key.instance_type, key.price_type),
            available=available(size, key.price_type, known),
            problem=problem,
        )
