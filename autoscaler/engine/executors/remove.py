"""Remove an empty, disabled host from Grid Engine, so that no job can ever start on it again.

Grid Engine's own refusal is the last guard (rule 1): then everything is restored and the machine stays.
"""

from __future__ import annotations

from autoscaler.core.model.actions import Remove
from autoscaler.core.workers.worker_state import same_host
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.errors import AutoscalerError
from autoscaler.store.journal import Outcome, Result
from sge.membership import Membership


def remove(action: Remove, context: ExecutionContext, seen: Seen) -> Outcome:
    """Removes only the host of one of our workers (rule 4): one in the plan's snapshot, one that we enrolled, or one
    that an earlier listing showed under this name and that none shows now.
    """
    enrolment = context.store.journal.enrolment(action.worker_id)
    enrolled = enrolment is not None and enrolment.host == action.host
    if action.worker_id not in seen and not enrolled and not _once_ours(action, context):
        return Outcome(
            action, Result.REFUSED, f"the autoscaler has no worker {action.worker_id}; {action.host} is left alone"
        )
    known = None
    if enrolment is not None and enrolled:
        known = Membership(((enrolment.queue, str(enrolment.slots)),), (enrolment.host_group,))
    removal = context.grid_engine.remove(action.host, known)
    if not removal.removed:
        return Outcome(action, Result.REFUSED, "; ".join(removal.said))
    context.store.history.removed(action.worker_id, context.clock())
    return Outcome(action, Result.DONE, _clear_group(action, context, seen))


def _clear_group(action: Remove, context: ExecutionContext, seen: Seen) -> str:
    """With the last host of a group Grid Engine's objects of the group are deleted; a later sweep deletes what
    remains.
    """
    worker = seen.get(action.worker_id)
    if worker is None or not worker.group_id or context.groups is None:
        return ""
    try:
        return "; ".join(context.groups.clear(worker.group_id))
    except AutoscalerError as error:
        return str(error)


def _once_ours(action: Remove, context: ExecutionContext) -> bool:
    """Whether our history has this worker under this name: it replaced an older one, and then ended as well."""
    lives = context.store.history.lifetimes()
    return any(
        life.worker_id == action.worker_id and life.name is not None and same_host(life.name, action.host)
        for life in lives
    )
