"""Sets with fewer, larger workers that cost as much, for where the number of workers would become the limit.

Of sets at one price the one with most workers is bought: small ones leave as soon as their few jobs end, whereas a
large one is paid until the last of many does, those that come later among them (docs/decisions/0153).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.limits import Measure
from autoscaler.core.sizing.cheapest.within_limits import SAME, serves_all
from autoscaler.core.sizing.fitting_sizes import RESERVE
from autoscaler.core.sizing.problem import Part, Problem, Proposal, most_of_offer


def with_reserve(problem: Problem, proposal: Proposal) -> Proposal:
    """This set, which serves all; or the one at its price with the smallest larger workers that leaves a reserve of
    workers and needs no more launches than are allowed now. If none does, that with fewest workers. Placement must find
    that it serves all as well.
    """
    offers = problem.offers
    counts: dict[int, int] = {}
    for part in proposal.parts:
        at = next(at for at, offer in enumerate(offers) if offer is part.offer)
        counts[at] = counts.get(at, 0) + part.count
    if _leaves_reserve(problem, counts):
        return proposal
    sets = [merged for merged in _with_fewer(offers, counts) if sum(merged.values()) < proposal.count]
    chosen = next((merged for merged in sets if _leaves_reserve(problem, merged)), sets[-1] if sets else None)
    if chosen is None:
        return proposal
    found = problem.fill([Part(offers[at], count) for at, count in sorted(chosen.items())])
    alike = serves_all(problem, found) and found.cap is None and found.price <= proposal.price + SAME
    return found if alike else proposal


def _leaves_reserve(problem: Problem, counts: Mapping[int, int]) -> bool:
    """Whether the workers that the limits on their number leave, as the largest type, hold some times the cores in use
    and launched, or all that limits of cores leave; and the launches allowed now suffice. `counts`: of machines by
    position of the offer.
    """
    vcpus = [offer.type.vcpus for offer in problem.offers]
    count, launched = sum(counts.values()), sum(vcpus[at] * many for at, many in counts.items())
    of_workers = [int(left.amount or 0) for left in problem.left if left.measure is Measure.WORKERS]
    of_cores = [int(left.amount or 0) - launched for left in problem.left if left.measure is Measure.CORES]
    needed = min((RESERVE * (problem.cores + launched), *of_cores))
    least = min(of_workers, default=None)
    enough = least is None or (least - count) * max(vcpus) >= needed
    return enough and (problem.most is None or count <= problem.most)


def _with_fewer(offers: Sequence[LaunchOffer], counts: Mapping[int, int]) -> Iterator[dict[int, int]]:
    """These machines with those of up to some size in place of several smaller ones that cost as much together, size by
    size.
    """
    exchanges = [
        (offers[large].offer.slots, large, small, each)
        for small in sorted(counts, key=lambda at: offers[at].offer.slots)
        for large in range(len(offers))
        if (each := _in_place_of(offers[large], offers[small]))
    ]
    exchanges.sort(key=lambda each: -each[0])
    for size in sorted({size for size, *_ in exchanges}):
        yield _merged(offers, counts, [each for each in exchanges if each[0] <= size])


def _merged(
    offers: Sequence[LaunchOffer], counts: Mapping[int, int], exchanges: Sequence[tuple[int, int, int, int]]
) -> dict[int, int]:
    """With larger machines, the largest first, in place of as many smaller ones as cost as much."""
    merged = dict(counts)
    for _, large, small, each in exchanges:
        room = most_of_offer(offers[large])[0] - merged.get(large, 0)
        number = min(merged[small] // each, room)
        if number > 0:
            merged[small] -= number * each
            merged[large] = merged.get(large, 0) + number
    return {at: count for at, count in merged.items() if count}


def _in_place_of(large: LaunchOffer, small: LaunchOffer) -> int:
    """How many small ones cost as much as a large one, which has as many slots; 0: it has not, or costs more."""
    if large.price_type is not small.price_type or not 0.0 < small.price <= large.price < inf:
        return 0
    each = round(large.price / small.price)
    alike = abs(large.price - each * small.price) <= SAME and large.offer.slots >= each * small.offer.slots
    return each if alike and each > 1 else 0
