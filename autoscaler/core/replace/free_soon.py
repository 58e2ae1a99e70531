"""When running jobs end, at the latest by their time limits or by estimates, and what will then be free.

A job without a limit may run for ever, and so may one of which nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from autoscaler.core.model.cluster import Cluster, Complex, ExecutionHost, HostJob, Queue, QueueInstance
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.hosts import emptied_host, joined_host
from autoscaler.core.placement.needs import SLOTS

_LIMIT = "h_rt"

Ends = Callable[[HostJob, QueueInstance], float]
"""When a running job ends, Unix seconds; inf: not known."""


def empty_at(host: ExecutionHost | None, cluster: Cluster) -> float:
    """When the last job of a host has ended at the latest: 0 if none runs, infinite if that is not known.

    For reserved slots it is not known either.
    """
    if host is None or not host.busy:
        return 0.0
    if any(instance.reserved or (instance.used and not instance.jobs) for instance in host.instances):
        return inf
    return max(
        (_latest_end(job, instance, cluster) for instance in host.instances for job in instance.jobs),
        default=0.0,
    )


def freed_host(
    host: ExecutionHost, by: float, cluster: Cluster, names: frozenset[str], ends: Ends | None = None
) -> Host | None:
    """What is free on a host once every job that ends before `by` has ended; None: no slot is.

    `names` are the complexes that some demand asks for. `ends`: when jobs end; None: at the latest.
    """
    ends_at = ends or (lambda job, instance: _latest_end(job, instance, cluster))
    if not any(ends_at(job, instance) <= by for instance in host.instances for job in instance.jobs):
        return joined_host(host, cluster.complexes, names)
    parted = [_parted(instance, by, ends_at) for instance in host.instances]
    after = replace(host, instances=tuple(left for left, _ in parted))
    ended = replace(host, instances=tuple(gone for _, gone in parted))
    freed = joined_host(after, cluster.complexes, names)
    if freed is None:
        return None
    free, given_back = dict(freed.free), dict(emptied_host(ended, cluster.complexes, names).free)
    for name in free:
        free[name] = free[name] + sum(job.slots for job in ended.jobs) if name == SLOTS else given_back[name]
    return replace(freed, free=tuple(sorted(free.items())))


def _parted(instance: QueueInstance, by: float, ends_at: Ends) -> tuple[QueueInstance, QueueInstance]:
    """A queue instance with the jobs that still run then, and the same with those that will have ended."""
    ended = tuple(job for job in instance.jobs if ends_at(job, instance) <= by)
    left = tuple(job for job in instance.jobs if job not in ended)
    used = instance.used - sum(job.slots for job in ended)
    return replace(instance, jobs=left, used=max(used, 0)), replace(instance, jobs=ended)


def _latest_end(job: HostJob, instance: QueueInstance, cluster: Cluster) -> float:
    """Its start plus the tightest `h_rt` that limits it: its own or its queue's."""
    if job.started is None:
        return inf
    queue: Queue | None = cluster.queues.get(instance.queue)
    of_queue = queue.limits.get(_LIMIT) if queue is not None else None
    if not job.hard and of_queue is None:
        return inf
    limits = [text for name, text in job.hard if _is_limit(name, cluster.complexes)]
    if of_queue is not None:
        limits.append(of_queue)
    seconds = [value for text in limits if (value := amount(text, "TIME")) is not None]
    return job.started + min(seconds, default=inf)


def _is_limit(name: str, complexes: Mapping[str, Complex]) -> bool:
    entry = complexes.get(_LIMIT)
    return name == _LIMIT or (entry is not None and name == entry.shortcut)
