"""Jobs that will soon wait again: those on workers that are about to be taken or terminated, if they may start again.

They count as demand after the waiting jobs, so that a replacement is ordered before the old worker is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from autoscaler.core.demand.constraint_demand import ConstraintDemand
from autoscaler.core.demand.job_requests import RequestReader
from autoscaler.core.model.cluster import Cluster, HostJob, JobRequest
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.reasons import Reason
from autoscaler.core.policy import Policy
from autoscaler.core.recovery.lost_jobs import jobs_on
from autoscaler.core.recovery.recovery_context import RecoveryContext, restart_known
from autoscaler.core.rights.rights import Rights
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.worker_state import WorkerState


def returning_jobs(
    observed: ObservedWorkers,
    cluster: Cluster,
    policy: Policy,
    context: RecoveryContext,
    now: float,
    closed: Mapping[str, Reason] = MappingProxyType({}),
) -> tuple[CategoryDemand, ...]:
    """One entry for every different need. A job over several hosts needs its share on this host again. `closed`: queues
    that start nothing now, whose jobs need no worker.
    """
    if not observed.noticed:
        return ()
    reader: RequestReader | None = None
    rules = ConstraintDemand(cluster, policy, {})
    counts: dict[tuple[Demand, tuple[str, ...]], int] = {}
    for job, queue, slots in _work(observed.workers, context):
        # They run in that queue, so they may use it.
        reader = reader or RequestReader(cluster, policy, observed.names, closed, Rights())
        detail = context.where.details.get(job.number)
        project = detail.project or None if detail is not None else None
        ask = JobRequest("Rq", hard=job.hard, queues=(queue,), owner=job.owner, project=project)
        served = reader.read(ask)
        if not isinstance(served, Reason) and served.launches:
            served = rules.ask(served, rules.known_of(ask), array=bool(job.task))
            need = replace(served.demand, slots=slots, per_host=slots)
            counts[need, served.launches] = counts.get((need, served.launches), 0) + 1
    return tuple(
        CategoryDemand(need, count, now, expired=True, launches=launches) for (need, launches), count in counts.items()
    )


def _work(machines: Sequence[WorkerState], context: RecoveryContext) -> Iterator[tuple[HostJob, str, int]]:
    """Jobs with their queue and their slots on that worker."""
    for worker in machines:
        taken = worker.decisive is Condition.INTERRUPTED and worker.notice is not None
        if worker.host is None or not (taken or worker.decisive is Condition.FENCED):
            continue
        for job, queue in jobs_on(worker.host):
            if restart_known(job, queue, context):
                # A parallel job may have slots in several queue instances of a host.
                same = [one for one in worker.host.jobs if (one.number, one.task) == (job.number, job.task)]
                yield job, queue, sum(one.slots for one in same)
