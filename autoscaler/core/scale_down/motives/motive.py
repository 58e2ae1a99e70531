"""Motives for which workers leave, the facts that they are judged by, and what keeps a worker nevertheless."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.scale_down.floors import Floor
from autoscaler.core.scale_down.quarantine import Suspect
from autoscaler.core.workers.drain import busy_reason
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.core.workers.idle import idle_for
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class ServingWorker:
    """A worker in service, with all facts for and against its removal."""

    worker: WorkerState
    array: NodeArrayPolicy
    pass_context: PassContext
    needed: bool
    """Waiting demand would use it."""
    floor: Floor
    batch: int
    """How many more idle workers of its array may be disabled now."""
    queue_not_empty: Reason | None
    """Why `scale_down_timeout` keeps the workers of its queue."""
    swapped_out: Reason | None
    """Why it leaves for a stronger worker."""
    suspect: Suspect | None
    """Why it seems broken."""
    held: Reason | None
    """Why it stays for a request."""
    group_verdict: GroupVerdict

    @property
    def idle(self) -> float | None:
        """Seconds since it was last seen busy."""
        return idle_for(self.worker, self.pass_context.now)

    @property
    def stop_requested(self) -> bool:
        """It asks to stop."""
        return self.worker.worker.id in self.pass_context.stop_requests


Keeper = Callable[[ServingWorker], Reason | None]
"""Why a worker stays although a motive applies; None: this keeper does not apply."""


class Motive(Protocol):
    """One reason why a worker in service is disabled, to be removed when it is empty."""

    @property
    def why(self) -> str:
        """The motive in a sentence, for the page of transitions."""

    @property
    def reasons(self) -> tuple[Code, ...]:
        """Codes of its reason; empty: the reason comes from the verdict on its group."""

    @property
    def mark(self) -> Disabling:
        """The mark that remembers the cause."""

    @property
    def keepers(self) -> tuple[Keeper, ...]:
        """What keeps the worker nevertheless; the first that applies gives the reason."""

    @property
    def by_person(self) -> bool:
        """Whether it applies even if the autoscaler is paused."""

    def applies(self, serving: ServingWorker) -> Reason | None:
        """Why the worker leaves; None: this motive does not apply."""


def kept_by_keeper(motive: Motive, serving: ServingWorker) -> Reason | None:
    """The reason of the first keeper that applies."""
    return next((reason for keeper in motive.keepers if (reason := keeper(serving)) is not None), None)


def leaves_for(motive: Motive, serving: ServingWorker) -> bool:
    """Whether the motive applies and no keeper stops it."""
    return motive.applies(serving) is not None and kept_by_keeper(motive, serving) is None


# -- what keeps a worker ----------------------------------------------------------------------------------------------


def kept(serving: ServingWorker) -> Reason | None:
    """A person, a request set or a rule keeps it."""
    return serving.pass_context.kept(serving.worker)


def busy(serving: ServingWorker) -> Reason | None:
    """It runs jobs, or holds reserved slots (rule 1)."""
    return None if serving.worker.empty else busy_reason(serving.worker)


def needed(serving: ServingWorker) -> Reason | None:
    """Waiting demand would use it."""
    return because(Code.NEEDED) if serving.needed else None


def enabled_by_hand(serving: ServingWorker) -> Reason | None:
    """A person has just enabled it."""
    return because(Code.ENABLED_BY_HAND) if serving.worker.enabled_by_hand else None


def held(serving: ServingWorker) -> Reason | None:
    """A request set or a created node needs it."""
    return serving.held


def kept_for_group(serving: ServingWorker) -> Reason | None:
    """Its group stays."""
    return serving.group_verdict.keep


def floor_reached(serving: ServingWorker) -> Reason | None:
    """No fewer workers of its node array may stay."""
    least = serving.floor.min_workers
    return because(Code.MIN_WORKERS, min_workers=least) if serving.floor.staying <= least else None
