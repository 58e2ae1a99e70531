"""The jobs of a simulation: what was submitted when, what it asks for, and how long it really runs.

A reader (swf, accounting, generated) makes a `Workload`. What its format does not say is listed in `assumptions`, so
that nobody takes a guess for a record.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from autoscaler.errors import SettingsError

LOCAL, SPREAD = "local", "mpi"
"""Parallel environments of the simulated cell: all slots on one host; slots over several hosts ($fill_up)."""


class WorkloadError(SettingsError):
    """A workload that cannot be read; says which file, line and field."""


@dataclass(frozen=True, slots=True)
class WorkloadJob:
    """One submitted job; an array counts as one job with several tasks."""

    number: int
    submitted: float
    """Seconds since the start of the workload."""
    seconds: float
    """How long it runs, each task of an array alike."""
    slots: int = 1
    pe: str | None = None
    """None: a job without a parallel environment, of one slot."""
    hard: tuple[tuple[str, str], ...] = ()
    """Hard requests, sorted by name, as Grid Engine prints them."""
    tasks: int = 1
    concurrency: int | None = None
    """`-tc`: how many tasks may run at once."""
    priority: float = 0.0
    """Higher starts first; equal ones start in the order of their submission."""
    after: int | None = None
    """The job that has to end before this one may start (`-hold_jid`)."""
    owner: str = ""
    project: str = ""
    name: str = ""
    requested: float | None = None
    """The run time that its owner requested, seconds. It limits nothing unless it is among `hard`."""
    is_counted: bool = True
    """Whether its wait counts; it does not if it had started before the workload begins."""


@dataclass(slots=True)
class Workload:
    """Jobs in the order of their submission. They can be walked through once: a year of jobs need not be in memory."""

    name: str
    jobs: Iterable[WorkloadJob]
    assumptions: list[str] = field(default_factory=list)
    """What the format does not say and what was taken instead, one sentence each."""
    started_at: float = 0.0
    """Unix time of second 0, if the workload says so."""
    expected: int | None = None
    """About how many jobs there are, for the progress bar; None: unknown."""
    recorded: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Figures of the record itself, as `mean_wait`, to compare with."""
    earlier: tuple[WorkloadJob, ...] = ()
    """Jobs that ran before, in the order of submission: only estimates of run times know them."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What its reader left out, by what it is, until the job that was read last."""

    @property
    def said(self) -> list[str]:
        """The assumptions, and what was left out of the jobs so far."""
        return [*self.assumptions, *said_of(self.left_out)]

    def begin_with_first_job(self) -> None:
        """Let second 0 be the submission of the first job. Raises WorkloadError if there is none."""
        jobs = iter(self.jobs)
        first = next(jobs, None)
        if first is None:
            after = f" after the first {len(self.earlier):,}" if self.earlier else ""
            why = " ".join(said_of(self.left_out)) or "Take one with jobs that ran."
            raise WorkloadError(f"{self.name} has no job to play{after}. {why}")
        begins = first.submitted
        self.jobs = (_moved(job, begins) for job in itertools.chain((first,), jobs))
        self.earlier = tuple(_moved(job, begins) for job in self.earlier)
        self.started_at += begins if self.started_at else 0.0

    def __iter__(self) -> Iterator[WorkloadJob]:
        last = float("-inf")
        for job in self.jobs:
            if job.submitted < last:
                raise WorkloadError(
                    f"{self.name}: job {job.number} was submitted {last - job.submitted:g} s before the one that "
                    "stands before it; sort the workload by submission"
                )
            last = job.submitted
            yield job


def _moved(job: WorkloadJob, begins: float) -> WorkloadJob:
    return replace(job, submitted=job.submitted - begins)


def said_of(left_out: Mapping[str, int]) -> list[str]:
    """What a reader left out, as a sentence; none if that is nothing."""
    counted = ", ".join(f"{what} ({count:,})" for what, count in left_out.items() if count)
    return [f"Left out: {counted}."] if counted else []


def parallel_environment(slots: int, largest_host: int) -> str | None:
    """The parallel environment of a job of which only the number of slots is known: one host if the largest that may
    be rented has as many, else several.
    """
    if slots == 1:
        return None
    return LOCAL if slots <= largest_host else SPREAD
