"""Quotas for each host, given to hosts and workers to come as amounts that placement counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    ExecutionHost,
    JobDetail,
    QueueInstance,
    QuotaRule,
    QuotaSet,
)
from autoscaler.core.model.host_limits import HostLimit, OfferedLimit, written_limit
from autoscaler.core.placement.hosts import limit_on_host, shown_value
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.rights.quota_rules import UNKNOWN, QuotaRules, filter_matches, host_matches
from autoscaler.core.snapshot import Snapshot

MOST_VALUES = 20
"""The most users or projects of one rule whose limits are counted on each host, those of the oldest jobs."""
_Used = Mapping[tuple[str, int, str], list[tuple[Mapping[str, str], float]]]
"""By set, rule and complex: what running jobs hold, with what is known of them."""


def with_host_limits(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the amounts of quotas on each host. The same one if there are no such quotas."""
    cluster = snapshot.cluster
    if not any("hosts" in rule.each for quota in cluster.quotas if quota.enabled for rule in quota.rules):
        return snapshot
    limits = _Limits(cluster, {**snapshot.memory.details, **cluster.details})
    hosts = tuple(map(limits.on_host, cluster.hosts))
    arrays = tuple(limits.on_workers(array) for array in snapshot.policy.node_arrays)
    found = tuple(limits.found.values())
    return replace(
        snapshot,
        cluster=replace(cluster, hosts=hosts, host_limits=found),
        policy=replace(snapshot.policy, node_arrays=arrays),
    )


@dataclass(frozen=True, slots=True)
class _OfHost:
    """A rule that holds separately for each host, where it may hold on one host, and the complex that it limits."""

    quota: QuotaSet
    at: int
    rule: QuotaRule
    entry: Complex
    text: str


class _Limits:
    def __init__(self, cluster: Cluster, details: Mapping[int, JobDetail]) -> None:
        self.found: dict[str, HostLimit] = {}
        """By name, all that some host or worker has."""
        self._cluster = cluster
        self._rules = rules = QuotaRules(cluster, details)
        self._types = {name: entry.type for name, entry in rules.complexes.items()}
        self._values = {
            "users": _first(category.ask.owner for category in cluster.job_categories),
            "projects": _first(
                details[job].project for category in cluster.job_categories for job in category.jobs if job in details
            ),
            "pes": ("", *sorted(cluster.pes)),
        }
        self._by_queue = {quota.name: any(rule.queues is not None for rule in quota.rules) for quota in rules.sets}
        """By set: whether some rule of it names queues. Its amounts then belong to queue instances."""

    def on_host(self, host: ExecutionHost) -> ExecutionHost:
        used = self._used(host)
        groups = self._rules.groups_of(host.name)
        values: dict[str, str] = {}
        of_instances: list[dict[str, str]] = [{} for _ in host.instances]
        for quota in self._rules.sets:
            if not self._by_queue[quota.name]:
                values |= self._values_at(quota, host, groups, None, used)
                continue
            for instance, own in zip(host.instances, of_instances, strict=True):
                own |= self._values_at(quota, host, groups, instance, used)
        instances = tuple(
            replace(instance, consumables={**instance.consumables, **own}) if own else instance
            for instance, own in zip(host.instances, of_instances, strict=True)
        )
        return replace(host, consumables={**host.consumables, **values}, instances=instances)

    def on_workers(self, array: NodeArrayPolicy) -> NodeArrayPolicy:
        groups = frozenset(self._cluster.places_of(array.host_group))
        limits = [
            OfferedLimit(limit, each.entry.type, self._by_queue[quota.name])
            for quota in self._rules.sets
            for each, limit in self._limits_at(quota, None, groups, array.queue)
        ]
        return replace(array, host_limits=tuple(limits)) if limits else array

    def _values_at(
        self,
        quota: QuotaSet,
        host: ExecutionHost,
        groups: frozenset[str],
        instance: QueueInstance | None,
        used: _Used,
    ) -> Iterator[tuple[str, str]]:
        queue = None if instance is None else instance.queue
        for each, limit in self._limits_at(quota, host.name, groups, queue):
            most = limit_on_host(each.text, each.entry.type, lambda name: shown_value(host, name), self._types)
            if most is None:
                continue
            wanted = dict(limit.values) | ({"queues": queue} if queue and "queues" in each.rule.each else {})
            held = sum(
                amount
                for known, amount in used.get((quota.name, each.at, each.entry.name), ())
                if all(known.get(what, UNKNOWN) in (value, UNKNOWN) for what, value in wanted.items())
            )
            yield limit.name, written_limit(most - held, most)

    def _limits_at(
        self, quota: QuotaSet, host: str | None, groups: frozenset[str], queue: str | None
    ) -> Iterator[tuple[_OfHost, HostLimit]]:
        """The limits of a set on such a host; without a name, a worker to come."""
        before: frozenset[int] = frozenset()
        for at, rule in enumerate(quota.rules):
            if rule.hosts is not None and not host_matches(rule.hosts, host, groups):
                continue
            if queue is not None and not filter_matches(rule.queues, queue):
                continue
            if "hosts" in rule.each:
                yield from self._limits_of(quota, at, rule, before)
            before |= {at}

    def _limits_of(
        self, quota: QuotaSet, at: int, rule: QuotaRule, before: frozenset[int]
    ) -> Iterator[tuple[_OfHost, HostLimit]]:
        others = sorted(rule.each - {"hosts", "queues"})
        for resource, text in rule.limits.items():
            entry = self._rules.complexes.get(resource)
            if entry is None or entry.consumable is Consumable.NO:
                continue
            for values in itertools.product(*(self._values[what] for what in others)):
                limit = HostLimit(quota.name, at, entry.name, text, before, tuple(zip(others, values, strict=True)))
                self.found[limit.name] = limit
                yield _OfHost(quota, at, rule, entry, text), limit

    def _used(self, host: ExecutionHost) -> _Used:
        found: dict[tuple[str, int, str], list[tuple[Mapping[str, str], float]]] = {}
        for instance in host.instances:
            for job in instance.jobs:
                for quota, at, rule, known in self._rules.of_job(job, instance):
                    known = {**known, **({"pes": job.pe} if job.pe else {})}
                    for resource in rule.limits if "hosts" in rule.each else ():
                        entry = self._rules.complexes.get(resource)
                        if entry is not None:
                            amounts = found.setdefault((quota.name, at, entry.name), [])
                            amounts.append((known, self._rules.held(job, entry)))
        return found


def _first(values: Iterable[str]) -> Sequence[str]:
    """The first different values."""
    return tuple(itertools.islice(dict.fromkeys(values), MOST_VALUES))
