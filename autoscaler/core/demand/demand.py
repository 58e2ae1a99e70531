"""From waiting job categories to demands: the last place that knows Grid Engine's semantics.

Counted jobs are merged by what they ask of hosts and may use, whatever their owner; each other job has a reason. Expiry
is a trigger per queue: once one counted job of it has waited for the timeout, workers are launched for all its counted
jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.core.demand import access
from autoscaler.core.demand.constraint_demand import ConstraintDemand, Entries
from autoscaler.core.demand.eligibility import CategoryPart, judge, submitted_ahead
from autoscaler.core.demand.job_requests import ANY_TIME, MOST_REQUESTS, ReadRequest, RequestReader
from autoscaler.core.demand.shared_limits import Place, SharedLimits
from autoscaler.core.demand.unstarted import kept_from_hosts
from autoscaler.core.model.changed import changed
from autoscaler.core.model.cluster import Cluster, JobDetail, JobRequest
from autoscaler.core.model.complexes import split_tasks, task_count
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.owners import owner_of
from autoscaler.core.placement.needs import hardest_first, requested_amounts
from autoscaler.core.placement.queue_instances import forced_in
from autoscaler.core.policy import OwnerKind, Policy
from autoscaler.core.readable.bare_cluster import without_jobs, without_loads
from autoscaler.core.readable.remembered import LastObjects, LastValue
from autoscaler.core.rights.barred import NOBODY_BARRED, Barred
from autoscaler.core.rights.open_hours import OpenHours

_SHARED = frozenset({Code.BEYOND_GLOBAL, Code.BEYOND_QUOTA, Code.BEYOND_USER_LIMIT})


@dataclass(frozen=True, slots=True)
class PendingDemand:
    """All waiting jobs. `counted`, parallel to `wanted`: the parts that each demand came from, oldest first."""

    wanted: tuple[CategoryDemand, ...]
    counted: tuple[tuple[CategoryPart, ...], ...]
    uncounted: tuple[CategoryPart, ...]
    names: frozenset[str]
    """The complexes of hosts that matter: those that some demand asks for, and those that are FORCED."""
    able_since: Mapping[int, float]
    unable: tuple[int, ...]
    details: Mapping[int, JobDetail]

    def offering(self, demands: Iterable[Demand]) -> PendingDemand:
        """The same, with the complexes that these demands ask for."""
        return changed(self, names=self.names.union(*map(_names, demands)))

    def not_expired_by(self, refused: Sequence[bool], now: float, policy: Policy) -> PendingDemand:
        """The same, where jobs that nothing allowed can run expire no queue. `refused`: parallel to the demands."""
        if not any(refused):
            return self
        others = _OTHERS.value_of(
            (self.wanted, refused),
            lambda: tuple([want for want, never in zip(self.wanted, refused, strict=True) if not never]),
        )
        queues = _expired_queues(others, now, policy)
        return _NOT_EXPIRED.value_of((self, refused), lambda: self._expired_for(queues, refused), queues)

    def _expired_for(self, queues: frozenset[str], refused: Sequence[bool]) -> PendingDemand:
        wanted = tuple(
            want if never or not want.expired or not queues.isdisjoint(want.launches) else replace(want, expired=False)
            for want, never in zip(self.wanted, refused, strict=True)
        )
        return replace(self, wanted=wanted)

    def launching_nothing(self) -> PendingDemand:
        """The same, but waiting jobs only keep workers that can serve them, and launch none."""
        return _LAUNCHING_NOTHING.value_of(
            (self,), lambda: replace(self, wanted=tuple(replace(want, launches=()) for want in self.wanted))
        )

    @property
    def limited(self) -> bool:
        """Whether some jobs do not count because others use up what all share."""
        return any(part.reason is not None and part.reason.code in _SHARED for part in self.uncounted)

    @property
    def parts(self) -> Iterator[CategoryPart]:
        """All waiting jobs, counted or not."""
        yield from (part for parts in self.counted for part in parts)
        yield from self.uncounted

    def owners(self, kind: OwnerKind) -> frozenset[str]:
        """Whose jobs wait, counted or not."""
        return _OWNERS.value_of((self,), lambda: frozenset([owner_of(part.ask, kind) for part in self.parts]), kind)

    @property
    def waiting(self) -> int:
        return sum([want.count for want in self.wanted]) + sum([part.count for part in self.uncounted])


_OWNERS = LastObjects[frozenset[str]]()
_OTHERS = LastObjects[tuple[CategoryDemand, ...]](2)
_NOT_EXPIRED, _LAUNCHING_NOTHING = LastObjects[PendingDemand](2), LastObjects[PendingDemand](2)


def read_demand(
    cluster: Cluster,
    memory: Memory,
    policy: Policy,
    now: float,
    our_hosts: frozenset[str] = frozenset(),
    closed: Mapping[str, Reason] = MappingProxyType({}),
    barred: Barred = NOBODY_BARRED,
    hours: OpenHours = ANY_TIME,
    *,
    unsatisfiable: frozenset[JobRequest] | None = frozenset(),
) -> PendingDemand:
    """All waiting jobs, counted or not. `our_hosts`: names of workers that jobs may be pinned to; `closed`: queues that
    start nothing now, and why; `hours`: when calendars let jobs start; `unsatisfiable`: requests that nothing allowed
    can run, which use up nothing of what all jobs share (None: no job does, to find them).
    """
    inputs = _Inputs(
        without_loads(cluster),
        Memory(details=memory.details, able_since=memory.able_since, unable=memory.unable, unstarted=memory.unstarted),
        policy,
        our_hosts,
        closed,
        barred,
        hours,
        submitted_ahead(cluster.job_categories, now),
        unsatisfiable,
    )
    last = _LAST_UNLIMITED if unsatisfiable is None else _LAST_SATISFIABLE if unsatisfiable else _LAST
    found = last.value_of(inputs, lambda: _read(inputs, now))
    if found.depends_on_time:
        last.forget()
    return found.at(now, policy)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """All that waiting jobs are judged by, except the time. If it is the same as in the pass before, for example
    because only loads, usage and priorities changed, nothing is judged again.
    """

    cluster: Cluster
    """Its hosts have only their jobs and their access."""
    memory: Memory
    """Only what concerns single jobs."""
    policy: Policy
    our_hosts: frozenset[str]
    closed: Mapping[str, Reason]
    barred: Barred
    hours: OpenHours
    ahead: bool
    """Whether jobs were submitted later than now."""
    unsatisfiable: frozenset[JobRequest] | None = frozenset()


@dataclass(slots=True)
class _Judged:
    """The waiting jobs, before it is known which queues' jobs have waited long enough."""

    demand: PendingDemand
    """No demand in it is expired."""
    depends_on_time: bool
    """Whether it may differ a moment later, with the same inputs."""
    _waited: frozenset[str] = frozenset()
    _at: PendingDemand | None = None

    def at(self, now: float, policy: Policy) -> PendingDemand:
        expired = _expired_queues(self.demand.wanted, now, policy)
        if self._at is None or expired != self._waited:
            demands = tuple(
                replace(want, expired=True) if not expired.isdisjoint(want.launches) else want
                for want in self.demand.wanted
            )
            self._waited, self._at = expired, replace(self.demand, wanted=demands)
        return self._at


def _expired_queues(wanted: Iterable[CategoryDemand], now: float, policy: Policy) -> frozenset[str]:
    """Queues of which one counted job has waited for the timeout."""
    oldest = _OLDEST.value_of((wanted,), lambda: _oldest_of(wanted))
    return frozenset(
        [
            queue.name
            for queue in policy.queues
            if queue.name in oldest and now - min(oldest[queue.name], now) >= queue.scale_up_timeout
        ]
    )


_OLDEST = LastObjects[dict[str, float]](2)


def _oldest_of(wanted: Iterable[CategoryDemand]) -> dict[str, float]:
    """By queue, since when the job that launches for it and waits longest could run."""
    oldest: dict[str, float] = {}
    for want in wanted:
        for queue in want.launches:
            oldest[queue] = min(oldest.get(queue, want.oldest), want.oldest)
    return oldest


_LAST, _LAST_UNLIMITED, _LAST_SATISFIABLE = LastValue[_Judged](), LastValue[_Judged](), LastValue[_Judged]()
_Key = tuple[Demand, tuple[str, ...]]
"""What tasks need, and the queues that launch for them."""


def _read(inputs: _Inputs, now: float) -> _Judged:
    cluster, memory, policy = inputs.cluster, inputs.memory, inputs.policy
    waiting = {job for category in cluster.job_categories for job in category.jobs}
    needs = access.cluster_needs(cluster, policy)
    if needs.of_running:
        waiting |= {job.number for host in cluster.hosts for job in host.jobs}
    details = {job: detail for job, detail in {**memory.details, **cluster.details}.items() if job in waiting}
    eligible = judge(
        cluster.job_categories,
        cluster.hosts,
        memory,
        details,
        now,
        cluster.max_array_tasks,
        priorities=cluster.priorities,
    )
    parts = access.split(eligible.parts, details, needs)
    demands, counted, uncounted = _admitted(parts, inputs, details) if parts else ((), (), ())
    demand = PendingDemand(
        wanted=demands,
        counted=counted,
        uncounted=uncounted,
        names=forced_in(cluster.complexes).union(*(_names(want.demand) for want in demands)),
        able_since=eligible.able_since,
        unable=eligible.unable,
        details=details,
    )
    return _Judged(demand, depends_on_time=eligible.depends_on_time or policy.rules is not None)


def _admitted(
    parts: Sequence[CategoryPart], inputs: _Inputs, details: Mapping[int, JobDetail]
) -> tuple[tuple[CategoryDemand, ...], tuple[tuple[CategoryPart, ...], ...], tuple[CategoryPart, ...]]:
    """The demands, the parts that each came from, and the parts that do not count."""
    admission = _Admission(inputs, details)
    for part in _oldest_first(admission.rules.split(parts)):
        admission.add(_not_barred(part, inputs.barred, inputs.policy))
    demands = _demands_of(admission.merged, admission.withheld)
    counted = tuple(tuple(admission.merged[want.demand, want.launches]) for want in demands)
    return kept_from_hosts(demands, counted, inputs.memory.unstarted), counted, tuple(admission.uncounted)


def _not_barred(part: CategoryPart, barred: Barred, policy: Policy) -> CategoryPart:
    """The same part; if nothing is launched for its owner, with that reason not to count."""
    reason = None if part.reason is not None else barred.reason(part.ask, owner_of(part.ask, policy.owner))
    return part if reason is None else replace(part, reason=reason)


class _Admission:
    """Sorts parts into those that count, by what they ask of hosts and may use, and those that do not. Parts must be
    added oldest first, because each spends shared limits.
    """

    def __init__(self, inputs: _Inputs, details: Mapping[int, JobDetail]) -> None:
        cluster, policy = inputs.cluster, inputs.policy
        self.rules = ConstraintDemand(cluster, policy, details)
        self.merged: dict[_Key, list[CategoryPart]] = {}
        self.withheld: dict[_Key, Reason] = {}
        self.uncounted: list[CategoryPart] = []
        self._reader = _reader_of(inputs)
        self._unsatisfiable = inputs.unsatisfiable
        self._budgets = SharedLimits(cluster, policy, details)
        # For jobs that nothing can run, as if they had the cell to themselves: they take nothing from others.
        self._unused = SharedLimits(cluster, policy, details) if inputs.unsatisfiable else self._budgets
        self._served: dict[object, _Served] = {}

    def add(self, part: CategoryPart) -> None:
        if part.reason is not None:
            self.uncounted.append(part)
            return
        entries = self.rules.entries(part)
        served = self._serve(part.ask, entries)
        answer = served.answer
        if isinstance(answer, Reason):
            self.uncounted.append(replace(part, reason=answer))
            return
        subject = self._budgets.subject(part.ask)
        places = served.places.get(subject)
        if places is None:
            places = served.places[subject] = self._budgets.places(part.ask, answer)
        reason: Reason | None = None
        if self._unsatisfiable is None:
            found = [(places[0].request, part.count)]
        else:
            budgets = self._unused if part.ask in self._unsatisfiable else self._budgets
            found, reason = budgets.spend(places, part.count)
        allowed = sum(count for _, count in found)
        if entries:
            allowed, reason = self.rules.admit(answer.demand, entries, allowed, reason)
        rest: CategoryPart | None = part
        for request, count in found:
            count = min(count, allowed)
            allowed -= count
            if rest is None or not count:
                continue
            within, rest = _divide(rest, count)
            self._admit(request, within)
        if rest is not None:
            self.uncounted.append(replace(rest, reason=reason))

    def _admit(self, request: ReadRequest, part: CategoryPart) -> None:
        key = request.demand, request.launches
        self.merged.setdefault(key, []).append(part)
        if request.withheld is not None:
            self.withheld.setdefault(key, request.withheld)

    def _serve(self, ask: JobRequest, entries: Entries) -> _Served:
        """Read once for requests that are alike."""
        key: object = self._reader.alike.number(ask)
        if entries or self._reader.rights.restricts:
            key = (
                key,
                self._reader.rights.key(ask),
                tuple(entry.place for entry in entries),
                ask.array and bool(entries),
            )
        known = self._served.get(key)
        if known is None:
            answer = self._reader.remembered(ask)
            if not isinstance(answer, Reason):
                answer = self.rules.ask(answer, entries, array=ask.array)
            known = self._served[key] = _Served(answer)
        return known


_READER = LastValue[RequestReader]()


def _reader_of(inputs: _Inputs) -> RequestReader:
    """The one of the last pass while the configuration stays: requests that it has read it need not read again."""
    key = without_jobs(inputs.cluster), inputs.policy, inputs.our_hosts, inputs.closed
    reader = _READER.value_of((key, inputs.hours), lambda: RequestReader(*key, hours=inputs.hours))
    if reader.remembered.cache_info().currsize >= MOST_REQUESTS:
        _READER.forget()
    return reader


@dataclass(slots=True)
class _Served:
    """What jobs with alike requests need."""

    answer: ReadRequest | Reason
    places: dict[tuple[str | None, ...], tuple[Place, ...]] = field(default_factory=dict)
    """By owner, group and project, as far as they matter."""


def _oldest_first(parts: Sequence[CategoryPart]) -> list[CategoryPart]:
    """Parts that wait equally long are sorted by first job. Two sorts by one number are faster than one by both."""
    by_number = sorted(parts, key=lambda part: part.jobs[0] if part.jobs else -1)
    return sorted(by_number, key=lambda part: part.oldest)


def _demands_of(
    merged: Mapping[_Key, Sequence[CategoryPart]], withheld: Mapping[_Key, Reason]
) -> tuple[CategoryDemand, ...]:
    return tuple(
        CategoryDemand(
            demand=demand,
            count=sum(part.count for part in parts),
            oldest=parts[0].oldest,
            expired=False,
            asks=tuple(part.ask for part in parts),
            tasks=tuple(part.count for part in parts),
            launches=launches,
            withheld=withheld.get((demand, launches)),
        )
        for (demand, launches), parts in sorted(
            ((key, parts) for key, parts in merged.items() if parts),
            key=lambda item: (hardest_first(item[0][0]), item[0][1]),
        )
    )


def _divide(part: CategoryPart, allowed: int) -> tuple[CategoryPart, CategoryPart | None]:
    """The tasks within a limit, one at least, and those beyond it, if any: first come, first served."""
    if allowed >= part.count:
        return part, None
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
    beyond = replace(part, jobs=_firsts(others), tasks=_seconds(others), count=part.count - allowed)
    return within, beyond


def _firsts(pairs: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    return tuple(job for job, _ in pairs)


def _seconds(pairs: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(tasks for _, tasks in pairs)


def _names(demand: Demand) -> set[str]:
    amounts = (*requested_amounts(demand), *demand.assumed)
    return {name for name, _ in amounts} | {each.name for each in demand.properties}
