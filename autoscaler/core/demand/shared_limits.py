"""Limits that all jobs share and that a new worker does not raise: licences of the global host, slots of a PE, resource
quotas, and how many jobs one user may run at once (`maxujobs`).

Tasks count oldest first until a limit is used up; those beyond it would not start however many workers there were. If a
filter cannot be evaluated for a running job (its PE; its project or group until it was looked up), it is taken to
match: one worker too few is better than one too many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType

from autoscaler.core.demand.access import Rights
from autoscaler.core.demand.job_requests import ReadRequest
from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    HostJob,
    JobDetail,
    JobRequest,
    QueueInstance,
    QuotaRule,
)
from autoscaler.core.model.complexes import amount, by_any_name, canonical, matches, satisfies
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.amounts import written
from autoscaler.core.placement.placement import SLOTS
from autoscaler.core.policy import Policy

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Claim:
    """What one task takes of one limit."""

    budget: _Key
    limit: float
    amount: float
    reason: Reason
    never: Reason | None = None
    """Why not even one such task ever fits within it, even if nobody else uses it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one task takes of the limits; `never`: why not even one such task ever fits within them."""

    claims: Sequence[_Claim]
    never: Reason | None


class SharedLimits:
    """The shared limits of one cluster. `admit` uses them up, so it must be called oldest first."""

    def __init__(
        self, cluster: Cluster, policy: Policy, details: Mapping[int, JobDetail] = MappingProxyType({})
    ) -> None:
        self._rights = Rights.of(cluster)
        self._details = details
        self._cluster = cluster
        self._policy = policy
        self._complexes = by_any_name(cluster.complexes)
        self._rules = [
            (quota.name, at, rule) for quota in cluster.quotas if quota.enabled for at, rule in enumerate(quota.rules)
        ]
        self._spent: dict[_Key, float] = {}
        self._used: dict[_Key, float] = dict(self._quota_use()) if self._rules else {}
        if cluster.max_user_jobs is not None:
            self._used |= self._jobs_by_user()
        self._unsure = {key: held for key, held in self._used.items() if _ANY in key}
        for job in (job for host in cluster.hosts for job in host.jobs if job.pe):
            # A parallel job stands under each of its queue instances, with its share of the slots there.
            self._used["pe", job.pe] = self._used.get(("pe", job.pe), 0) + job.slots

    def admit(self, ask: JobRequest, served: ReadRequest, count: int) -> tuple[int, Reason | None]:
        """How many of these tasks fit within the limits, and which limit keeps the others back."""
        return self.spend(self.taken_by(ask, served), count)

    def subject(self, ask: JobRequest) -> tuple[str | None, ...]:
        """Owner, group and project, if they make a difference to `taken_by`."""
        return (ask.owner, ask.group, ask.project) if self._rules or self._cluster.max_user_jobs is not None else ()

    def taken_by(self, ask: JobRequest, served: ReadRequest) -> Taken:
        """What one such task takes of the limits."""
        claims = [claim for claim in self._claims(ask, served) if claim.amount > 0 and claim.limit < inf]
        claimed = (claim.never for claim in claims if claim.never is not None)
        return Taken(claims, more_than_the_cell_has(self._cluster, ask, served) or next(claimed, None))

    def spend(self, each: Taken, count: int) -> tuple[int, Reason | None]:
        """The same as `admit`, for tasks that take this much each."""
        if each.never is not None:
            return 0, each.never
        allowed, reason = count, None
        for claim in each.claims:
            left = claim.limit - self._held_of(claim.budget) - self._spent.get(claim.budget, 0)
            tasks = max(int((left + 1e-9) // claim.amount), 0)
            if tasks < allowed:
                allowed, reason = tasks, claim.reason
        for claim in each.claims:
            self._spent[claim.budget] = self._spent.get(claim.budget, 0) + allowed * claim.amount
        return allowed, reason

    def _held_of(self, budget: _Key) -> float:
        """What running jobs hold of a limit, jobs of unknown project included."""
        unsure = (
            held
            for key, held in self._unsure.items()
            if len(key) == len(budget) and all(one in (other, _ANY) for one, other in zip(key, budget, strict=True))
        )
        return self._used.get(budget, 0) + sum(unsure)

    def _claims(self, ask: JobRequest, served: ReadRequest) -> Iterator[_Claim]:
        requested = dict(served.requested)
        yield from self._of_global_host(requested)
        pe = self._cluster.pes.get(served.pe or "")
        if pe is not None:
            reason = because(Code.BEYOND_QUOTA, quota=f"PE {pe.name}", limit=f"slots={pe.slots}")
            yield _Claim(("pe", pe.name), pe.slots, requested[SLOTS], reason)
        most = self._cluster.max_user_jobs
        if most is not None:
            yield _Claim(("user", ask.owner), most, 1, because(Code.BEYOND_USER_LIMIT, owner=ask.owner, limit=most))
        for name, at, rule, values in self._rules_for(ask, served):
            for resource, limit in rule.limits.items():
                claim = self._of_quota(rule.name or name, rule, resource, limit, ask, served)
                if claim is not None:
                    yield replace(claim, budget=(name, str(at), *claim.budget, *values))

    def _of_global_host(self, requested: Mapping[str, float]) -> Iterator[_Claim]:
        for name, left in self._cluster.global_consumables.items():
            entry = self._complexes.get(name)
            value = amount(left, entry.type) if entry and entry.consumable is not Consumable.NO else None
            if value is not None and requested.get(name):
                reason = because(Code.BEYOND_GLOBAL, resource=name, left=value)
                yield _Claim(("global", name), value, requested[name], reason)

    def _of_quota(
        self, quota: str, rule: QuotaRule, resource: str, text: str, ask: JobRequest, served: ReadRequest
    ) -> _Claim | None:
        """What it takes of one limit of a rule; None: nothing."""
        entry = self._complexes.get(resource)
        if entry is None:
            return None
        if entry.consumable is Consumable.NO:
            never = self._beyond_fixed(entry, text, ask, quota)
            return None if never is None else _Claim((entry.name,), 0, 1, never, never)
        requested, value = dict(served.requested).get(entry.name), amount(text, entry.type)
        if value is None or not requested:
            return None
        if "hosts" in rule.each:
            if requested * _share(served) <= value:
                return None
            value = 0  # it takes more on one host than any host may give
        limit, asks, never = f"{resource}={text}", written(requested, entry.type), None
        # A limit of 0 excludes such jobs, often for a while only, or by a list that is not known.
        if amount(text, entry.type) and _least(entry.name, ask, served) > value + 1e-9:
            never = because(Code.TOO_MUCH_FOR_QUOTA, resource=resource, requested=asks, quota=quota, limit=limit)
        reason = because(Code.BEYOND_QUOTA, quota=quota, limit=limit)
        return _Claim((entry.name,), value, requested, reason, never)

    def _beyond_fixed(self, entry: Complex, limit: str, ask: JobRequest, quota: str) -> Reason | None:
        """Why its request for a complex that is no consumable exceeds a quota's limit, which nothing uses up."""
        text = next((text for name, text in reversed(ask.hard) if self._complexes.get(name) == entry), None)
        if text is None or limit.startswith("$"):
            return None
        if satisfies(canonical(text, entry.type), entry.relop, canonical(limit, entry.type)):
            return None
        said = f"{entry.name}={limit}"
        return because(Code.TOO_MUCH_FOR_QUOTA, resource=entry.name, requested=text, quota=quota, limit=said)

    def _rules_for(self, ask: JobRequest, served: ReadRequest) -> Iterator[tuple[str, int, QuotaRule, _Key]]:
        """Of every set the first rule that holds for such a job on a new worker, with the values for which its limit
        holds separately.
        """
        queue = (served.launches or tuple(sorted(served.demand.pools)))[0]
        array = next((array for array in self._policy.node_arrays if array.queue == queue), None)
        groups = frozenset({array.host_group} if array else ())
        subject = {"users": ask.owner, "projects": ask.project or "", "pes": served.pe or "", "queues": queue}
        known = {"projects": subject["projects"], "pes": subject["pes"], "queues": queue}
        done: set[str] = set()
        for name, at, rule in self._rules:
            if name in done or not self._of_user(rule, ask.owner, ask.group) or not _fits(rule, known):
                continue
            if rule.hosts is not None and not _host_matches(rule.hosts, None, groups):
                continue
            done.add(name)
            yield name, at, rule, tuple(subject[what] for what in sorted(rule.each) if what != "hosts")

    def _jobs_by_user(self) -> dict[_Key, float]:
        """How many jobs and tasks of each user run. One over several hosts counts once; suspended ones count."""
        jobs = {(job.owner, job.number, job.task) for host in self._cluster.hosts for job in host.jobs}
        return {("user", owner): count for owner, count in Counter(owner for owner, _, _ in jobs).items()}

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
        detail = self._details.get(job.number)
        looked = detail is not None and detail.group is not None
        group = detail.group if detail is not None else None
        known = {"queues": instance.queue}
        if detail is not None and looked:
            known["projects"] = detail.project
        done: set[str] = set()
        for name, at, rule in self._rules:
            if name in done or not self._of_user(rule, job.owner, group) or not _fits(rule, known):
                continue
            if rule.hosts is not None and not _host_matches(rule.hosts, instance.host, groups):
                continue
            done.add(name)
            values = {"users": job.owner, **known}
            apart = sorted(rule.each)
            if any(what not in values for what in apart if what != "projects"):
                continue
            for resource in rule.limits:
                entry = self._complexes.get(resource)
                if entry is not None:
                    key = (name, str(at), entry.name, *(values.get(what, _ANY) for what in apart))
                    yield key, _held(job, entry, self._complexes)

    def _of_user(self, rule: QuotaRule, owner: str, group: str | None) -> bool:
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


def more_than_the_cell_has(cluster: Cluster, ask: JobRequest, served: ReadRequest) -> Reason | None:
    """Why one such task asks for more of a resource than the whole cell has, used or not. None: it may be enough, or
    the value comes from a load sensor and may rise.
    """
    if not cluster.global_values:
        return None
    complexes = by_any_name(cluster.complexes)
    requested = dict(served.requested)
    for name, text in cluster.global_values.items():
        entry = complexes.get(name)
        whole = amount(text, entry.type) if entry is not None and entry.consumable is not Consumable.NO else None
        if entry is None or whole is None or not requested.get(entry.name):
            continue
        if _least(entry.name, ask, served) > whole + 1e-9:
            together = entry.consumable is Consumable.PER_SLOT and served.demand.slots > 1
            return because(
                Code.TOO_MUCH_FOR_CELL,
                resource=entry.name,
                requested=written(requested[entry.name], entry.type),
                slots=served.demand.slots if together else None,
                most=written(whole, entry.type),
            )
    return None


def _least(name: str, ask: JobRequest, served: ReadRequest) -> float:
    """The least that one task takes of it, under any parallel environment that it may use."""
    return dict(served.requested)[name] * min(1.0, ask.slots_min / served.demand.slots)


def _share(served: ReadRequest) -> float:
    """The least part of a task that is on one host."""
    return (served.demand.per_host or 1) / served.demand.slots


def _held(job: HostJob, entry: Complex, complexes: Mapping[str, Complex]) -> float:
    """How much of a complex a running job holds on one queue instance."""
    if entry.name == SLOTS:
        return job.slots
    for name, text in job.hard:
        if complexes.get(name) == entry:
            return (amount(text, entry.type) or 0) * (job.slots if entry.consumable is Consumable.PER_SLOT else 1)
    return 0


_ANY = "\0any"
"""Stands for a project that is not known: no name holds a NUL."""


def _fits(rule: QuotaRule, values: Mapping[str, str]) -> bool:
    """Whether a rule applies to such jobs, as far as these values show."""
    filters = {"projects": rule.projects, "pes": rule.pes, "queues": rule.queues}
    return all(_filter_matches(filters[what], value) for what, value in values.items())


def _filter_matches(names: Sequence[str] | None, value: str) -> bool:
    """`*` matches any value but none; `!x` all but x; `!*` none only."""
    if names is None:
        return True
    refused = [name[1:] for name in names if name.startswith("!")]
    allowed = [name for name in names if not name.startswith("!")]
    if any(bool(value) and matches(name, value) for name in refused):
        return False
    return not allowed or any(bool(value) and matches(name, value) for name in allowed)


def _host_matches(names: Iterable[str], host: str | None, groups: frozenset[str]) -> bool:
    """Whether a host filter holds for a host of these groups; None is a worker that has no name yet."""

    def named(name: str) -> bool:
        return name in groups if name.startswith("@") else name == "*" or (host is not None and matches(name, host))

    parts = list(names)
    refused = [name[1:] for name in parts if name.startswith("!")]
    allowed = [name for name in parts if not name.startswith("!")]
    return not any(map(named, refused)) and (not allowed or any(map(named, allowed)))
