"""The type of which one worker runs the most unmet cores at once, by exact placement (memory included); of equal ones
the cheapest, then the smallest.

For a job that may spread over hosts, only slots without room in the supply count. Of a launch of several workers the
last ones may be of a smaller type: each is chosen for what those before it leave, as if they were launched one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement, as_shares, place
from autoscaler.core.sizing.problem import ByType, Part, Problem, Proposal

MOST_TYPES = 8
"""How many types one set has at most."""


@dataclass(frozen=True, slots=True)
class CpuCapacity(ByType):
    """The strategy of this order."""

    def __call__(self, problem: Problem) -> tuple[Proposal, ...]:
        return one_by_one(problem, lambda rest: self.order(rest.unmet, rest.placement, rest.offers))


def one_by_one(problem: Problem, order_of: Callable[[Problem], Sequence[LaunchOffer]]) -> tuple[Proposal, ...]:
    """For each offer alone its set, in this order. Before the first of use comes the set that results if the type is
    chosen anew for the last worker, where that serves as much for fewer cores and no higher price.
    """
    alone = problem.alone(order_of(problem))
    at = next((at for at, each in enumerate(alone) if each.count), None)
    if at is None or alone[at].count < 2 or alone[at].cap is not None or problem.batch == 1:
        return alone
    mixed = _with_smaller_last(problem, alone[at], order_of)
    return alone if mixed is None else (*alone[:at], mixed, *alone[at:])


def _with_smaller_last(
    problem: Problem, first: Proposal, order_of: Callable[[Problem], Sequence[LaunchOffer]]
) -> Proposal | None:
    """The workers of a set but the last one, then what is chosen for the rest, and so on; None: it is no better."""
    rest = replace(problem, unmet=_so_many(problem.unmet, first.served))
    counts: dict[int, int] = {}
    chosen: Proposal | None = first
    for _ in range(MOST_TYPES):
        if chosen is None:
            return None
        (part,) = chosen.parts
        at, taken = _position(problem.offers, part.offer), max(part.count - 1, 1)
        counts[at] = counts.get(at, 0) + taken
        grown = rest.placement.with_new(part.offer.host, taken)
        unmet = grown.place(rest.unmet).unmet
        if not any(unmet):
            break
        rest = replace(rest, unmet=_so_many(rest.unmet, unmet), placement=grown)
        ordered = order_of(rest)
        chosen = next((each for offer in ordered for each in rest.alone((offer,)) if each.count), None)
    mixed = problem.fill([Part(problem.offers[at], count) for at, count in counts.items()])
    served = all(found >= before for found, before in zip(mixed.served, first.served, strict=True))
    better = _cores(mixed) < _cores(first) and (mixed.price <= first.price or first.price == inf)
    return mixed if served and better and mixed.cap is None else None


def _so_many(wants: Sequence[Want], tasks: Sequence[int]) -> tuple[Want, ...]:
    return tuple((demand, count) for (demand, _), count in zip(wants, tasks, strict=True))


def _position(offers: Sequence[LaunchOffer], offer: LaunchOffer) -> int:
    return next(at for at, each in enumerate(offers) if each is offer)


def _cores(proposal: Proposal) -> int:
    return sum(part.offer.offer.slots * part.count for part in proposal.parts)


def order(unmet: Sequence[Want], supply: OpenPlacement, options: Sequence[LaunchOffer]) -> tuple[LaunchOffer, ...]:
    """Most cores first; of types that run as many, the cheapest; then in the given order, smallest first."""
    shares, prices = _unmet_pieces(unmet, supply), _prices(options)
    return tuple(sorted(options, key=lambda option: (-_cores_on_one(shares, option), prices[option.type.name])))


def _prices(options: Sequence[LaunchOffer]) -> Mapping[str, float]:
    """By type, the price of the first of its options that has one. If a type has none, prices decide nothing."""
    prices: dict[str, float] = {}
    for option in options:
        known = prices.get(option.type.name, inf)
        prices[option.type.name] = option.price if known == inf else known
    return prices if inf not in prices.values() else dict.fromkeys(prices, 0.0)


def _unmet_pieces(unmet: Sequence[Want], supply: OpenPlacement) -> tuple[Want, ...]:
    """The unmet demand that one worker could run at most, in pieces for single hosts."""
    pieces = zip(as_shares(unmet), unmet, supply.unmet_pieces(unmet), strict=True)
    # A job with a fixed number of slots a host has at most one piece on a worker.
    return tuple(
        (piece, min(count, tasks) if demand.per_host else count) for (piece, _), (demand, tasks), count in pieces
    )


def _cores_on_one(shares: Sequence[Want], option: LaunchOffer) -> int:
    """How many cores of these pieces one worker would run at once."""
    placed = place(shares, (), option.host, 1).placed
    return sum(demand.slots * count for (demand, _), count in zip(shares, placed, strict=True))
