"""A plan's inputs besides Grid Engine's outputs: a provider with prices, a policy that allows 1,000 workers, and a
memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.core.model.cluster import Cluster, JobDetail
from autoscaler.core.model.fleet import Bucket, BucketKey, Fleet, InstanceType
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.policy import CircuitBreaker, Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Snapshot
from autoscaler.sge.cluster import Outputs
from bench.generate import NOW

WORKERS = 1_000
_GIB = 1024**3
_SIZES = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "8xlarge": 32,
    "12xlarge": 48,
    "16xlarge": 64,
    "24xlarge": 96,
}


@dataclass(frozen=True, slots=True)
class World:
    """All of a snapshot except its cluster."""

    fleet: Fleet
    policy: Policy
    memory: Memory


_NUMBER_OR_TASKS = re.compile(rb"<JB_job_number>([0-9]+)</JB_job_number>|<tasks>")


def world(outputs: Outputs) -> World:
    """A hybrid array of one family with room for 1,000 workers; every array's details are remembered, as after a
    first pass.
    """
    types = [InstanceType(f"m5.{size}", "m5", cores, cores * 4 * _GIB) for size, cores in _SIZES.items()]
    buckets = tuple(Bucket(BucketKey(t.name), t, price_per_hour=0.048 * t.vcpus) for t in types)
    array = NodeArrayPolicy(
        name="execute",
        queue="main.q",
        host_group="@allhosts",
        instance_type="m5.large",
        hybrid=True,
        limits=Limits(max_workers=WORKERS),
        scale_up_batch=WORKERS,
    )
    policy = Policy(
        queues=(QueuePolicy("main.q", "execute"),),
        node_arrays=(array,),
        master="master",
        circuit_breaker=CircuitBreaker(max_launches=None, max_removals=None),
    )
    now = NOW.timestamp()
    details = {number: JobDetail(job=number, read_at=now - 60) for number in _array_jobs(outputs.qstat)}
    return World(Fleet(workers=(), buckets=buckets), policy, Memory(passes=10, details=details))


def snapshot_of(cluster: Cluster, rest: World) -> Snapshot:
    return Snapshot(cluster, rest.fleet, Overrides(), rest.memory, rest.policy, NOW.timestamp())


def _array_jobs(qstat: bytes) -> Iterator[int]:
    """Numbers of jobs with tasks, found without our own reader: memory that the reader leaves behind would hide its
    peak.
    """
    number = 0
    for found in _NUMBER_OR_TASKS.finditer(qstat):
        if found[1]:
            number = int(found[1])
        else:
            yield number
