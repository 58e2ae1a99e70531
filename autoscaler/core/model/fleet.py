"""What a provider reports, in terms of clouds, as immutable values.

A *bucket* can be ordered from (node array × instance type × zone × price type × placement group); a *worker* is a
machine that we have; an *order* is a request of which machines may not be listed yet. Units: memory in bytes, prices
per hour in the catalogue's currency, times as Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANY = ""
"""As node array, zone or placement group of a bucket: any."""


class PriceType(StrEnum):
    """How an instance is paid."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A size of machine as its cloud sells it."""

    name: str
    family: str
    vcpus: int
    memory: int
    gpus: int = 0
    arch: str = "lx-amd64"
    """`arch` as an execd of that machine reports it."""


@dataclass(frozen=True, slots=True, order=True)
class BucketKey:
    """The fields that identify a bucket."""

    instance_type: str
    node_array: str = ANY
    zone: str = ANY
    price_type: PriceType = PriceType.ON_DEMAND
    placement_group: str = ANY


@dataclass(frozen=True, slots=True)
class Bucket:
    """What can be ordered of one kind now."""

    key: BucketKey
    type: InstanceType
    price_per_hour: float | None = None
    """None: unknown. Under a price cap an unknown price is no launch (rule 5)."""
    available: int | None = None
    """How many more can be had now; None: unknown."""
    problem: str | None = None
    """Why nothing can be ordered of it, in the provider's words (no quota, restricted in this region)."""
    any_group: bool = False
    """Whether its provider creates a placement group of any name on request: such a bucket is in none, and may be
    ordered with the name of one in its key.
    """


class MachineState(StrEnum):
    """A machine's state as its provider reports it. A terminated machine may still be listed for a while."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    TERMINATED = "terminated"


class Ending(StrEnum):
    """Why a machine ended or is down, as far as its provider knows. If nobody asked for its end and no other value
    holds, it was lost.
    """

    UNKNOWN = ""
    RELEASED = "released"
    """It shut itself down. That is no failure."""
    INTERRUPTED = "interrupted"
    """Its cloud took it back (spot)."""
    STOPPED = "stopped"
    """Somebody stopped it from outside, and it still exists: it costs money, and does not come up by itself."""


class FailureKind(StrEnum):
    """Why a launch gave no worker."""

    CAPACITY = "capacity"
    """The cloud has none left."""
    QUOTA = "quota"
    """A limit of the account or the subscription is reached."""
    THROTTLED = "throttled"
    """The provider refused the call or did not answer; it may be made again later."""
    PERMANENT = "permanent"
    """The provider refused it, and will until a person changes something."""
    BOOT = "boot"
    """The machine was accepted and did not come up."""

    @classmethod
    def _missing_(cls, value: object) -> FailureKind | None:
        """A kind of another version or of a provider outside this project, so that stores that hold one can be read."""
        return cls.BOOT if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Worker:
    """One machine that carries this cell's tag. Its identity is `id`, never its host name."""

    id: str
    type: InstanceType
    node_array: str
    state: MachineState
    created_at: float
    name: str | None = None
    """Host name it has (or will have) in Grid Engine; None while unknown."""
    address: str | None = None
    zone: str = ANY
    price_type: PriceType = PriceType.ON_DEMAND
    placement_group: str = ANY
    price_per_hour: float | None = None
    order_id: str | None = None
    group_id: str | None = None
    ready: bool = True
    """For providers whose workers enrol themselves: whether the machine says that its set-up is done."""
    taken_over: bool = False
    """Whether another autoscaler launched it, whose place ours took."""
    message: str | None = None
    """The provider's last word on it (`Insufficient instance capacity.`)."""
    ending: Ending = Ending.UNKNOWN
    failure: FailureKind | None = None
    """The failure by which it ended before it came up (CAPACITY, QUOTA or BOOT), as far as its provider knows. The
    provider need not know whether it ever joined. None: somebody asked for its end or stopped it, or a spot market
    took it. If the machine exists, it will never come up and has to be terminated; `message` then says why.
    """

    @property
    def bucket(self) -> BucketKey:
        return BucketKey(self.type.name, self.node_array, self.zone, self.price_type, self.placement_group)

    @property
    def exists(self) -> bool:
        return self.state is not MachineState.TERMINATED

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it, and it may be started again."""
        return self.exists and self.ending is Ending.STOPPED

    @property
    def stays_down(self) -> bool:
        """Whether it exists and will not come up by itself, so that it has to be terminated."""
        return self.exists and (self.failure is not None or self.stopped)


Assignment = tuple[tuple[str, int], ...]
"""The job categories that a launch is for, by key, with the number of tasks of each."""


@dataclass(frozen=True, slots=True)
class OrderedFor:
    """An owner for whose waiting jobs a launch was ordered."""

    user: str
    project: str = ""
    account: str = ""
    slots: int = 0
    """How many slots of their jobs it serves."""


class OrderState(StrEnum):
    """How far an order got. Derived from the journal."""

    SENT = "sent"
    """Journalled; the call is under way, or the process died in it: workers may or may not exist."""
    ACCEPTED = "accepted"
    """The provider answered with ids."""
    FAILED = "failed"
    """The provider refused all of it."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of ours as the journal knows it, as long as it matters (newer than the order grace, or still open).

    A set of several offers has one order for each, all with the same id.
    """

    id: str
    node_array: str
    type: InstanceType
    count: int
    ordered_at: float
    state: OrderState
    bucket: BucketKey
    """The candidate being tried or accepted."""
    price_per_hour: float | None = None
    ids: tuple[str, ...] = ()
    """Worker ids that the provider acknowledged."""
    group_id: str = ""
    nodes: tuple[str, ...] = ()
    for_requests: bool = False
    assignment: Assignment = ()
    ordered_for: tuple[OrderedFor, ...] = ()
    """`nodes`, `for_requests`, `assignment` and `ordered_for`: as in its Launch."""
    message: str = ""
    """If it is open: why there is no answer yet."""
    asked_again_at: float | None = None
    planned_at: float | None = None
    """Time of the pass that planned it, while `ordered_at` of an accepted one is its acceptance; None: not known."""


@dataclass(frozen=True, slots=True)
class LaunchFailure:
    """One candidate's refusal, from the journal: its bucket gets a backoff."""

    bucket: BucketKey
    at: float
    kind: FailureKind
    message: str
    order_id: str = ""
    worker_id: str = ""
    """The machine that was accepted and never joined, if there was one."""
    retry_at: float | None = None
    """When its provider may be asked again, if it says so."""


@dataclass(frozen=True, slots=True)
class RefusedEnd:
    """An end that a provider refused, from the journal: somebody protects the machine, or a permission is missing."""

    worker_id: str
    at: float
    """When it was last refused."""
    times: int
    """In a row."""
    message: str


MAINTENANCE = "maintenance"
ADVICE = frozenset({"rebalance", MAINTENANCE})
"""Kinds of a notice that only advises to leave a machine."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """A machine that will be taken from us, or may be."""

    worker_id: str
    at: float
    """When it ends; for a mere advice to move away, when that was given."""
    kind: str
    """What happens to it (`terminate`, `stop`, `reboot`), or one of `ADVICE`: nothing happens yet."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """One complete reading of the provider, with what our journal adds to it."""

    workers: tuple[Worker, ...]
    buckets: tuple[Bucket, ...]
    orders: tuple[Order, ...] = ()
    failures: tuple[LaunchFailure, ...] = ()
    """Newer than the longest unavailability delay, oldest first."""
    enrols_itself: bool = False
    """Whether workers of this provider enrol themselves in Grid Engine (disabled)."""
    interruptions: tuple[Interruption, ...] = ()
    """Interruption notices that hold now; empty for a provider that gives none."""
    refused_ends: tuple[RefusedEnd, ...] = ()
    """For workers whose end was refused when it was last requested."""
