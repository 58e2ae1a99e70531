"""How long a worker has been idle, whether it may leave for that reason, and which worker leaves first."""

from __future__ import annotations

from collections.abc import Set

from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState

COARSE = 600.0
"""Seconds: where a worker's time is billed in smaller steps, their end is not waited for."""
LEAVING = 6
"""Idle workers leave in the last one of so many parts of a step: time enough, where few leave at once."""
TOO_LATE = 60.0
"""Seconds before the end of a step in which none begins to leave: the next step would begin before it is terminated."""


def idle_for(worker: WorkerState, now: float) -> float | None:
    """Seconds since it was last seen busy; None while it is not in service and empty."""
    since = worker.conditions.get(Condition.IDLE)
    return None if since is None else now - since


def paid_until(worker: WorkerState, now: float) -> float | None:
    """Where its time is billed in coarse steps: from when on an idle worker may leave, as it is paid until then anyway;
    None: it may leave now.
    """
    step = 0.0 if worker.array is None else worker.array.billing_step
    if step < COARSE:
        return None
    used = (now - worker.made_at) % step
    if step - step / LEAVING <= used <= step - TOO_LATE:
        return None
    begins = now - used + step - step / LEAVING
    return begins if begins > now else begins + step


def could_leave(worker: WorkerState, pass_context: PassContext) -> bool:
    """Whether it could leave because of its idle time, its own request or its cloud's advice."""
    if not worker.in_service or worker.array is None:
        return False
    since, coarse = worker.conditions.get(Condition.IDLE), worker.array.billing_step >= COARSE
    idle = None if since is None else pass_context.now - since
    requested = pass_context.overrides.stop == "drain" or worker.worker.id in pass_context.stop_requests
    long_enough = idle is not None and (
        requested
        or (idle >= worker.array.idle_timeout and not (coarse and paid_until(worker, pass_context.now) is not None))
    )
    return long_enough or worker.advised


def removal_order(worker: WorkerState, stop_requests: Set[str]) -> tuple[bool, bool, float, float, str]:
    """Sorting key, the worker that leaves first: one that asks to stop, one that its cloud may take, the most expensive
    one, the one that has been idle longest.
    """
    since = worker.conditions.get(Condition.IDLE)
    price = worker.worker.price_per_hour or 0.0
    return (
        worker.worker.id not in stop_requests,
        not worker.advised,
        -price,
        since if since is not None else 0.0,
        worker.worker.id,
    )
