"""The type that runs the most pending cores at once on one worker, by exact placement (memory included); of equals the
smallest.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.growth.options import Option
from autoscaler.core.placement import Want, as_shares, place


def order(unmet: Sequence[Want], options: Sequence[Option]) -> tuple[Option, ...]:
    """Most cores first; where types run as many, in the order given, which is smallest and then cheapest first."""
    return tuple(sorted(options, key=lambda option: -cores_on_one(unmet, option)))


def cores_on_one(unmet: Sequence[Want], option: Option) -> int:
    """Cores of this demand that one worker would run at once, its share of jobs over several hosts included."""
    shares = as_shares(unmet)
    placed = place(shares, (), option.host, 1).placed
    return sum(demand.slots * count for (demand, _), count in zip(shares, placed, strict=True))
