"""How long a worker has been idle, whether it may leave for that reason, and which worker leaves first."""

from __future__ import annotations

from collections.abc import Set

from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


def idle_for(worker: WorkerState, now: float) -> float | None:
    """Seconds since it was last seen busy; None while it is not in service and empty."""
    since = worker.since(Condition.IDLE)
    return None if since is None else now - since


def could_leave(worker: WorkerState, pass_context: PassContext) -> bool:
    """Whether it could leave because of its idle time, its own request or its cloud's advice."""
    if not worker.in_service or worker.array is None:
        return False
    idle = idle_for(worker, pass_context.now)
    requested = pass_context.winding_down is not None or worker.worker.id in pass_context.stop_requests
    long_enough = idle is not None and (idle >= worker.array.idle_timeout or requested)
    return long_enough or worker.advised


def removal_order(worker: WorkerState, stop_requests: Set[str]) -> tuple[bool, bool, float, float, str]:
    """Sorting key, the worker that leaves first: one that asks to stop, one that its cloud may take, the most expensive
    one, the one that has been idle longest.
    """
    since = worker.since(Condition.IDLE)
    price = worker.worker.price_per_hour or 0.0
    return (
        worker.worker.id not in stop_requests,
        not worker.advised,
        -price,
        since if since is not None else 0.0,
        worker.worker.id,
    )
