"""The gain of replacing some workers of a full node array by a stronger type, by exact placement.

`swap` decides when to do it. The workers that leave are judged *emptied*, so that the answer does not change as their
jobs end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.limits import Usage, room_for
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placed import Placement
from autoscaler.core.placement.placement import OpenPlacement, as_shares, place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.readable.remembered import PerArguments
from autoscaler.core.scale_down.floors import Floor
from autoscaler.core.workers.worker_state import WorkerState

_ALIKE_TRIED = 8
"""How many workers of one type, price and readiness are tried. They differ only in values that demand may name, so few
attempts are enough.
"""


class Readiness(IntEnum):
    """How soon a worker could leave; the readiest goes first."""

    IDLE = 0
    """Seen empty for a scheduler interval."""
    SOON = 1
    """Empty, or its jobs end within the time a boot takes."""
    LATER = 2
    """It is not known when its jobs end."""


@dataclass(frozen=True, slots=True)
class ReplacedWorker:
    """A worker that could be replaced."""

    worker: WorkerState
    emptied: Host | None
    """What it would offer with nothing on it; None: it is no execution host any more."""
    readiness: Readiness
    empty_at: float
    price: float | None

    @property
    def id(self) -> str:
        return self.worker.worker.id

    @property
    def slots(self) -> int:
        return sum(self.emptied.slots.values()) if self.emptied else 0

    @property
    def order(self) -> tuple[object, ...]:
        """Sorting key: the worker that can leave soonest first, then the weakest, the most expensive, the one that is
        empty first.
        """
        return self.readiness, self.slots, -(self.price or 0.0), self.empty_at, self.id

    @property
    def kind(self) -> tuple[object, ...]:
        """Workers with the same key are equal for a change."""
        worker = self.worker.worker
        return worker.type.name, worker.price_type, self.price, self.readiness


@dataclass(frozen=True, slots=True)
class ArrayState:
    """The state of a node array for which a launch cannot serve some demand."""

    array: NodeArrayPolicy
    options: tuple[LaunchOffer, ...]
    """The offers that can be ordered now, whatever their room."""
    positions: frozenset[int]
    """Positions of the stuck demands among all demands."""
    stuck: tuple[Want, ...]
    """Expired tasks that fit nowhere, and would not even if all running jobs had ended."""
    unmet: tuple[Want, ...]
    """All tasks that fit nowhere now, stuck ones included."""
    fitting: tuple[Want, ...]
    """Tasks that fit on present and coming supply."""
    supply: tuple[Host, ...]
    """The present and coming supply."""
    workers: Mapping[str, Host]
    """Every worker emptied, by id."""
    others: tuple[Host, ...]
    """Other supply: persistent hosts as they will be soon, and coming workers."""
    usage: Usage
    """Usage of all the array's workers that have not ended."""
    soon: Usage
    """The same without workers that leave anyway within a boot time."""
    floor: Floor
    present: frozenset[str]
    """Instance types of the array's workers in service."""

    def stuck_for(self, option: LaunchOffer) -> tuple[Want, ...]:
        """The stuck tasks that this option may serve. If the array has a worker of this type already, tasks for one
        host are left out: that type evidently does not serve them, whatever the catalogue says.
        """
        if option.type.name not in self.present:
            return self.stuck
        return tuple((demand, count) for demand, count in self.stuck if not demand.one_host)

    def usage_without(self, leaving: Iterable[ReplacedWorker]) -> Usage:
        usage = self.usage
        for one in leaving:
            usage = usage.plus(one.worker.worker.type.vcpus, one.price, -1)
        return usage


@dataclass(frozen=True, slots=True)
class Change:
    """Workers that leave, and their replacement."""

    leaving: tuple[ReplacedWorker, ...]
    option: LaunchOffer
    count: int
    """Number of new workers."""
    served: int
    """Stuck tasks that the new workers could run at once."""
    lost: int
    """Slots of waiting tasks that the leaving workers would serve if they were empty."""

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.id for one in self.leaving)

    @property
    def readiness(self) -> Readiness:
        return max((one.readiness for one in self.leaving), default=Readiness.IDLE)

    @property
    def added_price(self) -> float:
        """Additional price an hour; infinite if a price is not known."""
        return self.option.price * self.count - sum(one.price or 0.0 for one in self.leaving)

    @property
    def order(self) -> tuple[object, ...]:
        """Sorting key, best first: the soonest, then most tasks served, least lost, least price added, then fewest and
        weakest workers to leave.
        """
        return (
            self.readiness,
            -self.served,
            self.lost,
            self.added_price,
            len(self.leaving),
            sum(one.slots for one in self.leaving),
            max((one.empty_at for one in self.leaving), default=0.0),
            self.option.offer.slots,
            self.option.type.name,
            self.option.price_type,
            self.ids,
        )


def serving_options(state: ArrayState) -> tuple[LaunchOffer, ...]:
    """The options that would serve a stuck task if the array had no other worker."""
    return options_with_room(state, Usage())


def any_option_with_room(state: ArrayState, usage: Usage) -> bool:
    """Whether some option would serve stuck tasks beside this usage."""
    return _WITH_ROOM.of(
        (state.array.name, usage),
        (state.options, state.stuck, state.fitting, state.supply),
        lambda: any(placed.new_used for _, placed in _placed(state, usage)),
        (state.array.limits, state.present),
    )


_WITH_ROOM = PerArguments[bool](256)


def options_with_room(state: ArrayState, usage: Usage) -> tuple[LaunchOffer, ...]:
    """The options that would serve stuck tasks beside this usage; the most tasks first, then the least price."""
    found = [
        (-sum(placed.placed), option.price * placed.new_used, at, option)
        for at, (option, placed) in enumerate(_placed(state, usage))
        if placed.new_used
    ]
    return tuple(option for *_, option in sorted(found, key=lambda entry: entry[:3]))


def _placed(state: ArrayState, usage: Usage) -> Iterator[tuple[LaunchOffer, Placement]]:
    """Each option, with the placement on as many workers of it as there is room for."""
    placement = _placement_of(state)
    for option in state.options:
        most = _room(option, state, usage)
        yield option, placement.with_new(option.host, most).place(state.stuck_for(option))


def best_change(state: ArrayState, candidates: Sequence[ReplacedWorker]) -> Change | None:
    """The best change that any of these workers allow; None: none does. For each option, each worker alone is tried
    first. If one is not enough, several are tried, the readiest and weakest first.
    """
    ordered = sorted(candidates, key=lambda one: one.order)
    found: list[Change] = []
    for option in serving_options(state):
        alone = [change for one in _one_of_each(ordered) if (change := judge_change(state, (one,), option)) is not None]
        found += alone
        together = None if alone else _several(state, ordered, option)
        if together is not None:
            found.append(together)
    return min(found, key=lambda change: change.order, default=None)


def judge_change(state: ArrayState, leaving: Sequence[ReplacedWorker], option: LaunchOffer) -> Change | None:
    """The change if these workers leave for as many of that option as there is then room for.

    None if it is not allowed: one of them has the type that would come; no stuck task would be served; the floor would
    not be kept; something that fits now would not fit; nothing left could ever serve some demand; or fewer slots of
    waiting tasks would be served than by the leaving workers.
    """
    names, ids = {one.worker.name for one in leaving}, {one.id for one in leaving}
    most = _room(option, state, state.usage_without(leaving))
    if most <= 0 or any(one.worker.worker.type.name == option.type.name for one in leaving):
        return None
    staying = OpenPlacement([host for host in state.supply if host.name not in names])
    moved = _unplaced(state.fitting, staying)
    stuck = state.stuck_for(option)
    found = staying.with_new(option.host, most).place(stuck)
    count = found.new_used
    if not count or not _keeps_floor(state, leaving, count):
        return None
    after = staying.with_new(option.host, count)
    after.place(stuck)
    if not after.place(moved).complete or not _keeps_serving(state, ids, option, count):
        return None
    waits = as_shares((*moved, *state.unmet))
    lost = _slots_served(waits, place(waits, [one.emptied for one in leaving if one.emptied is not None]).placed)
    won = _slots_served(waits, place(waits, (), option.host, count).placed)
    return Change(tuple(leaving), option, count, sum(found.placed), lost) if won >= lost else None


def _several(state: ArrayState, ordered: Sequence[ReplacedWorker], option: LaunchOffer) -> Change | None:
    """A change for the first workers that together make enough room, without those that it does not need."""
    bearable = {one.kind: _keeps_serving(state, {one.id}, option, 1) for one in _one_of_each(ordered, 1)}
    chosen: list[ReplacedWorker] = []
    attempts = 0
    for one in ordered:
        if not bearable[one.kind]:
            continue
        chosen.append(one)
        if len(chosen) < 2 or _room(option, state, state.usage_without(chosen)) <= 0:
            continue
        change = judge_change(state, chosen, option)
        attempts += 1
        if change is not None:
            return _without_superfluous(state, change)
        if attempts >= _ALIKE_TRIED:
            return None
    return None


def _without_superfluous(state: ArrayState, change: Change) -> Change:
    for one in reversed(change.leaving):
        fewer = tuple(other for other in change.leaving if other is not one)
        if _room(change.option, state, state.usage_without(fewer)) >= change.count:
            change = judge_change(state, fewer, change.option) or change
    return change


def _one_of_each(ordered: Iterable[ReplacedWorker], most: int = _ALIKE_TRIED) -> Iterator[ReplacedWorker]:
    """Up to `most` workers of each kind."""
    kinds: dict[tuple[object, ...], list[ReplacedWorker]] = {}
    for one in ordered:
        kinds.setdefault(one.kind, []).append(one)
    for alike in kinds.values():
        yield from islice(alike, most)


def _placement_of(state: ArrayState) -> OpenPlacement:
    placement = OpenPlacement(state.supply)
    placement.place(state.fitting)
    return placement


def _unplaced(wants: Sequence[Want], placement: OpenPlacement) -> tuple[Want, ...]:
    """Place these; return those without room."""
    unmet = placement.place(wants).unmet
    return tuple((demand, count) for (demand, _), count in zip(wants, unmet, strict=True) if count)


def _room(option: LaunchOffer, state: ArrayState, usage: Usage) -> int:
    """How many workers of an option limits and availability allow beside this usage."""

    def room(bucket: Bucket) -> int:
        return room_for(bucket, state.array.limits, usage).count

    most = min(room(bucket) for bucket in option.buckets)
    return most if option.available is None else min(most, option.available)


def _keeps_floor(state: ArrayState, leaving: Sequence[ReplacedWorker], count: int) -> bool:
    """Whether at least as many workers stay as the floor requires, or as stay now."""
    serving = sum(one.worker.in_service for one in leaving)
    without = state.floor.staying - serving
    return without + count >= min(state.floor.min_workers, without + len(leaving))


def _keeps_serving(state: ArrayState, ids: set[str], option: LaunchOffer, count: int) -> bool:
    """Whether every demand that the present hosts could serve when empty could still be served afterwards.

    This guarantees that swapping ends: every change leaves fewer kinds of demand that no present host could ever run.
    """
    staying = (*state.others, *(host for worker_id, host in state.workers.items() if worker_id not in ids))
    now = (*state.others, *state.workers.values())
    for demand in dict.fromkeys(demand for demand, tasks in (*state.fitting, *state.unmet) if tasks):
        one = ((demand, 1),)
        if not place(one, staying, option.host, count).complete and place(one, now).complete:
            return False
    return True


def _slots_served(wants: Sequence[Want], placed: Sequence[int]) -> int:
    return sum(demand.slots * tasks for (demand, _), tasks in zip(wants, placed, strict=True))
