"""What goes into a plan and what comes out of it: the six readings of a `Snapshot`, and a `Plan` with its verdicts.

Only `plan.py` takes the whole snapshot; every other function takes the part it reads.
Between them stand Demand and Host, the words in which placement, growth and shrink think: no Grid Engine in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.actions import Action
from autoscaler.core.cost.spending import Spending
from autoscaler.core.model.cluster import Cluster, JobRequest
from autoscaler.core.model.evidence import Evidence
from autoscaler.core.model.fleet import BucketKey, Fleet, LaunchFailure
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Reason
from autoscaler.core.model.request_sets import AutoStopAnswer, Requests
from autoscaler.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a plan may know, read once. Equal snapshots give equal plans."""

    cluster: Cluster
    fleet: Fleet
    overrides: Overrides
    memory: Memory
    policy: Policy
    now: float
    evidence: Evidence = field(default_factory=Evidence)
    requests: Requests = field(default_factory=Requests)
    spending: Spending = field(default_factory=Spending)


@dataclass(frozen=True, slots=True)
class JobCategoryVerdict:
    """What became of one waiting category (or of a part of it that differs, such as tasks beyond `-tc`)."""

    jobs: tuple[int, ...]
    tasks: tuple[str, ...]
    """Parallel to `jobs`; '' for a job that is no array."""
    ask: JobRequest
    count: int
    """How many tasks."""
    counted: bool
    waited: float
    """Seconds since its longest waiting job became able to run."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class WorkerVerdict:
    """What became of one worker or persistent host."""

    name: str
    id: str | None
    """None for a host that no provider gave us (persistent)."""
    verdict: str
    """keep, wait, or the kind of its action: enrol, enable, disable, remove, terminate, restart, reimage."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class BucketVerdict:
    """Why a bucket was or was not chosen."""

    bucket: BucketKey
    chosen: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, why, and what to remember."""

    actions: tuple[Action, ...]
    memory: Memory
    job_categories: tuple[JobCategoryVerdict, ...] = ()
    workers: tuple[WorkerVerdict, ...] = ()
    buckets: tuple[BucketVerdict, ...] = ()
    notes: tuple[Reason, ...] = ()
    """What concerns the pass as a whole: paused, brake, set aside, capped."""
    waiting: int = 0
    """Tasks that wait, counted or not."""
    counted: int = 0
    fitting: int = 0
    """Counted tasks that fit on what is there or coming."""
    due: float | None = None
    """When time alone would change this decision; None: never."""
    auto_stops: Mapping[str, tuple[AutoStopAnswer, Reason]] = field(default_factory=lambda: MappingProxyType({}))
    """By id of every worker that asked to stop: the answer. STOPS is durable: it leaves whatever comes."""
    refused_operations: Mapping[int, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each node operation that cannot be done any more: why."""
    withheld: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each created node for which nothing is launched now: why."""
    failures: tuple[LaunchFailure, ...] = ()
    """Machines that ended before they joined, seen so for the first time: durable, so that each counts once."""
    served: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By job category that launches of this plan are for: its jobs."""
