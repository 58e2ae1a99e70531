"""Mixes of jobs and offers for `bench.price`, made up from seeds.

A job is written down once, as plain numbers; the strategy gets it as a demand, the reference as a vector.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.capacity.offers import offers_for
from autoscaler.core.limits.limits import Usage, what_is_left
from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, PriceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import Limits, NodeArrayPolicy
from autoscaler.core.sizing.problem import Problem
from autoscaler.providers.catalog import load_catalog

QUEUE, MEMORY, GPUS, GIB = "main.q", "h_vmem", "gpus", 2**30


@dataclass(frozen=True, slots=True)
class Job:
    """What a job asks for. Memory in gibibytes."""

    slots: int = 1
    per_host: int | None = 0
    """Slots on each host; None: any; 0: all on one."""
    of_slot: int = 0
    of_job: int = 0
    gpus: int = 0
    exclusive: bool = False

    @property
    def demand(self) -> Demand:
        together = self.slots if self.per_host == 0 else self.per_host
        amounts = ((MEMORY, float(self.of_slot * GIB)),) if self.of_slot else ()
        of_job = tuple((name, float(n)) for name, n in ((GPUS, self.gpus), (MEMORY, self.of_job * GIB)) if n)
        return Demand(
            frozenset({QUEUE}), self.slots, together, per_slot=amounts, per_job=of_job, exclusive=self.exclusive
        )


@dataclass(frozen=True, slots=True)
class Offered:
    """A machine at a price an hour, and how many there are; None: any number."""

    type: InstanceType
    price: float
    spot: bool = False
    available: int | None = None


@dataclass(frozen=True, slots=True)
class Mix:
    """Jobs with their number, offers, and hosts that are free: slots and gibibytes."""

    name: str
    jobs: tuple[tuple[Job, int], ...]
    offers: tuple[Offered, ...]
    free: tuple[tuple[int, int], ...] = ()

    def problem(self, strategy: str) -> Problem:
        """As this strategy sees it: all that fits is placed on the free hosts."""
        hosts = [Host(f"h{n}", {QUEUE: slots}, ((MEMORY, gib * GIB),)) for n, (slots, gib) in enumerate(self.free)]
        placement = OpenPlacement(hosts)
        wanted = [(job.demand, count) for job, count in self.jobs]
        unmet = placement.place(wanted).unmet
        wants = tuple((demand, count) for (demand, _), count in zip(wanted, unmet, strict=True))
        families = ",".join(sorted({each.type.family for each in self.offers}))
        spot = any(each.spot for each in self.offers)
        array = NodeArrayPolicy(
            "execute",
            QUEUE,
            "@allhosts",
            "m5.large",
            hybrid=True,
            strategy=strategy,
            family=families,
            price_types=(PriceType.SPOT, PriceType.ON_DEMAND) if spot else (PriceType.ON_DEMAND,),
            limits=Limits(max_workers=100_000),
            memory_complex=MEMORY,
            gpu_complex=GPUS,
        )
        complexes = {
            MEMORY: Complex(MEMORY, MEMORY, "MEMORY", "<=", "YES", Consumable.PER_SLOT, "0"),
            GPUS: Complex(GPUS, GPUS, "INT", "<=", "YES", Consumable.PER_SLOT, "0"),
        }
        buckets = [
            Bucket(
                BucketKey(each.type.name, price_type=PriceType.SPOT if each.spot else PriceType.ON_DEMAND),
                each.type,
                each.price,
                each.available,
            )
            for each in self.offers
        ]
        offers, _ = offers_for(array, buckets, (), Usage(), complexes)
        assert len(offers) == len(buckets), f"{self.name}: {len(buckets)} are offered, {len(offers)} are seen"
        return Problem(wants, placement, offers, what_is_left(array.limits, Usage()), 1_000.0)


def mixes(jobs: int, seed: int) -> Iterator[Mix]:
    """All mixes with about so many jobs."""
    for number, (name, (offers, job, free)) in enumerate(MIXES.items()):
        chance = random.Random(seed * 1_000 + number)
        kinds = 12 if jobs < 500 else 30
        shares = [chance.random() ** 2 + 0.02 for _ in range(kinds)]
        counts = [max(round(jobs * share / sum(shares)), 1) for share in shares]
        made = tuple((job(chance), count) for count in counts)
        yield Mix(name, made, tuple(offers(chance)), tuple(free(chance, jobs)))


def _types(*families: str) -> list[tuple[InstanceType, float]]:
    found = load_catalog().buckets((PriceType.ON_DEMAND,))
    return [
        (bucket.type, bucket.price_per_hour)
        for bucket in found
        if bucket.type.family in families and bucket.price_per_hour is not None
    ]


def _on_demand(*families: str) -> Callable[[random.Random], Iterator[Offered]]:
    def offered(_: random.Random) -> Iterator[Offered]:
        yield from (Offered(kind, price) for kind, price in _types(*families))

    return offered


def _spot(chance: random.Random) -> Iterator[Offered]:
    for kind, price in _types("m5", "c5", "r5"):
        yield Offered(kind, round(price * chance.uniform(0.25, 0.6), 4), spot=True)


def _scarce_spot(chance: random.Random) -> Iterator[Offered]:
    for kind, price in _types("m5", "c5", "r5"):
        yield Offered(kind, round(price * chance.uniform(0.25, 0.6), 4), spot=True, available=chance.randrange(1, 4))
        yield Offered(kind, price)


def _plain(chance: random.Random) -> Job:
    slots = chance.choice((1, 1, 1, 2, 4, 8, 16, 3, 6, 12, 24))
    return Job(slots, of_slot=chance.choice((1, 2, 2, 3, 4, 6, 8, 12)))


def _of_job(chance: random.Random) -> Job:
    return Job(chance.choice((1, 1, 1, 2, 4, 8)), of_job=chance.choice((1, 2, 4, 8, 16, 30, 60, 120, 190)))


def _gpu(chance: random.Random) -> Job:
    if chance.random() < 0.5:
        return _plain(chance)
    gpus = chance.choice((1, 1, 1, 2, 4))
    return Job(chance.choice((1, 2, 4, 8)), of_job=chance.choice((4, 8, 16, 32)), gpus=gpus)


def _exclusive(chance: random.Random) -> Job:
    return replace(_plain(chance), exclusive=chance.random() < 0.3)


def _spread(chance: random.Random) -> Job:
    kind = chance.choice(("one", "any", "fixed"))
    if kind == "one":
        return _plain(chance)
    memory = chance.choice((1, 2, 3, 4, 6))
    if kind == "any":
        return Job(chance.choice((8, 16, 24, 40, 64)), None, of_slot=memory)
    each = chance.choice((2, 4, 8, 16))
    return Job(each * chance.choice((2, 3, 4)), each, of_slot=memory)


def _none(chance: random.Random, jobs: int) -> Sequence[tuple[int, int]]:
    del chance, jobs
    return ()


def _some(chance: random.Random, jobs: int) -> Sequence[tuple[int, int]]:
    return tuple((chance.choice((2, 4, 7, 11, 16)), chance.choice((8, 16, 30, 64))) for _ in range(jobs // 25))


_Made = tuple[
    Callable[[random.Random], Iterator[Offered]],
    Callable[[random.Random], Job],
    Callable[[random.Random, int], Sequence[tuple[int, int]]],
]
MIXES: Mapping[str, _Made] = MappingProxyType(
    {
        "m5": (_on_demand("m5"), _plain, _none),
        "m5, c5, r5": (_on_demand("m5", "c5", "r5"), _plain, _none),
        "spot": (_spot, _plain, _none),
        "spot and on demand": (_scarce_spot, _plain, _none),
        "GPUs": (_on_demand("m5", "c5", "g4dn"), _gpu, _none),
        "memory per job": (_on_demand("m5", "r5"), _of_job, _none),
        "exclusive": (_on_demand("m5", "c5", "r5"), _exclusive, _none),
        "parallel": (_on_demand("m5", "c5", "r5"), _spread, _none),
        "free room": (_on_demand("m5", "c5", "r5"), _plain, _some),
    }
)
