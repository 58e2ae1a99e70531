"""Enable and Disable: open a host that we disabled to jobs, close one to further jobs.

Our mark on a host that we disable stands in the memory that was stored before.
"""

from __future__ import annotations

from autoscaler.core.model.actions import Disable, Enable
from autoscaler.engine.execution import ExecutionContext
from autoscaler.store.journal import Outcome, Result


def enable(action: Enable, context: ExecutionContext) -> Outcome:
    context.grid_engine.enable(action.host)
    return Outcome(action, Result.DONE)


def disable(action: Disable, context: ExecutionContext) -> Outcome:
    context.grid_engine.disable(action.host)
    return Outcome(action, Result.DONE)
