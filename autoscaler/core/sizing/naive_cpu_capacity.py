"""The seed's rule to the letter: the smallest type with as many cores as all pending jobs ask for together, else the
largest.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement


def order(unmet: Sequence[Want], supply: OpenPlacement, options: Sequence[LaunchOffer]) -> tuple[LaunchOffer, ...]:
    """The types that are large enough, smallest first, then the smaller ones, largest first. `options` come smallest
    first. All cores of waiting jobs count, even those with room in the supply.
    """
    del supply
    cores = sum(demand.slots * count for demand, count in unmet)
    enough = [option for option in options if option.offer.slots >= cores]
    smaller = [option for option in options if option.offer.slots < cores]
    return (*enough, *sorted(smaller, key=lambda option: -option.offer.slots))
