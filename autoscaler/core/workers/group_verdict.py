"""The verdict on all workers of one group together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.model.reasons import Reason
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on one group."""

    leave: Reason | None = None
    """Why all of its workers leave; None: they stay."""
    keep: Reason | None = None
    """Why those in service stay."""
    hold: Reason | None = None
    """Why those that are ready take no jobs yet."""
    wanted: bool = False
    """Whether demand or a request needs it whole."""
    targeted: bool = False
    """Whether it meets a target."""
    surplus: frozenset[str] = frozenset()
    """Ids of workers on their way in that are too many."""
    returning: frozenset[str] = frozenset()
    """Ids of workers on their way out that are enabled again."""


NO_GROUP = GroupVerdict()
"""For a worker of no group."""


def group_verdict_of(worker: WorkerState, group_verdicts: Mapping[str, GroupVerdict]) -> GroupVerdict:
    """The verdict on a worker's group. `group_verdicts`: by group id."""
    return group_verdicts.get(worker.worker.group_id or "", NO_GROUP)
