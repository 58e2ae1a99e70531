"""Remove: take an empty, disabled host out of Grid Engine, so that no job can ever start on it again.

Grid Engine's own refusal is the last guard (rule 1): refused means that all is put back and the machine is kept.
"""

from __future__ import annotations

from autoscaler.core.model.actions import Remove
from autoscaler.core.workers.worker_state import same_host
from autoscaler.engine.execution import ExecutionContext, Seen
from autoscaler.errors import AutoscalerError
from autoscaler.store.journal import Outcome, Result
from sge.membership import Membership


def remove(action: Remove, context: ExecutionContext, seen: Seen) -> Outcome:
    """Only ever the host of a worker of ours (rule 4): one that the plan saw, that we enrolled, or that a listing once
    showed under this name and none shows any more.
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
    """With the last host of a group goes what Grid Engine has of it; what stays is swept away later."""
    worker = seen.get(action.worker_id)
    if worker is None or not worker.group_id or context.groups is None:
        return ""
    try:
        return "; ".join(context.groups.clear(worker.group_id))
    except AutoscalerError as error:
        return str(error)


def _once_ours(action: Remove, context: ExecutionContext) -> bool:
    """Whether our history has this worker under this name: it took an older one's place, and then ended as well."""
    lives = context.store.history.lifetimes()
    return any(
        life.worker_id == action.worker_id and life.name is not None and same_host(life.name, action.host)
        for life in lives
    )
