"""What all jobs share and a new worker does not add to: licences of the global host, slots of a PE, resource quotas.

Tasks are let through oldest first until a budget is spent; what is beyond does not count, however many workers there
were. A filter that cannot be evaluated for a running job (its PE, its project, a user list) is taken to match it:
rather one worker too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.cluster import Ask, Cluster, Complex, Consumable, HostJob, QueueInstance, QuotaRule
from autoscaler.core.placement import SLOTS
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.requests import Served
from autoscaler.core.resources import amount, by_any_name, matches

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one task takes of one budget."""

    budget: _Key
    limit: float
    amount: float
    reason: Reason


class Budgets:
    """The shared budgets of one cluster; `admit` spends them, so ask oldest first."""

    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self._cluster = cluster
        self._policy = policy
        self._complexes = by_any_name(cluster.complexes)
        self._rules = [
            (quota.name, at, rule) for quota in cluster.quotas if quota.enabled for at, rule in enumerate(quota.rules)
        ]
        self._spent: dict[_Key, float] = {}
        self._used: dict[_Key, float] = dict(self._quota_use()) if self._rules else {}

    def admit(self, ask: Ask, served: Served, count: int) -> tuple[int, Reason | None]:
        """How many of these tasks the budgets still carry, and which one keeps the others back."""
        claims = [claim for claim in self._claims(ask, served) if claim.amount > 0]
        allowed, reason = count, None
        for claim in claims:
            left = claim.limit - self._used.get(claim.budget, 0) - self._spent.get(claim.budget, 0)
            tasks = max(int((left + 1e-9) // claim.amount), 0)
            if tasks < allowed:
                allowed, reason = tasks, claim.reason
        for claim in claims:
            self._spent[claim.budget] = self._spent.get(claim.budget, 0) + allowed * claim.amount
        return allowed, reason

    def _claims(self, ask: Ask, served: Served) -> Iterator[_Claim]:
        asked = dict(served.asked)
        for name, left in self._cluster.global_consumables.items():
            entry = self._complexes.get(name)
            value = amount(left, entry.type) if entry and entry.consumable is not Consumable.NO else None
            if value is not None and asked.get(name):
                yield _Claim(
                    ("global", name), value, asked[name], because(Code.BEYOND_GLOBAL, resource=name, left=value)
                )
        pe = self._cluster.pes.get(served.pe or "")
        if pe is not None:
            reason = because(Code.BEYOND_QUOTA, quota=f"PE {pe.name}", limit=f"slots={pe.slots}")
            yield _Claim(("pe", pe.name), pe.slots, asked[SLOTS], reason)
        for name, at, rule, values in self._rules_for(ask, served):
            for resource, text in rule.limits.items():
                entry = self._complexes.get(resource)
                value = amount(text, entry.type) if entry else None
                if entry is None or value is None or not asked.get(entry.name):
                    continue
                reason = because(Code.BEYOND_QUOTA, quota=rule.name or name, limit=f"{resource}={text}")
                yield _Claim((name, str(at), entry.name, *values), value, asked[entry.name], reason)

    def _rules_for(self, ask: Ask, served: Served) -> Iterator[tuple[str, int, QuotaRule, _Key]]:
        """Of every set the first rule that holds for such a job on a new worker, with the values its limit is kept
        apart by.
        """
        queue = (served.launches or tuple(sorted(served.demand.pools)))[0]
        array = next((array for array in self._policy.node_arrays if array.queue == queue), None)
        groups = frozenset({array.host_group} if array else ())
        subject = {"users": ask.owner, "projects": ask.project or "", "pes": served.pe or "", "queues": queue}
        done: set[str] = set()
        for name, at, rule in self._rules:
            if name in done or not all(_filter_matches(_filter(rule, what), value) for what, value in subject.items()):
                continue
            if rule.hosts is not None and not _host_matches(rule.hosts, None, groups):
                continue
            done.add(name)
            if "hosts" not in rule.each:
                yield name, at, rule, tuple(subject[what] for what in sorted(rule.each))

    def _quota_use(self) -> Iterator[tuple[_Key, float]]:
        """What running jobs hold of each quota."""
        use: dict[_Key, float] = {}
        for host in self._cluster.hosts:
            groups = frozenset(name for name, members in self._cluster.host_groups.items() if host.name in members)
            for instance in host.instances:
                for job in instance.jobs:
                    for key, value in self._use_of(job, instance, groups):
                        use[key] = use.get(key, 0) + value
        yield from use.items()

    def _use_of(self, job: HostJob, instance: QueueInstance, groups: frozenset[str]) -> Iterator[tuple[_Key, float]]:
        known = {"users": job.owner, "queues": instance.queue}
        done: set[str] = set()
        for name, at, rule in self._rules:
            if name in done or not all(_filter_matches(_filter(rule, what), value) for what, value in known.items()):
                continue
            if rule.hosts is not None and not _host_matches(rule.hosts, instance.host, groups):
                continue
            done.add(name)
            apart = sorted(rule.each)
            if any(what not in known for what in apart):
                continue
            values = tuple(known[what] for what in apart)
            for resource in rule.limits:
                entry = self._complexes.get(resource)
                if entry is not None:
                    yield (name, str(at), entry.name, *values), _held(job, entry, self._complexes)


def _held(job: HostJob, entry: Complex, complexes: Mapping[str, Complex]) -> float:
    """How much of a complex a running job holds on one queue instance."""
    if entry.name == SLOTS:
        return job.slots
    for name, text in job.hard:
        if complexes.get(name) == entry:
            return (amount(text, entry.type) or 0) * (job.slots if entry.consumable is Consumable.PER_SLOT else 1)
    return 0


def _filter(rule: QuotaRule, what: str) -> Sequence[str] | None:
    filters = {"users": rule.users, "projects": rule.projects, "pes": rule.pes, "queues": rule.queues}
    return filters[what]


def _filter_matches(names: Sequence[str] | None, value: str) -> bool:
    """`*` is any value that there is; `!x` all but x; a user list (`@acl`) is taken to hold."""
    if names is None:
        return True
    refused = [name[1:] for name in names if name.startswith("!")]
    wanted = [name for name in names if not name.startswith("!")]
    if any(matches(name, value) for name in refused):
        return False
    return not wanted or any(name.startswith("@") or (bool(value) and matches(name, value)) for name in wanted)


def _host_matches(names: Iterable[str], host: str | None, groups: frozenset[str]) -> bool:
    """Whether a host filter holds for a host of these groups; None is a worker that has no name yet."""

    def named(name: str) -> bool:
        return name in groups if name.startswith("@") else name == "*" or (host is not None and matches(name, host))

    parts = list(names)
    refused = [name[1:] for name in parts if name.startswith("!")]
    wanted = [name for name in parts if not name.startswith("!")]
    return not any(map(named, refused)) and (not wanted or any(map(named, wanted)))
