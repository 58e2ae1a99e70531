"""Why a machine on its way into service is given up."""

from __future__ import annotations

from autoscaler.core.hosts.missing_values import values_text
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


def overdue(worker: WorkerState) -> Reason | None:
    """Why a machine on its way is given up; None: it is not. If its provider says that it will never come up, it is
    given up at once: it never ran a job, and may cost money until its end.
    """
    if worker.note.stopped and worker.host is None:
        return because(Code.STOPPED_FROM_OUTSIDE, message=worker.worker.message)
    if Condition.FAILED in worker.conditions:
        return because(Code.BOOT_FAILED, message=worker.worker.message)
    if Condition.OVERDUE not in worker.conditions or worker.array is None:
        return None
    limit = worker.array.boot_timeout
    if worker.missing_values:
        return because(Code.INCOMPLETE_TIMEOUT, limit_s=limit, lacks=values_text(worker.missing_values))
    code = Code.JOIN_TIMEOUT if worker.note.disabling is Disabling.ENROL else Code.BOOT_TIMEOUT
    return because(code, limit_s=limit, message=worker.worker.message)


def counts_as_coming(worker: WorkerState, pass_context: PassContext) -> bool:
    """Whether a coming machine is still expected: it is not late, and no person drains it."""
    return worker.coming and pass_context.drained_by_person(worker) is None and overdue(worker) is None
