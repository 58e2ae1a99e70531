"""Which rules of resource quota sets hold for which jobs and where: of an enabled set the first that matches.

If a filter cannot be evaluated for a running job (its PE; its project or group until it was looked up), it is taken to
match: one worker too few is better than one too many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    HostJob,
    JobDetail,
    QueueInstance,
    QuotaRule,
    QuotaSet,
)
from autoscaler.core.model.complexes import amount, by_any_name, matches
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.rights.rights import Rights

UNKNOWN = "\0any"
"""Stands for a project that is not known: no name holds a NUL."""


class QuotaRules:
    """The rules of one cluster."""

    def __init__(self, cluster: Cluster, details: Mapping[int, JobDetail] = MappingProxyType({})) -> None:
        self.sets = tuple(quota for quota in cluster.quotas if quota.enabled)
        self.complexes = by_any_name(cluster.complexes)
        self._rights = Rights.of(cluster)
        self._details = details
        groups: dict[str, set[str]] = {}
        for group, members in cluster.host_groups.items() if self.sets else ():
            for host in members:
                groups.setdefault(host, set()).add(group)
        self._groups = {host: frozenset(some) for host, some in groups.items()}

    def groups_of(self, host: str) -> frozenset[str]:
        """The host groups of an execution host."""
        return self._groups.get(host, frozenset())

    def of_user(self, rule: QuotaRule, owner: str, group: str | None) -> bool:
        """Whether a rule applies to this user, by name or list; an unknown list is taken to name them."""
        if rule.users is None:
            return True
        refused = [name[1:] for name in rule.users if name.startswith("!")]
        allowed = [name for name in rule.users if not name.startswith("!")]

        def named(name: str, *, unknown: bool) -> bool:
            if not name.startswith("@"):
                return bool(owner) and matches(name, owner)
            # `@name` in a quota is an access list, not a group of users.
            found = self._rights.names(name[1:], owner, group)
            return unknown if found is None else found

        if any(named(name, unknown=False) for name in refused):
            return False
        return not allowed or any(named(name, unknown=True) for name in allowed)

    def of_job(
        self, job: HostJob, instance: QueueInstance
    ) -> Iterator[tuple[QuotaSet, int, QuotaRule, Mapping[str, str]]]:
        """The rule of each set that holds for a running job, with what is known of the job by filter."""
        detail = self._details.get(job.number)
        group = detail.group if detail is not None else None
        known = {"queues": instance.queue}
        if detail is not None and detail.group is not None:
            known["projects"] = detail.project
        groups = self.groups_of(instance.host)
        for quota in self.sets:
            for at, rule in enumerate(quota.rules):
                if (
                    self.of_user(rule, job.owner, group)
                    and fits(rule, known)
                    and (rule.hosts is None or host_matches(rule.hosts, instance.host, groups))
                ):
                    yield quota, at, rule, {"users": job.owner, **known}
                    break

    def held(self, job: HostJob, entry: Complex) -> float:
        """How much of a complex a running job holds on one queue instance."""
        if entry.name == SLOTS:
            return job.slots
        for name, text in job.hard:
            if self.complexes.get(name) == entry:
                each = amount(text, entry.type) or 0
                return each * (job.slots if entry.consumable is Consumable.PER_SLOT else 1)
        return 0


def fits(rule: QuotaRule, values: Mapping[str, str]) -> bool:
    """Whether a rule applies to such jobs, as far as these values show."""
    filters = {"projects": rule.projects, "pes": rule.pes, "queues": rule.queues}
    return all(filter_matches(filters[what], value) for what, value in values.items())


def filter_matches(names: Sequence[str] | None, value: str) -> bool:
    """`*` matches any value but none; `!x` all but x; `!*` none only."""
    if names is None:
        return True
    refused = [name[1:] for name in names if name.startswith("!")]
    allowed = [name for name in names if not name.startswith("!")]
    if any(bool(value) and matches(name, value) for name in refused):
        return False
    return not allowed or any(bool(value) and matches(name, value) for name in allowed)


def host_matches(names: Iterable[str], host: str | None, groups: frozenset[str]) -> bool:
    """Whether a host filter holds for a host of these groups; None is a worker that has no name yet."""

    def named(name: str) -> bool:
        return name in groups if name.startswith("@") else name == "*" or (host is not None and matches(name, host))

    parts = list(names)
    refused = [name[1:] for name in parts if name.startswith("!")]
    allowed = [name for name in parts if not name.startswith("!")]
    return not any(map(named, refused)) and (not allowed or any(map(named, allowed)))
