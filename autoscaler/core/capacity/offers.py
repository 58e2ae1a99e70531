"""What could be launched for a node array: its allowed instance types with the buckets that are available now, and why
others are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from autoscaler.core.capacity.reported_values import as_reported, reported_by
from autoscaler.core.limits.backoff import backoff_of
from autoscaler.core.limits.limits import Room, Usage, room_under, what_is_left
from autoscaler.core.limits.price_types import other_price_type
from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.fleet import Bucket, FailureKind, InstanceType, PriceType
from autoscaler.core.model.memory import Backoff, ReportedType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import HostValues, host_values_of
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.core.snapshot import BucketVerdict


@dataclass(frozen=True, slots=True)
class LaunchOffer:
    """One instance type at one price type, with the buckets to order it from in order of preference."""

    type: InstanceType
    price_type: PriceType
    buckets: tuple[Bucket, ...]
    offer: HostValues
    host: Host
    """One new worker of it, for placement."""
    room: Room
    """How many more of it the limits allow."""
    reported: ReportedType | None = None
    """Values that its hosts reported."""
    interrupted: float = 1.0
    """By what factor interruptions are likely to make what runs there take longer."""

    @property
    def price(self) -> float:
        """An hour of work that is not lost."""
        price = self.buckets[0].price_per_hour
        return float("inf") if price is None else price * self.interrupted

    @property
    def available(self) -> int | None:
        """How many are available now; None if a bucket does not say."""
        counts = [bucket.available for bucket in self.buckets]
        return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def offers_for(
    array: NodeArrayPolicy,
    buckets: Sequence[Bucket],
    backoffs: Sequence[Backoff],
    usage: Usage,
    complexes: Mapping[str, Complex],
    *,
    waited: float = float("inf"),
    reported: Sequence[ReportedType] = (),
) -> tuple[tuple[LaunchOffer, ...], tuple[BucketVerdict, ...]]:
    """The offers that can be ordered now, larger types last, and why other buckets of these families cannot.

    `waited`: seconds since the longest waiting task that it would be for could run. `reported`: what workers of a type
    reported.
    """
    types = allowed_types(array, buckets)
    families = {type_.family for type_ in types.values()}
    usable: dict[tuple[str, PriceType, object], list[Bucket]] = {}
    verdicts: list[BucketVerdict] = []
    for bucket in sorted(buckets, key=cheapest_first):
        if not array.takes(bucket.key):
            continue
        if bucket.type.family not in families:
            continue
        refusal = _refusal(bucket, array, types, backoffs) or other_price_type(bucket, array, buckets, waited)
        if refusal is None:
            alike = (bucket.type.name, bucket.key.price_type, distinguishing(bucket, array, complexes))
            usable.setdefault(alike, []).append(bucket)
        else:
            verdicts.append(BucketVerdict(bucket.key, False, refusal))
    left = what_is_left(array.limits, usage)
    options = [
        LaunchOffer(
            type=found[0].type,
            price_type=price_type,
            buckets=tuple(found),
            offer=offer,
            host=_packed(offer.host("", array.queue), array, found[0]),
            reported=known,
            room=min((room_under(left, bucket) for bucket in found), key=lambda room: room.count),
        )
        for (_, price_type, _), found in usable.items()
        for known in (reported_by(reported, found[0].type.name, array.name),)
        for offer in (as_reported(host_values_of(found[0].type, array, complexes, found[0].key), known, complexes),)
    ]
    on_demand = {option.type.name: option.price for option in options if option.price_type is PriceType.ON_DEMAND}
    return tuple(sorted(options, key=lambda option: by_size(option, array, on_demand))), tuple(verdicts)


def _packed(host: Host, array: NodeArrayPolicy, bucket: Bucket) -> Host:
    return replace(host, price=bucket.price_per_hour or 0.0) if array.packs else host


def distinguishing(bucket: Bucket, array: NodeArrayPolicy, complexes: Mapping[str, Complex]) -> object:
    """The values in which buckets of one type differ if rules use zone, price type or placement group; None: they are
    alike.
    """
    if array.rules is None:
        return None
    offer = host_values_of(bucket.type, array, complexes, bucket.key)
    return offer.consumables, tuple(sorted(offer.properties.items())), offer.complex_values


def by_size(
    option: LaunchOffer, array: NodeArrayPolicy, on_demand: Mapping[str, float]
) -> tuple[int, float, str, bool, int]:
    """Smaller first, then cheaper; price types of one type in the configured order, but spot that is dearer than on
    demand comes after it. Types that a request named are in its order. `on_demand`: prices by type.
    """
    dearer = option.price_type is PriceType.SPOT and inf > option.price > on_demand.get(option.type.name, inf)
    price_type = array.price_types.index(option.price_type)
    if array.machine_types:
        return array.machine_types.index(option.type.name), 0.0, option.type.name, dearer, price_type
    type_price = inf if dearer else _type_price(option, array)
    return option.offer.slots, type_price, option.type.name, dearer, price_type


def _type_price(option: LaunchOffer, array: NodeArrayPolicy) -> float:
    """All options of one type stand together, so types are compared by the price of the preferred price type."""
    return option.price if option.price_type is array.price_types[0] else float("inf")


def cheapest_first(bucket: Bucket) -> tuple[float, object]:
    """Sorting key: by price; unknown prices come last."""
    return (float("inf") if bucket.price_per_hour is None else bucket.price_per_hour), bucket.key


def _refusal(
    bucket: Bucket, array: NodeArrayPolicy, types: Mapping[str, InstanceType], backoffs: Sequence[Backoff]
) -> Reason | None:
    """Why nothing can be ordered of this bucket now."""
    if bucket.type.name not in types:
        return because(Code.BUCKET_NOT_ALLOWED, type=bucket.type.name)
    if bucket.key.price_type not in array.price_types:
        return because(Code.BUCKET_NOT_ALLOWED, type=bucket.type.name, price_type=bucket.key.price_type.value)
    if bucket.problem is not None:
        return because(Code.BUCKET_UNAVAILABLE, type=bucket.type.name, message=bucket.problem)
    if bucket.available is not None and bucket.available <= 0:
        return because(Code.BUCKET_UNAVAILABLE, type=bucket.type.name, message="none left")
    backoff = backoff_of(bucket, backoffs, array)
    if backoff is not None and backoff.kind is FailureKind.PERMANENT:
        return because(Code.BUCKET_REFUSED, type=bucket.type.name, message=backoff.message)
    if backoff is not None:
        return because(
            Code.BUCKET_BACKOFF,
            type=bucket.type.name,
            until_at=backoff.until,
            failures=backoff.failures,
            message=backoff.message,
        )
    if array.limits.cap_price and bucket.price_per_hour is None:
        return because(Code.BUCKET_NO_PRICE, type=bucket.type.name)
    return None
