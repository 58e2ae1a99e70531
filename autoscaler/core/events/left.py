"""Events of jobs that left the listing without a start: deleted while they waited, most likely.

Grid Engine writes no accounting of such a job and does not say why it is gone. So it is reported late, once hosts and
accounting have had the time to show a start, and only as no longer listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from autoscaler.core.events.event import UNLISTED, EventKind, JobEvent, ranges
from autoscaler.core.events.known import Accounted, KnownEvents, Left
from autoscaler.core.events.projects import Projects
from autoscaler.core.events.running import LATE
from autoscaler.core.model.cluster import ExecutionHost, JobCategory

MESSAGE = "it is no longer listed, and accounting shows no start: most likely it was deleted while it waited"


def jobs_left(
    known: KnownEvents,
    job_categories: Sequence[JobCategory],
    change: tuple[Sequence[int], Sequence[int]],
    hosts: Sequence[ExecutionHost],
    accounted: Iterable[Accounted],
    projects: Projects,
    now: float,
) -> tuple[KnownEvents, list[JobEvent]]:
    """`known`: as the last pass left it, with the listing of that pass. `change`: how this listing differs from it."""
    new, gone = change
    if not gone and not known.left:
        return known, []
    listed = set(chain.from_iterable(job_categories[at].jobs for at in new))
    left = {job: each for job, each in known.left.items() if job not in listed}
    for category in (known.job_categories[at] for at in gone):
        owner = category.ask.owner
        new_left = (job for job in category.jobs if job not in listed and job not in left)
        left |= {job: Left(now, owner, projects.of(job)) for job in new_left}
    if left:
        begun = {job.number for host in hosts for one in host.instances for job in one.jobs}
        begun |= {line.job for line in accounted} | {job for job, _ in known.runs}
        left = {job: each for job, each in left.items() if job not in begun}
    late: dict[Left, list[int]] = {}
    for job, each in left.items():
        if now - each.since >= LATE:
            late.setdefault(each, []).append(job)
    over = set(chain.from_iterable(late.values()))
    known = replace(known, left={job: each for job, each in left.items() if job not in over})
    return known, [_event(each, jobs, now) for each, jobs in late.items()]


def _event(each: Left, jobs: Sequence[int], now: float) -> JobEvent:
    return JobEvent(
        EventKind.ENDED,
        each.since,
        each.since,
        now,
        ranges(jobs),
        count=len(jobs),
        owner=each.owner,
        project=each.project,
        code=UNLISTED,
        message=MESSAGE,
    )
