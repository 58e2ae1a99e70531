"""Which jobs fit on free hosts and have not started yet, for the next pass (`demand.unstarted`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from autoscaler.core.capacity.forecast import PlacementResult
from autoscaler.core.demand.eligibility import CategoryPart
from autoscaler.core.demand.unstarted import note_of, patience
from autoscaler.core.facts.facts import Facts
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.evidence import KeptBy, SchedulerSays
from autoscaler.core.model.memory import UnstartedJob
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import in_turn, owner_of
from autoscaler.core.placement.placement import takes_part
from autoscaler.core.readable.remembered import LastObjects

BETWEEN = 20.0
"""Seconds between two questions."""
AT_ONCE = 2
"""The most jobs of one question."""
REMEMBERED = 50
"""The most jobs that are remembered, one of each job category: of each owner in turn that which has fitted longest."""
AGAIN = 300.0
"""Seconds after an answer until the next question about the same job."""
SOON = 60.0
"""The same after no answer."""
MOST_HOSTS = 200
"""If a job seems to fit on more hosts than that, and the scheduler starts it on none, one more host is no cure."""


def jobs_to_ask(unstarted: Mapping[int, UnstartedJob], now: float) -> tuple[int, ...]:
    """The jobs to ask the scheduler about now: those that have fitted longest, of the owners whose turn it is."""
    asked_at = dict[str, float]()
    for note in unstarted.values():
        asked_at[note.owner] = max(asked_at.get(note.owner, 0.0), note.asked_at or 0.0)
    if 0 <= now - max(asked_at.values(), default=0.0) < BETWEEN:
        return ()
    due = [note for note in unstarted.values() if note.ask_at <= now]
    due.sort(key=lambda note: (asked_at[note.owner], note.since, note.job))
    return tuple(islice(in_turn((note.owner, note.job) for note in due), AT_ONCE))


def unstarted_jobs(
    facts: Facts, there: Sequence[Host], results: Sequence[PlacementResult]
) -> Mapping[int, UnstartedJob]:
    """`there`: hosts with room now. `results`: parallel to the wanted demands."""
    known, says = facts.snapshot.memory.unstarted, facts.snapshot.evidence.scheduler
    found: list[UnstartedJob] = []
    kept = any(note.kept_by is KeptBy.HOSTS for note in known.values())
    fitting = _FITTING.value_of((results,), lambda: [at for at, result in enumerate(results) if result.now])
    for at in range(len(results)) if kept else fitting:  # of others it only matters what keeps them
        want, parts, result = facts.demand.wanted[at], facts.demand.counted[at], results[at]
        before = note_of(parts, known) if known else None
        note = _continued(before, parts, facts) if before is not None else None
        if note is None and result.now:
            note = _first(parts, facts)
        if note is not None and (result.now or note.kept_by is KeptBy.HOSTS):
            said = says.get(note.job)
            found.append(note if said is None else _answered(note, said, want, there, facts.pass_context.now))
    found.sort(key=lambda note: (note.since, note.job))
    return {note.job: note for note in islice(in_turn((note.owner, note) for note in found), REMEMBERED)}


_FITTING = LastObjects[list[int]]()


def unstarted_reasons(facts: Facts, notes: Mapping[int, UnstartedJob]) -> Mapping[int, Reason]:
    """By position of a demand: what the scheduler said of a job of it that does not start."""
    if not any(note.kept_by is not None for note in notes.values()):
        return {}
    by_position = {at: note_of(parts, notes) for at, parts in enumerate(facts.demand.counted)}
    return {
        at: because(
            Code.KEPT_FROM_HOSTS if note.kept_by is KeptBy.HOSTS else Code.NOT_STARTED,
            said=note.said,
            since_at=note.since,
        )
        for at, note in by_position.items()
        if note is not None and note.kept_by is not None
    }


def _first(parts: Sequence[CategoryPart], facts: Facts) -> UnstartedJob:
    now, first = facts.pass_context.now, parts[0]
    ask_at = now + patience(facts.pass_context.schedule_interval)
    return UnstartedJob(first.jobs[0], first.tasks[0], now, ask_at, owner=owner_of(first.ask, facts.policy.owner))


def _continued(note: UnstartedJob, parts: Sequence[CategoryPart], facts: Facts) -> UnstartedJob | None:
    """The note, if the same tasks of the job still wait; else some started, and it begins anew."""
    waiting = {job: tasks for part in parts for job, tasks in zip(part.jobs, part.tasks, strict=True)}
    return note if waiting.get(note.job) == note.tasks else None


def _answered(
    note: UnstartedJob, said: SchedulerSays, want: CategoryDemand, there: Sequence[Host], now: float
) -> UnstartedJob:
    kept_by, hosts = said.kept_by, tuple[str, ...]()
    if kept_by is KeptBy.HOSTS:
        names = {host.name for host in there}
        fitting = (host.name for host in there if takes_part(want.demand, host))
        hosts = tuple(dict.fromkeys((*(name for name in note.hosts if name in names), *fitting)))
    if not 0 < len(hosts) <= MOST_HOSTS:
        kept_by, hosts = KeptBy.UNKNOWN if kept_by is KeptBy.HOSTS else kept_by, ()
    again = SOON if said.kept_by is KeptBy.UNKNOWN else AGAIN
    return replace(note, asked_at=now, ask_at=now + again, kept_by=kept_by, said=said.said, hosts=hosts)
