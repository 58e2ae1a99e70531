"""Standard Workload Format (`.swf`, `.swf.gz`): 18 columns a job, `;` before comments; -1 stands for unknown.

The format was published by the Parallel Workloads Archive (Chapin et al., 1999). It knows neither parallel
environments nor nodes, so a job that fits on one allowed host is taken to ask for one.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autoscaler.simulation.workload import Workload, WorkloadError, WorkloadJob, parallel_environment

NEVER_RAN = "jobs of run time 0 or unknown, or of no processors"
_COLUMNS = 18
_JOB, _SUBMIT, _WAIT, _RUN, _ALLOCATED, _REQUESTED, _TIME, _MEMORY = 0, 1, 2, 3, 4, 7, 8, 9
_USER, _GROUP, _EXECUTABLE, _AFTER = 11, 12, 13, 16


@dataclass(frozen=True, slots=True)
class SwfOptions:
    """What the format leaves open."""

    largest_host: int
    """Slots of the largest host that may be rented."""
    memory_complex: str = ""
    """If set, requested memory (column 10) is requested of this consumable, a slot."""
    run_time_request: bool = False
    """Whether the requested time (column 9) becomes `-l h_rt`."""
    dependencies: bool = True
    """Whether a preceding job (column 17) has to end first."""


def read_swf(path: Path, options: SwfOptions) -> Workload:
    """The jobs that ran. Raises WorkloadError, also while the jobs are walked through."""
    assumptions = [
        "The format has no parallel environments: a job that fits on the largest allowed host "
        f"({options.largest_host} slots) has all its slots on one, a larger one spreads ($fill_up).",
        "Priorities and shares are unknown: jobs start in the order of their submission, later ones where earlier "
        "ones do not fit.",
    ]
    if not options.memory_complex:
        assumptions.append("Requested memory is not counted (no memory complex was named).")
    if not options.run_time_request:
        assumptions.append("Requested run times are not requested (they limit nothing).")
    left_out: Counter[str] = Counter()
    jobs = _jobs(path, options, left_out)
    return Workload(path.name, jobs, assumptions, _started_at(path), _count(path), left_out=left_out)


def _lines(path: Path) -> Iterator[str]:
    how = gzip.open if path.suffix == ".gz" else open
    try:
        with how(path, "rt", encoding="utf-8", errors="replace") as file:
            yield from file
    except (OSError, EOFError) as error:
        raise WorkloadError(f"cannot read the workload {path}: {error}; check its path and that it is whole") from error


def _header(path: Path, name: str) -> str:
    for line in _lines(path):
        if not line.startswith(";"):
            break
        key, _, value = line.lstrip("; ").partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _started_at(path: Path) -> float:
    text = _header(path, "unixstarttime")
    return float(text) if text.isdecimal() else 0.0


def _count(path: Path) -> int | None:
    text = _header(path, "maxjobs") or _header(path, "maxrecords")
    return int(text) if text.isdecimal() else None


def _jobs(path: Path, options: SwfOptions, left_out: Counter[str]) -> Iterator[WorkloadJob]:
    known: set[int] = set()
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip() or line.startswith(";"):
            continue
        fields = line.split()
        try:
            if len(fields) != _COLUMNS:
                raise ValueError(f"{len(fields)} columns instead of {_COLUMNS}")
            job = _job([float(each) for each in fields], options, known)
        except ValueError as error:
            raise WorkloadError(
                f"{path}, line {number}: {error}; a Standard Workload Format has numbers only"
            ) from None
        if job is None:
            left_out[NEVER_RAN] += 1
            continue
        if options.dependencies:
            known.add(job.number)
        yield job


def _job(row: list[float], options: SwfOptions, known: set[int]) -> WorkloadJob | None:
    slots = int(row[_REQUESTED] if row[_REQUESTED] > 0 else row[_ALLOCATED])
    if row[_RUN] <= 0 or slots <= 0:
        return None
    hard = []
    if options.run_time_request and row[_TIME] > 0:
        hard.append(("h_rt", str(int(row[_TIME]))))
    if options.memory_complex and row[_MEMORY] > 0:
        hard.append((options.memory_complex, f"{int(row[_MEMORY])}K"))
    after = int(row[_AFTER])
    return WorkloadJob(
        number=int(row[_JOB]),
        submitted=max(0.0, row[_SUBMIT]),
        seconds=row[_RUN],
        slots=slots,
        pe=parallel_environment(slots, options.largest_host),
        hard=tuple(sorted(hard)),
        after=after if options.dependencies and after in known else None,
        owner=f"user{int(row[_USER])}" if row[_USER] >= 0 else "",
        project=f"group{int(row[_GROUP])}" if row[_GROUP] >= 0 else "",
        name=f"app{int(row[_EXECUTABLE])}" if row[_EXECUTABLE] >= 0 else "",
        requested=row[_TIME] if row[_TIME] > 0 else None,
    )
