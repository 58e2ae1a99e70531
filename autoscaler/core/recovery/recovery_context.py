"""The facts that recovery of every worker needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.hosts.load_reports import grace_of
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Reason
from autoscaler.core.policy import Policy
from autoscaler.core.recovery.failure_domains import unvouched
from autoscaler.core.recovery.lost_jobs import (
    JobPlaces,
    MayRestart,
    job_places,
)
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.observed import ObservedWorkers


@dataclass(frozen=True, slots=True)
class RecoveryContext:
    """What recovery needs to know besides the worker itself."""

    policy: Policy
    where: JobPlaces
    grace: float
    """Seconds without a load report that are still normal."""
    all_silent: bool
    """qmaster has no load report from any host."""
    awaited: bool
    """Machines were ordered that no listing shows yet: one of them may have the name of a machine that is gone."""

    unvouched: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each silent worker whose silence does not show that its machine is lost: why."""
    notes: Mapping[str, WorkerNote] = field(default_factory=lambda: MappingProxyType({}))
    """What is remembered of workers, by id."""

    @property
    def disable_after(self) -> float:
        """Seconds of silence after which a worker is disabled."""
        return min(self.grace, self.policy.silence_timeout / 2)


def recovery_context(observed: ObservedWorkers, snapshot: Snapshot) -> RecoveryContext:
    cluster, memory, policy, now = snapshot.cluster, snapshot.memory, snapshot.policy, snapshot.now
    gone = frozenset(m.host.name for m in observed.known if m.gone and m.host is not None and m.successor is None)
    return RecoveryContext(
        policy=policy,
        where=job_places(cluster, memory, gone, now - policy.detail_age),
        grace=grace_of(cluster),
        all_silent=not any(host.heard for host in cluster.hosts),
        unvouched=unvouched(observed.workers, grace_of(cluster)) if observed.silent else {},
        awaited=bool(outstanding(snapshot.fleet, policy, now)),
        notes=memory.workers,
    )


def restart_known(job: HostJob, queue: str, context: RecoveryContext) -> bool:
    """Whether it is certain that a job may start again."""
    known = job.number in context.where.details
    return known and context.where.restart(job, queue) in (MayRestart.YES, MayRestart.BY_FORCE)
