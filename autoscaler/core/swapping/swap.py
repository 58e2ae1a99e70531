"""When a node array has all the workers it may have and what waits needs stronger ones: who makes room, and until when.

One change at a time for each array, noted in `Memory.swaps`: first *considered* (a change that has to wait for jobs is
looked at twice), then *begun* (its workers are disabled to run dry and leave), then *open* until the stronger worker is
ordered. At every look it is weighed anew, and called off when it no longer helps. What a change brings is `change`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.asking.arrays import family_of
from autoscaler.core.grow import Ground, Growth, Replacing, grow
from autoscaler.core.growth.options import Option
from autoscaler.core.life import Life
from autoscaler.core.limits import Usage, launches_left
from autoscaler.core.memory import SwapNote
from autoscaler.core.model import Host, Wanted
from autoscaler.core.placement import Board
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.sight import Sight
from autoscaler.core.swapping.change import (
    Change,
    Leaver,
    Readiness,
    Standing,
    best_change,
    options_with_room,
    serving_options,
    weigh,
)
from autoscaler.core.swapping.scene import Scene, boot_time, leaver, leavers_of, revocable, standing_of

__all__ = ["Replacement", "Scene", "Swaps", "swap_workers", "under_way"]


@dataclass(frozen=True, slots=True)
class Replacement:
    """What growth of an array is kept to while a worker makes room there."""

    stuck: frozenset[int]
    """Positions among the wanted demands of those that it is for."""
    replacing: Replacing
    """What there is room for now; no option: nothing yet."""
    reserved: Usage
    """What limits are to hold for meanwhile, so that nothing else takes the room."""
    successor: Host
    count: int
    """What comes, and how many of it."""

    def grow(
        self,
        array: NodeArrayPolicy,
        wanted: Sequence[Wanted],
        unmet: Sequence[int],
        board: Board,
        usage: Usage,
        ground: Ground,
        *,
        short_of_floor: int,
    ) -> Growth:
        """Launch for the stuck demands alone once there is room for them; before, beside that room, for what those who
        come will not serve either.
        """
        stuck = [count if at in self.stuck else 0 for at, count in enumerate(unmet)]
        if self.replacing.options:
            return grow(array, wanted, stuck, board, usage, ground, replacing=self.replacing)
        ahead = board.with_new(self.successor, self.count)
        ahead.place([(want.demand, count) for want, count in zip(wanted, stuck, strict=True)])
        others = [0 if at in self.stuck else count for at, count in enumerate(unmet)]
        left = ahead.place([(want.demand, count) for want, count in zip(wanted, others, strict=True)]).unmet
        short = short_of_floor - self.count
        return grow(array, wanted, left, board, self.reserved, ground, short_of_floor=short)


@dataclass(frozen=True, slots=True)
class Swaps:
    """What all node arrays swap in this pass."""

    notes: Mapping[str, SwapNote] = field(default_factory=dict)
    leaving: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id: who begins to leave now."""
    called_off: Mapping[str, Reason] = field(default_factory=dict)
    """By worker id: who is let in again."""
    replacements: Mapping[str, Replacement] = field(default_factory=dict)
    told: Mapping[str, Reason] = field(default_factory=dict)
    """By array: what makes room, or why nothing does."""
    hopeless: frozenset[int] = frozenset()
    """Positions among the wanted demands of those that workers who stay would only stand in the way of."""
    due: float | None = None
    """When time alone would change any of it."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What one array does."""

    note: SwapNote
    leaving: Mapping[str, Reason] = field(default_factory=dict)
    replacement: Replacement | None = None
    told: Reason | None = None
    hopeless: frozenset[int] = frozenset()
    due: float | None = None


def swap_workers(scene: Scene, notes: Mapping[str, SwapNote], *, allowed: bool) -> Swaps:
    """One turn of every node array, and who of those disabled for a swap no longer needs to be."""
    turns: dict[str, _Turn] = {}
    for array in scene.ground.policy.node_arrays:
        note = notes.get(array.name, SwapNote())
        standing = standing_of(array, scene, note.leaving if note.begun_at is not None else ())
        if note.begun_at is not None:
            turns[array.name] = _go_on(note, standing, scene, allowed)
            note = turns[array.name].note
        if note.begun_at is None:
            turns[array.name] = _begin(note, standing, scene, allowed)
    standing_by = {worker_id for turn in turns.values() if turn.note.begun_at for worker_id in turn.note.leaving}
    return Swaps(
        notes={name: turn.note for name, turn in turns.items() if turn.note != SwapNote()},
        leaving={worker_id: reason for turn in turns.values() for worker_id, reason in turn.leaving.items()},
        called_off={
            machine.worker.id: because(Code.SWAP_CALLED_OFF)
            for machine in scene.sight.machines
            if revocable(machine) and machine.worker.id not in standing_by
        },
        replacements={name: turn.replacement for name, turn in turns.items() if turn.replacement is not None},
        told={name: turn.told for name, turn in turns.items() if turn.told is not None},
        hopeless=frozenset().union(*(turn.hopeless for turn in turns.values())),
        due=min((turn.due for turn in turns.values() if turn.due is not None), default=None),
    )


def under_way(notes: Mapping[str, SwapNote]) -> frozenset[str]:
    """Ids of the workers that make room, as far as their change was begun."""
    return frozenset(worker_id for note in notes.values() if note.begun_at is not None for worker_id in note.leaving)


# -- beginning ---------------------------------------------------------------------------------------------------------


def _begin(note: SwapNote, standing: Standing | None, scene: Scene, allowed: bool) -> _Turn:
    """Consider a change; begin it once its workers are idle, or it was the same at two looks."""
    now = scene.moment.now
    nothing = SwapNote(ended_at=note.ended_at, spared=_still_there(note.spared, scene.sight))
    if standing is None or not _may_begin(standing.array, scene):
        return _Turn(nothing)
    if not serving_options(standing) or options_with_room(standing, standing.soon):
        return _Turn(nothing)  # nothing that can be had would do, or a launch will without any swap
    array = standing.array
    if not allowed:
        return _Turn(nothing, told=because(Code.SWAP_OFF, node_array=array.name), hopeless=standing.positions)
    rest = boot_time(array, scene.sight)
    if note.ended_at is not None and now - note.ended_at < rest:
        told = because(Code.SWAP_RESTS, node_array=array.name, limit_s=rest)
        return _Turn(nothing, told=told, due=note.ended_at + rest)
    leavers = tuple(leavers_of(array, scene, note.spared, now + rest))
    best = best_change(standing, leavers)
    if best is None:
        return _Turn(nothing, told=because(Code.NO_SWAP, node_array=array.name), hopeless=standing.positions)
    change = _same_again(note, standing, leavers, best)
    since = note.since if change.ids == note.leaving and note.since is not None else now
    considered = replace(nothing, leaving=change.ids, hosts=_hosts(change), type=change.option.type.name, since=since)
    if change.readiness is not Readiness.IDLE and (since == now or now - since < scene.moment.schedule_interval):
        told = because(Code.SWAP_CONSIDERED, workers=considered.hosts, type=considered.type)
        return _Turn(considered, told=told, due=since + scene.moment.schedule_interval)
    return _begun(considered, change, standing, scene)


def _begun(note: SwapNote, change: Change, standing: Standing, scene: Scene) -> _Turn:
    reason = because(Code.SWAP, type=change.option.type.name, tasks=change.served)
    return _Turn(
        replace(note, begun_at=scene.moment.now),
        leaving={one.id: reason for one in change.leaving if one.machine.life is Life.IN_SERVICE},
        replacement=_replacement(note, change, standing),
        told=because(Code.SWAP_UNDER_WAY, workers=note.hosts, type=change.option.type.name),
    )


def _same_again(note: SwapNote, standing: Standing, leavers: Sequence[Leaver], best: Change) -> Change:
    """What was considered at the last look, where it still holds and nobody became readier: of many busy workers
    another is the best at every look, as their jobs come and go.
    """
    by_id = {one.id: one for one in leavers}
    if not note.leaving or not all(worker_id in by_id for worker_id in note.leaving):
        return best
    same = [by_id[worker_id] for worker_id in note.leaving]
    changes = (weigh(standing, same, option) for option in standing.options if option.type.name == note.type)
    last = min((change for change in changes if change is not None), key=lambda change: change.order, default=None)
    return best if last is None or best.readiness < last.readiness else last


def _may_begin(array: NodeArrayPolicy, scene: Scene) -> bool:
    """Whether a launch could follow: nothing is paused, stopped or spent for this hour."""
    moment, ground = scene.moment, scene.ground
    if moment.held_back is not None or moment.wishes.stop is not None or array.name in ground.stopped:
        return False
    hourly = launches_left(array.limits, ground.launches, family_of(array), moment.now)
    return hourly is None or hourly.count > 0


# -- going on ----------------------------------------------------------------------------------------------------------


def _go_on(note: SwapNote, standing: Standing | None, scene: Scene, allowed: bool) -> _Turn:
    """A change that was begun: whether it still helps. The note of one that ended has no beginning."""
    now, sight = scene.moment.now, scene.sight
    by_id = {machine.worker.id: machine for machine in sight.machines if machine.life is not Life.GONE}
    there = [by_id[worker_id] for worker_id in note.leaving if worker_id in by_id]
    back = [machine.worker.id for machine in there if machine.note.disabling is None]
    spared = tuple(dict.fromkeys((*note.spared, *back)))
    ended = _Turn(SwapNote(ended_at=now, spared=_still_there(spared, sight)))
    if standing is None or back or not allowed or scene.moment.wishes.stop is not None:
        return ended
    if any(scene.moment.kept(machine) is not None for machine in there):
        return ended
    if not there and not any(worker_id in sight.missing for worker_id in note.leaving):
        return _launching(note, standing) or ended
    if not there:
        return _Turn(note, told=because(Code.SWAP_UNDER_WAY, workers=note.hosts, type=note.type))
    if options_with_room(standing, standing.soon) and not options_with_room(standing, standing.usage):
        return ended
    soon = now + boot_time(standing.array, sight)
    leaving = [leaver(machine, scene, soon) for machine in there]
    change = _best_of(note, standing, leaving)
    if change is None:
        return ended
    note = replace(note, type=change.option.type.name)
    busy = any(revocable(machine) and not machine.empty for machine in there)
    other = _readier(note, standing, scene, soon) if busy and scene.moment.held_back is None else None
    if other is not None:
        return other
    return _Turn(
        note,
        replacement=_replacement(note, change, standing),
        told=because(Code.SWAP_UNDER_WAY, workers=note.hosts, type=change.option.type.name),
    )


def _best_of(note: SwapNote, standing: Standing, leaving: Sequence[Leaver]) -> Change | None:
    """What may come for these: what was to come, as long as that is right."""
    changes = (weigh(standing, leaving, option) for option in serving_options(standing))
    found = sorted((change for change in changes if change is not None), key=lambda change: change.order)
    return next((change for change in found if change.option.type.name == note.type), found[0] if found else None)


def _readier(note: SwapNote, standing: Standing, scene: Scene, soon: float) -> _Turn | None:
    """Another worker has become idle while one was still running dry: it makes room instead, in the same swap."""
    if not _may_begin(standing.array, scene):
        return None
    best = best_change(standing, tuple(leavers_of(standing.array, scene, note.spared, soon)))
    if best is None or best.readiness is not Readiness.IDLE:
        return None
    taking_over = replace(note, leaving=best.ids, hosts=_hosts(best), type=best.option.type.name)
    turn = _begun(taking_over, best, standing, scene)
    return replace(turn, note=replace(turn.note, begun_at=note.begun_at))


def _launching(note: SwapNote, standing: Standing) -> _Turn | None:
    """All who made room are gone: the stronger worker is launched, as long as one can be had that fits in."""
    options = options_with_room(standing, standing.usage)
    if not options:
        return None
    successor = Replacement(standing.positions, _replacing(note, options), standing.usage, options[0].host, 0)
    return _Turn(note, replacement=successor)


def _replacement(note: SwapNote, change: Change, standing: Standing) -> Replacement:
    """The room is kept for what comes, unless there is room for it already."""
    usage, after = standing.usage, standing.usage_without(change.leaving)
    type_ = change.option.type
    after = after.plus(type_.vcpus, change.option.buckets[0].price_per_hour, change.count)
    prices = (usage.price_per_hour, after.price_per_hour)
    known = [price for price in prices if price is not None]
    reserved = replace(
        usage,
        workers=max(usage.workers, after.workers),
        cores=max(usage.cores, after.cores),
        price_per_hour=max(known) if len(known) == len(prices) else None,
    )
    replacing = _replacing(note, options_with_room(standing, usage))
    return Replacement(standing.positions, replacing, reserved, change.option.host, change.count)


def _hosts(change: Change) -> tuple[str, ...]:
    return tuple(one.machine.name for one in change.leaving)


def _replacing(note: SwapNote, options: Sequence[Option]) -> Replacing:
    """What was to come first: it serves all that those who left could have served, which others may not."""
    first = sorted(options, key=lambda option: option.type.name != note.type)
    keys = tuple((option.type.name, option.price_type) for option in first)
    return Replacing(keys, because(Code.LAUNCH_REPLACES, worker=", ".join(note.hosts)))


def _still_there(spared: Sequence[str], sight: Sight) -> tuple[str, ...]:
    there = {machine.worker.id for machine in sight.machines if machine.life is not Life.GONE} | sight.missing.keys()
    return tuple(worker_id for worker_id in spared if worker_id in there)
