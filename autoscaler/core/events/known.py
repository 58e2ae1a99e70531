"""What earlier passes reported of jobs, so that each thing is reported once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.events.numbers import Numbers
from autoscaler.core.model.cluster import HostJob, JobCategory

Key = tuple[int, str]
"""Job and task, '' of no array."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job or task that was told to have started."""

    job: int
    task: str
    owner: str
    hosts: tuple[str, ...]
    queue: str
    started: float | None
    project: str = ""

    @property
    def key(self) -> Key:
        return self.job, self.task


@dataclass(frozen=True, slots=True)
class Accounted:
    """One line of Grid Engine's accounting: a start of a job or task that is over. Times None: it never began."""

    job: int
    task: str
    owner: str
    host: str
    queue: str
    submitted: float
    started: float | None
    ended: float | None
    failed: bool
    how: str
    """As people say it."""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """Since when jobs are not listed any more, and whose they were."""

    since: float
    owner: str
    project: str


@dataclass(frozen=True, slots=True)
class Known:
    """All that was told before, as far as it can still happen again. The last listing is kept to be compared by
    identity: what is the same object has no news.
    """

    submitted: Numbers = field(default_factory=Numbers)
    counted: Numbers = field(default_factory=Numbers)
    uncounted: Numbers = field(default_factory=Numbers)
    runs: Mapping[Key, Run] = field(default_factory=lambda: MappingProxyType({}))
    gone: Mapping[Key, float] = field(default_factory=lambda: MappingProxyType({}))
    """Of `runs`, those that no host shows any more, since when: accounting tells how they ended, some seconds late."""
    left: Mapping[int, Left] = field(default_factory=lambda: MappingProxyType({}))
    """Jobs that left the listing, and of which no start has been seen since."""
    joined: frozenset[str] = frozenset()
    """Ids of workers."""
    orders: frozenset[str] = frozenset()
    """Ids."""
    serving: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By category, the jobs for which the last pass that launched did so: an order is told by the pass after it."""
    since: float = float("-inf")
    """What happened before this time was told, though nobody kept that: the bound of the table pushed it out."""
    job_categories: tuple[JobCategory, ...] = ()
    verdicts: tuple[tuple[tuple[int, ...], ...], tuple[bool, ...]] = ((), ())
    """Jobs, and whether they counted."""
    totals: tuple[int, int, int] = (-1, -1, -1)
    """Tasks that waited and that counted, and how many verdicts there were, when verdicts were last compared."""
    compared_at: float = float("-inf")
    instances: Mapping[tuple[str, str], tuple[HostJob, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By queue and host."""
