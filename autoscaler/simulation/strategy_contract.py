"""The contract of a strategy as tests for any strategy (see docs/extend.md):

    class TestMine(StrategyContract):
        def strategy(self): return propose

What a proposal's workers run is checked by plain sums here, not by the placement that made the assignment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random

from autoscaler.core.capacity.offers import offers_for
from autoscaler.core.limits.limits import Usage, what_is_left
from autoscaler.core.model.cluster import Complex, Consumable
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, PriceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import Limits, NodeArrayPolicy
from autoscaler.core.sizing.problem import Problem, Proposal, Strategy, name_of
from autoscaler.core.sizing.strategies import proposals_for

QUEUE, MEMORY, GIB = "main.q", "h_vmem", 1024**3
SIZES = (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16))
TYPES = tuple(
    InstanceType(f"{family}.{size}", family, cores, cores * each * GIB)
    for family, each in (("c5", 2), ("m5", 4), ("r5", 8))
    for size, cores in SIZES
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A problem with the numbers that it was made of."""

    problem: Problem
    free: Mapping[str, tuple[int, float]]
    """By host of the supply: slots and memory that are left."""
    limits: Limits
    usage: Usage


def samples(count: int, seed: int = 1, strategy: str = "cpu-capacity") -> Iterator[Sample]:
    """Random problems of a node array with this strategy, the same for the same seed."""
    for number in range(count):
        yield _sample(Random(seed * 1_000_003 + number), strategy)


def _sample(random: Random, strategy: str) -> Sample:
    wanted = [_demand(random) for _ in range(random.randrange(1, 5))]
    hosts = [_host(f"h{number}", random) for number in range(random.randrange(3))]
    placement = OpenPlacement(hosts)
    placed, taken = placement.trace(wanted)
    free = {host.name: (host.slots[QUEUE], dict(host.free)[MEMORY]) for host in hosts}
    for demand, host, visits in taken:
        slots, left = free[host]
        used = visits * (wanted[demand][0].per_host or 1)
        free[host] = slots - used, left - used * dict(wanted[demand][0].per_slot).get(MEMORY, 0)
    unmet = tuple((demand, count) for (demand, _), count in zip(wanted, placed.unmet, strict=True))
    limits = Limits(
        max_workers=random.choice((2, 8, 50)),
        max_cores=random.choice((None, 12, 64)),
        max_price_per_hour=random.choice((None, 0.6, 4.0)),
        total_workers=random.choice((None, 6)),
        total_cores=random.choice((None, 40)),
    )
    usage = Usage(1, 2, 0.1, 1, 2, 2, 6, 0.3)
    array = NodeArrayPolicy(
        "execute",
        QUEUE,
        "@allhosts",
        "m5.large",
        hybrid=True,
        family="c5,m5,r5",
        strategy=strategy,
        price_types=(PriceType.SPOT, PriceType.ON_DEMAND),
        limits=limits,
        memory_complex=MEMORY,
    )
    memory = Complex(MEMORY, MEMORY, "MEMORY", "<=", "YES", Consumable.PER_SLOT, "0")
    offers, _ = offers_for(array, tuple(_buckets(random)), (), usage, {MEMORY: memory})
    return Sample(Problem(unmet, placement, offers, what_is_left(limits, usage), 1_000.0, 10), free, limits, usage)


def _demand(random: Random) -> tuple[Demand, int]:
    slots = random.choice((1, 1, 2, 4, 8, 16))
    per_host = random.choice((slots, slots, None, 2 if slots % 2 == 0 else slots))
    memory = random.choice((0, 1, 3, 7)) * GIB
    asked = ((MEMORY, memory),) if memory else ()
    return Demand(frozenset({QUEUE}), slots, per_host, per_slot=asked), random.randrange(1, 12)


def _host(name: str, random: Random) -> Host:
    slots = random.choice((0, 1, 3, 8))
    return Host(name, {QUEUE: slots}, ((MEMORY, slots * 2 * GIB),), empty=False)


def _buckets(random: Random) -> Iterator[Bucket]:
    for type_ in random.sample(TYPES, random.randrange(1, len(TYPES))):
        for price_type in random.choice(((PriceType.ON_DEMAND,), tuple(PriceType))):
            price = type_.vcpus * random.choice((0.02, 0.05, 0.06))
            key = BucketKey(type_.name, price_type=price_type)
            yield Bucket(key, type_, random.choice((price, price, None, 0.0)), random.choice((None, None, 1, 4)))


def broken(sample: Sample, proposal: Proposal) -> list[str]:
    """What is wrong with a proposal, in words; empty: nothing."""
    return [*_beyond_limits(sample, proposal), *_not_fitting(sample, proposal)]


def _beyond_limits(sample: Sample, proposal: Proposal) -> Iterator[str]:
    parts, limits, usage = proposal.parts, sample.limits, sample.usage
    workers = sum(part.count for part in parts)
    cores = sum(part.count * part.offer.type.vcpus for part in parts)
    prices = [bucket.price_per_hour for part in parts for bucket in part.offer.buckets if part.count]
    price = inf if None in prices else sum(part.count * (part.offer.buckets[0].price_per_hour or 0) for part in parts)
    for name, limit, taken, more in (
        ("max_workers", limits.max_workers, usage.workers, workers),
        ("max_cores", limits.max_cores, usage.cores, cores),
        ("max_price_per_hour", limits.max_price_per_hour, usage.price_per_hour or 0, price),
        ("total_workers", limits.total_workers, usage.total_workers, workers),
        ("total_cores", limits.total_cores, usage.total_cores, cores),
    ):
        if limit is not None and more and taken + more > limit + 1e-6:
            yield f"{name} is {limit}, {taken} are taken, and {more} are proposed"
    counts: Counter[BucketKey] = Counter()
    for part in parts:
        if all(part.offer is not each for each in sample.problem.offers):
            yield f"{part.offer.type.name} is not offered"
        counts[part.offer.buckets[0].key] += part.count
        available = part.offer.buckets[0].available
        if available is not None and counts[part.offer.buckets[0].key] > available:
            yield f"only {available} of {part.offer.type.name} are available"


def _not_fitting(sample: Sample, proposal: Proposal) -> Iterator[str]:
    problem, left = sample.problem, dict(sample.free)
    for at, part in enumerate(proposal.parts):
        memory = dict(part.offer.host.free).get(MEMORY, 0)
        left |= {name_of(at, number): (part.offer.host.slots[QUEUE], memory) for number in range(part.count)}
    new, slots_of = left.keys() - sample.free.keys(), Counter[int]()
    shares, used = problem.shares(proposal), set[str]()
    for share in shares:
        demand, _ = problem.unmet[share.demand]
        if share.host not in left:
            yield f"nobody has a host {share.host!r}"
            continue
        slots, memory = left[share.host]
        left[share.host] = slots - share.slots, memory - share.slots * dict(demand.per_slot).get(MEMORY, 0)
        slots_of[share.demand] += share.slots
        used.add(share.host)
        served = proposal.served[share.demand]
        if demand.per_host is not None and share.slots % demand.per_host:
            yield f"{share.slots} slots on a host, of jobs with {demand.per_host} on each"
        if demand.per_host is not None and not demand.one_host and share.slots > served * demand.per_host:
            yield f"more than one visit of a job on one host: {share.slots} slots of {served} jobs"
    yield from (f"more than {host!r} has" for host, (slots, memory) in left.items() if slots < 0 or memory < -1)
    for at, ((demand, tasks), served) in enumerate(zip(problem.unmet, proposal.served, strict=True)):
        if not 0 <= served <= tasks or slots_of[at] != served * demand.slots:
            yield f"{served} of {tasks} tasks of {demand.slots} slots are served by {slots_of[at]} slots"
    yield from (f"{host!r} gets nothing" for host in sorted(new - used))


class StrategyContract(ABC):
    """What every strategy keeps. Subclass it in a file of tests."""

    many = 300
    """Problems that it is tried on."""
    name = "cpu-capacity"
    """The strategy of the node arrays in them, if it changes what they offer."""

    @abstractmethod
    def strategy(self) -> Strategy:
        """The strategy."""

    def proposals(self, sample: Sample) -> Sequence[Proposal]:
        return proposals_for(self.strategy(), sample.problem)

    def test_what_it_proposes_fits_and_is_within_limits(self) -> None:
        for number, sample in enumerate(samples(self.many, strategy=self.name)):
            for proposal in self.proposals(sample):
                assert (number, broken(sample, proposal)) == (number, [])

    def test_the_same_problem_has_the_same_proposals(self) -> None:
        for one, other in zip(*(samples(self.many, 2, self.name) for _ in range(2)), strict=True):
            first, again, anew = (_plain(self.proposals(sample)) for sample in (one, one, other))
            assert first == again == anew

    def test_it_proposes_nothing_only_where_nothing_serves_a_task(self) -> None:
        idle = [
            number
            for number, sample in enumerate(samples(self.many, 3, self.name))
            if not any(proposal.count for proposal in self.proposals(sample))
            and any(proposal.count for proposal in sample.problem.alone(sample.problem.offers))
        ]
        assert idle == []


def _plain(proposals: Sequence[Proposal]) -> list[object]:
    return [
        ([(part.offer.type.name, part.offer.price_type, part.count) for part in proposal.parts], proposal.served)
        for proposal in proposals
    ]
