"""What is left in the context of jobs that have waited long: why they wait, where `qstat -j` shows it.

Each such job has one text without times and counts, so that it changes seldom and many jobs share it. It is written
after ten minutes, changed once an hour at most, and taken away when the job runs. What is planned in a pass is bounded by
the time since the last writing, because each is a change of the job that qmaster spools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from autoscaler.core.model.actions import TellWaiting
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.memory import Memory, WaitingNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.snapshot import JobCategoryVerdict

LONG = 600.0
"""Seconds that a job has waited before anything is written."""
AGAIN = 3600.0
"""Seconds from one writing for a job to the next."""
A_SECOND, AT_ONCE = 2.0, 2
"""Commands a second, and in one pass."""
TOGETHER = 200
"""Jobs in one command."""
MOST = 10_000
"""Jobs that are told: what is remembered of them has to stay small."""

TOLD: Mapping[Code, tuple[str, ...]] = MappingProxyType(
    {
        Code.CAPPED: ("cap",),
        Code.NODE_ARRAY_STOPPED: ("node_array",),
        Code.PROTECTED_MODE: ("node_array",),
        Code.LAUNCHES_DID_NOT_HELP: ("node_array",),
        Code.LAUNCHES_FAILED: ("node_array",),
        Code.NOTHING_TO_LAUNCH: ("node_array",),
        Code.NO_INSTANCE_TYPE: ("node_array",),
        Code.NO_WORKER_ALLOWED: ("node_array",),
        Code.OTHERS_FIRST: (),
        Code.QUEUE_DEMAND_OFF: (),
        Code.BEYOND_QUOTA: ("quota",),
        Code.BEYOND_USER_LIMIT: (),
        Code.BEYOND_ARRAY_LIMIT: (),
        Code.BEYOND_GLOBAL: ("resource",),
        Code.QUEUE_OFF_BY_CALENDAR: ("queue", "calendar"),
        Code.QUEUE_DISABLED_BY_HAND: ("queue",),
        Code.QUEUE_SUSPENDED_BY_HAND: ("queue",),
        Code.QUEUE_SUBORDINATE: ("queue", "superior"),
        Code.RESTRICTED_QUEUE: ("queue",),
        Code.NO_ACCESS: ("what",),
        Code.NO_PROJECT_ACCESS: ("what",),
        Code.NO_PROJECT: ("what",),
        Code.FOREIGN_QUEUE: (),
        Code.FOREIGN_HOST: (),
        Code.RULES_FORBID: (),
    }
)
"""The reasons that are told, each with the facts that its text has: names only."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What it rests on. `wanted`: whether a setting asks for it. `blocked`: why nothing is done now."""

    cluster: Cluster
    memory: Memory
    verdicts: Sequence[JobCategoryVerdict]
    now: float
    wanted: bool
    blocked: Reason | None
    others: frozenset[int]
    """Jobs whose context tells something else of ours."""


@dataclass(frozen=True, slots=True)
class ToldWaiting:
    """What is written now, and what is known of jobs' contexts afterwards."""

    actions: tuple[TellWaiting, ...] = ()
    notes: tuple[WaitingNote, ...] = ()


def tell_waiting(waiting: Waiting) -> ToldWaiting:
    """Costs nothing where it is off and nothing is written."""
    notes = waiting.memory.waiting_notes
    if not waiting.wanted and not notes:
        return ToldWaiting()
    pending = {
        job: at
        for shape in waiting.cluster.shapes
        for job, at in zip(shape.jobs, shape.submitted, strict=True)
    }
    before = {job: note for note in notes for job in _numbers(note.jobs)}
    running = _running(waiting.cluster) if before else frozenset()
    kept = {job: note for job, note in before.items() if job in pending or job in running}
    changes = _changes(kept, _wanted(waiting, pending), pending, waiting)
    actions = _actions(changes, waiting)
    told = {int(job): action for action in actions for job in action.jobs}
    left = _notes([(job, note.reason, note.at) for job, note in kept.items() if job not in told])
    new = (
        WaitingNote(action.reason, waiting.now, ranges(map(int, action.jobs))) for action in actions if not action.over
    )
    return ToldWaiting(actions, (*left, *new))


def stable(reason: Reason) -> Reason | None:
    """What is told of a reason: the last link that has a text, with names alone. None: nothing."""
    for link in reversed(reason.trail):
        if (found := stable(link)) is not None:
            return found
    names = TOLD.get(reason.code)
    facts = dict(reason.facts)
    if names is None or not all(isinstance(facts.get(name), str) for name in names):
        return None
    return because(reason.code, **{name: facts[name] for name in names})


def _wanted(waiting: Waiting, pending: Mapping[int, float]) -> dict[int, Reason]:
    """What each job that has waited long is to be told."""
    if not waiting.wanted:
        return {}
    texts: dict[int, Reason | None] = {}
    found: dict[int, Reason] = {}
    for verdict in waiting.verdicts:
        key = id_of(verdict, texts)
        text = texts[key]
        if text is None:
            continue
        for job in verdict.jobs:
            if waiting.now - pending.get(job, waiting.now) >= LONG and job not in waiting.others:
                found.setdefault(job, text)
    return found
