"""Annotate: leave the reason in the jobs' context, and nothing else."""

from __future__ import annotations

from autoscaler.act.jobs import explain, outcome_of
from autoscaler.act.means import Means
from autoscaler.core.actions import Annotate
from autoscaler.store.journal import Outcome


def annotate(action: Annotate, means: Means) -> Outcome:
    return outcome_of(action, explain(action.jobs, action.reason, means))
