"""Dated findings that a plan may use: Grid Engine's answers, failed jobs, results of health checks.

The shell gathers them and keeps them in the store; the next snapshot has them. Times as Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Answer(StrEnum):
    """Grid Engine's answer to whether a job could ever run on the cluster with probe hosts in it."""

    SATISFIABLE = "satisfiable"
    UNSATISFIABLE = "unsatisfiable"
    """It said so explicitly: no suitable queues."""
    NONE = "none"
    """No clear answer: the job runs, is held or gone, the command failed, or a probe host could not be made."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer, with its question."""

    job: int
    fingerprint: str
    at: float
    answer: Answer
    said: str = ""
    """Grid Engine's words."""


class KeptBy(StrEnum):
    """What keeps a job that fits on free hosts from starting, as the scheduler says."""

    HOSTS = "hosts"
    """Only the hosts that are there: a slot that is reserved for another job, a value or quota of a host."""
    ALL = "all"
    """Something that no further host lifts: a quota, a resource of the whole cell."""
    NOTHING = "nothing"
    """Nothing: it could start now."""
    UNKNOWN = "unknown"
    """It said nothing clear, or something that passes by itself."""


@dataclass(frozen=True, slots=True)
class SchedulerSays:
    """Why a waiting job does not start, as the scheduler says."""

    job: int
    at: float
    kept_by: KeptBy
    said: str = ""
    """Its words."""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job that Grid Engine could not run on a host, from its accounting (`failed` not 0)."""

    host: str
    job: int
    at: float
    failed: str
    """Number and words, `21 : in recognizing job`."""
    owner: str = ""
    task: int = 0
    """0: the job is no array."""


@dataclass(frozen=True, slots=True)
class JobSuccess:
    """A job that Grid Engine could run on a host, whatever its exit status."""

    host: str
    owner: str
    at: float


@dataclass(frozen=True, slots=True)
class Health:
    """The last result of a node array's health check on a worker."""

    worker_id: str
    at: float
    healthy: bool
    message: str = ""
    sick_since: float | None = None
    """Time of the first of the last failed checks in a row. None: it is healthy."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All findings that are not too old to matter."""

    answers: Mapping[int, Finding] = field(default_factory=lambda: MappingProxyType({}))
    """By job number, the newest each."""
    failures: tuple[JobFailure, ...] = ()
    """Oldest first; for each host only those after its last success."""
    successes: tuple[JobSuccess, ...] = ()
    """The last one of every owner on every host."""
    health: Mapping[str, Health] = field(default_factory=lambda: MappingProxyType({}))
    """By worker id."""
    scheduler: Mapping[int, SchedulerSays] = field(default_factory=lambda: MappingProxyType({}))
    """By job: answers of this pass. What matters of them is remembered (`Memory.unstarted`)."""
