"""The worker seems broken: jobs fail on it, its health check says so, or Grid Engine closed its queue instance."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.scale_down.motives.motive import Keeper, ServingWorker, kept


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Its jobs run to their end, and the worker leaves when it is empty. Demand does not keep it: jobs would fail."""

    why: str = "It seems broken."
    reasons: tuple[Code, ...] = (Code.BLACK_HOLE, Code.UNHEALTHY, Code.INSTANCE_IN_ERROR)
    mark: Disabling = Disabling.BROKEN
    keepers: tuple[Keeper, ...] = (kept,)
    by_person: bool = False

    def applies(self, serving: ServingWorker) -> Reason | None:
        return serving.suspect.reason if serving.suspect is not None and serving.suspect.acts else None
