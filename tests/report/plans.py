"""Builds plans as the core returns them, for tests of reports."""

from __future__ import annotations

from autoscaler.core.actions import Action, Disable, Launch, LaunchSet
from autoscaler.core.model.cluster import Cluster, JobCategory, JobRequest
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, InstanceType
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import JobCategoryVerdict, Plan, Snapshot, WorkerVerdict

NOW = 1_795_252_200.0
"""2026-11-21T09:10:00Z."""
BIG = InstanceType("c5.4xlarge", "c5", 16, 32 * 1024**3)


def launch(count: int = 2, reason: Reason | None = None, kind: InstanceType = BIG) -> Launch:
    bucket = Bucket(BucketKey(kind.name, zone="eu-1a"), kind, 0.68)
    return Launch("execute", (LaunchSet((bucket,), count),), reason or because(Code.DEMAND))


def disable(host: str, idle_s: float = 660.0) -> Disable:
    return Disable(f"i-{host}", host, because(Code.IDLE, idle_s=idle_s, limit_s=600.0))


def kept(host: str, reason: Reason | None = None, *, verdict: str = "keep") -> WorkerVerdict:
    return WorkerVerdict(host, f"i-{host}", verdict, reason or because(Code.RUNS_JOBS, jobs=("4411",)))


def waiting(
    count: int = 1, *, first: int = 12, reason: Reason | None = None, counted: bool = True
) -> JobCategoryVerdict:
    jobs = tuple(range(first, first + count))
    return JobCategoryVerdict(
        jobs,
        ("",) * count,
        JobRequest("qw"),
        count,
        counted,
        60.0,
        reason or because(Code.EXPIRED, waited_s=60.0, limit_s=30.0),
    )


def plan(
    *actions: Action,
    job_categories: tuple[JobCategoryVerdict, ...] = (),
    workers: tuple[WorkerVerdict, ...] = (),
    notes: tuple[Reason, ...] = (),
    fitting: int = 0,
    passes: int = 812,
) -> Plan:
    return Plan(
        actions,
        Memory(passes=passes),
        job_categories,
        workers,
        notes=notes,
        waiting=sum(category.count for category in job_categories),
        counted=sum(category.count for category in job_categories if category.counted),
        fitting=fitting,
    )


def snapshot(*job_categories: JobCategory) -> Snapshot:
    return Snapshot(
        Cluster((), job_categories, {}, {}, {}),
        Fleet((), ()),
        Overrides(),
        Memory(),
        Policy(
            (QueuePolicy("main.q", "execute"),),
            (NodeArrayPolicy("execute", "main.q", "@allhosts", "c5.4xlarge"),),
            "master",
        ),
        NOW,
    )
