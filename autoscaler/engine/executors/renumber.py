"""Renumber: give workers other sequence numbers in a queue, all by one command."""

from __future__ import annotations

from autoscaler.core.actions import Renumber
from autoscaler.engine.execution import ExecutionContext
from autoscaler.store.journal import Outcome, Result


def renumber(action: Renumber, context: ExecutionContext) -> Outcome:
    """Idempotent: numbers that hosts have already stay."""
    change = context.grid_engine.renumber(action.queue, [(each.host, each.seq_no) for each in action.workers])
    return Outcome(action, Result.DONE, "" if change.changed else "had these numbers already")
