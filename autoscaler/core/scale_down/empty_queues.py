"""Since when the queues are empty: with `scale_down_timeout` workers leave only then."""

from __future__ import annotations

from collections.abc import Iterable

from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.memory import Memory
from autoscaler.core.policy import Policy
from autoscaler.core.workers.observed import ObservedWorkers


def queues_empty_since(
    observed: ObservedWorkers, possible: Iterable[CategoryDemand], memory: Memory, policy: Policy, now: float
) -> float | None:
    """Since when no counted job waits and none runs in any autoscaled queue. `possible`: what could ever run; no worker
    is kept for other jobs.
    """
    hosts = (*observed.hosts, *observed.missing_hosts.values())
    running = any(
        instance.jobs or instance.used
        for host in hosts
        for instance in host.instances
        if policy.queue(instance.queue) is not None
    )
    if running or any(want.count for want in possible):
        return None
    return memory.queues_empty_since if memory.queues_empty_since is not None else now
