"""The type that runs the most lacking cores at once on one worker, by exact placement (memory included); of equals the
smallest.

Of a job that may spread over hosts only those slots are lacking for which the supply has no room.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.placement.placement import OpenPlacement, Want, as_shares, place


def order(unmet: Sequence[Want], supply: OpenPlacement, options: Sequence[LaunchOffer]) -> tuple[LaunchOffer, ...]:
    """Most cores first; where types run as many, in the order given, which is smallest and then cheapest first."""
    shares = _lacking(unmet, supply)
    return tuple(sorted(options, key=lambda option: -_cores_on_one(shares, option)))


def _lacking(unmet: Sequence[Want], supply: OpenPlacement) -> tuple[Want, ...]:
    """What one worker could run at most of what finds no room in the supply, in the pieces that single hosts take."""
    pieces = zip(as_shares(unmet), unmet, supply.lacking(unmet), strict=True)
    # A job with a fixed number of slots a host has no two pieces on one worker.
    return tuple(
        (piece, min(count, tasks) if demand.per_host else count) for (piece, _), (demand, tasks), count in pieces
    )


def _cores_on_one(shares: Sequence[Want], option: LaunchOffer) -> int:
    """Cores of these that one worker would run at once."""
    placed = place(shares, (), option.host, 1).placed
    return sum(demand.slots * count for (demand, _), count in zip(shares, placed, strict=True))
