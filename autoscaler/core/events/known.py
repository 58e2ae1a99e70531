"""What earlier passes reported of jobs, so that each event is reported once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.events.event import EventKind
from autoscaler.core.events.numbers import Numbers
from autoscaler.core.model.cluster import HostJob, JobCategory

Key = tuple[int, str]
"""Job and task; '': the job is no array."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job or task whose start was reported."""

    job: int
    task: str
    owner: str
    hosts: tuple[str, ...]
    queue: str
    """'': in several queues."""
    started: float | None
    project: str = ""

    @property
    def key(self) -> Key:
        return self.job, self.task


@dataclass(frozen=True, slots=True)
class Accounted:
    """One line of Grid Engine's accounting: one run of a job or task that is over. Times are None if it never began."""

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
    """In words for people."""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """Since when jobs are no longer listed, and whose they were."""

    since: float
    owner: str
    project: str


@dataclass(frozen=True, slots=True)
class KnownEvents:
    """All that was reported before and could be reported again. The last listing is kept to be compared by identity: an
    unchanged object has no new event.
    """

    submitted: Numbers = field(default_factory=Numbers)
    counted: Numbers = field(default_factory=Numbers)
    uncounted: Numbers = field(default_factory=Numbers)
    runs: Mapping[Key, Run] = field(default_factory=lambda: MappingProxyType({}))
    gone: Mapping[Key, float] = field(default_factory=lambda: MappingProxyType({}))
    """Of `runs`, those that no host shows any more, with since when: accounting says how they ended, some seconds
    later.
    """
    moved: tuple[tuple[Run, float], ...] = ()
    """Earlier runs of jobs that began again elsewhere, with since when: accounting says how they ended, likewise."""
    still: Mapping[Key, Run] = field(default_factory=lambda: MappingProxyType({}))
    """Runs whose end was reported although hosts still show them."""
    left: Mapping[int, Left] = field(default_factory=lambda: MappingProxyType({}))
    """Jobs that left the listing without a start seen since."""
    joined: frozenset[str] = frozenset()
    """Ids of workers."""
    workers: Mapping[str, EventKind] | None = None
    """By id, the last event of each; None: this process has reported none yet."""
    orders: frozenset[str] = frozenset()
    """Ids."""
    serving: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By category, the jobs that the last launches were for: the pass after a launch reports its order."""
    since: float = float("-inf")
    """Everything before this time was reported, although the bounded table no longer has it."""
    job_categories: tuple[JobCategory, ...] = ()
    verdicts: tuple[tuple[tuple[int, ...], ...], tuple[bool, ...]] = ((), ())
    """Jobs, and whether they counted."""
    totals: tuple[int, int, int] = (-1, -1, -1)
    """The numbers of waiting tasks, counted tasks and verdicts when verdicts were last compared."""
    compared_at: float = float("-inf")
    instances: Mapping[tuple[str, str], tuple[HostJob, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By queue and host."""
