"""Enable and Disable a host (`qmod -e`, `qmod -d`).

The memory, which was stored before, marks a host as disabled by us.
"""

from __future__ import annotations

from autoscaler.core.actions import Disable, Enable
from autoscaler.engine.execution import ExecutionContext
from autoscaler.store.journal import Outcome, Result


def enable(action: Enable, context: ExecutionContext) -> Outcome:
    for queue in action.queues or ("*",):
        context.grid_engine.enable(action.host, queue)
    return Outcome(action, Result.DONE)


def disable(action: Disable, context: ExecutionContext) -> Outcome:
    context.grid_engine.disable(action.host)
    return Outcome(action, Result.DONE)
