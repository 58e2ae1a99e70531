"""Hold: keep waiting jobs from starting, the reason in their context first; and lift that hold again."""

from __future__ import annotations

from autoscaler.act.jobs import explain, outcome_of, unchanged
from autoscaler.act.means import Means
from autoscaler.core.actions import Hold, Release
from autoscaler.store.journal import Outcome
from sge.admin import JobsOutcome


def hold(action: Hold, means: Means) -> Outcome:
    """As operator, so that it is told apart from the owner's own hold. What became of the context hinders nothing.

    Waiting jobs are held only as they were judged: they are looked at again right before.
    """
    left = unchanged(action, means) if action.asks else JobsOutcome(action.jobs)
    explain(left.done, action.reason, means)
    held = means.grid_engine.hold(left.done)
    told = means.owners.tell([job for job in left.done if job in held.done], "held", action.reason)
    came = JobsOutcome(held.done, (*left.gone, *held.gone), {**held.refused, **left.refused})
    return outcome_of(action, came, told)


def release(action: Release, means: Means) -> Outcome:
    explain(action.jobs, action.reason, means)
    return outcome_of(action, means.grid_engine.release(action.jobs))
