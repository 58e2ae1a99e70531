"""The worker itself asks to stop (auto-stop), whatever its idle time."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.scale_down.motives.motive import (
    Keeper,
    ServingWorker,
    busy,
    enabled_by_hand,
    floor_reached,
    held,
    kept,
    kept_for_group,
    needed,
)


@dataclass(frozen=True, slots=True)
class AskedToStop:
    """It leaves for good if demand, requests and overrides do not need it."""

    why: str = "It asks to stop."
    reasons: tuple[Code, ...] = (Code.ASKED_TO_STOP,)
    mark: Disabling = Disabling.AUTO_STOP
    keepers: tuple[Keeper, ...] = (kept, busy, enabled_by_hand, held, kept_for_group, needed, floor_reached)
    by_person: bool = False

    def applies(self, serving: ServingWorker) -> Reason | None:
        return because(Code.ASKED_TO_STOP) if serving.stop_requested and serving.idle is not None else None
