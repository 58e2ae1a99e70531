"""How much of the counted demand fits on present supply, coming supply, and hosts that could be enabled again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.core.capacity.max_capacity import MaxCapacity
from autoscaler.core.capacity.supply import Supply
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.dispatches import BeforeDispatch
from autoscaler.core.placement.needs import wants_of
from autoscaler.core.placement.placement import OpenPlacement, place
from autoscaler.core.readable.remembered import LastObjects

NO_DISPATCH = BeforeDispatch()


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """For one demand: tasks that fit now, tasks that fit on coming supply, and why none is launched for the others."""

    now: int
    coming: int
    refusal: Reason | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """How much of the counted demand fits on present supply, coming supply, and hosts that are enabled again."""

    results: tuple[PlacementResult, ...]
    """Parallel to the wanted demands."""
    to_enable: frozenset[str]
    """Draining hosts that demand would use."""
    supply: tuple[Host, ...]
    """Everything that counts, hosts enabled again included."""
    placement: OpenPlacement
    """The supply as it was when the jobs were read, with all demand placed on it that fits."""

    def possible(self, demands: tuple[CategoryDemand, ...]) -> tuple[CategoryDemand, ...]:
        """Each demand without the tasks that no allowed configuration could ever run: no worker is kept for those."""
        return _POSSIBLE.value_of((self.results, demands), lambda: _possible(demands, self.results))

    def unmet(self, demands: Sequence[CategoryDemand]) -> tuple[int, ...]:
        """Tasks of each demand that something could be launched for."""
        return _UNMET.value_of((self.results, demands), lambda: _unmet(demands, self.results))

    @property
    def fitting(self) -> tuple[int, ...]:
        """Tasks of each demand that fit."""
        return _FITTING.value_of((self.results,), lambda: tuple([each.now + each.coming for each in self.results]))

    @property
    def refused(self) -> tuple[bool, ...]:
        """For each demand, whether nothing could be launched for it."""
        return _REFUSED.value_of((self.results,), lambda: tuple([each.refusal is not None for each in self.results]))

    def slots(self, demands: Sequence[CategoryDemand]) -> int:
        """Slots of the tasks that fit."""
        return sum(
            want.demand.slots * (result.now + result.coming) for want, result in zip(demands, self.results, strict=True)
        )


_POSSIBLE = LastObjects[tuple[CategoryDemand, ...]](2)
_UNMET, _FITTING, _REFUSED = (
    LastObjects[tuple[int, ...]](2),
    LastObjects[tuple[int, ...]](),
    LastObjects[tuple[bool, ...]](),
)


def _possible(demands: tuple[CategoryDemand, ...], results: Sequence[PlacementResult]) -> tuple[CategoryDemand, ...]:
    if all(result.refusal is None for result in results):
        return demands
    return tuple(
        [
            want if result.refusal is None else replace(want, count=result.now + result.coming)
            for want, result in zip(demands, results, strict=True)
        ]
    )


def _unmet(demands: Sequence[CategoryDemand], results: Sequence[PlacementResult]) -> tuple[int, ...]:
    return tuple(
        [
            0 if result.refusal is not None else want.count - result.now - result.coming
            for want, result in zip(demands, results, strict=True)
        ]
    )


_FORECAST = LastObjects[Forecast](3)


def make_forecast(
    demands: Sequence[CategoryDemand],
    supply: Supply,
    max_capacity: MaxCapacity,
    before: BeforeDispatch = NO_DISPATCH,
    other_demands: Sequence[CategoryDemand] = (),
    for_others: frozenset[str] = frozenset(),
) -> Forecast:
    """`before`: hosts as they were when the jobs were read, if some jobs were dispatched since. `for_others`: draining
    hosts that only the `other_demands` may enable again.

    What the dispatched jobs hold is not known. More of a consumable may lead to a worse order of placement, so where
    are left, hosts count with the least that they had as well, and what serves more slots counts.

    It is the same object as long as all of this is.
    """
    return _FORECAST.value_of(
        (demands, supply, max_capacity),
        lambda: _with_the_least(demands, supply, max_capacity, before, other_demands, for_others),
        (before, other_demands, for_others),
    )


def _with_the_least(
    demands: Sequence[CategoryDemand],
    supply: Supply,
    max_capacity: MaxCapacity,
    before: BeforeDispatch,
    other_demands: Sequence[CategoryDemand],
    for_others: frozenset[str],
) -> Forecast:
    found = _forecast(demands, supply, max_capacity, before, other_demands, for_others)
    if before.hosts and before.at_least != before.hosts and any(found.unmet(demands)):
        other = _forecast(demands, supply, max_capacity, before.with_least, other_demands, for_others)
        return max(found, other, key=lambda each: each.slots(demands))
    return found


def _forecast(
    demands: Sequence[CategoryDemand],
    supply: Supply,
    max_capacity: MaxCapacity,
    before: BeforeDispatch,
    other_demands: Sequence[CategoryDemand],
    for_others: frozenset[str],
) -> Forecast:
    wants = wants_of(demands)
    hosts, to_enable = supply.all, frozenset[str]()
    placement = OpenPlacement(before.of(hosts))
    found = placement.place(wants)
    if supply.draining and not found.complete:
        # Only hosts without which less would fit are enabled again: placement uses them last.
        hosts = (*hosts, *supply.draining)
        placement = OpenPlacement(before.of(hosts))
        found = placement.place(wants)
        to_enable = found.used & frozenset(host.name for host in supply.draining)
        if to_enable & for_others:
            other_wants = [(want.demand, want.count) for want in other_demands]
            to_enable -= for_others - place(other_wants, before.of(hosts)).used
        hosts = tuple(host for host in hosts if host not in supply.draining or host.name in to_enable)
        if for_others:
            placement = OpenPlacement(before.of(hosts))
            found = placement.place(wants)
    at_once = found.placed
    ready = [host for host in supply.there if host.name not in supply.later]
    if len(hosts) > len(ready):
        at_once = place(wants, before.of(ready)).placed
    results = tuple(
        PlacementResult(
            now=min(first, placed),
            coming=placed - min(first, placed),
            refusal=max_capacity.refusal(want) if unmet and want.launches else None,
        )
        for want, first, placed, unmet in zip(demands, at_once, found.placed, found.unmet, strict=True)
    )
    return Forecast(results, to_enable, hosts, placement)
