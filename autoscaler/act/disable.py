"""Disable: let no further job onto a host. Our mark on it stands in the memory that was stored before."""

from __future__ import annotations

from autoscaler.act.means import Means
from autoscaler.core.actions import Disable
from autoscaler.store.journal import Outcome, Result


def disable(action: Disable, means: Means) -> Outcome:
    means.grid_engine.disable(action.host)
    return Outcome(action, Result.DONE)
