"""What both say of one job: Grid Engine's scheduler (`qalter -w p`, and what it dispatches), and our core."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from autoscaler.core.model.cluster import Cluster, JobCategory
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Snapshot
from tests.differential.worlds import GROUP, HOSTS, OUTER, QUEUES


class Answer(StrEnum):
    """Whether a job could start now."""

    FITS = "fits"
    NOT = "does not fit"
    UNKNOWN = "unknown"


Said = tuple[Answer, str]
"""An answer with the words that came with it."""

LARGE = InstanceType("m5.large", "m5", 2, 8 * 1024**3)
PLACES = ("@workers", GROUP, *HOSTS)
"""Workers to come are as a queue is at one of these: where a job fits on any, it is said to fit. Of persistent hosts
that differ from workers our core does not judge.
"""
POLICIES = {
    place: Policy(
        queues=tuple(QueuePolicy(queue, queue) for queue in QUEUES),
        node_arrays=tuple(
            NodeArrayPolicy(queue, queue, place, instance_type=LARGE.name, limits=Limits(max_workers=10))
            for queue in QUEUES
        ),
        master="master",
    )
    for place in PLACES
}
BUCKETS = (Bucket(BucketKey(LARGE.name), LARGE, 0.1),)
MEMORY = Memory(workers={f"i-{host}": WorkerNote(1.0, joined_at=1.0, host=host) for host in HOSTS})


def fleet_of(cluster: Cluster) -> Fleet:
    """All hosts as workers in service, each of the node array of a queue that it has: of others our core would say that
    they are not ours where a job names one.
    """
    queues = {host.name: host.instances[0].queue for host in cluster.hosts if host.instances}
    return Fleet(
        workers=tuple(
            Worker(f"i-{host}", LARGE, queues[host], MachineState.RUNNING, 0.0, host)
            for host in HOSTS
            if host in queues
        ),
        buckets=BUCKETS,
    )


def ours(cluster: Cluster, now: float) -> dict[int, Said]:
    """By job, what our core says of it, every job alone."""
    return {
        job: _alone(cluster, category, place, now)
        for category in cluster.job_categories
        for place, job in enumerate(category.jobs)
    }


def _alone(cluster: Cluster, category: JobCategory, place: int, now: float) -> Said:
    """Of the job at this place of its category."""
    first = replace(
        category,
        jobs=category.jobs[place : place + 1],
        tasks=category.tasks[place : place + 1],
        submitted=category.submitted[place : place + 1],
        count=category.count // len(category.jobs),
    )
    # The places that workers are said to be at are no host groups.
    alone = replace(cluster, job_categories=(first,), configuration_read=False)
    said = ""
    for at, policy in POLICIES.items():
        if at == GROUP and any(group in name for name in category.ask.queues for group in (GROUP, OUTER)):
            continue  # it would name workers wherever they are
        decided = plan(Snapshot(alone, fleet_of(cluster), Overrides(), MEMORY, policy, now))
        reason = decided.job_categories[0].reason
        if decided.fitting:
            return Answer.FITS, ""
        if reason.code is Code.NOT_READ_YET:
            return Answer.UNKNOWN, f"{reason.code}"
        said = said or f"{reason.code} {dict(reason.facts)}"
    return Answer.NOT, said
