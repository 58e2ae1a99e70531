"""How long a worker has been idle, whether it may leave for that, and which worker leaves first."""

from __future__ import annotations

from collections.abc import Set

from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


def idle_for(machine: WorkerState, now: float) -> float | None:
    """Seconds since it was last seen busy; None while it is not in service and empty."""
    since = machine.since(Condition.IDLE)
    return None if since is None else now - since


def could_leave(machine: WorkerState, pass_context: PassContext) -> bool:
    """Whether it could leave because of its idle time, its own request or its cloud's advice."""
    if not machine.in_service or machine.array is None:
        return False
    idle = idle_for(machine, pass_context.now)
    asked = pass_context.winding_down is not None or machine.worker.id in pass_context.asking
    long_enough = idle is not None and (idle >= machine.array.idle_timeout or asked)
    return long_enough or machine.advised


def let_go_order(machine: WorkerState, asking: Set[str]) -> tuple[bool, bool, float, float, str]:
    """Sorting key of which worker leaves first: one that asks to stop, one that its cloud may take, then the most
    expensive one, then the one that has been idle longest.
    """
    since = machine.since(Condition.IDLE)
    price = machine.worker.price_per_hour or 0.0
    return (
        machine.worker.id not in asking,
        not machine.advised,
        -price,
        since if since is not None else 0.0,
        machine.worker.id,
    )
