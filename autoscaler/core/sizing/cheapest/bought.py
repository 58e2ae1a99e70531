"""Which machines to buy for unmet demand, if placement fills them in balance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.packing.balanced import Way, filled
from autoscaler.core.packing.pieces import Machines
from autoscaler.core.placement.kinds import Kind, kind_of
from autoscaler.core.placement.needs import Need, Want, need_of
from autoscaler.core.placement.vectors import is_divisible, pieces_for


def machines_for(
    offers: Sequence[LaunchOffer], unmet: Sequence[Want], room: Mapping[int, int], way: Way
) -> dict[int, int]:
    """How many machines of each offer, by position, in the order in which they are first of use. `room`: how many may
    be bought, of offers whose price is known.
    """
    kinds = [kind_of(offer.host, (), 1) for offer in offers]
    needs = [(at, need, tasks) for at, (demand, tasks) in enumerate(unmet) if tasks and (need := need_of(demand))]
    counts: dict[int, int] = {}
    for _, need, tasks in needs:
        if not is_divisible(need):
            _put_whole(need, tasks, offers, kinds, room, counts)
    pieces, contents = pieces_for([each for each in needs if is_divisible(each[1])], kinds)
    machines = [
        Machines(room.get(at, 0) - counts.get(at, 0), has, offers[at].price, offers[at].available is not None)
        for at, has in enumerate(contents)
    ]
    found, _ = filled(pieces, machines, way)
    for each in found:
        counts[each.kind] = counts.get(each.kind, 0) + each.machines
    return counts


def _put_whole(
    need: Need,
    tasks: int,
    offers: Sequence[LaunchOffer],
    kinds: Sequence[Kind],
    room: Mapping[int, int],
    counts: dict[int, int],
) -> None:
    """Machines for tasks that need whole ones, or one with something for all of the task: those that cost least."""
    found = []
    for at, kind in enumerate(kinds):
        if room.get(at, 0) > counts.get(at, 0) and (visits := kind.room_for(need)):
            each = -(-need.visits // visits)
            found.append((each * offers[at].price, each, at))
    for _, each, at in sorted(found):
        served = min(tasks, (room[at] - counts.get(at, 0)) // each)
        if served:
            tasks -= served
            counts[at] = counts.get(at, 0) + served * each
