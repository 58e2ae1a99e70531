"""Which machines to buy for unmet demand, if placement fills them in balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.packing.packed import Way, filled
from autoscaler.core.packing.pieces import Machines
from autoscaler.core.placement.kinds import Kind, kind_of
from autoscaler.core.placement.needs import Need, Want, need_of
from autoscaler.core.placement.vectors import is_divisible, pieces_for


def machines_for(
    offers: Sequence[LaunchOffer],
    unmet: Sequence[Want],
    room: Mapping[int, int],
    way: Way,
    *,
    surcharges: Sequence[float] = (),
) -> tuple[dict[int, int], bool]:
    """How many machines of each offer, by position, in the order in which they are first of use; and whether they hold
    all. `room`: how many may be bought, of offers whose price is known. `surcharges`: by how much a
    machine of each offer counts as dearer than it is; empty: by nothing.
    """
    kinds = [kind_of(offer.host, (), 1) for offer in offers]
    prices = [offer.price + more for offer, more in zip(offers, surcharges or (0.0,) * len(offers), strict=True)]
    needs = [(at, need, tasks) for at, (demand, tasks) in enumerate(unmet) if tasks and (need := need_of(demand))]
    counts: dict[int, int] = {}
    whole = [each for each in needs if not is_divisible(each[1])]
    put = [_put_whole(need, tasks, prices, kinds, room, counts) for _, need, tasks in whole]
    pieces, contents = pieces_for([each for each in needs if is_divisible(each[1])], kinds)
    machines = [
        Machines(room.get(at, 0) - counts.get(at, 0), has, prices[at], offers[at].available is not None)
        for at, has in enumerate(contents)
    ]
    found, placed = filled(pieces, machines, way)
    for each in found:
        counts[each.kind] = counts.get(each.kind, 0) + each.machines
    wanted = sum(tasks for _, tasks in unmet)
    return counts, all(put) and sum(placed) + sum(tasks for _, _, tasks in whole) == wanted


def _put_whole(
    need: Need,
    tasks: int,
    prices: Sequence[float],
    kinds: Sequence[Kind],
    room: Mapping[int, int],
    counts: dict[int, int],
) -> bool:
    """Machines for tasks that need whole ones, or one with something for all of the task: those that cost least. False:
    there are too few for all.
    """
    found = []
    for at, kind in enumerate(kinds):
        if room.get(at, 0) > counts.get(at, 0) and (visits := kind.room_for(need)):
            each = -(-need.visits // visits)
            found.append((each * prices[at], each, at))
    for _, each, at in sorted(found):
        served = min(tasks, (room[at] - counts.get(at, 0)) // each)
        if served:
            tasks -= served
            counts[at] = counts.get(at, 0) + served * each
    return not tasks
