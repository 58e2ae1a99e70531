"""Enable and Disable: open a host that we disabled to jobs, close one to further jobs.

Our mark on a host that we disable stands in the memory that was stored before.
"""

from __future__ import annotations

from autoscaler.core.model.actions import Disable, Enable
from autoscaler.engine.execution import ExecutionContext
from autoscaler.store.journal import Outcome, Result


def enable(action: Enable, means: ExecutionContext) -> Outcome:
    means.grid_engine.enable(action.host)
    return Outcome(action, Result.DONE)


def disable(action: Disable, means: ExecutionContext) -> Outcome:
    means.grid_engine.disable(action.host)
    return Outcome(action, Result.DONE)
