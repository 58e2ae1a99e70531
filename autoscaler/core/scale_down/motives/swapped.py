"""A stronger worker replaces the worker."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.scale_down.motives.motive import Keeper, ServingWorker, kept


@dataclass(frozen=True, slots=True)
class Swapped:
    """The swap was judged as a whole before: no floor and no batch keeps its workers."""

    why: str = "A stronger worker replaces it."
    reasons: tuple[Code, ...] = (Code.SWAP,)
    mark: Disabling = Disabling.SWAP
    keepers: tuple[Keeper, ...] = (kept,)
    by_person: bool = False

    def applies(self, serving: ServingWorker) -> Reason | None:
        return serving.swapped_out
