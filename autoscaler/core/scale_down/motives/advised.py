"""The worker's cloud advises to move away: it may take the machine soon."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.scale_down.motives.motive import Keeper, ServingWorker, enabled_by_hand, kept, needed


@dataclass(frozen=True, slots=True)
class Advised:
    """It is disabled while it still runs jobs: those may end before the machine does."""

    why: str = "Its cloud advises to move away, and nothing needs it."
    reasons: tuple[Code, ...] = (Code.REBALANCE_RECOMMENDED,)
    mark: Disabling = Disabling.ADVISED
    keepers: tuple[Keeper, ...] = (kept, needed, enabled_by_hand)
    by_person: bool = False

    def applies(self, serving: ServingWorker) -> Reason | None:
        return because(Code.REBALANCE_RECOMMENDED) if serving.worker.advised else None
