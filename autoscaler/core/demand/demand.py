"""From waiting shapes to Wanted demands: the last place that knows Grid Engine's semantics.

What counts is merged by what it asks of hosts and may use, whoever owns it; what does not count says why. Expiry is a
trigger per queue: once one counted job of it has waited the timeout, all its counted jobs may grow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.demand import access
from autoscaler.core.demand.constraint_demand import ConstraintDemand
from autoscaler.core.demand.eligibility import CategoryPart, details_wanted, judge
from autoscaler.core.demand.job_requests import ReadRequest, RequestReader
from autoscaler.core.demand.shared_limits import SharedLimits
from autoscaler.core.model.cluster import Cluster, JobDetail
from autoscaler.core.model.complexes import split_tasks, task_count
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.placement import hardest_first
from autoscaler.core.policy import Policy

__all__ = ["PendingDemand", "details_wanted", "read_demand"]


@dataclass(frozen=True, slots=True)
class PendingDemand:
    """All that waits. `counted` holds, parallel to `wanted`, the parts each demand came from, oldest first."""

    wanted: tuple[CategoryDemand, ...]
    counted: tuple[tuple[CategoryPart, ...], ...]
    uncounted: tuple[CategoryPart, ...]
    names: frozenset[str]
    """Complexes that some demand asks for: what of hosts matters."""
    able_since: Mapping[int, float]
    unable: tuple[int, ...]
    details: Mapping[int, JobDetail]

    def offering(self, demands: Iterable[Demand]) -> PendingDemand:
        """The same, with all that these demands ask of hosts."""
        return replace(self, names=self.names.union(*map(_names, demands)))

    def launching_nothing(self) -> PendingDemand:
        """The same, where waiting jobs keep who can serve them but ask for nobody."""
        return replace(self, wanted=tuple(replace(want, launches=()) for want in self.wanted))

    @property
    def waiting(self) -> int:
        return sum(want.count for want in self.wanted) + sum(part.count for part in self.uncounted)


def read_demand(
    cluster: Cluster,
    memory: Memory,
    policy: Policy,
    now: float,
    our_hosts: frozenset[str] = frozenset(),
    closed: Mapping[str, Reason] = MappingProxyType({}),
) -> PendingDemand:
    """Everything that waits, counted or not. `our_hosts`: names of workers that jobs may be pinned to; `closed`: queues
    that start nothing now, and why.
    """
    waiting = {job for shape in cluster.shapes for job in shape.jobs}
    needs = access.cluster_needs(cluster, policy)
    if needs.of_running:
        waiting |= {job.number for host in cluster.hosts for job in host.jobs}
    details = {job: detail for job, detail in {**memory.details, **cluster.details}.items() if job in waiting}
    eligible = judge(cluster.shapes, cluster.hosts, memory, details, now, cluster.max_array_tasks)
    reader, budgets = RequestReader(cluster, policy, our_hosts, closed), SharedLimits(cluster, policy, details)
    rules = ConstraintDemand(cluster, policy, details)
    served: dict[object, ReadRequest | Reason] = {}
    merged: dict[tuple[Demand, tuple[str, ...]], list[CategoryPart]] = {}
    uncounted: list[CategoryPart] = []
    parts = _oldest_first(rules.split(access.split(eligible.parts, details, needs)))
    for part, asked in zip(parts, reader.alike.numbers([part.ask for part in parts]), strict=True):
        if part.reason is not None:
            uncounted.append(part)
            continue
        entries = rules.entries(part)
        key = (
            asked,
            reader.rights.key(part.ask),
            tuple(entry.place for entry in entries),
            part.ask.array and bool(entries),
        )
        answer = served.get(key)
        if answer is None:
            answer = reader.read(part.ask)
            if not isinstance(answer, Reason):
                answer = rules.ask(answer, entries, array=part.ask.array)
            served[key] = answer
        if isinstance(answer, Reason):
            uncounted.append(replace(part, reason=answer))
            continue
        allowed, reason = budgets.admit(part.ask, answer, part.count)
        if entries:
            allowed, reason = rules.admit(answer.demand, entries, allowed, reason)
        within, beyond = _divide(part, allowed, reason)
        uncounted.extend(beyond)
        if within is not None:
            merged.setdefault((answer.demand, answer.launches), []).append(within)
    wanted = _wanted(merged, policy, now)
    return PendingDemand(
        wanted=wanted,
        counted=tuple(tuple(merged[want.demand, want.launches]) for want in wanted),
        uncounted=tuple(uncounted),
        names=frozenset(name for want in wanted for name in _names(want.demand)),
        able_since=eligible.able_since,
        unable=eligible.unable,
        details=details,
    )


def _oldest_first(parts: Sequence[CategoryPart]) -> list[CategoryPart]:
    """Of those that wait as long, the first job first. Sorted twice, by one number each: faster than by both."""
    by_number = sorted(parts, key=lambda part: part.jobs[0] if part.jobs else -1)
    return sorted(by_number, key=lambda part: part.oldest)


def _wanted(
    merged: Mapping[tuple[Demand, tuple[str, ...]], Sequence[CategoryPart]], policy: Policy, now: float
) -> tuple[CategoryDemand, ...]:
    oldest: dict[str, float] = {}
    for (_, launches), parts in merged.items():
        for queue in launches:
            oldest[queue] = min(oldest.get(queue, now), parts[0].oldest)
    expired = {
        queue.name
        for queue in policy.queues
        if queue.name in oldest and now - oldest[queue.name] >= queue.scale_up_timeout
    }
    return tuple(
        CategoryDemand(
            demand=demand,
            count=sum(part.count for part in parts),
            oldest=parts[0].oldest,
            expired=not expired.isdisjoint(launches),
            asks=tuple(part.ask for part in parts),
            launches=launches,
        )
        for (demand, launches), parts in sorted(
            merged.items(), key=lambda item: (hardest_first(item[0][0]), item[0][1])
        )
    )


def _divide(
    part: CategoryPart, allowed: int, reason: Reason | None
) -> tuple[CategoryPart | None, tuple[CategoryPart, ...]]:
    """The tasks a budget lets through, and those beyond it: first come, first served."""
    if allowed >= part.count:
        return part, ()
    if allowed <= 0:
        return None, (replace(part, reason=reason),)
    jobs: list[tuple[int, str]] = []
    others: list[tuple[int, str]] = []
    left = allowed
    for job, tasks in zip(part.jobs, part.tasks, strict=True):
        count = min(left, task_count(tasks))
        first, rest = split_tasks(tasks, count)
        left -= count
        if count:
            jobs.append((job, first))
        if count < task_count(tasks):
            others.append((job, rest))
    within = replace(part, jobs=_firsts(jobs), tasks=_seconds(jobs), count=allowed)
    beyond = replace(part, jobs=_firsts(others), tasks=_seconds(others), count=part.count - allowed, reason=reason)
    return within, (beyond,)


def _firsts(pairs: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    return tuple(job for job, _ in pairs)


def _seconds(pairs: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(tasks for _, tasks in pairs)


def _names(demand: Demand) -> set[str]:
    amounts = (*demand.per_slot, *demand.per_job, *demand.assumed)
    return {name for name, _ in amounts} | {asked.name for asked in demand.properties}
