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
    workers and needs no more launches than are allowed now. If none does, that with fewest workers.
    """
    best = proposal
    sets = with_fewer(problem, proposal)
    while not _leaves_reserve(problem, best):
        fewer = next(sets, None)
        if fewer is None:
            break
        best = fewer if fewer.count < best.count else best
    return best


def _leaves_reserve(problem: Problem, proposal: Proposal) -> bool:
    """Whether the workers that the limits on their number leave, as the largest type, hold some times the cores in use
    and launched, or all that limits of cores leave.
    """
    largest = max(offer.type.vcpus for offer in problem.offers)
    launched = sum(part.count * part.offer.type.vcpus for part in proposal.parts)
    of_workers = [int(left.amount or 0) for left in problem.left if left.measure is Measure.WORKERS]
    of_cores = [int(left.amount or 0) - launched for left in problem.left if left.measure is Measure.CORES]
    needed = min((RESERVE * (problem.cores + launched), *of_cores))
    least = min(of_workers, default=None)
    enough = least is None or (least - proposal.count) * largest >= needed
    return enough and (problem.most is None or proposal.count <= problem.most)


def with_fewer(problem: Problem, proposal: Proposal) -> Iterator[Proposal]:
    """This set, which serves all, with machines of up to some size in place of several smaller ones that cost as much
    together, size by size: where placement finds that it serves all as well.
    """
    offers = problem.offers
    counts: dict[int, int] = {}
    for part in proposal.parts:
        at = next(at for at, offer in enumerate(offers) if offer is part.offer)
        counts[at] = counts.get(at, 0) + part.count
    before = counts
    for size in sorted({offer.offer.slots for offer in offers}):
        merged = _merged(offers, counts, size)
        if merged != before:
            before = merged
            found = problem.fill([Part(offers[at], count) for at, count in sorted(merged.items())])
            if serves_all(problem, found) and found.cap is None and found.price <= proposal.price + SAME:
                yield found


def _merged(offers: Sequence[LaunchOffer], counts: Mapping[int, int], size: int) -> dict[int, int]:
    """With machines of up to so many slots, the largest first, in place of as many alike as cost as much."""
    merged = dict(counts)
    for large in sorted(range(len(offers)), key=lambda at: -offers[at].offer.slots):
        if offers[large].offer.slots <= size:
            for small in sorted(merged, key=lambda at: offers[at].offer.slots):
                each = _in_place_of(offers[large], offers[small])
                room = most_of_offer(offers[large])[0] - merged.get(large, 0)
                number = min(merged[small] // each, room) if each else 0
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
