"""Remove: take an empty, disabled host out of Grid Engine, so that no job can ever start on it again.

Grid Engine's own refusal is the last guard (rule 1): refused means that all is put back and the machine is kept.
"""

from __future__ import annotations

from autoscaler.act.means import Means, Seen
from autoscaler.core.actions import Remove
from autoscaler.store.journal import Outcome, Result
from sge.membership import Membership


def remove(action: Remove, means: Means, seen: Seen) -> Outcome:
    """Only ever the host of a worker of ours: one that the plan saw, or that we enrolled and whose end is certain
    (rule 4).
    """
    enrolment = means.store.journal.enrolment(action.worker_id)
    enrolled = enrolment is not None and enrolment.host == action.host
    if action.worker_id not in seen and not enrolled:
        return Outcome(action, Result.REFUSED, f"{action.worker_id} is no worker of ours; {action.host} left alone")
    known = None
    if enrolment is not None and enrolled:
        known = Membership(((enrolment.queue, str(enrolment.slots)),), (enrolment.host_group,))
    removal = means.grid_engine.remove(action.host, known)
    if not removal.removed:
        return Outcome(action, Result.REFUSED, "; ".join(removal.said))
    means.store.history.removed(action.worker_id, means.clock())
    return Outcome(action, Result.DONE)
