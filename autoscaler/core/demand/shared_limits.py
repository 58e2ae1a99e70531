"""Limits that all jobs share and that a new worker does not raise: licences of the global host, slots of a PE, resource
quotas, and how many jobs one user may run at once (`maxujobs`).

Tasks count oldest first until a limit is used up; those beyond it would not start however many workers there were.
Where a quota holds for some queues or hosts only, tasks beyond it count for the others. What quotas leave on each host,
placement counts (`host_quotas`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType

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
from autoscaler.core.model.complexes import amount, by_any_name, canonical, satisfies
from autoscaler.core.model.demand_vector import Property
from autoscaler.core.model.host_limits import HostLimit
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.amounts import written
from autoscaler.core.placement.hosts import HOSTNAME
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.placement.queue_instances import NEW_HOST
from autoscaler.core.policy import Policy
from autoscaler.core.rights.quota_rules import UNKNOWN, QuotaRules, filter_matches, fits, host_matches

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

    @property
    def counts(self) -> bool:
        """Whether it bounds anything."""
        return self.amount > 0 and self.limit < inf


@dataclass(frozen=True, slots=True)
class Taken:
    """What one task takes of the limits; `never`: why not even one such task ever fits within them."""

    claims: Sequence[_Claim]
    never: Reason | None


@dataclass(frozen=True, slots=True)
class Place:
    """Queues and hosts where tasks take the same of the limits."""

    request: ReadRequest
    """What such a task needs there."""
    taken: Taken = Taken((), None)
    bounded: bool = False
    """Whether quotas bound it there that do not hold everywhere."""
    where: tuple[tuple[str, HostClass], ...] = ()
    """Its queues, each with hosts."""
    together: tuple[Place, ...] = ()
    """Set if this stands for all of these places."""
    withheld: Reason | None = None
    """Of all of these places, the quota that bounds workers to come."""


class SharedLimits:
    """The shared limits of one cluster. `admit` uses them up, so it must be called oldest first."""

    def __init__(
        self, cluster: Cluster, policy: Policy, details: Mapping[int, JobDetail] = MappingProxyType({})
    ) -> None:
        self._cluster = cluster
        self._complexes = by_any_name(cluster.complexes)
        self._rules = QuotaRules(cluster, details)
        self._by_name = {quota.name: quota for quota in self._rules.sets}
        self._classes = _HostClasses(cluster, policy, self._rules)
        self._spent: dict[_Key, float] = {}
        self._at_some: dict[tuple[int, ...], tuple[ReadRequest, Sequence[Place]]] = {}
        """By `id` of the places, which are kept for that."""
        self._used: dict[_Key, float] = dict(self._quota_use()) if self._rules.sets else {}
        if cluster.max_user_jobs is not None:
            self._used |= self._jobs_by_user()
        self._unsure = {key: held for key, held in self._used.items() if UNKNOWN in key}
        for job in [job for host in cluster.hosts for each in host.instances for job in each.jobs if job.pe]:
            # A parallel job stands under each of its queue instances, with its share of the slots there.
            self._used["pe", job.pe] = self._used.get(("pe", job.pe), 0) + job.slots

    def subject(self, ask: JobRequest) -> tuple[str | None, ...]:
        """Owner, group and project, if they make a difference to `places`."""
        return (
            (ask.owner, ask.group, ask.project) if self._rules.sets or self._cluster.max_user_jobs is not None else ()
        )

    def places(self, ask: JobRequest, served: ReadRequest) -> tuple[Place, ...]:
        """Where one such task may run, with what it takes of the limits there. One place, unless quotas differ by queue
        or host; then first all places together, and the others by what they leave.
        """
        served = self._on_hosts(ask, served)
        shared = tuple(self._shared(ask, served))
        never = more_than_the_cell_has(self._cluster, ask, served)
        found: dict[tuple[_Claim, ...], list[tuple[str, HostClass]]] = {}
        queues = sorted({pool.partition("@")[0] for pool in served.demand.pools}) if self._rules.sets else ("",)
        everywhere = [(queue, hosts) for queue in queues for hosts in self._classes.of(queue)]
        for queue, hosts in [each for each in everywhere if each[1].named_by(served)] or everywhere:
            claims = tuple(self._of_quotas(ask, served, queue, hosts))
            found.setdefault(claims, []).append((queue, hosts))
        if len(found) < 2:
            (claims,) = found or ((),)
            return (_place(served, (*shared, *claims), never),)
        of_workers = (claims for claims, where in found.items() if claims and any(hosts.new for _, hosts in where))
        withheld = next((claims[0].reason for claims in of_workers), None)
        places = [
            _place(restricted, (*shared, *claims), never, of_quotas=claims, where=there)
            for claims, where in found.items()
            for restricted, there in self._restricted(served, where, withheld)
        ]
        return tuple(places) if len(places) < 2 else (Place(served, together=tuple(places), withheld=withheld), *places)

    def spend(self, places: Sequence[Place], count: int) -> tuple[list[tuple[ReadRequest, int]], Reason | None]:
        """How many of `count` tasks fit within the limits at each place, and which limit keeps the others back."""
        first = places[0]
        if not first.together:
            allowed, reason = self._spend(first.taken, count)
            return [(first.request, allowed)], reason
        found: list[tuple[ReadRequest, int]] = []
        while some := self._alike(first.together, count):
            claims = {claim.budget: claim for place in some for claim in place.taken.claims}
            allowed, _ = self._spend(Taken(tuple(claims.values()), None), count)
            found.append((self._at_any(first, some), allowed))
            count -= allowed
        reason = None
        room = [self._room(place.taken, count)[0] for place in first.together]
        for at in sorted(range(len(room)), key=lambda at: (first.together[at].bounded, -room[at])):
            if not count:
                break
            place = first.together[at]
            allowed, beyond = self._spend(place.taken, count)
            reason = reason or beyond
            count -= allowed
            found.append((place.request, allowed))
        return found, reason if count else None

    def _alike(self, places: Sequence[Place], count: int) -> list[Place]:
        """The places any of which will do for the next tasks, as many as the least of them has room for. Empty: place
        by place, which uses all that is left at each.
        """
        left = [(place, room) for place in places if count and (room := self._room(place.taken, count)[0])]
        bounded = [room for place, room in left if place.bounded]
        # Tasks that wait for hosts which are there must not keep others from workers to come.
        differ = len(bounded) < len(left) or len({bool(place.request.launches) for place, _ in left}) > 1
        return [place for place, _ in left] if len(left) > 1 and bounded and (differ or count <= min(bounded)) else []

    def _at_any(self, first: Place, some: Sequence[Place]) -> ReadRequest:
        """The request at some of the places that `first` stands for; if one request cannot say that, at those of them
        that workers are launched for.
        """
        if len(some) == len(first.together):
            return first.request
        key = tuple(map(id, some))
        if key not in self._at_some:
            where = [each for place in some for each in place.where]
            requests = (request for request, _ in self._restricted(first.request, where, first.withheld))
            self._at_some[key] = max(requests, key=lambda request: bool(request.launches)), some
        return self._at_some[key][0]

    def _room(self, each: Taken, count: int) -> tuple[int, Reason | None]:
        if each.never is not None:
            return 0, each.never
        allowed, reason = count, None
        for claim in each.claims:
            left = claim.limit - self._held_of(claim.budget) - self._spent.get(claim.budget, 0)
            tasks = max(int((left + 1e-9) // claim.amount), 0)
            if tasks < allowed:
                allowed, reason = tasks, claim.reason
        return allowed, reason

    def _spend(self, each: Taken, count: int) -> tuple[int, Reason | None]:
        allowed, reason = self._room(each, count)
        for claim in each.claims:
            self._spent[claim.budget] = self._spent.get(claim.budget, 0) + allowed * claim.amount
        return allowed, reason

    def _held_of(self, budget: _Key) -> float:
        """What running jobs hold of a limit, jobs of unknown project included."""
        unsure = (
            held
            for key, held in self._unsure.items()
            if len(key) == len(budget) and all(one in (other, UNKNOWN) for one, other in zip(key, budget, strict=True))
        )
        return self._used.get(budget, 0) + sum(unsure)

    def _on_hosts(self, ask: JobRequest, served: ReadRequest) -> ReadRequest:
        """The request with what it takes of quotas for each host: these bound it only where they hold."""
        limits = self._cluster.host_limits
        if not limits:
            return served
        requested, slots = dict(served.requested), served.demand.slots
        amounts = {
            limit.name: requested[limit.resource] / slots
            for limit in limits
            if requested.get(limit.resource) and self._concerns(limit, ask, served)
        }
        if not amounts:
            return served
        assumed = tuple(sorted({**dict(served.demand.assumed), **amounts}.items()))
        return replace(served, demand=replace(served.demand, assumed=assumed))

    def _concerns(self, limit: HostLimit, ask: JobRequest, served: ReadRequest) -> bool:
        """Whether the rule of a limit is the first of its set that holds for such a job, where the limit is."""
        rules = self._by_name[limit.quota].rules
        if any(self._of_subject(rules[at], ask, served) for at in limit.before):
            return False
        values = {"users": ask.owner, "projects": ask.project or "", "pes": served.pe or ""}
        return self._of_subject(rules[limit.rule], ask, served) and all(
            values[what] == value for what, value in limit.values
        )

    def _of_subject(self, rule: QuotaRule, ask: JobRequest, served: ReadRequest) -> bool:
        known = {"projects": ask.project or "", "pes": served.pe or ""}
        return self._rules.of_user(rule, ask.owner, ask.group) and fits(rule, known)

    def _shared(self, ask: JobRequest, served: ReadRequest) -> Iterator[_Claim]:
        """What it takes of limits that hold wherever it runs."""
        requested = dict(served.requested)
        claims = [*self._of_global_host(requested)]
        pe = self._cluster.pes.get(served.pe or "")
        if pe is not None:
            code = Code.BEYOND_QUOTA if pe.slots else Code.QUOTA_ALLOWS_NONE
            reason = because(code, quota=f"PE {pe.name}", limit=f"slots={pe.slots}")
            claims.append(_Claim(("pe", pe.name), pe.slots, requested[SLOTS], reason))
        most = self._cluster.max_user_jobs
        if most is not None:
            reason = because(Code.BEYOND_USER_LIMIT, owner=ask.owner, limit=most)
            claims.append(_Claim(("user", ask.owner), most, 1, reason))
        yield from (claim for claim in claims if claim.counts)

    def _of_quotas(self, ask: JobRequest, served: ReadRequest, queue: str, hosts: HostClass) -> Iterator[_Claim]:
        """What it takes of quotas in a queue on such hosts."""
        values = {"users": ask.owner, "projects": ask.project or "", "pes": served.pe or "", "queues": queue}
        for quota in self._rules.sets:
            at = next(
                (
                    at
                    for at, rule in enumerate(quota.rules)
                    if self._of_subject(rule, ask, served)
                    and filter_matches(rule.queues, queue)
                    and (rule.hosts is None or (quota.name, at) in hosts.matching)
                ),
                None,
            )
            if at is None:
                continue
            rule = quota.rules[at]
            key = tuple(values[what] for what in sorted(rule.each) if what != "hosts")
            for resource, limit in rule.limits.items():
                claim = self._of_quota(rule.name or quota.name, rule, resource, limit, ask, served)
                if claim is not None and claim.counts:
                    yield replace(claim, budget=(quota.name, str(at), *claim.budget, *key))

    def _restricted(
        self, served: ReadRequest, where: Sequence[tuple[str, HostClass]], withheld: Reason | None
    ) -> Iterator[tuple[ReadRequest, tuple[tuple[str, HostClass], ...]]]:
        """The request in these queues on these hosts alone, and which these are; queues with the same hosts together.
        `withheld`: the quota that bounds workers to come.
        """
        by_hosts: dict[tuple[HostClass, ...], list[str]] = {}
        for queue in dict.fromkeys(queue for queue, _ in where):
            by_hosts.setdefault(tuple(hosts for name, hosts in where if name == queue), []).append(queue)
        for some, queues in by_hosts.items():
            pools = frozenset(pool for pool in served.demand.pools if pool.partition("@")[0] in queues)
            launches = tuple(queue for queue in served.launches if queue in queues)
            demand = replace(served.demand, pools=pools)
            others = [each for queue in queues for each in self._classes.of(queue) if each not in some]
            if others:
                expression = _expression(some, others)
                named = Property(HOSTNAME, "==", expression)
                demand = replace(demand, properties=tuple(sorted((*demand.properties, named), key=_by_name)))
                launches = launches if any(each.new for each in some) else ()
            why = withheld if served.launches and not launches else served.withheld
            there = tuple((queue, hosts) for queue in queues for hosts in some)
            yield replace(served, demand=demand, launches=launches, withheld=why), there

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
        requested, allowed = dict(served.requested).get(entry.name), amount(text, entry.type)
        value = allowed
        if value is None or not requested:
            return None  # dynamic limits hold for each host: placement counts them
        if "hosts" in rule.each:
            if requested * _share(served) <= value:
                return None  # placement counts it
            value = 0  # it takes more on one host than any host may give
        limit, asks, never = f"{resource}={text}", written(requested, entry.type), None
        # A limit of 0 excludes such jobs, often for a while only, or by a list that is not known.
        if allowed and _least(entry.name, ask, served) > value + 1e-9:
            never = because(Code.TOO_MUCH_FOR_QUOTA, resource=resource, requested=asks, quota=quota, limit=limit)
        reason = because(Code.BEYOND_QUOTA if allowed else Code.QUOTA_ALLOWS_NONE, quota=quota, limit=limit)
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

    def _jobs_by_user(self) -> dict[_Key, float]:
        """How many jobs and tasks of each user run. One over several hosts counts once; suspended ones count."""
        jobs = {(job.owner, job.number, job.task) for host in self._cluster.hosts for job in host.jobs}
        return {("user", owner): count for owner, count in Counter(owner for owner, _, _ in jobs).items()}

    def _quota_use(self) -> Iterator[tuple[_Key, float]]:
        """What running jobs hold of each quota."""
        use: dict[_Key, float] = {}
        for host in self._cluster.hosts:
            for instance in host.instances:
                for job in instance.jobs:
                    for key, value in self._use_of(job, instance):
                        use[key] = use.get(key, 0) + value
        yield from use.items()

    def _use_of(self, job: HostJob, instance: QueueInstance) -> Iterator[tuple[_Key, float]]:
        for quota, at, rule, values in self._rules.of_job(job, instance):
            apart = sorted(rule.each)
            if any(what not in values for what in apart if what != "projects"):
                continue
            for resource in rule.limits:
                entry = self._complexes.get(resource)
                if entry is not None:
                    key = (quota.name, str(at), entry.name, *(values.get(what, UNKNOWN) for what in apart))
                    yield key, self._rules.held(job, entry)


@dataclass(frozen=True, slots=True)
class HostClass:
    """Hosts for which the same rules hold."""

    matching: frozenset[tuple[str, int]]
    """Set and number of each rule whose host filter matches them."""
    hosts: tuple[str, ...] = ()
    new: bool = False
    """Whether workers to come are among them."""

    def named_by(self, served: ReadRequest) -> bool:
        """Whether one of them has a name that the request allows."""
        names = [one for one in served.demand.properties if one.name == HOSTNAME and not one.pools]
        hosts = (*self.hosts, NEW_HOST) if self.new else self.hosts
        return any(all(satisfies(one.value, one.relop, host) for one in names) for host in hosts)


class _HostClasses:
    """The hosts of each queue by the quotas that name hosts."""

    def __init__(self, cluster: Cluster, policy: Policy, rules: QuotaRules) -> None:
        self._filters = [
            (quota.name, at, rule.hosts)
            for quota in rules.sets
            for at, rule in enumerate(quota.rules)
            if rule.hosts is not None
        ]
        self._by_queue: dict[str, tuple[HostClass, ...]] = {}
        if not self._filters:
            return
        found: dict[str, dict[frozenset[tuple[str, int]], tuple[list[str], bool]]] = {}
        for host in cluster.hosts:
            matching = self._matching(host.name, rules.groups_of(host.name))
            for instance in host.instances:
                found.setdefault(instance.queue, {}).setdefault(matching, ([], False))[0].append(host.name)
        for array in policy.node_arrays:
            matching = self._matching(None, frozenset(cluster.places_of(array.host_group)))
            classes = found.setdefault(array.queue, {})
            classes[matching] = classes.get(matching, ([], False))[0], True
        self._by_queue = {
            queue: tuple(HostClass(matching, tuple(hosts), new) for matching, (hosts, new) in classes.items())
            for queue, classes in found.items()
        }

    def of(self, queue: str) -> tuple[HostClass, ...]:
        """Those on which the queue is or will be; one if no quota makes a difference."""
        return self._by_queue.get(queue, _ANY_HOST)

    def _matching(self, host: str | None, groups: frozenset[str]) -> frozenset[tuple[str, int]]:
        return frozenset((name, at) for name, at, names in self._filters if host_matches(names, host, groups))


_ANY_HOST = (HostClass(frozenset(), new=True),)


def _expression(some: Sequence[HostClass], others: Sequence[HostClass]) -> str:
    """Matches these hosts and none of the others."""
    if any(each.new for each in some):
        names = "|".join(dict.fromkeys(host for each in others for host in each.hosts))
        return f"!({names})" if names else "*"
    return "|".join(dict.fromkeys(host for each in some for host in each.hosts))


def _by_name(one: Property) -> tuple[str, str, str]:
    return one.name, one.relop, one.value


def _place(
    request: ReadRequest,
    claims: tuple[_Claim, ...],
    never: Reason | None,
    of_quotas: tuple[_Claim, ...] = (),
    where: tuple[tuple[str, HostClass], ...] = (),
) -> Place:
    claimed = (claim.never for claim in claims if claim.never is not None)
    return Place(request, Taken(claims, never or next(claimed, None)), bounded=bool(of_quotas), where=where)


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
