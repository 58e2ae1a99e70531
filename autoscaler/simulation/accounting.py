"""Grid Engine's accounting as a workload: what ran on a cell, with what each job asked for (`category`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.sge.accounting import JobEnd, records_in
from autoscaler.sge.accounting_category import read_category
from autoscaler.simulation.workload import LOCAL, SPREAD, Workload, WorkloadError, WorkloadJob, parallel_environment


@dataclass(frozen=True, slots=True)
class AccountingOptions:
    """What accounting leaves open."""

    largest_host: int
    """Slots of the largest host that may be rented."""
    spread: tuple[str, ...] = (SPREAD,)
    """Parallel environments whose jobs spread over hosts. All others have their slots on one host if it has as many."""
    requests: tuple[str, ...] = field(default=())
    """Complexes of which requests are kept; the simulated cell has to know them."""


def read_accounting(path: Path, options: AccountingOptions) -> Workload:
    """The starts that ran, each as a job of its own. Raises WorkloadError."""
    left_out: Counter[str] = Counter()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            ends = list(ends_that_ran(file, left_out))
    except OSError as error:
        raise WorkloadError(f"cannot read the accounting file {path}: {error}; check its path and rights") from error
    # Of a job that was rescheduled every start has a line: the last one counts, with the first submission.
    last = {(end.job, end.task, end.submitted_at): end for end in ends}
    left_out["starts of tasks that were rescheduled"] = len(ends) - len(last)
    ends = sorted(last.values(), key=lambda end: (end.submitted_at, end.job, end.task))
    if not ends:
        raise WorkloadError(f"{path} has no record of a job that ran; is it Grid Engine's accounting file?")
    began = ends[0].submitted_at
    jobs = [job_of(number, end, began, options) for number, end in enumerate(ends, start=1)]
    said = assumptions_of(options, ends)
    return Workload(path.name, jobs, said, began, len(jobs), _recorded(ends), left_out=left_out)


def ends_that_ran(lines: Iterable[str], left_out: Counter[str]) -> Iterator[JobEnd]:
    """The starts in lines of accounting that ran, without parts of parallel jobs. Counts what is left out."""
    for end in records_in(lines):
        if end is None:
            left_out["lines that are no whole record"] += 1
        elif end.part:
            continue  # its job has a line of its own
        elif end.started_at and end.ended_at:
            yield end
        else:
            left_out["starts that failed before the job ran"] += 1


def job_of(number: int, end: JobEnd, began: float, options: AccountingOptions) -> WorkloadJob:
    """One start of a job as a job of its own. `began`: Unix time of second 0."""
    asked = read_category(end.category)
    started, ended = end.started_at or 0.0, end.ended_at or 0.0
    pe = asked.pe or end.pe
    requested = dict(asked.hard).get("h_rt")
    return WorkloadJob(
        number=number,  # numbers of a cell start again at 1
        submitted=end.submitted_at - began,
        seconds=max(1.0, ended - started),
        slots=end.slots,
        pe=_environment(pe, end.slots, options),
        hard=tuple((name, value) for name, value in asked.hard if name in options.requests),
        owner=end.owner,
        project=end.project,
        name=end.name,
        requested=float(requested) if requested is not None and requested.isdecimal() else None,
    )


def _environment(pe: str, slots: int, options: AccountingOptions) -> str | None:
    if not pe:
        return parallel_environment(slots, options.largest_host)
    return SPREAD if pe in options.spread or slots > options.largest_host else LOCAL


def assumptions_of(options: AccountingOptions, ends: Sequence[JobEnd]) -> list[str]:
    """What accounting does not say, and what is taken instead."""
    unsaid = sum(not end.category for end in ends)
    kept = ", ".join(options.requests) or "none"
    said = [
        f"Jobs of the parallel environments {', '.join(options.spread)} spread over hosts; those of all others have "
        f"all slots on one host, up to {options.largest_host}.",
        f"Requests of these complexes count: {kept}.",
        *ignored_requests(options, (end.category for end in ends)),
        "Each task of an array is a job of its own; -tc, -hold_jid and held time are not in accounting: a job counts "
        "from its submission.",
        "Jobs that never started are not in accounting.",
    ]
    if unsaid:
        said.append(f"{unsaid} of {len(ends)} records have no category: of these only slots and run time are known.")
    return said


def ignored_requests(options: AccountingOptions, categories: Iterable[str]) -> list[str]:
    """Which hard requests of these categories decide nothing here, with how many jobs have them; none: no sentence."""
    seen: Counter[str] = Counter()
    for category, jobs in Counter(categories).items():  # many jobs share one
        for name, _ in read_category(category).hard:
            if name not in options.requests:
                seen[name] += jobs
    named = ", ".join(f"{name} ({jobs:,})" for name, jobs in seen.most_common())
    return [f"Ignored, although jobs request them: {named}."] if named else []


def _recorded(ends: Sequence[JobEnd]) -> dict[str, float]:
    waits = [(end.started_at or 0.0) - end.submitted_at for end in ends]
    return {
        "mean_wait": sum(waits) / len(waits),
        "makespan": max(end.ended_at or 0.0 for end in ends) - ends[0].submitted_at,
    }
