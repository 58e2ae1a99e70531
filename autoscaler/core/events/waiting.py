"""Events of waiting jobs: submitted, counted, not counted. Jobs without a change since the last pass cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from autoscaler.core.events.changes import compared
from autoscaler.core.events.event import EventKind, JobEvent, ranges
from autoscaler.core.events.known import KnownEvents
from autoscaler.core.events.projects import Projects
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.complexes import task_count
from autoscaler.core.outcome.innermost import cause_code
from autoscaler.core.snapshot import JobCategoryVerdict

_JOBS, _COUNTED = attrgetter("jobs"), attrgetter("counted")
MANY = 10_000
"""How many jobs may be remembered beyond twice those that wait."""


def submissions(
    known: KnownEvents, job_categories: tuple[JobCategory, ...], new: Sequence[int], projects: Projects, now: float
) -> tuple[KnownEvents, list[JobEvent]]:
    """Jobs that were not reported before: one event for each owner and project, whatever the number of categories.
    `new`: indices of categories that the last listing did not have.
    """
    if job_categories is known.job_categories:
        return known, []
    found: dict[tuple[str, str], list[tuple[int, float, int]]] = {}
    for category in (job_categories[at] for at in new):
        for at in known.submitted.missing(category.jobs):
            job = category.jobs[at]
            whose = category.ask.owner, projects.of_pending(job, category.ask)
            found.setdefault(whose, []).append((job, category.submitted[at], task_count(category.tasks[at])))
    events = [_submitted(jobs, *whose, now) for whose, jobs in found.items()]
    jobs_found = {job for jobs in found.values() for job, _, _ in jobs}
    return replace(known, job_categories=job_categories, submitted=known.submitted.plus(jobs_found)), events


def _submitted(jobs: Sequence[tuple[int, float, int]], owner: str, project: str, now: float) -> JobEvent:
    times = [submitted for _, submitted, _ in jobs]
    return JobEvent(
        EventKind.SUBMITTED,
        min(times),
        max(times),
        now,
        ranges(job for job, _, _ in jobs),
        count=sum({job: count for job, _, count in jobs}.values()),
        owner=owner,
        project=project,
    )


def countings(
    known: KnownEvents, verdicts: Sequence[JobCategoryVerdict], projects: Projects, now: float
) -> tuple[KnownEvents, list[JobEvent]]:
    """Jobs that begin to count as demand, or stop. An array counts if some of its tasks do."""
    now_verdicts = tuple(map(_JOBS, verdicts)), tuple(map(_COUNTED, verdicts))
    if now_verdicts == known.verdicts:
        return known, []
    news: dict[tuple[bool, str, str, str], dict[int, int]] = {}
    arrays: set[int] = set()
    jobs_before, counted_before = known.verdicts
    changed, _ = compared(jobs_before, now_verdicts[0], counted_before, now_verdicts[1])
    for verdict in (verdicts[at] for at in changed):
        reported, code = known.counted if verdict.counted else known.uncounted, cause_code(verdict.reason).value
        for at in reported.missing(verdict.jobs):
            job, tasks = verdict.jobs[at], verdict.tasks[at]
            project = projects.of_pending(job, verdict.ask)
            group = verdict.counted, code, verdict.ask.owner, project
            news.setdefault(group, {})[job] = task_count(tasks)
            if tasks:
                arrays.add(job)
    counted = {job for group, jobs in news.items() if group[0] for job in jobs}
    uncounted = {job for group, jobs in news.items() if not group[0] for job in jobs}
    uncounted -= counted
    if arrays := {job for job in arrays & uncounted if job in known.counted}:  # other tasks of them may count still
        uncounted -= _of(
            verdict.jobs for verdict in verdicts if verdict.counted and not arrays.isdisjoint(verdict.jobs)
        )
    events = [
        event
        for group, jobs in news.items()
        if (event := _counting(*group, {job: jobs[job] for job in jobs if group[0] or job in uncounted}, now)).count
    ]
    grown = replace(
        known,
        verdicts=now_verdicts,
        counted=known.counted.plus(counted).minus(uncounted),
        uncounted=known.uncounted.plus(uncounted).minus(counted),
    )
    return grown, events


def without_ended(known: KnownEvents) -> KnownEvents:
    """Without jobs that neither wait nor run, once these are many: accounting may have lines of the newest some seconds
    later.
    """
    waiting = sum(map(len, known.verdicts[0]))
    if max(len(known.submitted), len(known.counted)) <= 2 * waiting + MANY:
        return known
    there = (
        _of(known.verdicts[0])
        | _of(category.jobs for category in known.job_categories)
        | {run.job for run in known.runs.values()}
    )
    return replace(
        known,
        submitted=known.submitted.only(there),
        counted=known.counted.only(there),
        uncounted=known.uncounted.only(there),
    )


def _of(parts: Iterable[Iterable[int]]) -> set[int]:
    return set().union(*parts)


def _counting(counted: bool, code: str, owner: str, project: str, jobs: Mapping[int, int], now: float) -> JobEvent:
    kind = EventKind.COUNTED if counted else EventKind.NOT_COUNTED
    return JobEvent(
        kind, now, now, now, ranges(jobs), count=sum(jobs.values()), owner=owner, project=project, code=code
    )
