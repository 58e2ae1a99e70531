"""Enrol: make a machine an execution host, disabled."""

from __future__ import annotations

from autoscaler.act.means import Means
from autoscaler.core.actions import Enrol
from autoscaler.errors import GridEngineRefused
from autoscaler.store.journal import Outcome, Result


def enrol(action: Enrol, means: Means) -> Outcome:
    """Idempotent: what an interrupted enrolment left half done is completed."""
    change = means.grid_engine.enrol(action.host, action.queue, action.host_group, action.slots, action.complex_values)
    said = "" if change.changed else "was enrolled already"
    if means.load_sensor:
        try:
            means.grid_engine.sense(action.host, means.load_sensor)
        except GridEngineRefused as error:
            said = f"{said}; it cannot tell of its coming end: {error}".removeprefix("; ")
    return Outcome(action, Result.DONE, said)
