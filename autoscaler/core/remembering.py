"""What one pass leaves for the next, without what can no longer matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.actions import Disable, Launch, Remove, Terminate
from autoscaler.core.demand import Reading
from autoscaler.core.impossible.deadlock import Judgement
from autoscaler.core.life import Life
from autoscaler.core.limits import HOUR, as_event
from autoscaler.core.lost.hearing import listen
from autoscaler.core.lost.recovery import Recovery
from autoscaler.core.memory import Disabling, Event, Memory, Rest, SwapNote
from autoscaler.core.model import Snapshot
from autoscaler.core.policy import Policy
from autoscaler.core.quarantine import WINDOW
from autoscaler.core.reasons import Code, Reason
from autoscaler.core.sight import Sight
from autoscaler.core.steps import Step


def remember(
    snapshot: Snapshot,
    sight: Sight,
    reading: Reading,
    steps: Sequence[Step],
    launches: Sequence[Launch],
    swaps: Mapping[str, SwapNote],
    recovery: Recovery,
    rests: tuple[Rest, ...],
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
        workers={**sight.missing, **{step.machine.worker.id: step.note for step in steps}},
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
        quiet_since=quiet_since(sight, reading, memory, policy, now),
        hearing=listen(snapshot.cluster, memory.hearing, now),
        looked_at=now,
        asked=recovery.asked,
        held_back=recovery.held_back,
        brake=brake,
    )


def remember_doubts(kept: Memory, doubts: Judgement, snapshot: Snapshot) -> Memory:
    """That memory with what is held against jobs that nothing could ever run."""
    now, window = snapshot.now, max(HOUR, snapshot.policy.brake.window)
    kills = [event for event in snapshot.memory.kills if now - event.at < window]
    kills += [Event(now, doubts.touched, "")] if doubts.touched else []
    return replace(kept, kills=tuple(kills), suspicions=doubts.suspicions)


def _quarantines(memory: Memory, steps: Sequence[Step], now: float) -> tuple[Event, ...]:
    """Workers taken out of service because they seem broken, a short while ago or now."""
    now_out = [
        Event(now, 1, step.machine.worker.node_array)
        for step in steps
        if isinstance(step.action, Disable) and step.note.disabling is Disabling.BROKEN
        if step.machine.life is Life.IN_SERVICE
    ]
    return (*(event for event in memory.quarantines if now - event.at < WINDOW), *now_out)


def _counts_as_removal(step: Step) -> bool:
    """A worker let go counts once, and only when the autoscaler chose it: what a person asked for presses no brake."""
    before = step.machine.note
    if not isinstance(step.action, Remove | Terminate) or before.retired_at is not None:
        return False
    if step.machine.life is Life.GONE or before.fenced_at is not None:
        return False
    codes = {step.action.reason.code, *(link.code for link in step.action.reason.trail)}
    return codes.isdisjoint({Code.STOPPING, Code.DRAINED_BY_COMMAND})


def quiet_since(sight: Sight, reading: Reading, memory: Memory, policy: Policy, now: float) -> float | None:
    """Since when no counted job waits and none runs in any autoscaled queue."""
    hosts = [*sight.others, *sight.missing_hosts.values(), *(m.host for m in sight.machines if m.host)]
    running = any(
        instance.jobs or instance.used
        for host in hosts
        for instance in host.instances
        if policy.queue(instance.queue) is not None
    )
    if reading.wanted or running:
        return None
    return memory.quiet_since if memory.quiet_since is not None else now
