"""The worker has been idle for `idle_timeout`: the motive that every other worker in service is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.capacity.alarms import alarm_of, stays
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.scale_down.motives.motive import (
    Keeper,
    ServingWorker,
    busy,
    enabled_by_hand,
    floor_reached,
    held,
    kept,
    kept_for_group,
    needed,
)
from autoscaler.core.workers.phases import Condition


def not_idle_long_enough(serving: ServingWorker) -> Reason | None:
    """It was busy a moment ago, or in alarm: then no job could have started there."""
    idle, limit, worker = serving.idle, serving.array.idle_timeout, serving.worker
    if idle is not None and (idle >= limit or serving.stop_requested):
        return None
    if Condition.IN_ALARM in worker.conditions and not stays(worker, serving.pass_context.now):
        return alarm_of((worker,))
    return because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle or 0.0, limit_s=limit)


def queue_not_empty(serving: ServingWorker) -> Reason | None:
    """With `scale_down_timeout`, no worker leaves before the queues have been empty for that long."""
    return None if serving.stop_requested else serving.queue_not_empty


def batch_full(serving: ServingWorker) -> Reason | None:
    """One batch of workers leaves at a time."""
    return because(Code.SCALE_DOWN_BATCH, batch=serving.array.scale_down_batch) if serving.batch <= 0 else None


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

    def applies(self, serving: ServingWorker) -> Reason:
        return because(Code.IDLE, idle_s=serving.idle, limit_s=serving.array.idle_timeout)
