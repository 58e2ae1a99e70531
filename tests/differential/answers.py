"""What both say of one job: Grid Engine's scheduler (`qalter -w p`, and what it dispatches), and our core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from autoscaler.core.model.cluster import Cluster, JobCategory
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Snapshot
from tests.differential.worlds import HOSTS, QUEUES


class Answer(StrEnum):
    """Whether a job could start now."""

    FITS = "fits"
    NOT = "does not fit"
    UNKNOWN = "unknown"


Said = tuple[Answer, str]
"""An answer with the words that came with it."""

UNDECIDED = frozenset(
    {Code.RESTRICTED_QUEUE, Code.PE_ELSEWHERE, Code.FOREIGN_QUEUE, Code.FOREIGN_HOST, Code.NOT_READ_YET}
)
"""What our core says where it does not judge whether the job fits: it is not ours to grow for."""
OF_WORKERS = frozenset({Code.NO_BATCH_QUEUE, Code.NOT_IN_CKPT_LIST})
"""What it says of workers to come: persistent hosts for which a queue differs may start the job."""
LARGE = InstanceType("m5.large", "m5", 2, 8 * 1024**3)
POLICY = Policy(
    queues=tuple(QueuePolicy(queue, queue) for queue in QUEUES),
    node_arrays=tuple(
        NodeArrayPolicy(queue, queue, "@workers", instance_type=LARGE.name, limits=Limits(max_workers=10))
        for queue in QUEUES
    ),
    master="master",
)
FLEET = Fleet(
    workers=tuple(Worker(f"i-{host}", LARGE, QUEUES[0], MachineState.RUNNING, 0.0, host) for host in HOSTS),
    buckets=(Bucket(BucketKey(LARGE.name), LARGE, 0.1),),
)
"""All hosts are workers in service: of others our core would say that they are not ours where a job names one."""
MEMORY = Memory(workers={worker.id: WorkerNote(1.0, heard_at=1.0, host=worker.name) for worker in FLEET.workers})


def ours(cluster: Cluster, now: float) -> dict[int, Said]:
    """By job, what our core says of it, every job alone."""
    return {job: _alone(cluster, shape, place, now) for shape in cluster.shapes for place, job in enumerate(shape.jobs)}


def _alone(cluster: Cluster, shape: JobCategory, place: int, now: float) -> Said:
    """Of the job at this place of its category."""
    first = replace(
        shape,
        jobs=shape.jobs[place : place + 1],
        tasks=shape.tasks[place : place + 1],
        submitted=shape.submitted[place : place + 1],
        count=shape.count // len(shape.jobs),
    )
    snapshot = Snapshot(replace(cluster, shapes=(first,)), FLEET, Overrides(), MEMORY, POLICY, now)
    decided = plan(snapshot)
    if decided.fitting:
        return Answer.FITS, ""
    reason = decided.shapes[0].reason
    undecided = reason.code in UNDECIDED and not _by_request(reason)
    undecided = undecided or (reason.code in OF_WORKERS and _differ_by_host(cluster, shape.ask.queues))
    return (Answer.UNKNOWN if undecided else Answer.NOT), f"{reason.code} {dict(reason.facts)}"


def _differ_by_host(cluster: Cluster, asked: Sequence[str]) -> bool:
    """Whether a queue differs by host, or the job names one on a single host."""
    own = any(queue.qtype_by_host or queue.ckpt_list_by_host for queue in cluster.queues.values())
    return own or any("@" in name for name in asked)


def _by_request(reason: Reason) -> bool:
    """Whether what restricts the queue is a value that the request is against, not who asks."""
    by = dict(reason.facts).get("by", ())
    lists = ("user_lists", "xuser_lists", "projects", "xprojects")
    return (
        reason.code is Code.RESTRICTED_QUEUE
        and isinstance(by, tuple)
        and all(("=" in str(one) and not str(one).startswith(lists)) or "FORCED" in str(one) for one in by)
    )
