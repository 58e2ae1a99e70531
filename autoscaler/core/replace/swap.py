"""Swaps: if a node array has all the workers that it may have and waiting jobs need stronger ones, which workers are
replaced, and how long that goes on.

One swap at a time for each array, noted in `Memory.swaps`. It is first *considered* (twice, if it has to wait for
jobs), then *begun* (its workers are drained), then *open* until the stronger worker is ordered. Every observation
judges it anew, and cancels it when it no longer helps. `change` says what a swap gains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.limits import Usage
from autoscaler.core.model.memory import SwapNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.replace.change import (
    ArrayState,
    Change,
    Readiness,
    ReplacedWorker,
    any_option_with_room,
    best_change,
    judge_change,
    options_with_room,
    serving_options,
)
from autoscaler.core.replace.swap_context import (
    SwapContext,
    array_state_of,
    boot_time,
    replaceable_workers,
    replaced_worker,
    revocable,
)
from autoscaler.core.sizing.replacement import Replacement, SwapPlan
from autoscaler.core.sizing.sizing import Replacing
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class _ArraySwap:
    """The swap of one array in this pass."""

    note: SwapNote
    leaving: Mapping[str, Reason] = field(default_factory=dict)
    replacement: Replacement | None = None
    reason: Reason | None = None
    unplaceable: frozenset[int] = frozenset()
    due: float | None = None


def swap_workers(context: SwapContext, notes: Mapping[str, SwapNote], *, allowed: bool) -> SwapPlan:
    """The swap of every node array, and which workers that were disabled for a swap are enabled again."""
    turns: dict[str, _ArraySwap] = {}
    for array in context.launch_context.policy.node_arrays:
        note = notes.get(array.name, SwapNote())
        state = array_state_of(array, context, note.leaving if note.begun_at is not None else ())
        if note.begun_at is not None:
            turns[array.name] = _go_on(note, state, context, allowed)
            note = turns[array.name].note
        if note.begun_at is None:
            turns[array.name] = _begin(note, state, context, allowed)
    standing_by = {worker_id for turn in turns.values() if turn.note.begun_at for worker_id in turn.note.leaving}
    return SwapPlan(
        notes={name: turn.note for name, turn in turns.items() if turn.note != SwapNote()},
        leaving={worker_id: reason for turn in turns.values() for worker_id, reason in turn.leaving.items()},
        cancelled={
            worker.worker.id: because(Code.SWAP_CANCELLED)
            for worker in context.observed.draining
            if revocable(worker) and worker.worker.id not in standing_by
        },
        replacements={name: turn.replacement for name, turn in turns.items() if turn.replacement is not None},
        reasons={name: turn.reason for name, turn in turns.items() if turn.reason is not None},
        unplaceable=frozenset().union(*(turn.unplaceable for turn in turns.values())),
        due=min((turn.due for turn in turns.values() if turn.due is not None), default=None),
    )


def under_way(notes: Mapping[str, SwapNote]) -> frozenset[str]:
    """Ids of the workers that are being replaced."""
    return frozenset(worker_id for note in notes.values() if note.begun_at is not None for worker_id in note.leaving)


# -- beginning ---------------------------------------------------------------------------------------------------------


def _begin(note: SwapNote, state: ArrayState | None, context: SwapContext, allowed: bool) -> _ArraySwap:
    """Consider a swap; begin it if its workers are idle, or if two observations gave the same one."""
    now = context.pass_context.now
    nothing = SwapNote(ended_at=note.ended_at, spared=_still_there(note.spared, context.observed))
    if state is None or not _may_begin(state.array, context):
        return _ArraySwap(nothing)
    if any_option_with_room(state, state.soon) or not any_option_with_room(state, Usage()):
        return _ArraySwap(nothing)  # a launch is enough without a swap, or no available type would do
    array = state.array
    if not allowed:
        return _ArraySwap(nothing, reason=because(Code.SWAP_OFF, node_array=array.name), unplaceable=state.positions)
    cooldown = boot_time(array, context.observed)
    if note.ended_at is not None and now - note.ended_at < cooldown:
        reason = because(Code.SWAP_COOLDOWN, node_array=array.name, limit_s=cooldown)
        return _ArraySwap(nothing, reason=reason, due=note.ended_at + cooldown)
    candidates = tuple(replaceable_workers(array, context, note.spared, now + cooldown))
    best = best_change(state, candidates)
    if best is None:
        return _ArraySwap(nothing, reason=because(Code.NO_SWAP, node_array=array.name), unplaceable=state.positions)
    change = _same_again(note, state, candidates, best)
    since = note.since if change.ids == note.leaving and note.since is not None else now
    considered = replace(nothing, leaving=change.ids, hosts=_hosts(change), type=change.option.type.name, since=since)
    if change.readiness is not Readiness.IDLE and (
        since == now or now - since < context.pass_context.schedule_interval
    ):
        reason = because(Code.SWAP_CONSIDERED, workers=considered.hosts, type=considered.type)
        return _ArraySwap(considered, reason=reason, due=since + context.pass_context.schedule_interval)
    return _begun(considered, change, state, context)


def _begun(note: SwapNote, change: Change, state: ArrayState, context: SwapContext) -> _ArraySwap:
    reason = because(Code.SWAP, type=change.option.type.name, tasks=change.served)
    return _ArraySwap(
        replace(note, begun_at=context.pass_context.now),
        leaving={one.id: reason for one in change.leaving if one.worker.in_service},
        replacement=_replacement(note, change, state),
        reason=because(Code.SWAP_UNDER_WAY, workers=note.hosts, type=change.option.type.name),
    )


def _same_again(note: SwapNote, state: ArrayState, candidates: Sequence[ReplacedWorker], best: Change) -> Change:
    """The change that the last observation considered, if it is still possible and no readier one exists. Otherwise the
    best of many busy workers would differ at every observation, as their jobs come and go.
    """
    by_id = {one.id: one for one in candidates}
    if not note.leaving or not all(worker_id in by_id for worker_id in note.leaving):
        return best
    same = [by_id[worker_id] for worker_id in note.leaving]
    changes = (judge_change(state, same, option) for option in state.options if option.type.name == note.type)
    last = min((change for change in changes if change is not None), key=lambda change: change.order, default=None)
    return best if last is None or best.readiness < last.readiness else last


def _may_begin(array: NodeArrayPolicy, context: SwapContext) -> bool:
    """Whether a launch could follow: nothing is paused or stopped, and the launches of this hour and of the circuit
    breaker's window are not used up.
    """
    pass_context, launch_context = context.pass_context, context.launch_context
    if (
        pass_context.paused is not None
        or pass_context.overrides.stop is not None
        or array.name in launch_context.stopped
    ):
        return False
    rooms = (
        launch_context.room_in_hour(array),
        launch_context.room_in_window(),
    )
    return all(room is None or room.count > 0 for room in rooms)


# -- going on ----------------------------------------------------------------------------------------------------------


def _go_on(note: SwapNote, state: ArrayState | None, context: SwapContext, allowed: bool) -> _ArraySwap:
    """Go on with a swap that was begun, if it still helps. If it ended, its note has no `begun_at`."""
    now, observed = context.pass_context.now, context.observed
    by_id = {worker.worker.id: worker for worker in observed.workers if not worker.gone}
    present = [by_id[worker_id] for worker_id in note.leaving if worker_id in by_id]
    enabled = [worker.worker.id for worker in present if worker.note.disabling is None and worker.note.tried is None]
    spared = tuple(dict.fromkeys((*note.spared, *enabled)))
    ended = _ArraySwap(SwapNote(ended_at=now, spared=_still_there(spared, observed)))
    if state is None or enabled or not allowed or _stopped_by_person(present, context.pass_context):
        return ended
    if not present:
        return _after_all_left(note, state, observed) or ended
    return _while_they_leave(note, state, present, context) or ended


def _stopped_by_person(present: Sequence[WorkerState], pass_context: PassContext) -> bool:
    """Whether a person gave `stop`, or keeps one of the replaced workers."""
    return pass_context.overrides.stop is not None or any(pass_context.kept(worker) is not None for worker in present)


def _after_all_left(note: SwapNote, state: ArrayState, observed: ObservedWorkers) -> _ArraySwap | None:
    """The swap once no replaced worker is listed any more; None: no stronger worker can be launched."""
    if any(worker_id in observed.missing for worker_id in note.leaving):
        return _ArraySwap(note, reason=because(Code.SWAP_UNDER_WAY, workers=note.hosts, type=note.type))
    return _launching(note, state)


def _while_they_leave(
    note: SwapNote, state: ArrayState, present: Sequence[WorkerState], context: SwapContext
) -> _ArraySwap | None:
    """The swap while replaced workers are still there; None: it no longer helps."""
    if any_option_with_room(state, state.soon) and not any_option_with_room(state, state.usage):
        return None
    soon = context.pass_context.now + boot_time(state.array, context.observed)
    change = _best_of(note, state, [replaced_worker(worker, context, soon) for worker in present])
    if change is None:
        return None
    note = replace(note, type=change.option.type.name)
    busy = any(revocable(worker) and not worker.empty for worker in present)
    other = _readier(note, state, context, soon) if busy and context.pass_context.paused is None else None
    if other is not None:
        return other
    return _ArraySwap(
        note,
        replacement=_replacement(note, change, state),
        reason=because(Code.SWAP_UNDER_WAY, workers=note.hosts, type=change.option.type.name),
    )


def _best_of(note: SwapNote, state: ArrayState, leaving: Sequence[ReplacedWorker]) -> Change | None:
    """The best change for these workers, with the noted type if that is still possible."""
    changes = (judge_change(state, leaving, option) for option in serving_options(state))
    found = sorted((change for change in changes if change is not None), key=lambda change: change.order)
    return next((change for change in found if change.option.type.name == note.type), found[0] if found else None)


def _readier(note: SwapNote, state: ArrayState, context: SwapContext, soon: float) -> _ArraySwap | None:
    """The swap with another worker that has become idle in the meantime, instead of one that still runs jobs."""
    if not _may_begin(state.array, context):
        return None
    best = best_change(state, tuple(replaceable_workers(state.array, context, note.spared, soon)))
    if best is None or best.readiness is not Readiness.IDLE:
        return None
    taking_over = replace(note, leaving=best.ids, hosts=_hosts(best), type=best.option.type.name)
    turn = _begun(taking_over, best, state, context)
    return replace(turn, note=replace(turn.note, begun_at=note.begun_at))


def _launching(note: SwapNote, state: ArrayState) -> _ArraySwap | None:
    """All replaced workers are gone: launch the stronger worker, as long as one that fits is available."""
    usage = state.usage
    options = options_with_room(state, usage)
    if not options:
        return None
    successor = Replacement(state.positions, _replacing(note, options), usage, usage, options[0].host, 0)
    return _ArraySwap(note, replacement=successor)


def _replacement(note: SwapNote, change: Change, state: ArrayState) -> Replacement:
    """Keep the room for the coming worker, unless there is room for it already."""
    usage, after = state.usage, state.usage_without(change.leaving)
    type_ = change.option.type
    after = after.plus(type_.vcpus, change.option.buckets[0].price_per_hour, change.count)
    replacing = _replacing(note, options_with_room(state, usage))
    reserved = usage.at_least(after)
    return Replacement(state.positions, replacing, reserved, usage, change.option.host, change.count)


def _hosts(change: Change) -> tuple[str, ...]:
    return tuple(one.worker.name for one in change.leaving)


def _replacing(note: SwapNote, options: Sequence[LaunchOffer]) -> Replacing:
    """The noted type comes first: it serves everything that the leaving workers could have served, which others may
    not.
    """
    first = sorted(options, key=lambda option: option.type.name != note.type)
    keys = tuple((option.type.name, option.price_type) for option in first)
    return Replacing(keys, because(Code.LAUNCH_REPLACES, worker=", ".join(note.hosts)))


def _still_there(spared: Sequence[str], observed: ObservedWorkers) -> tuple[str, ...]:
    if not spared:
        return ()
    there = {worker.worker.id for worker in observed.workers if not worker.gone} | observed.missing.keys()
    return tuple(worker_id for worker_id in spared if worker_id in there)
