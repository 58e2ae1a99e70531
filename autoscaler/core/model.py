"""What goes into a plan and what comes out of it: the six readings of a `Snapshot`, and a `Plan` with its verdicts.

Only `plan.py` takes the whole snapshot; every other function takes the part it reads.
Between them stand Demand and Host, the words in which placement, growth and shrink think: no Grid Engine in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.actions import Action
from autoscaler.core.cluster import Ask, Cluster
from autoscaler.core.evidence import Evidence
from autoscaler.core.fleet import BucketKey, Fleet
from autoscaler.core.memory import Memory
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Reason
from autoscaler.core.request_sets import AutoStopAnswer, Requests

Amounts = tuple[tuple[str, float], ...]
"""A vector of consumables: (name, amount), sorted by name, zero entries left out. Memory in bytes."""


@dataclass(frozen=True, slots=True)
class Property:
    """Something a host must have: `host value` relop `value` (`arch == lx-amd64`, `mem_total >= 8G`)."""

    name: str
    relop: str
    """`==`, `!=`, `>=`, `<=`, `<`, `>` as Grid Engine compares *request* relop *offered*."""
    value: str


@dataclass(frozen=True, slots=True)
class Demand:
    """What one task of a counted shape needs, in the words of placement."""

    pools: frozenset[str]
    """Pools of slots (a queue's) that may serve it."""
    slots: int = 1
    per_host: int | None = None
    """How its slots may spread: None any way over hosts; n exactly n on every host; equal to `slots`: one host."""
    per_slot: Amounts = ()
    per_job: Amounts = ()
    properties: tuple[Property, ...] = ()
    exclusive: bool = False
    assumed: Amounts = ()
    """Per slot, what it uses without having asked (a complex's default): binds only on hosts that offer it."""
    together: bool = False
    """All its slots on hosts of one group."""

    @property
    def one_host(self) -> bool:
        return self.per_host == self.slots


@dataclass(frozen=True, slots=True)
class Wanted:
    """A counted demand with how many tasks want it and since when the longest waiting one could run."""

    demand: Demand
    count: int
    oldest: float
    expired: bool
    asks: tuple[Ask, ...] = ()
    """The shapes it came from, for verdicts."""
    launches: tuple[str, ...] = ()
    """Autoscaled pools that may grow for it, in policy order. Empty: it keeps what can serve it, but nothing is
    launched.
    """


@dataclass(frozen=True, slots=True)
class Host:
    """Free capacity at one place: a joined host, a booting worker, or one that could be ordered."""

    name: str
    slots: Mapping[str, int]
    """Free slots by pool."""
    free: Amounts = ()
    """Consumables left besides slots. A consumable not named here is not offered (unless no host carries it and it is
    unlimited).
    """
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    empty: bool = True
    """Nothing runs there: what an exclusive demand needs."""
    group: str = ""
    """The group of hosts near each other that it is one of."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What people asked for through commands."""

    paused: bool = False
    paused_by: str = ""
    resumed_at: float | None = None
    """When a person last resumed: what was counted before that no longer presses the brake. The shell has then cleared
    `Memory.brake`.
    """
    retried_at: float | None = None
    """When a person last wanted what had failed to be tried again."""
    stop: str | None = None
    """`drain`: launch nothing more, let running and waiting work end where it can, then release all.
    `now`: let no further job start; release each worker as soon as it is empty.
    """
    keep: frozenset[str] = frozenset()
    """Hosts that are never to be removed."""
    drain: frozenset[str] = frozenset()
    """Hosts to be emptied and removed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a plan may know, read once. Equal snapshots give equal plans."""

    cluster: Cluster
    fleet: Fleet
    wishes: Wishes
    memory: Memory
    policy: Policy
    now: float
    evidence: Evidence = field(default_factory=Evidence)
    requests: Requests = field(default_factory=Requests)


@dataclass(frozen=True, slots=True)
class ShapeVerdict:
    """What became of one waiting shape (or of a part of it that differs, such as tasks beyond `-tc`)."""

    jobs: tuple[int, ...]
    tasks: tuple[str, ...]
    """Parallel to `jobs`; '' for a job that is no array."""
    ask: Ask
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
    """keep, launch, enrol, enable, disable, remove, terminate, wait."""
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
    shapes: tuple[ShapeVerdict, ...] = ()
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
    withheld: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By id of each created node for which nothing is launched now: why."""
