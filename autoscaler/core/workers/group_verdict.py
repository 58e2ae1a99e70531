"""What holds for all workers of one group together, and the step that each takes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.step import PassContext, WorkerStep, disable, keep, terminate
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """The verdict on one group."""

    back: Reason | None = None
    """Why all of its workers leave; None: they stay."""
    keep: Reason | None = None
    """Why those in service stay."""
    hold: Reason | None = None
    """Why those that are ready take no jobs yet."""
    wanted: bool = False
    """Whether demand or a request wants it whole."""
    targeted: bool = False
    """Whether it meets a target."""
    surplus: frozenset[str] = frozenset()
    """Ids of workers on their way in that are too many."""


NO_GROUP = GroupVerdict()
"""Of a worker that is one of no group."""


def group_verdict_of(machine: WorkerState, group_verdicts: Mapping[str, GroupVerdict]) -> GroupVerdict:
    """What holds for a worker's group. `group_verdicts`: by group id."""
    return group_verdicts.get(machine.worker.group_id or "", NO_GROUP)


def give_back(machine: WorkerState, pass_context: PassContext, group_verdict: GroupVerdict) -> WorkerStep | None:
    """The next step of a coming worker whose group leaves or is complete without it: that is no failure of the worker.
    None: it is needed.
    """
    mark, reason = Disabling.GROUP, group_verdict.back
    if reason is None and machine.worker.id in group_verdict.surplus:
        mark, reason = Disabling.IDLE, because(Code.GROUP_COMPLETE, group=machine.worker.group_id)
    if reason is None:
        return None
    if machine.host is not None:
        return disable(machine, pass_context, mark, reason)
    kept = pass_context.kept(machine)
    if kept is not None and kept.code is Code.KEPT_BY_COMMAND:
        return keep(machine, kept)
    return terminate(machine, pass_context, reason)
