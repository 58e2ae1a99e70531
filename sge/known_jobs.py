"""What one listing told of its jobs, so that the next one reads only what changed.

Between two passes little of a job's element changes but its priority, and of that it matters only whether it is zero.
A job is known again by all its other bytes. What it belongs to is then the same object as before, so that a plan can
tell by identity what it has judged already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from autoscaler.core.model.cluster import HostJob, JobCategory, JobRequest

Placed = tuple[str, HostJob]
"""A job that occupies a queue instance, and the `queue@host` it names itself ('' inside a Queue-List)."""


NOT_TOLD = float("inf")
"""Stands for a time of submission until it is known when the job is first seen."""


class Waiting(NamedTuple):
    """One waiting job, or some tasks of one."""

    number: int
    tasks: str
    tasks_count: int
    submitted: float
    category: Category


@dataclass(slots=True, eq=False)
class Category:
    """All waiting jobs that ask for the same, from one listing to the next."""

    ask: JobRequest
    _jobs: list[Waiting] = field(default_factory=list)
    _shape: JobCategory | None = None

    def of(self, jobs: list[Waiting]) -> JobCategory:
        """The category with these jobs, by number; the same object as the last time where they are the same."""
        jobs.sort()
        if self._shape is None or jobs != self._jobs:
            numbers, tasks, counts, submitted, _ = zip(*jobs, strict=True)
            undated = frozenset(job.number for job in jobs if job.submitted == NOT_TOLD)
            self._jobs, self._shape = jobs, JobCategory(self.ask, numbers, tasks, submitted, sum(counts), undated)
        return self._shape


@dataclass(slots=True)
class KnownJobs:
    """The jobs of one listing. 50,000 of them take some 15 MB."""

    waiting: dict[int, Waiting] = field(default_factory=dict)
    """By a hash of all bytes of the element but its priority. It has 64 bits, and another seed in every process: of
    100,000,000 new jobs in a queue of 50,000 one is taken for another one with a chance of less than one in a million.
    """
    running: dict[bytes, Placed] = field(default_factory=dict)
    """By all these bytes themselves."""
    categories: dict[JobRequest, Category] = field(default_factory=dict)
    shapes: tuple[JobCategory, ...] | None = None
    """Of the waiting jobs; None where there are others that have to be read each time."""


_PRIORITY = b"<JAT_prio>"
_PRIORITY_END = b"</JAT_prio>"
_ZERO = b"0.00000"
_USUAL = -len(_PRIORITY + _ZERO)
"""Where the tag of a priority begins that is printed as 8.1.9 prints nearly all."""
_ALL_USUAL = re.compile(rb"(?:<JAT_prio>[0-9]\.[0-9]{5})*")


def keys_of(elements: list[bytes]) -> list[int | None]:
    """What each of these is known by; None: nothing of it may be taken as known. As `split_priority` parts them, and
    for many at once in half of the time.
    """
    parts = [element.partition(_PRIORITY_END) for element in elements]
    usual = _ALL_USUAL.fullmatch(b"".join([front[_USUAL:] for front, _, _ in parts])) is not None
    if not usual or not all(map(itemgetter(1), parts)):
        return [_key(*split_priority(element)) for element in elements]
    zero = len(_ZERO)
    return [hash((front[:_USUAL], body, front[-zero:] == _ZERO)) for front, _, body in parts]


def _key(front: bytes, body: bytes, zero: bool | None) -> int | None:
    return None if zero is None else hash((front, body, zero))


def split_priority(element: bytes) -> tuple[bytes, bytes, bool | None]:
    """The bytes before and after its priority, and whether that is zero; None: it is no number, and nothing of the
    element may be taken as known.
    """
    front, end, body = element.partition(_PRIORITY_END)
    front, begin, priority = front.rpartition(_PRIORITY)
    try:
        zero = float(priority) == 0
    except ValueError:
        return element, b"", None
    return (front, body, zero) if begin and end else (element, b"", None)
