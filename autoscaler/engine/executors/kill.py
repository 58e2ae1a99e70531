"""Kill: delete jobs. The owner is notified first, because a job's context ends with the job. No running job is
deleted.
"""

from __future__ import annotations

from autoscaler.core.model.actions import Kill
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.executors.job_guard import explain, outcome_of, unchanged
from autoscaler.store.journal import Outcome
from sge.admin import JobsOutcome


def kill(action: Kill, context: ExecutionContext) -> Outcome:
    """A job of a machine that is gone (`lost`) is deleted by force; any other only as it was judged (rule 6).

    Since the observation its owner may have changed it, and it may have started, so it is observed again right before.
    The notice is written before the deletion, because afterwards nobody knows where the job's output was.
    """
    left = JobsOutcome(action.jobs) if action.lost else unchanged(action, context)
    said = explain(left.done, action.reason, context)
    told = context.owners.tell([job for job in left.done if job not in said.gone], "deleted", action.reason)
    deleted = context.grid_engine.delete(left.done, forced=action.lost)
    came = JobsOutcome(deleted.done, (*left.gone, *deleted.gone), {**deleted.refused, **left.refused})
    return outcome_of(action, came, told)
