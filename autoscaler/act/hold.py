"""Hold: keep waiting jobs from starting, the reason in their context first; and lift that hold again."""

from __future__ import annotations

from autoscaler.act.jobs import explain, outcome_of
from autoscaler.act.means import Means
from autoscaler.core.actions import Hold, Release
from autoscaler.store.journal import Outcome


def hold(action: Hold, means: Means) -> Outcome:
    """As operator, so that it is told apart from the owner's own hold. What became of the context hinders nothing."""
    explain(action.jobs, action.reason, means)
    held = means.grid_engine.hold(action.jobs)
    told = means.owners.tell([job for job in action.jobs if job in held.done], "held", action.reason)
    return outcome_of(action, held, told)


def release(action: Release, means: Means) -> Outcome:
    explain(action.jobs, action.reason, means)
    return outcome_of(action, means.grid_engine.release(action.jobs))
