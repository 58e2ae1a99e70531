"""What operators are notified of: a table with one row for each kind of cause, and how to find it in a pass.

A new kind needs one more row: its name, its title, and a function from a `NotificationContext` to the causes that hold
now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from operator import is_

from autoscaler.core.actions import Hold, Kill
from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import Ending, FailureKind, Worker
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.snapshot import Plan, Snapshot

MOST_OF_A_KIND = 200
"""How many causes of one kind are reported at a time; further ones are ignored."""
MOST_JOBS = 5
"""How many jobs of a lost worker are named."""
SET_ASIDE = frozenset({Code.DISABLED_BY_HAND, Code.UNKNOWN_NODE_ARRAY, Code.NAME_TAKEN})
"""Why a worker is left to a person, whatever it costs."""
SET_ASIDE_FOR = 1800.0
"""Seconds for which a worker must be set aside until operators are notified; while the autoscaler stops, at once."""
BLIND_FOR = 600.0
"""Seconds without any observation until operators are notified."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A pass that could observe."""

    snapshot: Snapshot
    plan: Plan


@dataclass(frozen=True, slots=True)
class NotificationContext:
    """What decides which notifications are due."""

    now: float
    observed: Observed | None = None
    """None: this pass could not observe, and causes that only an observation shows stay as they were."""
    unobserved: str = ""
    """Why it could not."""
    oldest_price: date | None = None
    """Date of the oldest price that the provider uses; None: it asks its cloud, or knows no price."""
    limit_after: float = 1800.0
    """Seconds for which a limit must have kept counted jobs waiting."""
    old_after_days: int = 30
    """Days after which prices are old."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that operators should know. `subject`: what it concerns; causes of one kind differ by it."""

    subject: str
    reason: Reason
    owner: str = ""
    """Whose jobs caused it; '': nobody's. A message has one line for all causes of a kind of one owner."""


Finder = Callable[[NotificationContext], Iterable[Cause] | None]
"""The causes of a kind that hold; None: the context does not show it."""


@dataclass(frozen=True, slots=True)
class CauseKind:
    """One row of the table."""

    name: str
    """Stable, because it is stored and shown in JSON."""
    title: str
    find: Finder
    passes: bool = True
    """Whether it holds for a while, so that its end gets a message too."""
    after: Callable[[NotificationContext], float] = lambda _: 0.0
    """Seconds for which it must hold before operators are notified."""


def _of_plan(find: Callable[[Observed, NotificationContext], Iterable[Cause]]) -> Finder:
    return lambda context: None if context.observed is None else find(context.observed, context)


def _circuit_breaker(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    memory = observed.plan.memory
    if memory.circuit_breaker is not None:
        yield Cause("", memory.circuit_breaker)
    if memory.kills_stopped is not None:
        yield Cause("deleted and held jobs", memory.kills_stopped)


def _protected(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    for name, array in observed.plan.memory.protected.items():
        if array.stopped is not None:
            yield Cause(name, array.stopped)


def _stopped(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    for name, message in observed.plan.memory.stopped.items():
        yield Cause(name, because(Code.NODE_ARRAY_STOPPED, node_array=name, message=message))


def _refused(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Buckets that failed so often that they are in backoff."""
    for backoff in observed.plan.memory.backoffs:
        kind, price_type, zone = backoff.bucket.instance_type, backoff.bucket.price_type.value, backoff.bucket.zone
        stopped, array = observed.plan.memory.stopped, backoff.bucket.node_array
        if backoff.kind is FailureKind.PERMANENT and (array in stopped or (stopped and not array)):
            continue  # told as a whole
        reason = because(
            Code.BUCKET_BACKOFF, type=kind, until_at=backoff.until, failures=backoff.failures, message=backoff.message
        )
        if backoff.kind is FailureKind.PERMANENT:
            reason = because(Code.BUCKET_REFUSED, type=kind, message=backoff.message)
        yield Cause(" ".join(filter(None, (kind, price_type, zone))), reason)


def _limited(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Limits that are the innermost cause for which counted jobs wait."""
    plan = observed.plan
    if plan.counted <= plan.fitting:
        return
    caps: dict[str, Reason] = {}
    trail: tuple[Reason, ...] = ()
    for category in plan.job_categories:
        reason = category.reason
        # Most job categories of a queue have the same links, and there may be 50,000.
        alike = len(trail) == len(reason.trail) and all(map(is_, trail, reason.trail))
        if category.counted and reason.trail and not alike:
            trail, cause = reason.trail, cause_of(reason)
            if cause.code is Code.CAPPED:
                array = dict(cause.facts).get("node_array")
                caps[f"{cause['cap']} of {array}" if array else str(cause["cap"])] = cause
    for name, cap in caps.items():
        yield Cause(name, cap)


def _lost(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Workers that were fenced, or whose machines ended although nobody asked for it."""
    before, after = observed.snapshot.memory.workers, observed.plan.memory.workers
    reasons: Mapping[str | None, Reason] = {}
    hosts: Mapping[str | None, ExecutionHost] = {}
    for worker in observed.snapshot.fleet.workers:
        fenced = (note := after.get(worker.id)) is not None and note.fenced_at is not None
        if fenced or ended_unasked(worker, before.get(worker.id)):
            reasons = reasons or {verdict.id: verdict.reason for verdict in observed.plan.workers}
            hosts = hosts or {host.name: host for host in observed.snapshot.cluster.hosts}
            reason = reasons.get(worker.id, because(Code.GONE))
            yield Cause(worker.name or worker.id, _with_jobs(hosts.get(worker.name), reason))


def _with_jobs(host: ExecutionHost | None, reason: Reason) -> Reason:
    """The reason, and the jobs that were on the machine: the first few by name."""
    names = () if host is None else tuple(dict.fromkeys(job.name for job in host.jobs))
    if not names:
        return reason
    more = len(names) - MOST_JOBS if len(names) > MOST_JOBS else None
    return because(Code.LOST_WITH_JOBS, jobs=names[:MOST_JOBS], more=more).then(reason)


def ended_unasked(worker: Worker, note: WorkerNote | None) -> bool:
    """Whether a machine was lost. If it shut itself down, it left regularly; if it never joined, its launch failed."""
    if worker.exists or worker.ending is Ending.RELEASED or note is None or note.joined_at is None:
        return False
    return note.terminated_at is None and note.retired_at is None


def _not_ended(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Machines whose end their provider refuses, so that they still cost."""
    for verdict in observed.plan.workers:
        if verdict.reason.code is Code.END_REFUSED:
            yield Cause(verdict.name, verdict.reason)


def _set_aside(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Machines that cost and that only a person puts into service or ends."""
    rented = {worker.id for worker in observed.snapshot.fleet.workers if worker.exists}
    for verdict in observed.plan.workers:
        if verdict.reason.code in SET_ASIDE and verdict.id in rented:
            yield Cause(verdict.name, verdict.reason)


def _until_set_aside(context: NotificationContext) -> float:
    stops = context.observed is not None and context.observed.snapshot.overrides.stop is not None
    return 0.0 if stops else SET_ASIDE_FOR


def _unvouched(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Silent workers that are not terminated, as their silence may have a common cause."""
    found: dict[str, Reason] = {}
    for verdict in observed.plan.workers:
        if verdict.reason.code in (Code.SILENT_TOGETHER, Code.NOBODY_VOUCHES):
            found.setdefault(str(verdict.reason["where"] or ""), verdict.reason)
    yield from (Cause(where, reason) for where, reason in found.items())


def _unsatisfiable(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """Jobs that the autoscaler deletes or holds because nothing allowed can run them."""
    for action in observed.plan.actions:
        if isinstance(action, Hold | Kill) and action.asks:
            for job, ask in zip(action.jobs, action.asks, strict=False):
                yield Cause(f"job {job}", action.reason, ask.owner)


def _budgets(observed: Observed, _: NotificationContext) -> Iterator[Cause]:
    """The highest level of each budget: operators are notified of each level, but not when a new month begins."""
    for note in observed.plan.notes:
        if note.code is Code.BUDGET_LEVEL:
            yield Cause(f"{note['owner']}, {note['level']} %", note)


def _old_prices(_: Observed, context: NotificationContext) -> Iterator[Cause]:
    oldest = context.oldest_price
    if oldest is None:
        return
    days = (datetime.fromtimestamp(context.now, UTC).date() - oldest).days
    if days > context.old_after_days:
        yield Cause("", because(Code.OLD_PRICES, day=oldest.isoformat(), days=context.old_after_days))


def _blind(context: NotificationContext) -> Iterable[Cause]:
    return () if context.observed is not None else (Cause("", because(Code.NOT_OBSERVED, why=context.unobserved)),)


KINDS: tuple[CauseKind, ...] = (
    CauseKind("circuit_breaker", "circuit breaker", _of_plan(_circuit_breaker)),
    CauseKind("no_observation", "no observation", _blind, after=lambda _: BLIND_FOR),
    CauseKind("array_stopped", "node array stopped", _of_plan(_stopped)),
    CauseKind("protected_mode", "protected mode", _of_plan(_protected)),
    CauseKind("end_refused", "worker not ended", _of_plan(_not_ended)),
    CauseKind("set_aside", "worker set aside", _of_plan(_set_aside), after=_until_set_aside),
    CauseKind("silent_workers", "silent workers", _of_plan(_unvouched)),
    CauseKind("lost_worker", "lost worker", _of_plan(_lost), passes=False),
    CauseKind("launches_refused", "launches refused", _of_plan(_refused)),
    CauseKind("limit", "limit reached", _of_plan(_limited), after=lambda context: context.limit_after),
    CauseKind("budget", "budget", _of_plan(_budgets), passes=False),
    CauseKind("unsatisfiable_job", "unsatisfiable job", _of_plan(_unsatisfiable), passes=False),
    CauseKind("old_prices", "old prices", _of_plan(_old_prices)),
)
"""Gravest first, as in a message."""

BY_NAME: Mapping[str, CauseKind] = {kind.name: kind for kind in KINDS}
