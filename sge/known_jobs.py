"""The jobs of one listing, so that the next one reads only what changed.

Between two passes little of a job's element changes except its priority, and of that it matters only whether it is
zero. A job is recognised by all its other bytes. Its category is then the same object as before, so that a plan
recognises by identity what it has judged already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add, itemgetter
from typing import NamedTuple

from autoscaler.core.model.cluster import HostJob, JobCategory, JobRequest

Placed = tuple[str, HostJob]
"""A job that occupies a queue instance, and the `queue@host` it names itself ('' inside a Queue-List)."""


NOT_TOLD = float("inf")
"""Replaces a submission time until it is known when the job was first observed."""


class Waiting(NamedTuple):
    """One waiting job, or some tasks of one."""

    number: int
    tasks: str
    tasks_count: int
    submitted: float
    category: Category


@dataclass(slots=True, eq=False)
class Category:
    """All waiting jobs with the same request, from one listing to the next."""

    ask: JobRequest
    _jobs: list[Waiting] = field(default_factory=list)
    _category: JobCategory | None = None

    def of(self, jobs: list[Waiting]) -> JobCategory:
        """The category with these jobs, by number; the same object as the last time if they are the same."""
        jobs.sort()
        if self._category is None or jobs != self._jobs:
            numbers, tasks, counts, submitted, _ = zip(*jobs, strict=True)
            undated = frozenset(job.number for job in jobs if job.submitted == NOT_TOLD)
            self._jobs, self._category = jobs, JobCategory(self.ask, numbers, tasks, submitted, sum(counts), undated)
        return self._category


@dataclass(slots=True)
class KnownJobs:
    """The jobs of one listing. 50,000 of them take some 15 MB."""

    waiting: dict[int, Waiting] = field(default_factory=dict)
    """By a hash of all bytes of the element except its priority. It has 64 bits, and another seed in every process: of
    100,000,000 new jobs in a queue of 50,000 one is taken for another one with a chance of less than one in a million.
    """
    running: dict[bytes, Placed] = field(default_factory=dict)
    """By all these bytes themselves."""
    categories: dict[JobRequest, Category] = field(default_factory=dict)
    job_categories: tuple[JobCategory, ...] | None = None
    """Of the waiting jobs; None if there are others that have to be read each time."""
    total: int = 0
    """The sum of the waiting jobs' keys."""

    def are(self, keys: list[list[int | None]]) -> bool:
        """Whether these jobs, in whatever order, are exactly the waiting ones. Comparing their number and sum takes a
        third of the time of looking each up, and other jobs have the same sum as seldom as another job the same key.
        """
        if self.job_categories is None or sum(map(len, keys)) != len(self.waiting):
            return False
        try:
            return sum(map(sum, keys)) == self.total  # type: ignore[arg-type]
        except TypeError:  # None: one that must not count as known
            return False


_PRIORITY = b"<JAT_prio>"
_PRIORITY_END = b"</JAT_prio>"
_ZERO = b"0.00000"
_USUAL = _PRIORITY + _ZERO + _PRIORITY_END
"""A priority in 8.1.9's usual form, except for its digits."""
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


def keys_of(elements: list[bytes]) -> list[int | None]:
    """The key of each of these; None: it must not count as known. It parts them as `split_priority` does, but many at
    once in half of the time if the priority of all has the usual form and the same place, which depends on the number
    of digits of the jobs' numbers.
    """
    begin = elements[0].find(_PRIORITY_END) - len(_PRIORITY + _ZERO) if elements else -1
    end = begin + len(_USUAL)
    priorities = b"".join(map(itemgetter(slice(begin, end)), elements)) if begin >= 0 else b""
    if priorities.translate(_TO_ZERO) != _USUAL * len(elements):
        return [_key(*split_priority(element)) for element in elements]
    if _USUAL not in priorities:
        fronts, bodies = map(itemgetter(slice(begin)), elements), map(itemgetter(slice(end, None)), elements)
        return list(map(hash, map(add, fronts, bodies)))  # no line of Python for each of 50,000
    return [_key(element[:begin], element[end:], element[begin:end] == _USUAL) for element in elements]


def _key(front: bytes, body: bytes, zero: bool | None) -> int | None:
    """The key of one piece of bytes, which Python's hash mixes: the hash of a tuple would add up the keys of its parts,
    so two jobs that exchange a part, such as their states, would have the same sum as before.
    """
    return None if zero is None else hash(front + _ZERO + body if zero else front + body)


def split_priority(element: bytes) -> tuple[bytes, bytes, bool | None]:
    """The bytes before and after its priority, and whether that is zero; None: it is no number, and the element must
    not count as known.
    """
    front, end, body = element.partition(_PRIORITY_END)
    front, begin, priority = front.rpartition(_PRIORITY)
    try:
        zero = float(priority) == 0
    except ValueError:
        return element, b"", None
    return (front, body, zero) if begin and end else (element, b"", None)
