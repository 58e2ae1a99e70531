"""What could ever run: every allowed cluster is tried, one by one, with nothing on it.

Written from the settings' documentation and what Grid Engine does, apart from `autoscaler.core`, which proves the same
by bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from autoscaler.core.model.fleet import Bucket, PriceType
from autoscaler.core.policy import NodeArrayPolicy
from tests.soak.jobs import MAIN, OTHER, OTHER_SLOTS, Job, Room

GIB = 2**30
Asked = tuple[object, ...]


class Allowed:
    """Every set of workers that one node array's settings permit, beside the persistent hosts."""

    def __init__(self, array: NodeArrayPolicy, buckets: tuple[Bucket, ...], persistent: Mapping[str, int]) -> None:
        self._persistent = persistent
        self._clusters = list(_clusters(array, _kinds(array, buckets)))
        self._known: dict[Asked, bool] = {}

    def by_one_type(self, job: Job) -> bool:
        """Whether workers of one type would do: a launch for one job never mixes types."""
        alike = [cluster for cluster in self._clusters if len({bucket.type.name for bucket in cluster}) <= 1]
        return any(self._room(cluster).place(job) is not None for cluster in alike)

    def ever(self, job: Job) -> bool:
        """Whether one task of the job could run on any of them."""
        asked = what_it_asks(job)
        if asked not in self._known:
            self._known[asked] = any(self._room(cluster).place(job) is not None for cluster in self._clusters)
        return self._known[asked]

    def _room(self, cluster: tuple[Bucket, ...]) -> Room:
        room = Room()
        for name, slots in self._persistent.items():
            room.add(name, slots, slots * 4, [(MAIN, slots), (OTHER, OTHER_SLOTS)])
        for number, bucket in enumerate(cluster):
            cores = bucket.type.vcpus
            memory, queues = bucket.type.memory / GIB, [(MAIN, cores), (OTHER, OTHER_SLOTS)]
            room.add(f"new-{number}", cores, memory, queues, group=bucket.type.name)
        return room


def what_it_asks(job: Job) -> Asked:
    return job.pools, job.slots, job.pe, job.memory, job.foreign_host


def _kinds(array: NodeArrayPolicy, buckets: tuple[Bucket, ...]) -> list[Bucket]:
    """On demand, of the given type; hybrid: of its family up to the largest; descending: the smaller ones, too."""
    given = next(bucket.type for bucket in buckets if bucket.type.name == array.instance_type)

    def fits(bucket: Bucket) -> bool:
        type_ = bucket.type
        if array.hybrid:
            return type_.family == given.family and type_.vcpus <= (array.max_cores_per_worker or type_.vcpus)
        smaller = array.descending and type_.family == given.family and type_.vcpus <= given.vcpus
        return type_.name == given.name or smaller

    return [bucket for bucket in buckets if bucket.key.price_type is PriceType.ON_DEMAND and fits(bucket)]


def _clusters(array: NodeArrayPolicy, kinds: list[Bucket]) -> Iterator[tuple[Bucket, ...]]:
    limits = array.limits
    for count in range(limits.max_workers + 1):
        for cluster in itertools.combinations_with_replacement(kinds, count):
            cores = sum(bucket.type.vcpus for bucket in cluster)
            prices = [bucket.price_per_hour for bucket in cluster]
            if limits.max_cores is not None and cores > limits.max_cores:
                continue
            if limits.max_price_per_hour is None or (
                None not in prices and sum(filter(None, prices)) <= limits.max_price_per_hour + 1e-9
            ):
                yield cluster
