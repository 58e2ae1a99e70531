"""Reschedule: make running jobs wait again (`qmod -rj`), one by one, with the reason in their context."""

from __future__ import annotations

from autoscaler.core.model.actions import Reschedule
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.executors.job_guard import explain, outcome_of
from autoscaler.errors import GridEngineRefused
from autoscaler.store.journal import Outcome
from sge.admin import JobsOutcome


def reschedule(action: Reschedule, context: ExecutionContext) -> Outcome:
    """Grid Engine refuses a job that may not be started again, unless forced; one refusal does not hide the others."""
    explain(action.jobs, action.reason, context)
    done: list[str] = []
    gone: list[str] = []
    refused: dict[str, str] = {}
    for job in action.jobs:
        try:
            came = context.grid_engine.push_back(job, forced=action.forced)
        except GridEngineRefused as error:
            refused[job] = str(error)
            continue
        done += came.done
        gone += came.gone
        refused |= came.refused
    return outcome_of(action, JobsOutcome(tuple(done), tuple(gone), refused))
