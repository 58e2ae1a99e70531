"""What one pass leaves for the next, without what can no longer matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.demand.demand import PendingDemand
from autoscaler.core.limits.limits import HOUR, as_event
from autoscaler.core.limits.protected_mode import Protection
from autoscaler.core.model.actions import Disable, Launch, Remove, Terminate
from autoscaler.core.model.memory import Backoff, Disabling, Event, Memory, SwapNote
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.recovery.recovery import Recovery
from autoscaler.core.scale_down.empty_queues import quiet_since
from autoscaler.core.scale_down.quarantine import WINDOW
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.unsatisfiable.deadlock import DeadlockVerdicts
from autoscaler.core.workers.load_reports import track_silence
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import WorkerStep


def next_memory(
    snapshot: Snapshot,
    observed: ObservedWorkers,
    reading: PendingDemand,
    steps: Sequence[WorkerStep],
    launches: Sequence[Launch],
    swaps: Mapping[str, SwapNote],
    recovery: Recovery,
    rests: tuple[Backoff, ...],
    stopped: Mapping[str, str],
    brake: Reason | None,
) -> Memory:
    """The memory for the next pass, without what can no longer matter."""
    memory, policy, now = snapshot.memory, snapshot.policy, snapshot.now
    window = max(HOUR, policy.brake.window)
    launched = [as_event(launch, policy, now) for launch in launches]
    removed = [Event(now, 1, step.machine.worker.node_array) for step in steps if _counts_as_removal(step)]
    return Memory(
        passes=memory.passes + 1,
        workers={**observed.missing, **{step.machine.worker.id: step.note for step in steps}},
        able_since=reading.able_since,
        unable=reading.unable,
        details={**recovery.details, **reading.details},
        swaps=swaps,
        rests=rests,
        stopped=stopped,
        failures_seen=max((failure.at for failure in snapshot.fleet.failures), default=memory.failures_seen),
        launches=(*(event for event in memory.launches if now - event.at < window), *launched),
        removals=(*(event for event in memory.removals if now - event.at < window), *removed),
        quarantines=_quarantines(memory, steps, now),
        quiet_since=quiet_since(observed, reading, memory, policy, now),
        hearing=track_silence(snapshot.cluster, memory.hearing, now),
        looked_at=now,
        asked=recovery.asked,
        held_back=recovery.held_back,
        brake=brake,
    )


def with_unsatisfiable(kept: Memory, doubts: DeadlockVerdicts, snapshot: Snapshot) -> Memory:
    """That memory with what is held against jobs that nothing could ever run."""
    now, window = snapshot.now, max(HOUR, snapshot.policy.brake.window)
    kills = [event for event in snapshot.memory.kills if now - event.at < window]
    kills += [Event(now, doubts.touched, "")] if doubts.touched else []
    return replace(kept, kills=tuple(kills), suspicions=doubts.suspicions)


def with_unhelpful(snapshot: Snapshot, protection: Protection) -> tuple[Event, ...]:
    """What the brake counts of launches that helped nobody: of its window, and of this pass."""
    window, now = snapshot.policy.brake.window, snapshot.now
    return (*(event for event in snapshot.memory.unhelpful if now - event.at < window), *protection.unhelpful)


def _quarantines(memory: Memory, steps: Sequence[WorkerStep], now: float) -> tuple[Event, ...]:
    """Workers taken out of service because they seem broken, a short while ago or now."""
    now_out = [
        Event(now, 1, step.machine.worker.node_array)
        for step in steps
        if isinstance(step.action, Disable) and step.note.disabling is Disabling.BROKEN
        if step.machine.in_service
    ]
    return (*(event for event in memory.quarantines if now - event.at < WINDOW), *now_out)


def _counts_as_removal(step: WorkerStep) -> bool:
    """A worker let go counts once, and only when the autoscaler chose it: what a person asked for presses no brake."""
    before = step.machine.note
    if not isinstance(step.action, Remove | Terminate) or before.retired_at is not None:
        return False
    if step.machine.gone or before.fenced_at is not None:
        return False
    codes = {step.action.reason.code, *(link.code for link in step.action.reason.trail)}
    return codes.isdisjoint({Code.STOPPING, Code.DRAINED_BY_COMMAND})
