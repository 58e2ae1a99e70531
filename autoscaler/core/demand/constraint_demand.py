"""What rules add to the requests of waiting jobs: which entries hold for which jobs, and a demand with their
constraints.

A job's own requests stay as they are. Amounts that a rule and the job both ask for are one amount, the larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.constraints.constraint import NodeUse, SharedKey, take_all
from autoscaler.core.constraints.node import Node, NodeProperties
from autoscaler.core.constraints.ruleset import Entry, Rules
from autoscaler.core.constraints.shared import SharedConsumableConstraint
from autoscaler.core.constraints.values import SCALE, millionths
from autoscaler.core.demand.eligibility import CategoryPart
from autoscaler.core.demand.job_requests import ReadRequest
from autoscaler.core.model.cluster import Cluster, JobDetail, JobRequest
from autoscaler.core.model.complexes import task_count
from autoscaler.core.model.demand_vector import Demand, Property
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.constraint_effects import MET
from autoscaler.core.placement.counted import COUNTED, counting
from autoscaler.core.policy import Policy

Entries = tuple[Entry, ...]
_NO_NODE = Node(NodeProperties("", ""))
"""For constraints that use no node."""


@dataclass(slots=True)
class ConstraintDemand:
    """Applies the rules for one observation. Without rules every part stays as it is."""

    cluster: Cluster
    policy: Policy
    details: Mapping[int, JobDetail]
    _entries: Entries = field(default=(), init=False)
    _meant: dict[tuple[str, str | None], Entries] = field(default_factory=dict, init=False)
    _spent: dict[SharedKey, int] = field(default_factory=dict, init=False)
    """In millionths."""

    def __post_init__(self) -> None:
        self._entries = self._rules.entries

    @property
    def _rules(self) -> Rules:
        return self.policy.rules or NO_RULES

    def split(self, parts: Sequence[CategoryPart]) -> Sequence[CategoryPart]:
        """The same parts; if rules depend on a job's context, jobs not looked up yet are parts of their own."""
        if not self._rules.by_context:
            return parts
        return [some for part in parts for some in self._by_context(part)]

    def entries(self, part: CategoryPart) -> Entries:
        """The entries that hold for these jobs, whatever queue and parallel environment they get."""
        if not self._entries:
            return ()
        found = self._of(part.ask)
        if not any(entry.who.context for entry in found):
            return found
        context = self.details[part.jobs[0]].context
        return tuple(entry for entry in found if entry.who.is_of_context(context))

    def known_of(self, ask: JobRequest) -> Entries:
        """The entries that hold for such a job by its request alone, without those that depend on a context."""
        return tuple(entry for entry in self._of(ask) if not entry.who.context)

    def ask(self, served: ReadRequest, entries: Entries, *, array: bool) -> ReadRequest:
        """The demand with the constraints of these entries; entries for queues that cannot serve it do not count."""
        applying = [
            entry
            for entry in entries
            if entry.who.is_of_pe(served.pe) and any(entry.who.uses(pool) for pool in served.demand.pools)
        ]
        if not applying:
            return served
        alone = any(entry.parts.exclusive or (entry.parts.alone and not array) for entry in applying)
        demand = replace(
            served.demand,
            properties=(*served.demand.properties, *(Property(entry.place, "==", MET) for entry in applying)),
            per_job=self._taken(served.demand, applying),
            exclusive=served.demand.exclusive or alone,
        )
        return replace(served, demand=demand)

    def admit(self, demand: Demand, entries: Entries, count: int, reason: Reason | None) -> tuple[int, Reason | None]:
        """How many of these tasks find enough of the resources that all nodes share, and why no more do (`reason` if
        all do). Their amounts are taken.
        """
        shared = shared_of(demand, entries)
        each: dict[SharedKey, int] = {}
        left: dict[SharedKey, int] = {}
        for constraint in shared:
            for resource in constraint.shared_resources:
                each[resource.key] = each.get(resource.key, 0) + millionths(constraint.amount)
                left[resource.key] = millionths(resource.current_value) - self._spent.get(resource.key, 0)
        enough = min((max(left[key], 0) // amount for key, amount in each.items() if amount), default=count)
        admitted = min(count, enough)
        for key, amount in each.items():
            self._spent[key] = self._spent.get(key, 0) + amount * admitted
        if admitted == count:
            return count, reason
        return admitted, self._short(shared)

    def _short(self, shared: Iterable[SharedConsumableConstraint]) -> Reason | None:
        """Why one more task does not find enough."""
        spent = {key: amount / SCALE for key, amount in self._spent.items()}
        after = take_all(tuple(shared), NodeUse(_NO_NODE, spent=spent))
        return after if isinstance(after, Reason) else None

    def _of(self, ask: JobRequest) -> Entries:
        key = ask.owner, ask.project
        if key not in self._meant:
            self._meant[key] = tuple(entry for entry in self._entries if entry.who.is_meant(*key))
        return self._meant[key]

    def _by_context(self, part: CategoryPart) -> Iterator[CategoryPart]:
        """The part split by which entries hold; jobs of which nothing is known yet are a part of their own."""
        by_context = [entry for entry in self._of(part.ask) if entry.who.context]
        if part.reason is not None or not by_context:
            yield part
            return
        groups: dict[tuple[str, ...] | None, list[tuple[int, str]]] = {}
        for job, tasks in zip(part.jobs, part.tasks, strict=True):
            detail = self.details.get(job)
            met = (
                None if detail is None else _places(one for one in by_context if one.who.is_of_context(detail.context))
            )
            groups.setdefault(met, []).append((job, tasks))
        for met, some in groups.items():
            yield replace(
                part,
                jobs=tuple(job for job, _ in some),
                tasks=tuple(tasks for _, tasks in some),
                count=sum(task_count(tasks) for _, tasks in some) if len(groups) > 1 else part.count,
                reason=because(Code.NOT_READ_YET) if met is None else None,
            )

    def _taken(self, demand: Demand, entries: Iterable[Entry]) -> tuple[tuple[str, float], ...]:
        """Amounts per task, with what entries take besides the job's own requests."""
        most: dict[str, float] = {}
        for entry in entries:
            for resource, amount in entry.parts.takes:
                known = counting(self._rules, resource, self.cluster.complexes)
                name = known.name if known is not None else COUNTED + resource
                most[name] = max(most.get(name, 0), amount)
            if entry.parts.tried:
                most[COUNTED + entry.place] = 1
        own, each, once = dict(demand.per_job), dict(demand.per_slot), dict(demand.once_a_host)
        for name, amount in most.items():
            additional = amount - each.get(name, 0) * demand.slots - own.get(name, 0) - once.get(name, 0)
            if additional > 0 and name not in self.cluster.global_consumables:
                own[name] = own.get(name, 0) + additional
        return tuple(sorted(own.items()))


NO_RULES = Rules()


def shared_of(demand: Demand, entries: Entries) -> tuple[SharedConsumableConstraint, ...]:
    """What each task of a demand takes of the resources that all nodes share."""
    places = {each.name for each in demand.properties}
    return tuple(one for entry in entries if entry.place in places for one in entry.parts.shared)


def entries_of(demand: Demand, rules: Rules | None) -> Entries:
    """The entries of the rules that hold for this demand."""
    if rules is None:
        return ()
    places = {each.name for each in demand.properties}
    return tuple(entry for entry in rules.entries if entry.place in places)


def unmet_by(host: Host, demand: Demand, rules: Rules | None) -> tuple[str, ...]:
    """Places of the entries of a demand that a host does not meet."""
    return tuple(entry.place for entry in entries_of(demand, rules) if entry.place not in host.properties)


def without(demand: Demand, entries: Entries) -> Demand:
    """The demand as Grid Engine alone knows it, as far as the two can be separated."""
    places = {entry.place for entry in entries}
    return replace(
        demand,
        properties=tuple(each for each in demand.properties if each.name not in places),
        per_job=tuple(pair for pair in demand.per_job if not pair[0].startswith(COUNTED)),
    )


def _places(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.place for entry in entries)
