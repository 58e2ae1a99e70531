"""Answers `explain` for its subject: a job or task, a host, a worker or a launch, present or past."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from autoscaler.core.categories import category_key
from autoscaler.core.demand.job_requests import RequestReader
from autoscaler.core.estimates.run_times import Estimate, Likeness
from autoscaler.core.model.complexes import has_task
from autoscaler.core.model.reasons import Reason
from autoscaler.core.snapshot import Snapshot
from autoscaler.errors import NotFound
from autoscaler.report.events import event_part, shown_to
from autoscaler.report.explain import (
    Past,
    explain_gone,
    explain_host,
    explain_job,
    explain_past,
    explain_unseen,
)
from autoscaler.report.explain_lines import gone_lines, host_lines, job_lines
from autoscaler.report.explain_order import explain_order, order_lines
from autoscaler.report.job_cost import job_cost
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.report.passes import without_names
from autoscaler.report.run_time_estimate import estimate_part, like_job
from autoscaler.report.sentence import jobs_not_read
from autoscaler.sge.accounting import JobEnd
from autoscaler.store.history import Explanation
from autoscaler.store.journal import OrderRecord
from autoscaler.store.store import Store

MOST_EVENTS = 50
"""Of one job or worker."""
MOST_SUBMITTED = 10_000
"""Jobs that may be submitted from one pass to the next: a number beyond that is a slip of the pen."""
_JOB = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?")
"""18 digits: larger numbers do not fit into the store."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job, or one of its tasks."""

    number: int
    task: str | None = None

    @property
    def name(self) -> str:
        return f"{self.number}.{self.task}" if self.task else str(self.number)


def job_of(subject: str) -> Job | None:
    """The job that a subject names; None: it names a host or worker."""
    found = _JOB.fullmatch(subject)
    return Job(int(found[1]), found[2]) if found else None


@dataclass(frozen=True, slots=True)
class Ends:
    """How the starts of a job ended, by the accounting."""

    found: Sequence[JobEnd] = ()
    unread: str = ""
    """Why there may be more; '': there are no more."""


@dataclass(frozen=True, slots=True)
class KnownSubjects:
    """The sources of an explanation. `store`: None for a record folder, which has no history."""

    seen: ObservedPlan
    ends: Callable[[Job], Ends]
    store: Callable[[], AbstractContextManager[Store]] | None = None
    place: str = ""
    """The record folder."""
    owner: str | None = None
    """The only owner whose jobs may be named; None: all."""
    next_pass: float | None = None
    """Seconds to the next pass of the service that answers; None: this observation was made for the question."""
    in_grid_engine: bool | None = None
    """Whether Grid Engine has the job now, if it is a job that no pass has seen; None: it was not asked, or did not
    answer.
    """
    estimate: Callable[[Likeness, float], Estimate | None] | None = None
    """How long such a job, that runs for so many seconds already, will run in all. May raise OSError. None: nobody
    knows.
    """


def explain(subject: str, known: KnownSubjects) -> dict[str, Any]:
    """The document of `explain`. Raises NotFound."""
    job = job_of(subject)
    return _host(subject, known) if job is None else _job(job, known)


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """The same for people."""
    if "order" in document:
        return list(order_lines(document))
    if "job" in document:
        return list(job_lines(document))
    return list(gone_lines(document) if document.get("verdict") is None else host_lines(document))


def _job(job: Job, known: KnownSubjects) -> dict[str, Any]:
    seen = known.seen
    if known.store is None:
        document = explain_job(seen.snapshot, seen.plan, job.number, seen.zone)
        if document is None:
            raise NotFound(f"job {job.number} neither waits nor runs in {known.place}{_unless(seen)}")
        return _of_task(document | {"estimate": None}, job)
    ends = known.ends(job)
    with known.store() as store:
        done, last = store.journal.outcomes_of_job(job.number), store.history.explanation(job.number)
        newest = store.history.newest_job()
        happened = store.events.read(job=job.number, task=int(job.task) if job.task else None, last=MOST_EVENTS)
        events = [event_part(event, seen.zone) for event in shown_to(known.owner, happened)]
        launched = _launched(store, seen.snapshot, last, ends.found)
        # Launches for others' jobs of its category are not shown. A job that did not count when it was last seen, such
        # as a held one, may have had no launch at all.
        if known.owner is not None or (last is not None and not last.verdict.counted):
            for_it = {one.event.order_id for one in happened}
            launched = tuple(order for order in launched if order.id in for_it)
        cost = job_cost(store, job.number, int(job.task) if job.task else None, seen.snapshot.now)
        past = Past(last, launched, ends.found, events, cost)
    document = explain_job(seen.snapshot, seen.plan, job.number, seen.zone, done, past) or explain_past(
        job.number, past, done, seen.zone
    )
    has = known.in_grid_engine
    if (
        document is None
        and known.next_pass is not None
        and (is_newer(seen, job.number, newest) if has is None else has)
    ):
        return explain_unseen(job.number, seen.snapshot.now, known.next_pass, seen.zone, by_number=has is None)
    if document is None:
        unread = jobs_not_read(seen.plan.notes)
        besides = "; ".join(filter(None, (unread if known.owner is None else without_names(unread), ends.unread)))
        raise NotFound(
            f"job {job.number} neither waits nor runs, did not wait in the last 30 days, and is not in the accounting "
            f"file{'; ' if besides else ''}{besides}"
        )
    if document["state"] in ("waiting", "running"):
        document["estimate"] = _estimate(job.number, known)
    return _of_task(document, job)


def _estimate(job: int, known: KnownSubjects) -> dict[str, Any] | None:
    """How long the job will run in all, by earlier jobs like it."""
    snapshot = known.seen.snapshot
    like = like_job(snapshot, job)
    if known.estimate is None or like is None:
        return None
    with suppress(OSError):  # the accounting cannot be read: there is no estimate, and the job's ends say why
        found = known.estimate(*like)
        return None if found is None else estimate_part(found)
    return None


def is_newer(seen: ObservedPlan, job: int, kept: int | None) -> bool:
    """Whether a job of this number was, by its number, submitted after the newest that a pass saw: Grid Engine
    numbers jobs one after another. `kept`: the newest in the history.
    """
    newest = max((*seen.owners(), *(() if kept is None else (kept,))), default=None)
    return newest is not None and newest < job <= newest + MOST_SUBMITTED


def _unless(seen: ObservedPlan) -> str:
    """A note if jobs could not be read: the job may be one of them."""
    unread = jobs_not_read(seen.plan.notes)
    return f"; {unread}" if unread else ""


def _launched(
    store: Store, snapshot: Snapshot, last: Explanation | None, ended: Sequence[JobEnd]
) -> tuple[OrderRecord, ...]:
    """Orders that were made for the job's category while it waited."""
    if last is None:
        return ()
    read = RequestReader(snapshot.cluster, snapshot.policy, frozenset()).read(last.verdict.ask)
    if isinstance(read, Reason):
        return ()
    key, since = category_key(read.demand), last.at - last.verdict.waited - 1.0
    until = max((end.started_at for end in ended if end.started_at is not None), default=float("inf"))
    return tuple(
        order
        for order in store.journal.orders(since)
        if key in dict(order.assignment) and since <= order.ordered_at <= until
    )


def _of_task(document: dict[str, Any], job: Job) -> dict[str, Any]:
    """Only the parts of one task of an array. Raises NotFound if the job has no such task."""
    task = job.task
    if task is None:
        return document
    waiting = [row for row in document["waiting"] if has_task(str(row["jobs"][0]).partition(".")[2], int(task))]
    running = [run for run in document["running"] if run["task"] == task]
    ended = [end for end in document["ended"] if end["task"] == task]
    happened = any(event["tasks"] and has_task(event["tasks"], int(task)) for event in document["events"])
    if not (waiting or running or ended or happened):
        raise NotFound(f"job {job.number} has no task {task} that waits, runs or is in the accounting")
    state = "waiting" if waiting else "running" if running else "ended"
    return document | {"job": job.name, "state": state, "waiting": waiting, "running": running, "ended": ended}


def _host(name: str, known: KnownSubjects) -> dict[str, Any]:
    seen = known.seen
    document = explain_host(seen.snapshot, seen.plan, name, seen.zone)
    if document is not None:
        return document
    if known.store is None:
        raise NotFound(f"{known.place} has no worker or host {name}{_near(name, seen)}")
    with known.store() as store:
        lives = [life for life in store.history.lifetimes() if name in (life.worker_id, life.name)]
        order = store.journal.order(name)
        if not lives and order is not None:
            events = shown_to(known.owner, store.events.of_order(name))
            return explain_order(order, events, seen.snapshot.now, seen.zone)
        happened = store.events.read(host=lives[-1].worker_id, last=MOST_EVENTS) if lives else ()
    if not lives:
        raise NotFound(
            f"Grid Engine has no host {name}, and the autoscaler had no such worker or launch in the last 30 days"
            f"{_near(name, seen)}"
        )
    return explain_gone(lives[-1], shown_to(known.owner, happened), seen.snapshot.now)


def _near(name: str, seen: ObservedPlan) -> str:
    """A suggestion; '': nothing is similar."""
    names = {known for verdict in seen.plan.workers for known in (verdict.name, verdict.id) if known}
    close = difflib.get_close_matches(name, sorted(names), 1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""
