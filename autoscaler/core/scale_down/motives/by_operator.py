"""A person removes the worker: by `drain`, by `stop --now`, or by `stop` once no job needs it."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.scale_down.motives.motive import Keeper, ServingWorker, busy, kept, needed


@dataclass(frozen=True, slots=True)
class Drained:
    """`drain` names it. Nothing keeps it; its jobs run to their end."""

    why: str = "A person drains it."
    reasons: tuple[Code, ...] = (Code.DRAINED_BY_COMMAND,)
    mark: Disabling = Disabling.COMMAND
    keepers: tuple[Keeper, ...] = ()
    by_person: bool = True

    def applies(self, serving: ServingWorker) -> Reason | None:
        if serving.pass_context.overrides.stop == "now":
            return None
        return serving.pass_context.drained_by_person(serving.worker)


@dataclass(frozen=True, slots=True)
class StoppedNow:
    """`stop --now`: no further job starts anywhere."""

    why: str = "A person stops all (`stop --now`)."
    reasons: tuple[Code, ...] = (Code.STOPPING,)
    mark: Disabling = Disabling.STOP
    keepers: tuple[Keeper, ...] = ()
    by_person: bool = True

    def applies(self, serving: ServingWorker) -> Reason | None:
        if serving.pass_context.overrides.stop != "now":
            return None
        return serving.pass_context.drained_by_person(serving.worker)


@dataclass(frozen=True, slots=True)
class Stopped:
    """`stop`: every worker leaves as soon as neither a running nor a waiting job needs it."""

    why: str = "A person stops the autoscaler, and no job needs it."
    reasons: tuple[Code, ...] = (Code.STOPPING,)
    mark: Disabling = Disabling.STOP
    keepers: tuple[Keeper, ...] = (kept, busy, needed)
    by_person: bool = True

    def applies(self, serving: ServingWorker) -> Reason | None:
        return serving.pass_context.winding_down
