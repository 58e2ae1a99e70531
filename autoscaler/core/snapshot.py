"""Input and output of a plan: the readings of a `Snapshot`, and a `Plan` with its verdicts.

Most functions take only the part of the snapshot that they need. Placement, growth and shrink work on `Demand` and
`Host`, which are free of Grid Engine's semantics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.actions import Action
from autoscaler.core.cost.spending import Spending
from autoscaler.core.estimates.estimates import NO_ESTIMATES, Estimates
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
    """Everything that a plan depends on, read once. Equal snapshots give equal plans."""

    cluster: Cluster
    fleet: Fleet
    overrides: Overrides
    memory: Memory
    policy: Policy
    now: float
    evidence: Evidence = field(default_factory=Evidence)
    requests: Requests = field(default_factory=Requests)
    spending: Spending = field(default_factory=Spending)
    estimates: Estimates = NO_ESTIMATES


@dataclass(frozen=True, slots=True)
class JobCategoryVerdict:
    """The verdict on one waiting category, or on a part of it that differs, such as tasks beyond `-tc`."""

    jobs: tuple[int, ...]
    tasks: tuple[str, ...]
    """Parallel to `jobs`; '' for a job that is no array."""
    ask: JobRequest
    count: int
    """How many tasks."""
    counted: bool
    waited: float
    """Seconds for which its longest waiting job has been able to run."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class WorkerVerdict:
    """The verdict on one worker or persistent host."""

    name: str
    id: str | None
    """None for a persistent host."""
    verdict: str
    """keep, wait, or the kind of its action: enrol, enable, disable, remove, terminate, restart, reimage. A worker that
    is gone waits while its jobs are rescheduled, held or deleted.
    """
    reason: Reason


@dataclass(frozen=True, slots=True)
class BucketVerdict:
    """Why a bucket was or was not chosen."""

    bucket: BucketKey
    chosen: bool
    reason: Reason
    judged_for: str = field(default="", compare=False)
    """The node array that a launch was sized for; '' where none is known. A bucket may be of use to one and not to
    another.
    """


@dataclass(frozen=True, slots=True)
class Assigned:
    """What one worker of a launch is meant for. Grid Engine decides which job starts where."""

    node_array: str
    worker: str
    """The instance type and the worker's number in the launch, or the name of a host that a job spreads to as well."""
    category: str
    """A job category, by its key."""
    jobs: tuple[int, ...]
    """Of this category, some of them."""
    slots: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, why, and what to remember."""

    actions: tuple[Action, ...]
    memory: Memory
    job_categories: tuple[JobCategoryVerdict, ...] = ()
    workers: tuple[WorkerVerdict, ...] = ()
    buckets: tuple[BucketVerdict, ...] = ()
    notes: tuple[Reason, ...] = ()
    """Notes on the pass as a whole: paused, circuit breaker, ignored input, caps."""
    waiting: int = 0
    """Tasks that wait, counted or not."""
    counted: int = 0
    fitting: int = 0
    """Counted tasks that fit on present or coming supply."""
    due: float | None = None
    """When time alone would change this decision; None: never."""
    auto_stops: Mapping[str, tuple[AutoStopAnswer, Reason]] = field(default_factory=lambda: MappingProxyType({}))
    """By id of every worker that asked to stop: the answer. STOPS is durable: the worker leaves in any case."""
    refused_operations: Mapping[int, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each node operation that cannot be done any more: why."""
    withheld: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each created node for which nothing is launched now: why."""
    failures: tuple[LaunchFailure, ...] = ()
    """Machines that ended before they joined, noticed for the first time. They are stored, so that each counts once."""
    assigned: tuple[Assigned, ...] = ()
    """If the policy asks for it (`Policy.assigns`)."""
    served: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=lambda: MappingProxyType({}))
    """By job category that this plan launches for: its jobs."""
