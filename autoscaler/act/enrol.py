"""Enrol: make a machine an execution host, disabled."""

from __future__ import annotations

from autoscaler.act.means import Means
from autoscaler.core.actions import Enrol
from autoscaler.store.journal import Outcome, Result


def enrol(action: Enrol, means: Means) -> Outcome:
    """Idempotent: what an interrupted enrolment left half done is completed."""
    change = means.grid_engine.enrol(action.host, action.queue, action.host_group, action.slots, action.complex_values)
    return Outcome(action, Result.DONE, "" if change.changed else "was enrolled already")
