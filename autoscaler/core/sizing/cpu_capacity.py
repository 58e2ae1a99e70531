"""The type of which one worker runs the most unmet cores at once, by exact placement (memory included); of equal ones
the cheapest, then the smallest.

For a job that may spread over hosts, only slots without room in the supply count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement, as_shares, place


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
