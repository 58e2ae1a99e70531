"""The worker has been idle for `idle_timeout`: the motive that every other worker in service is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.capacity.alarms import alarm_of, stays
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.scale_down.motives.motive import (
    Candidate,
    Keeper,
    busy,
    enabled_by_hand,
    floor_reached,
    held,
    kept,
    kept_for_group,
    needed,
)
from autoscaler.core.workers.phases import Condition


def not_idle_long_enough(candidate: Candidate) -> Reason | None:
    """It was busy a moment ago, or in alarm: then no job could have started there."""
    idle, limit, worker = candidate.idle, candidate.array.idle_timeout, candidate.worker
    if idle is not None and (idle >= limit or candidate.stop_requested):
        return None
    if Condition.IN_ALARM in worker.conditions and not stays(worker, candidate.pass_context.now):
        return alarm_of((worker,))
    return because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle or 0.0, limit_s=limit)


def queue_not_empty(candidate: Candidate) -> Reason | None:
    """With `scale_down_timeout`, no worker leaves before the queues have been empty for that long."""
    return None if candidate.stop_requested else candidate.queue_not_empty


def batch_full(candidate: Candidate) -> Reason | None:
    """One batch of workers leaves at a time."""
    return because(Code.SCALE_DOWN_BATCH, batch=candidate.array.scale_down_batch) if candidate.batch <= 0 else None


@dataclass(frozen=True, slots=True)
class IdleTooLong:
    """It always applies; its keepers say why a worker in service stays."""

    why: str = "It has been idle for `idle_timeout`."
    reasons: tuple[Code, ...] = (Code.IDLE,)
    mark: Disabling = Disabling.IDLE
    keepers: tuple[Keeper, ...] = (
        kept,
        busy,
        enabled_by_hand,
        held,
        kept_for_group,
        not_idle_long_enough,
        needed,
        queue_not_empty,
        floor_reached,
        batch_full,
    )
    by_person: bool = False

    def applies(self, to: Candidate) -> Reason:
        return because(Code.IDLE, idle_s=to.idle, limit_s=to.array.idle_timeout)
