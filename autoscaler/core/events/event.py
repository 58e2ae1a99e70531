"""One event in the life of jobs or of a worker, and lists of job numbers as ranges."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.model.complexes import runs

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class EventKind(StrEnum):
    """In the order of a job's life."""

    SUBMITTED = "submitted"
    COUNTED = "counted"
    """It counts as demand."""
    NOT_COUNTED = "not_counted"
    """It waits and does not count as demand (any more); `code` says why."""
    ORDERED = "ordered"
    """A launch was ordered for it, with the other jobs of the event."""
    FAILED = "failed"
    """A launch gave no worker, or its machine never joined; `code` is the kind of failure, and `message` says why."""
    JOINED = "joined"
    """A worker entered service."""
    DISABLED = "disabled"
    """The autoscaler disabled a worker; `code` says why."""
    ENABLED = "enabled"
    """A worker is enabled again."""
    GONE = "gone"
    """The machine of a worker has ended; `code` says how: TERMINATED, or that of the reason."""
    STARTED = "started"
    ENDED = "ended"


OF_WORKERS = (EventKind.JOINED, EventKind.DISABLED, EventKind.ENABLED, EventKind.GONE)

ENDED, FAILED, UNKNOWN, UNLISTED = "ended", "failed", "unknown", "unlisted"
"""Codes of ENDED: Grid Engine ran it, whatever its exit status; Grid Engine says that it failed; accounting does not
say; it waited and is no longer listed.
"""
TERMINATED = "terminated"
"""Code of GONE: the autoscaler had the provider end it."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """What happened to one job, to several in the same way in one pass, or to a worker. Times as Unix seconds."""

    kind: EventKind
    at: float
    """When it happened; for several jobs the first time."""
    until: float
    """For several jobs the last time."""
    seen_at: float
    """Time of the pass that noticed it."""
    jobs: str = ""
    """Numbers as ranges: `4-7,9`. '': of no job."""
    tasks: str = ""
    """Of one array: its tasks as ranges; '': all tasks that wait, several jobs, or no array."""
    count: int = 0
    """Number of jobs, for arrays of tasks."""
    owner: str = ""
    project: str = ""
    hosts: tuple[str, ...] = ()
    queue: str = ""
    worker_id: str = ""
    order_id: str = ""
    code: str = ""
    """Code of the reason; of ENDED, one of the four above."""
    message: str = ""


def ranges(numbers: Iterable[int]) -> str:
    """`4-7,9` of 4, 5, 6, 7 and 9."""
    return ",".join(_range(first, last) for first, last in runs(set(numbers)))


def bounds(text: str) -> tuple[tuple[int, int], ...]:
    """First and last of each range of `4-7,9`."""
    return tuple((int(found[1]), int(found[2] or found[1])) for found in _RANGE.finditer(text))


def span(text: str) -> tuple[int, int] | None:
    """The least and the greatest number of `4-7,9`; None: the text is empty."""
    least, greatest = text.partition(",")[0].partition("-")[0], text.rpartition(",")[2].rpartition("-")[2]
    return (int(least), int(greatest)) if text else None


def within(text: str, number: int) -> bool:
    """Whether the ranges of a text hold a number."""
    return any(first <= number <= last for first, last in bounds(text))


def those_within(text: str, numbers: Iterable[int]) -> set[int]:
    """Which of these numbers the ranges of a text hold; the ranges are never expanded."""
    ordered = sorted(numbers)
    found: set[int] = set()
    for first, last in bounds(text):
        found.update(ordered[bisect_left(ordered, first) : bisect_right(ordered, last)])
    return found


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
