"""Leaves in the context of jobs why they wait, and takes it away again: one command for many jobs."""

from __future__ import annotations

from autoscaler.core.actions import TellWaiting
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.executors.jobs import CONTEXT, outcome_of
from autoscaler.report.reasons.waiting import waiting_text
from autoscaler.store.journal import Outcome


def tell_waiting(action: TellWaiting, context: ExecutionContext) -> Outcome:
    """A job that is gone needs nothing. Other variables of a job's context stay as they are."""
    if action.over:
        return outcome_of(action, context.grid_engine.drop_context(action.jobs, CONTEXT))
    return outcome_of(action, context.grid_engine.set_context(action.jobs, CONTEXT, waiting_text(action.reason)))
