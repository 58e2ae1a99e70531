"""Windows of workloads: runs of jobs that follow each other. Points are chosen on some and judged on others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autoscaler.simulation.market import Market
from autoscaler.simulation.sweep.sweep_file import Source
from autoscaler.simulation.workload import Workload, WorkloadError, WorkloadJob


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that follow each other; the first is submitted in second 0."""

    name: str
    jobs: tuple[WorkloadJob, ...]
    begins: float
    """Second of the workload."""
    started_at: float
    """Unix time of its second 0; 0: not known."""
    judges: bool = False
    """Whether it is one of those that points are not chosen on."""
    earlier: tuple[WorkloadJob, ...] = ()
    """Jobs that came before, by which run times are estimated."""

    @property
    def workload(self) -> Workload:
        return Workload(self.name, self.jobs, started_at=self.started_at, expected=len(self.jobs), earlier=self.earlier)


def windows_of(workload: Workload, source: Source, judge: float, *, remembers: bool = False) -> list[Window]:
    """So many windows of the jobs to choose on, and as many of the last share `judge`. `remembers`: each with the jobs
    before it. Raises WorkloadError.
    """
    jobs = tuple(workload)
    edge = round(len(jobs) * (1 - judge))
    windows = _cut(workload, jobs[:edge], source, judges=False)
    if judge:
        windows += _cut(workload, jobs[edge:], source, judges=True)
    return [_remembering(window, jobs) for window in windows] if remembers else windows


def _remembering(window: Window, jobs: Sequence[WorkloadJob]) -> Window:
    first = window.jobs[0].number
    before = itertools.takewhile(lambda job: job.number != first, jobs)
    return replace(window, earlier=tuple(replace(job, submitted=job.submitted - window.begins) for job in before))


def _cut(workload: Workload, jobs: Sequence[WorkloadJob], source: Source, *, judges: bool) -> list[Window]:
    room = len(jobs) // source.windows
    size = source.jobs or room
    what = "to judge on" if judges else "to choose on"
    if not 0 < size <= room:
        raise WorkloadError(
            f"{workload.name} has {len(jobs):,} jobs {what}: too few for {source.windows} windows of "
            f"{max(size, 1):,}; ask for fewer windows or jobs"
        )
    names = f"{workload.name} {what}"
    starts = range(0, room * source.windows, room)
    return [
        _window(f"{names}, window {number}", jobs[start : start + size], workload.started_at, judges=judges)
        for number, start in enumerate(starts, start=1)
    ]


def _window(name: str, jobs: Sequence[WorkloadJob], started_at: float, *, judges: bool) -> Window:
    begins, numbers = jobs[0].submitted, {job.number for job in jobs}
    moved = tuple(
        replace(job, submitted=job.submitted - begins, after=job.after if job.after in numbers else None)
        for job in jobs
    )
    return Window(name, moved, begins, started_at + begins if started_at else 0.0, judges)


def market_in(market: Market, window: Window) -> Market:
    """The market as it is while a window is played: its times count from the workload's first job."""
    return replace(
        market,
        prices=tuple(replace(change, at=change.at - window.begins) for change in market.prices),
        limits=tuple(
            replace(limit, begins=limit.begins - window.begins, ends=limit.ends - window.begins)
            for limit in market.limits
        ),
    )
