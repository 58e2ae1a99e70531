"""All events of one pass: a pure function of what was reported before, the snapshot, the plan and new accounting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from autoscaler.core.events.changes import compared
from autoscaler.core.events.event import EventKind, JobEvent, ranges
from autoscaler.core.events.known import Accounted, KnownEvents, Run
from autoscaler.core.events.left import jobs_left
from autoscaler.core.events.projects import Projects
from autoscaler.core.events.running import runs_and_ends
from autoscaler.core.events.waiting import countings, submissions, without_ended
from autoscaler.core.events.workers import launch_failures, worker_changes
from autoscaler.core.hosts.host_owners import made_at
from autoscaler.core.model.cluster import JobCategory, short_name
from autoscaler.core.model.fleet import Order, Worker
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import Plan, Snapshot

COMPARED = 60.0
"""Seconds after which verdicts are compared although nothing shows that they changed."""


@dataclass(frozen=True, slots=True)
class PassEvents:
    """The events of one pass, in the order of a job's life, and what is known after it."""

    known: KnownEvents
    events: tuple[JobEvent, ...] = ()
    started: tuple[Run, ...] = ()
    ended: tuple[Run, ...] = ()


def events_of(known: KnownEvents, snapshot: Snapshot, plan: Plan, accounted: Sequence[Accounted]) -> PassEvents:
    """`accounted`: lines of accounting since the last pass. Orders come from the snapshot's journal: the next pass
    reports an order that this plan makes, even after a crash.
    """
    now, before, job_categories = snapshot.now, known.job_categories, snapshot.cluster.job_categories
    projects = Projects((plan.memory.details, snapshot.cluster.details, snapshot.memory.details), before)
    listed = before is job_categories
    change = ([], []) if listed else compared(before, job_categories)
    known, deleted = jobs_left(known, job_categories, change, snapshot.cluster.hosts, accounted, projects, now)
    known, submitted = submissions(known, job_categories, change[0], projects, now)
    known, short = _never_seen_waiting(known, accounted, now)
    known, counted = _countings(known, plan, projects, now, listed=listed)
    known, ordered = _orders(known, snapshot.fleet.orders, _Whose((before, job_categories), projects), now)
    known, joined = _joined(known, snapshot, plan)
    known, changed = worker_changes(known, snapshot, plan)
    of_workers = (*launch_failures(snapshot), *joined, *changed)
    moved = runs_and_ends(known, snapshot.cluster.hosts, accounted, projects, now)
    known = replace(moved.known, serving=plan.served) if plan.served else moved.known
    on_hosts = _on_workers(moved.events, snapshot.fleet.workers, plan.memory.workers)
    events = (*submitted, *short, *counted, *ordered, *of_workers, *on_hosts, *deleted)
    return PassEvents(without_ended(known) if events else known, events, moved.started, moved.ended)


def _countings(
    known: KnownEvents, plan: Plan, projects: Projects, now: float, *, listed: bool
) -> tuple[KnownEvents, list[JobEvent]]:
    """Verdicts of the same listing with the same totals are compared seldom, because there may be 50,000."""
    totals = plan.waiting, plan.counted, len(plan.job_categories)
    if listed and totals == known.totals and 0 <= now - known.compared_at < COMPARED:
        return known, []
    known, events = countings(known, plan.job_categories, projects, now)
    return replace(known, totals=totals, compared_at=now), events


def _never_seen_waiting(
    known: KnownEvents, accounted: Iterable[Accounted], now: float
) -> tuple[KnownEvents, list[JobEvent]]:
    """Jobs that came, ran and ended between two passes."""
    groups: dict[tuple[str, str], dict[int, list[Accounted]]] = {}
    for line in accounted:
        if line.job not in known.submitted and (line.job, line.task) not in known.runs:
            groups.setdefault((line.owner, line.project), {}).setdefault(line.job, []).append(line)
    events = [
        JobEvent(
            EventKind.SUBMITTED,
            min(times := [line.submitted for lines in jobs.values() for line in lines]),
            max(times),
            now,
            ranges(jobs),
            count=len(times),
            owner=owner,
            project=project,
        )
        for (owner, project), jobs in groups.items()
    ]
    new = set(chain.from_iterable(groups.values()))
    return (replace(known, submitted=known.submitted.plus(new)) if new else known), events


def _orders(
    known: KnownEvents, orders: Sequence[Order], whose: _Whose, now: float
) -> tuple[KnownEvents, list[JobEvent]]:
    """Launches that were ordered since."""
    new: dict[str, list[Order]] = {}
    for order in orders:
        if order.id not in known.orders and _time_of(order) > known.since:
            new.setdefault(order.id, []).append(order)
    if not new:
        return known, []
    ids = frozenset(order.id for order in orders)
    return replace(known, orders=ids), [_ordered(parts, known.serving, whose, now) for parts in new.values()]


def _ordered(
    parts: Sequence[Order], serving: Mapping[str, tuple[tuple[int, ...], ...]], whose: _Whose, now: float
) -> JobEvent:
    """The event of an order of one or several types, with the jobs of the categories that it is for. Grid Engine
    decides which of them start on its workers.
    """
    first = parts[0]
    jobs = set(chain.from_iterable(jobs for key, _ in first.assignment for jobs in serving.get(key, ())))
    owner, project = whose.all_of(jobs)
    types = " and ".join(f"{part.count} {part.type.name}" for part in parts)
    return JobEvent(
        EventKind.ORDERED,
        _time_of(first),
        _time_of(first),
        now,
        ranges(jobs),
        count=sum(tasks for _, tasks in first.assignment),
        owner=owner,
        project=project,
        order_id=first.id,
        code=Code.DEMAND.value if first.assignment else "",
        message=f"{types} of {first.node_array}",
    )


@dataclass(frozen=True, slots=True)
class _Whose:
    """Owners and projects of jobs that wait or waited."""

    listings: tuple[Sequence[JobCategory], Sequence[JobCategory]]
    """The listing of the pass before and of this one."""
    projects: Projects

    def all_of(self, jobs: set[int]) -> tuple[str, str]:
        """The owner and the project that all these jobs share; '': they differ, or one is not known."""
        owners = {
            job: category.ask.owner for category in chain(*self.listings) for job in jobs.intersection(category.jobs)
        }
        if not jobs or len(owners) < len(jobs):
            return "", ""
        return _common(owners.values()), _common(map(self.projects.of, jobs))


def _common(names: Iterable[str]) -> str:
    found = set(names)
    return found.pop() if len(found) == 1 else ""


def _on_workers(
    events: Iterable[JobEvent], workers: Sequence[Worker], notes: Mapping[str, WorkerNote]
) -> Iterator[JobEvent]:
    """The events, with worker and order if all happened on one worker that is still listed."""
    by_name = {short_name(worker.name): worker for worker in workers if worker.name}
    for event in events:
        worker = by_name.get(short_name(event.hosts[0])) if len(event.hosts) == 1 else None
        if worker is None or made_at(worker, notes.get(worker.id)) > event.at:  # an earlier one had the name
            yield event
        else:
            yield replace(event, worker_id=worker.id, order_id=worker.order_id or "")


def _time_of(order: Order) -> float:
    return order.ordered_at if order.planned_at is None else order.planned_at


def _joined(known: KnownEvents, snapshot: Snapshot, plan: Plan) -> tuple[KnownEvents, list[JobEvent]]:
    """Workers from which qmaster has its first load report."""
    heard = {
        worker.id: note.joined_at
        for worker in snapshot.fleet.workers
        if (note := plan.memory.workers.get(worker.id)) is not None and note.joined_at is not None
    }
    if known.joined.issuperset(heard):
        return known, []
    events = [
        JobEvent(
            EventKind.JOINED,
            at,
            at,
            snapshot.now,
            hosts=(worker.name or worker.id,),
            worker_id=worker.id,
            order_id=worker.order_id or "",
            message=f"{worker.type.name} of {worker.node_array}",
        )
        for worker in snapshot.fleet.workers
        if (at := heard.get(worker.id, known.since)) > known.since and worker.id not in known.joined
    ]
    return replace(known, joined=frozenset(heard)), events
