"""The worker's group leaves as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.scale_down.motives.motive import Keeper, ServingWorker, busy, enabled_by_hand, held, kept


@dataclass(frozen=True, slots=True)
class GroupLeaves:
    """Whether a group leaves is judged for all its workers at once (`group_verdicts.py`)."""

    why: str = "Its group leaves."
    reasons: tuple[Code, ...] = ()
    mark: Disabling = Disabling.GROUP
    keepers: tuple[Keeper, ...] = (kept, busy, enabled_by_hand, held)
    by_person: bool = False

    def applies(self, serving: ServingWorker) -> Reason | None:
        return serving.group_verdict.leave
