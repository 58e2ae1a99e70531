"""Remove an empty, disabled host from Grid Engine, so that no job can ever start on it again.

Grid Engine's own refusal is the last guard (rule 1): then everything is restored and the machine stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autoscaler.core.actions import Enrol, Remove
from autoscaler.core.workers.worker_state import same_host
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.errors import AutoscalerError
from autoscaler.sge.batches import Batches
from autoscaler.sge.membership import Membership
from autoscaler.sge.removal import RemovalOutcome
from autoscaler.store.journal import Outcome, Result


def remove(action: Remove, context: ExecutionContext, seen: Seen) -> Outcome:
    """Removes only the host of one of our workers (rule 4): one in the plan's snapshot, one that we enrolled, or one
    that an earlier listing showed under this name and that none shows now.
    """
    enrolment = _enrolment(action, context)
    if not _ours(action, enrolment, context, seen):
        return Outcome(
            action, Result.REFUSED, f"the autoscaler has no worker {action.worker_id}; {action.host} is left alone"
        )
    return _outcome(action, context.grid_engine.remove(action.host, _known(enrolment)), context, seen)


def remove_all(
    actions: Sequence[Remove], context: ExecutionContext, seen: Seen, batches: Batches
) -> Mapping[str, Outcome]:
    """The same of several hosts, by host: those of our workers that were removed, or that Grid Engine refused to
    remove and that have all they had.
    """
    times = Counter(action.host for action in actions)
    known: dict[str, Membership | None] = {}
    for action in actions:
        enrolment = _enrolment(action, context)
        if times[action.host] == 1 and _ours(action, enrolment, context, seen):
            known[action.host] = _known(enrolment)
    removals = batches.remove(known) if known else {}
    return {
        action.host: _outcome(action, removals[action.host], context, seen)
        for action in actions
        if action.host in removals
    }


def _enrolment(action: Remove, context: ExecutionContext) -> Enrol | None:
    enrolment = context.store.journal.enrolment(action.worker_id)
    return enrolment if enrolment is not None and enrolment.host == action.host else None


def _known(enrolment: Enrol | None) -> Membership | None:
    """The places that its enrolment gave it."""
    if enrolment is None:
        return None
    numbers = () if enrolment.seq_no is None else ((enrolment.queue, str(enrolment.seq_no)),)
    return Membership(((enrolment.queue, str(enrolment.slots)),), (enrolment.host_group,), seq_nos=numbers)


def _ours(action: Remove, enrolment: Enrol | None, context: ExecutionContext, seen: Seen) -> bool:
    return action.worker_id in seen or enrolment is not None or _replaced_by_us(action, context)


def _outcome(action: Remove, removal: RemovalOutcome, context: ExecutionContext, seen: Seen) -> Outcome:
    if not removal.removed:
        return Outcome(action, Result.REFUSED, "; ".join(removal.output))
    context.store.history.removed(action.worker_id, context.clock())
    return Outcome(action, Result.DONE, _clear_group(action, context, seen))


def _clear_group(action: Remove, context: ExecutionContext, seen: Seen) -> str:
    """Delete Grid Engine's objects of a group together with its last host; a later sweep deletes the remains."""
    worker = seen.get(action.worker_id)
    if worker is None or not worker.group_id or context.groups is None:
        return ""
    try:
        return "; ".join(context.groups.clear(worker.group_id))
    except AutoscalerError as error:
        return str(error)


def _replaced_by_us(action: Remove, context: ExecutionContext) -> bool:
    """Whether our history has this worker under this name: it replaced an older one, and then ended as well."""
    lives = context.store.history.lifetimes()
    return any(
        life.worker_id == action.worker_id and life.name is not None and same_host(life.name, action.host)
        for life in lives
    )
