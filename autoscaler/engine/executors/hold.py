"""Hold: keep waiting jobs from starting, the reason in their context first; Release: lift that hold again; Annotate:
leave the reason in their context, and nothing else.
"""

from __future__ import annotations

from autoscaler.core.model.actions import Annotate, Hold, Release
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.executors.job_guard import explain, outcome_of, unchanged
from autoscaler.store.journal import Outcome
from sge.admin import JobsOutcome


def hold(action: Hold, context: ExecutionContext) -> Outcome:
    """The hold is an operator's, to distinguish it from the owner's own.

    A failure to write the context does not matter. The jobs are observed again right before, and only those are held
    that have not changed.
    """
    left = unchanged(action, context) if action.asks else JobsOutcome(action.jobs)
    explain(left.done, action.reason, context)
    held = context.grid_engine.hold(left.done)
    told = context.owners.tell([job for job in left.done if job in held.done], "held", action.reason)
    came = JobsOutcome(held.done, (*left.gone, *held.gone), {**held.refused, **left.refused})
    return outcome_of(action, came, told)


def release(action: Release, context: ExecutionContext) -> Outcome:
    explain(action.jobs, action.reason, context)
    return outcome_of(action, context.grid_engine.release(action.jobs))


def annotate(action: Annotate, context: ExecutionContext) -> Outcome:
    return outcome_of(action, explain(action.jobs, action.reason, context))
