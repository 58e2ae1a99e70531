"""Why jobs wait, written into the context of those that have waited long, so that `qstat -j` shows it.

Each such job has one text without times and counts, so that it changes seldom and many jobs share it. It is written
after ten minutes, changed once an hour at most, and removed when the job runs. If it could not be written, it is tried
again later. There are at most two commands a second, because each text is a change of a job that qmaster spools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import MappingProxyType

from autoscaler.core.actions import TellWaiting
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.complexes import runs
from autoscaler.core.model.memory import Memory, WaitingNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.owners import in_turn
from autoscaler.core.snapshot import JobCategoryVerdict

LONG = 600.0
"""Seconds that a job has waited before anything is written."""
AGAIN = 3600.0
"""Seconds from one text for a job to the next."""
AT_ONCE, PAUSE = 2, 1.0
"""The most commands in one pass; seconds from these to the next."""
RETRY = 600.0
"""Seconds after which a command that failed as a whole is tried again. One that Grid Engine refused for some of its
jobs waits for `AGAIN`, because the others have the text.
"""
TOGETHER = 200
"""The most jobs in one command."""
OVER = because(Code.WAITS_NO_MORE)
MOST, MOST_OF_USER = 10_000, 2_500
"""The most jobs that have a text, so that the memory stays small; and the most of one user, where there are others."""

TEXT_FACTS: Mapping[Code, tuple[str, ...]] = MappingProxyType(
    {
        Code.CAPPED: ("cap",),
        Code.AUTOSCALING_OFF: ("queue",),
        Code.NODE_ARRAY_STOPPED: ("node_array",),
        Code.PROTECTED_MODE: ("node_array",),
        Code.LAUNCHES_DID_NOT_HELP: ("node_array",),
        Code.LAUNCHES_FAILED: ("node_array",),
        Code.NOTHING_TO_LAUNCH: ("node_array",),
        Code.NO_INSTANCE_TYPE: ("node_array",),
        Code.OTHERS_FIRST: (),
        Code.QUEUE_DEMAND_OFF: (),
        Code.BEYOND_QUOTA: ("quota",),
        Code.QUOTA_ALLOWS_NONE: ("quota",),
        Code.TOO_MUCH_FOR_QUOTA: ("quota", "resource"),
        Code.TOO_MUCH_FOR_CELL: ("resource",),
        Code.BEYOND_USER_LIMIT: (),
        Code.BEYOND_ARRAY_LIMIT: (),
        Code.BEYOND_GLOBAL: ("resource",),
        Code.QUEUE_OFF_BY_CALENDAR: ("queue", "calendar"),
        Code.RUNS_INTO_CLOSING: ("queue", "calendar"),
        Code.QUEUE_MISSING: ("what",),
        Code.QUEUE_DISABLED_BY_HAND: ("queue",),
        Code.QUEUE_SUSPENDED_BY_HAND: ("queue",),
        Code.QUEUE_SUBORDINATE: ("queue", "superior"),
        Code.RESTRICTED_QUEUE: ("queue",),
        Code.NO_ACCESS: ("what",),
        Code.NO_PROJECT_ACCESS: ("what",),
        Code.NO_PROJECT: ("what",),
        Code.FOREIGN_QUEUE: (),
        Code.QUEUE_NOT_NAMED: ("queues",),
        Code.FOREIGN_HOST: (),
        Code.HOST_LEFT: (),
        Code.MUST_BE_REQUESTED: ("resources",),
        Code.RULES_FORBID: (),
        Code.PAUSED: (),
        Code.CIRCUIT_BREAKER: (),
        Code.STOPPING: (),
        Code.BUDGET_SPENT: (),
        Code.JOB_OVER_BUDGET: (),
        Code.BUCKET_BACKOFF: ("type",),
        Code.BUCKET_REFUSED: ("type",),
        Code.BUCKET_UNAVAILABLE: ("type",),
        Code.BUCKET_NOT_ALLOWED: ("type",),
        Code.BUCKET_TOO_SMALL: ("type",),
        Code.BUCKET_NO_PRICE: ("type",),
        Code.BUCKET_TOO_EXPENSIVE: ("type",),
        Code.LAUNCH_AWAITED: ("node_array",),
        Code.LAUNCH_THROTTLED: (),
        Code.ORDER_UNANSWERED: (),
        Code.NOT_STARTED: (),
        Code.NO_TYPE_FITS: (),
        Code.NOT_GIVEN_TO_WORKERS: ("resources",),
        Code.TOO_LARGE_FOR_ONE_HOST: (),
        Code.TOO_MANY_SLOTS: (),
        Code.TOO_MANY_HOSTS: (),
        Code.TOO_MUCH_ON_ONE_HOST: ("resource",),
        Code.TOO_MUCH_TOGETHER: ("resource",),
        Code.NO_SUCH_RESOURCE: ("resource",),
        Code.NO_SUCH_HOST: (),
        Code.UNKNOWN_RESOURCE: ("resource",),
        Code.UNKNOWN_PE: ("pe",),
        Code.PE_RULE: ("pe",),
        Code.PE_SLOTS: ("pe",),
        Code.PE_ELSEWHERE: ("pe",),
        Code.GROUP_PE_NEEDS_WILDCARD: ("wildcard",),
        Code.NO_BATCH_QUEUE: ("queue",),
        Code.NOT_IN_CKPT_LIST: ("ckpt",),
        Code.ACCESS_UNKNOWN: ("what",),
        Code.ADVANCE_RESERVATION: (),
        Code.QUEUE_CLOSES_SOON: ("queue", "calendar"),
        Code.IN_ALARM: ("queue",),
        Code.CANNOT_BE_READ: ("what",),
    }
)
"""The causes that have a text, each with the facts that are part of it: names only. What `qstat` shows itself (a hold,
a dependency, `-a`, `-tc`, an error), or what passes within minutes, has none.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the texts depend on. `wanted`: whether a setting asks for them. `blocked`: why nothing is done now."""

    cluster: Cluster
    memory: Memory
    verdicts: Sequence[JobCategoryVerdict]
    now: float
    wanted: bool
    blocked: Reason | None
    others: frozenset[int]
    """Jobs whose context has another text of ours."""


@dataclass(frozen=True, slots=True)
class WaitingNotes:
    """The commands of this pass, and the texts that are known afterwards."""

    actions: tuple[TellWaiting, ...] = ()
    notes: tuple[WaitingNote, ...] = ()


def tell_waiting(waiting: Waiting) -> WaitingNotes:
    """The notes of this pass. Costs nothing if the setting is off and no job has a text."""
    notes = waiting.memory.waiting_notes
    if not waiting.wanted and not notes:
        return WaitingNotes()
    pending = {
        job: at
        for category in waiting.cluster.job_categories
        for job, at in zip(category.jobs, category.submitted, strict=True)
    }
    before = {job: note for note in notes for job in _numbers(note.jobs)}
    running = _running(waiting.cluster) if before else frozenset()
    kept = {
        job: note
        for job, note in before.items()
        if (job in pending or job in running) and job not in waiting.others  # another text of ours replaced it
        if note.reason != OVER or note.retry_at is not None
    }
    changes = _changes(kept, _reasons_due(waiting, pending), pending, waiting)
    actions = _actions(changes, waiting, _last_written(waiting.cluster, kept) if changes else {})
    by_job = {int(job): action for action in actions for job in action.jobs}
    left = _notes((job, note) for job, note in kept.items() if job not in by_job)
    new = (WaitingNote(action.reason, waiting.now, runs(map(int, action.jobs))) for action in actions)
    return WaitingNotes(actions, (*left, *new))


def with_failures(memory: Memory, failed: Iterable[tuple[Sequence[str], bool]]) -> tuple[WaitingNote, ...]:
    """The notes, given which of the last commands failed: the jobs of each, and whether Grid Engine refused only some
    of them.
    """
    later = {int(job): AGAIN if refused else RETRY for jobs, refused in failed for job in jobs}
    if not later:
        return memory.waiting_notes
    last = memory.waiting_written_at
    return tuple(
        _notes(
            (job, replace(note, retry_at=note.at + later[job]) if note.at == last and job in later else note)
            for note in memory.waiting_notes
            for job in _numbers(note.jobs)
        )
    )


def stable(reason: Reason) -> Reason | None:
    """The text for a reason: its innermost cause, with names only. None: that cause has no text."""
    return named(cause_of(reason))


def named(cause: Reason) -> Reason | None:
    """A cause with the names in its text alone; None: it has no text."""
    names = TEXT_FACTS.get(cause.code)
    facts = dict(cause.facts)
    if names is None or not all(isinstance(facts.get(name), str | tuple) for name in names):
        return None
    return replace(cause.only(names), trail=())


def _reasons_due(waiting: Waiting, pending: Mapping[int, float]) -> dict[int, Reason]:
    """The text for each job that has waited long."""
    found: dict[int, Reason] = {}
    for verdict in waiting.verdicts if waiting.wanted else ():
        long = [job for job in verdict.jobs if waiting.now - pending.get(job, waiting.now) >= LONG]
        text = stable(verdict.reason) if long else None
        if text is not None:
            found |= {job: text for job in long if job not in found and job not in waiting.others}
    return found


def _changes(
    kept: Mapping[int, WaitingNote], reasons: Mapping[int, Reason], pending: Mapping[int, float], waiting: Waiting
) -> dict[tuple[bool, Reason], list[int]]:
    """Jobs by change: a text to write, or to remove."""
    found: dict[tuple[bool, Reason], list[int]] = {}
    for job, note in kept.items():
        text, runs = reasons.get(job), job not in pending
        if note.retry_at is not None:
            settled = waiting.now < note.retry_at
        else:
            settled = text == note.reason or (not runs and waiting.wanted and waiting.now - note.at < AGAIN)
        if settled:
            continue
        change = (True, OVER) if text is None else (False, text)
        found.setdefault(change, []).append(job)
    new = reasons.keys() - kept.keys()
    owners = _owners(waiting.cluster) if new else {}
    told = Counter(owners[job] for job in kept if job in owners)
    most = MOST_OF_USER if len(set(owners.values())) > 1 else MOST
    in_order = islice(in_turn((owners[job], job) for job in sorted(new)), max(MOST - len(kept), 0))
    for job in in_order:
        if told[owners[job]] < most:
            told[owners[job]] += 1
            found.setdefault((False, reasons[job]), []).append(job)
    return found


def _owners(cluster: Cluster) -> dict[int, str]:
    """The users who own the waiting jobs."""
    return {job: category.ask.owner for category in cluster.job_categories for job in category.jobs}


def _last_written(cluster: Cluster, kept: Mapping[int, WaitingNote]) -> Mapping[int, float]:
    """By waiting job, when a text for a job of its owner was last written."""
    owners, last = _owners(cluster), dict[str, float]()
    for job, note in kept.items():
        if job in owners:
            last[owners[job]] = max(last.get(owners[job], 0.0), note.at)
    return {job: last.get(owner, 0.0) for job, owner in owners.items()}


def _actions(
    changes: Mapping[tuple[bool, Reason], list[int]], waiting: Waiting, last: Mapping[int, float]
) -> tuple[TellWaiting, ...]:
    """As many commands as allowed now, removals first: a wrong text is worse than a missing one. Then come the jobs of
    the owner whose turn is longest ago: one may have a text of its own in every job (a queue that does not exist).
    """
    if waiting.blocked is not None or not waiting.cluster.context_allowed:
        return ()
    if waiting.now - (waiting.memory.waiting_written_at or 0.0) < PAUSE:
        return ()
    parts = (
        TellWaiting(tuple(map(str, jobs[start : start + TOGETHER])), reason, over)
        for (over, reason), numbers in sorted(
            changes.items(),
            key=lambda change: (not change[0][0], min(last.get(job, 0.0) for job in change[1])),
        )
        for jobs in [sorted(numbers)]
        for start in range(0, len(jobs), TOGETHER)
    )
    return tuple(islice(parts, AT_ONCE))


def _running(cluster: Cluster) -> frozenset[int]:
    return frozenset(job.number for host in cluster.hosts for instance in host.instances for job in instance.jobs)


def _notes(numbered: Iterable[tuple[int, WaitingNote]]) -> Iterator[WaitingNote]:
    groups: dict[WaitingNote, list[int]] = {}
    for job, note in numbered:
        groups.setdefault(replace(note, jobs=()), []).append(job)
    return (replace(note, jobs=runs(jobs)) for note, jobs in groups.items())


def _numbers(parts: Sequence[tuple[int, int]]) -> Iterator[int]:
    return chain.from_iterable(range(first, last + 1) for first, last in parts)
