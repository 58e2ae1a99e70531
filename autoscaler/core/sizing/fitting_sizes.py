"""Sizes that suit the jobs come before larger ones: a large machine is paid until its last job ends, and one long job
then holds many free slots.

This only changes the order of the offers that a launch tries. No verdict on a job uses it, and no offer is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.limits import Usage
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placed import Placement
from autoscaler.core.placement.placement import PLENTY, OpenPlacement

LEAST_CORES = 16
"""A machine of up to so many cores is never too large: with smaller ones more launches are needed, and the price
hardly falls (docs/decisions/0097).
"""
RESERVE = 4
"""The workers that the limit on their number leaves must be able to hold, as the largest type, so many times the cores
in use and ordered.
"""


def fitting_first(
    ordered: Sequence[LaunchOffer], wants: Sequence[Want], supply: OpenPlacement, usage: Usage, most: int = PLENTY
) -> Sequence[LaunchOffer]:
    """The offers in the strategy's order, those of a fitting size first, then larger ones, the smallest of them first.

    The same order, if the demand is not for single hosts, if fitting workers would serve less of it than the strategy's
    choice, or if so many of them would make the number of workers the limit that binds. `most`: how many workers may be
    launched just now.
    """
    unmet = [(demand, count) for demand, count in wants if count]
    if not ordered or not all(_on_one_host(demand) for demand, _ in unmet):
        return ordered
    least = max((demand.slots for demand, _ in unmet), default=0)
    sizes = sorted({option.offer.slots for option in ordered if option.offer.slots >= max(least, LEAST_CORES)})
    first = ordered[0]
    if not sizes or first.offer.slots <= sizes[0]:
        return ordered
    served = _slots(unmet, supply.with_new(first.host, first.room.count).place(unmet))
    for size in sizes:
        option = next(each for each in ordered if each.offer.slots == size)
        found = supply.with_new(option.host, min(option.room.count, PLENTY)).place(unmet)
        enough = _slots(unmet, found) >= served and found.new_used <= most
        if enough and _leaves_reserve(option, found.new_used, ordered, usage):
            small = [each for each in ordered if each.offer.slots <= size]
            large = sorted((each for each in ordered if each.offer.slots > size), key=lambda each: each.offer.slots)
            return (*small, *large)
    return ordered


def _on_one_host(demand: Demand) -> bool:
    """Jobs that spread, and those that take something once a host (a licence), are better off on few large machines."""
    return demand.one_host and not demand.once_a_host and not demand.exclusive


def _slots(wants: Sequence[Want], placement: Placement) -> int:
    return sum(demand.slots * placed for (demand, _), placed in zip(wants, placement.placed, strict=True))


def _leaves_reserve(option: LaunchOffer, count: int, ordered: Sequence[LaunchOffer], usage: Usage) -> bool:
    """Whether the limit on the number of workers does not bind after such a launch: the workers left, as the largest
    type, hold all that the other limits leave, or the reserve.
    """
    workers = max(each.room.count for each in ordered)  # of a small type, which limits of cores and price cap least
    largest = max(ordered, key=lambda each: each.type.vcpus)
    launched = count * option.type.vcpus
    left = (workers - count) * largest.type.vcpus
    needed = RESERVE * (usage.cores + launched)
    if largest.room.count < workers:  # another limit than that on the number
        needed = min(needed, (largest.room.count + 1) * largest.type.vcpus - launched)
    return left >= needed
