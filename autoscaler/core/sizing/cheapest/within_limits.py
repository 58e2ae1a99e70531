"""Sets that a limit on workers or cores allows, where it does not allow the cheapest set.

A place that is limited has a price itself: each machine counts as dearer by what it takes of the limit, at a price that
is raised until the set fits. Machines of the best set so far are then exchanged for others that cost less together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from math import inf, sqrt

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.limits import Left, Measure
from autoscaler.core.packing.balanced import Balance
from autoscaler.core.placement.kinds import kind_of
from autoscaler.core.placement.needs import need_of
from autoscaler.core.sizing.cheapest.bought import machines_for
from autoscaler.core.sizing.problem import Part, Problem, Proposal, most_of_offer

PRICES = 8
"""How many prices of a place are tried at most."""
LOWEST = 1 / 256
"""The lowest of them, as a share of the one at which a place counts as much as the dearest machine."""
DEARER = 1.5
"""How much more a place costs than at the lowest price at which the set fits, where its set does not fit in the end."""
TRIED = 48
"""How many exchanges are tried on placement at most, where little is asked for."""
SAME = 1e-9
"""Prices that differ by less are the same."""
MOST_PAIRS = 20_000
"""With more exchanges of two machines, only one is exchanged at a time."""
WORK = 1_000
"""What that costs at most, in demands times machines."""


def prices_of_places(problem: Problem, limit: Left, room: Mapping[int, int]) -> Iterator[list[float]]:
    """By how much each offer counts as dearer at prices of a place at which sets that balance finds fit this limit, the
    lowest first. `room`: as in `machines_for`.
    """
    uses = [_use(limit, offer) for offer in problem.offers]
    priced = [(offer.price, use) for offer, use in zip(problem.offers, uses, strict=True) if use and offer.price < inf]
    high = max((price / use for price, use in priced), default=0.0)

    def fits(price: float) -> bool:
        surcharges = [price * use for use in uses]
        counts, complete = machines_for(problem.offers, problem.unmet, room, Balance(), surcharges=surcharges)
        return complete and problem.exceeded([Part(problem.offers[at], count) for at, count in counts.items()]) is None

    if not high or not fits(high):
        return
    low, top = high * LOWEST, high
    for _ in range(PRICES - 1):
        price = sqrt(low * high)
        low, high = (low, price) if fits(price) else (price, high)
    for price in sorted({high, min(high * DEARER, top)}):
        yield [price * use for use in uses]


def _use(limit: Left, offer: LaunchOffer) -> float:
    """How much of the limit one machine takes; 0 where the limit is one of the price."""
    if limit.measure is Measure.WORKERS:
        return 1.0
    return float(offer.type.vcpus) if limit.measure is Measure.CORES else 0.0


def serves_all(problem: Problem, proposal: Proposal) -> bool:
    """Whether no demand is left."""
    return proposal.count > 0 and proposal.served == tuple(tasks for _, tasks in problem.unmet)


def exchanged(problem: Problem, proposal: Proposal) -> Proposal:
    """This set, which serves all, with one or two machines at a time exchanged for others that cost less."""
    offers = problem.offers
    search = _Exchanges(problem)
    counts: dict[int, int] = {}
    for part in proposal.parts:
        at = next(at for at, offer in enumerate(offers) if offer is part.offer)
        counts[at] = counts.get(at, 0) + part.count
    asked = sum(1 for _, tasks in problem.unmet if tasks) * proposal.count
    tries = min(WORK // asked, TRIED)
    best, tried = proposal, set[tuple[tuple[int, int], ...]]()
    while tries:
        for changed in search.cheaper(counts):
            key = tuple(sorted(changed.items()))
            if key not in tried:
                tried.add(key)
                tries -= 1
                found = problem.fill([Part(offers[at], count) for at, count in key])
                if serves_all(problem, found) and (found.price, found.count) < (best.price, best.count):
                    best, counts = found, changed
                    break
            if not tries:
                return best
        else:
            return best
    return best


class _Exchanges:
    """What a set could have instead of one or two of its machines, by price and by what these hold."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        kinds = [kind_of(offer.host, (), 1) for offer in problem.offers]
        needs = [(need, tasks) for demand, tasks in problem.unmet if tasks and (need := need_of(demand))]
        taken: dict[str, int] = {}
        for need, tasks in needs:
            for name, amount in need.required:
                taken[name] = taken.get(name, 0) + amount * need.visits * tasks
        names = sorted(taken)
        self._needed = (
            sum(need.visit * need.visits * tasks for need, tasks in needs),
            *(taken[name] for name in names),
        )
        self._has = [(kind.free_slots, *(kind.left_of(name) or 0 for name in names)) for kind in kinds]
        self._usable = [
            at
            for at, (kind, offer) in enumerate(zip(kinds, problem.offers, strict=True))
            if offer.price < inf and most_of_offer(offer)[0] > 0 and any(kind.room_for(need) for need, _ in needs)
        ]

    def cheaper(self, counts: Mapping[int, int]) -> Iterator[dict[int, int]]:
        """Sets next to this one that cost less, or as much with fewer machines, hold as much of everything as is asked
        for, and that limits allow: the cheapest first.
        """
        offers = self._problem.offers
        machines, usable = sorted(counts), self._usable
        gone_one: list[tuple[int, ...]] = [(at,) for at in machines]
        pairs = combinations_with_replacement(machines, 2)
        gone_two: list[tuple[int, ...]] = [pair for pair in pairs if pair[0] != pair[1] or counts[pair[0]] > 1]
        new: list[tuple[int, ...]] = [*((at,) for at in usable), *combinations_with_replacement(usable, 2)]
        there = gone_one + gone_two if len(gone_two) * len(new) <= MOST_PAIRS else gone_one
        of_new = sorted((sum(offers[at].price for at in each), each, self._sum(each)) for each in new)
        total = [sum(self._has[at][r] * count for at, count in counts.items()) for r in range(len(self._needed))]
        found: list[tuple[float, int, tuple[int, ...], tuple[int, ...]]] = []
        for gone in there:
            price, has = sum(offers[at].price for at in gone), self._sum(gone)
            lacks = [needed - all_ + each for needed, all_, each in zip(self._needed, total, has, strict=True)]
            if all(lack <= 0 for lack in lacks):
                found.append((-price, -len(gone), gone, ()))
            for cost, each, amounts in of_new:
                more = len(each) - len(gone)
                if cost > price - (SAME if more >= 0 else -SAME):
                    if cost > price + SAME:
                        break
                elif all(amount >= lack for amount, lack in zip(amounts, lacks, strict=True)):
                    found.append((cost - price, more, gone, each))
        for _, _, gone, each in sorted(found):
            changed = self._changed(counts, gone, each)
            if self._problem.exceeded([Part(offers[at], count) for at, count in changed.items()]) is None:
                yield changed

    def _sum(self, machines: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(each) for each in zip(*(self._has[at] for at in machines), strict=True))

    @staticmethod
    def _changed(counts: Mapping[int, int], gone: Sequence[int], new: Sequence[int]) -> dict[int, int]:
        changed = dict(counts)
        for at in gone:
            changed[at] -= 1
        for at in new:
            changed[at] = changed.get(at, 0) + 1
        return {at: count for at, count in changed.items() if count}
