"""Jobs for which workers will be free before a new one could be there, by how long earlier jobs ran.

Nothing is launched for such a job until it has waited for as long as its node array allows: estimates may be wrong. The
time of a boot is cut into steps. At each, the hosts are as if all jobs that are estimated to end by then had ended, and
the jobs that wait are placed on them; those placed at earlier steps still take their place until they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from autoscaler.core.capacity.supply import Supply
from autoscaler.core.demand.run_times import run_times
from autoscaler.core.estimates.estimates import RunTime
from autoscaler.core.facts.facts import Facts
from autoscaler.core.model.cluster import ExecutionHost, HostJob, QueueInstance
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.replace.free_soon import freed_host
from autoscaler.core.replace.swap_context import seen_boot_time

STEPS = 4
"""Moments within a boot at which jobs that end make room."""


@dataclass(frozen=True, slots=True)
class FreeInTime:
    """What is not launched because of it."""

    tasks: tuple[int, ...] | None = None
    """Parallel to the demands: tasks that will find room; None: none."""
    reasons: Mapping[int, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By position of a demand of which all tasks without room wait so."""
    due: float | None = None
    """When this is to be judged again."""


def free_in_time(facts: Facts, supply: Supply, unmet: Sequence[int], leaving: frozenset[str]) -> FreeInTime:
    """`unmet`: tasks of each wanted demand that fit nowhere. `leaving`: ids of workers that leave."""
    wanted, now = facts.demand.wanted, facts.snapshot.now
    limits = {array.queue: array for array in facts.policy.node_arrays if array.wait_for_free and not array.extends}
    boots = {
        queue: seen for queue, array in limits.items() if (seen := seen_boot_time(array, facts.observed)) is not None
    }
    until = _UNTIL.value_of((wanted, unmet, facts.policy), lambda: _until_each(wanted, unmet, limits, boots), boots)
    if until.last <= now:
        return FreeInTime()
    boot = min(boots.values())
    left = _without_room(facts, supply, leaving, boot)
    tasks = tuple(
        max(count - after, 0) if at > now else 0 for count, after, at in zip(unmet, left, until.each, strict=True)
    )
    if not any(tasks):
        return FreeInTime()
    reasons = {
        at: because(Code.WAITS_FOR_FREE, tasks=waiting, until_at=until.each[at])
        for at, (waiting, count) in enumerate(zip(tasks, unmet, strict=True))
        if waiting and waiting == count
    }
    ends = [end for waiting, end in zip(tasks, until.each, strict=True) if waiting]
    return FreeInTime(tasks, reasons, min(now + boot / STEPS, *ends))


@dataclass(frozen=True, slots=True)
class _Until:
    """Until when each demand may wait."""

    each: tuple[float, ...]
    last: float
    """The latest of them."""


_UNTIL = LastObjects[_Until]()


def _until_each(
    wanted: Sequence[CategoryDemand],
    unmet: Sequence[int],
    limits: Mapping[str, NodeArrayPolicy],
    boots: Mapping[str, float],
) -> _Until:
    each = tuple([_until(want, limits, boots) if count else -inf for want, count in zip(wanted, unmet, strict=True)])
    return _Until(each, max(each, default=-inf))


def _until(want: CategoryDemand, limits: Mapping[str, NodeArrayPolicy], boots: Mapping[str, float]) -> float:
    """Until when the demand may wait; -inf: not at all."""
    queues = [queue for queue in want.launches if queue in boots]
    if not queues or want.demand.together:
        return -inf
    return want.oldest + min(limits[queue].wait_for_free for queue in queues)


def _without_room(facts: Facts, supply: Supply, leaving: frozenset[str], boot: float) -> list[int]:
    """Parallel to the demands: tasks that find no room within a boot."""
    wanted, now = facts.demand.wanted, facts.snapshot.now
    times = [_typical(each) for each in run_times(wanted, facts.snapshot.cluster, facts.snapshot.estimates)]
    left = [want.count for want in wanted]
    running: list[tuple[float, Want]] = []
    for step in range(STEPS + 1):
        by = now + boot * step / STEPS
        hosts = [*_free_by(facts, supply, leaving, by), *(supply.coming if step == STEPS else ())]
        placement = OpenPlacement(hosts)
        running = [(end, want) for end, want in running if end > by]
        placement.place([want for _, want in running])
        placed = placement.place([(want.demand, count) for want, count in zip(wanted, left, strict=True)]).placed
        running += [
            (by + time, (want.demand, count)) for want, count, time in zip(wanted, placed, times, strict=True) if count
        ]
        left = [count - done for count, done in zip(left, placed, strict=True)]
        if not any(left):
            break
    return left


def _typical(times: Sequence[RunTime]) -> float:
    """Of the tasks of one demand: the median; inf: nothing is known."""
    return sorted(time.median for time in times)[len(times) // 2] if times else inf


def _free_by(facts: Facts, supply: Supply, leaving: frozenset[str], by: float) -> Iterator[Host]:
    """Hosts in service as they are estimated to be then."""
    cluster, names = facts.snapshot.cluster, facts.demand.names
    ends = facts.snapshot.estimates.ends
    free = {host.name: host for host in supply.there}

    def ends_at(job: HostJob, _: QueueInstance) -> float:
        return ends.get(job.name, inf)

    def freed(host: ExecutionHost, like: Host | None, price: float | None, group: str) -> Host | None:
        if not any(ends_at(job, instance) <= by for instance in host.instances for job in instance.jobs):
            return like
        found = freed_host(host, by, cluster, names, ends_at)
        return None if found is None else replace(found, price=price, group=group)

    for host in facts.observed.others:
        found = freed(host, free.get(host.name), None, "") if host.heard else None
        if found is not None:
            yield found
    for worker in facts.observed.workers:
        host_of = worker.host
        if host_of is None or not worker.in_service or worker.worker.id in leaving:
            continue
        if facts.pass_context.drained_by_person(worker) is not None:
            continue
        price = (worker.worker.price_per_hour or 0.0) if worker.array is not None and worker.array.packs else None
        there = replace(host_of, instances=worker.to_enable)
        found = freed(there, free.get(worker.name), price, worker.worker.group_id or "")
        if found is not None:
            yield found
