"""The instance types that one node array may consist of, each with its cheapest bucket.

Types that are not available now count, because that passes. Types that limits or settings exclude stand apart: they
could be allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.capacity.cloud_names import cloud_by_name
from autoscaler.core.limits.limits import most_ever
from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.policy import Limits, NodeArrayPolicy
from autoscaler.core.requests.instance_types import allowed_types


@dataclass(frozen=True, slots=True)
class ArrayType:
    """One instance type in one node array, with its cheapest bucket."""

    bucket: Bucket
    host: Host
    """An empty worker of it. Its name is the type's."""
    obstacle: Reason | None = None
    """Why it is not available for now: quota, an unknown price. It counts, like types in backoff or sold out."""

    @property
    def type(self) -> InstanceType:
        return self.bucket.type

    def most(self, limits: Limits) -> int:
        """How many the limits ever allow. An unknown price counts against no price cap."""
        if self.bucket.price_per_hour is None:
            limits = replace(limits, max_price_per_hour=None, total_price_per_hour=None)
        return most_ever(self.bucket, limits).count


@dataclass(frozen=True, slots=True)
class Range:
    """What one node array may consist of."""

    array: NodeArrayPolicy
    kinds: tuple[ArrayType, ...]
    """Smallest first; types of which the limits allow no worker are in `barred`."""
    barred: tuple[ArrayType, ...] = ()
    others: tuple[ArrayType, ...] = ()
    """Types that settings leave out and that may be a remedy, the cheapest first."""
    families: frozenset[str] = frozenset()
    """The instance families of allowed types."""

    def of_family(self, name: str) -> bool:
        """Whether settings allow this instance family."""
        return self.array.of_family(name) if self.array.family else name in self.families

    @property
    def known(self) -> bool:
        """Whether the provider knows any type that settings allow, within limits or not."""
        return bool(self.kinds or self.barred)


def range_of(
    array: NodeArrayPolicy,
    buckets: Sequence[Bucket],
    complexes: Mapping[str, Complex],
    there: Sequence[tuple[str, BucketKey, InstanceType]],
) -> Range:
    allowed = allowed_types(array, buckets)
    found: dict[str, tuple[Bucket, Reason | None]] = {}
    for bucket in sorted(buckets, key=lambda one: (_price_or_inf(one), one.key)):
        if not array.takes(bucket.key) or bucket.key.price_type not in array.price_types:
            continue
        obstacle = _obstacle(bucket, array.limits)
        known = found.get(bucket.type.name)
        if known is None or (known[1] is not None and obstacle is None):
            found[bucket.type.name] = bucket, obstacle
    families = frozenset(type_.family for type_ in allowed.values())
    kinds = [_kind(*pair, array, complexes) for name, pair in found.items() if name in allowed]
    extra = {type_.name: (key, type_) for name, key, type_ in there if name == array.name}
    kinds += [_kind(Bucket(*pair), None, array, complexes) for name, pair in extra.items() if name not in allowed]
    usable = [kind for kind in kinds if kind.most(array.limits) > 0]
    return Range(
        array,
        kinds=_by_size(usable),
        barred=_by_size(kind for kind in kinds if kind not in usable),
        others=tuple(
            _kind(bucket, None, array, complexes)
            for bucket in _available(found)
            if bucket.type.name not in allowed and _of_one_cloud(bucket, allowed)
        ),
        families=families,
    )


def _of_one_cloud(bucket: Bucket, allowed: Collection[str]) -> bool:
    """Whether its type may be of the same cloud as the allowed ones: `local` lists the types of several."""
    clouds = {cloud for name in allowed if (cloud := cloud_by_name(name))}
    return not clouds or cloud_by_name(bucket.type.name) in ("", *clouds)


def _available(found: Mapping[str, tuple[Bucket, Reason | None]]) -> list[Bucket]:
    """The buckets that are available now, the cheapest first. A type of unknown price is proposed only if no price is
    known at all.
    """
    buckets = [bucket for bucket, obstacle in found.values() if obstacle is None]
    if any(bucket.price_per_hour is not None for bucket in buckets):
        buckets = [bucket for bucket in buckets if bucket.price_per_hour is not None]
    return sorted(buckets, key=lambda one: (_price_or_inf(one), one.type.vcpus, one.type.memory, one.type.name))


def _kind(
    bucket: Bucket, obstacle: Reason | None, array: NodeArrayPolicy, complexes: Mapping[str, Complex]
) -> ArrayType:
    offer = host_values_of(bucket.type, array, complexes)
    return ArrayType(bucket, offer.host(bucket.type.name, array.queue), obstacle)


def _by_size(kinds: Iterable[ArrayType]) -> tuple[ArrayType, ...]:
    return tuple(sorted(kinds, key=lambda kind: (kind.type.vcpus, kind.type.memory, kind.type.name)))


def _price_or_inf(bucket: Bucket) -> float:
    return float("inf") if bucket.price_per_hour is None else bucket.price_per_hour


def _obstacle(bucket: Bucket, limits: Limits) -> Reason | None:
    """Why this bucket cannot be launched for now: a cause of the provider's, which may pass, not a setting of ours."""
    if bucket.problem is not None:
        return because(Code.BUCKET_UNAVAILABLE, type=bucket.type.name, message=bucket.problem)
    if limits.cap_price and bucket.price_per_hour is None:
        return because(Code.BUCKET_NO_PRICE, type=bucket.type.name)
    return None
