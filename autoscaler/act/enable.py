"""Enable: let jobs onto a host that we disabled."""

from __future__ import annotations

from autoscaler.act.means import Means
from autoscaler.core.actions import Enable
from autoscaler.store.journal import Outcome, Result


def enable(action: Enable, means: Means) -> Outcome:
    means.grid_engine.enable(action.host)
    return Outcome(action, Result.DONE)
