"""What a provider reports, in the clouds' terms, as immutable values.

A *bucket* is what can be had (node array × instance type × zone × price type × placement group); a *worker* is what
we have; an *order* is what we asked for and may not see yet. Units: memory in bytes, prices per hour in the
catalogue's currency, times as Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ANY = ""
"""As node array, zone or placement group of a bucket: whichever."""


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
    """As an execd of that machine reports `arch`."""


@dataclass(frozen=True, slots=True, order=True)
class BucketKey:
    """What tells buckets apart."""

    instance_type: str
    node_array: str = ANY
    zone: str = ANY
    price_type: PriceType = PriceType.ON_DEMAND
    placement_group: str = ANY


@dataclass(frozen=True, slots=True)
class Bucket:
    """What can be had of one kind now."""

    key: BucketKey
    type: InstanceType
    price_per_hour: float | None = None
    """None: unknown. Under a price cap an unknown price is no launch (rule 5)."""
    available: int | None = None
    """How many more can be had now; None: unknown."""
    problem: str | None = None
    """Why nothing can be had of it, in the provider's words (no quota, restricted in this region)."""
    any_group: bool = False
    """Whether its provider makes a placement group of any name for whoever asks: such a bucket is in none, and may be
    ordered with the name of one in its key.
    """


class MachineState(StrEnum):
    """A machine's state as its provider tells it. A terminated machine may still be listed for a while."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    TERMINATED = "terminated"


class Ending(StrEnum):
    """Why a machine ended, as far as its provider knows. What nobody asked for and is none of these was lost."""

    UNKNOWN = ""
    RELEASED = "released"
    """It shut itself down: a legal way to leave, no failure."""
    INTERRUPTED = "interrupted"
    """Its cloud took it back (spot)."""


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
    """For providers that enrol by themselves: whether the machine says its set-up is done."""
    message: str | None = None
    """The provider's last word on it (`Insufficient instance capacity.`)."""
    ending: Ending = Ending.UNKNOWN
    failure: str | None = None
    """Kind of LaunchFailure that it ended by before it came up (`capacity`, `quota`, `boot`), as far as its provider
    knows: whether it ever joined it need not know. None where somebody asked for its end, or a spot market took it. On
    a machine that exists: it will never come up, and is to be ended. `message` then says why.
    """

    @property
    def bucket(self) -> BucketKey:
        return BucketKey(self.type.name, self.node_array, self.zone, self.price_type, self.placement_group)

    @property
    def exists(self) -> bool:
        return self.state is not MachineState.TERMINATED


Assignment = tuple[tuple[str, int], ...]
"""Which job categories something was launched for, by key, with how many tasks of each."""


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
    """An order of ours as the journal knows it, while it matters (newer than the order grace, or still open).

    Of a set of several offers there is one for each, all with the same id.
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
    """Worker ids the provider acknowledged."""
    group_id: str = ""
    nodes: tuple[str, ...] = ()
    asked: bool = False
    assignment: Assignment = ()
    """As its Launch had them."""
    said: str = ""
    """Of an open one: why there is no answer yet."""
    asked_again_at: float | None = None
    planned_at: float | None = None
    """Time of the pass that planned it, while `ordered_at` of an accepted one is its acceptance; None: not known."""


@dataclass(frozen=True, slots=True)
class LaunchFailure:
    """One candidate's refusal, from the journal: its bucket gets a backoff."""

    bucket: BucketKey
    at: float
    kind: str
    """`capacity`, `quota`, `boot`, `permanent` or `throttled`."""
    message: str
    order_id: str = ""
    worker_id: str = ""
    """Of a machine that was accepted and never joined."""
    retry_at: float | None = None
    """From when on its provider wants to be asked again, as far as it says."""


@dataclass(frozen=True, slots=True)
class RefusedEnd:
    """An end that a provider refused, from the journal: somebody protects the machine, or a permission is missing."""

    worker_id: str
    at: float
    """When it was last refused."""
    times: int
    """In a row."""
    message: str


@dataclass(frozen=True, slots=True)
class Interruption:
    """A machine that will be taken from us, or may be."""

    worker_id: str
    at: float
    """When it ends; for a mere advice to move away, when that was given."""
    kind: str
    """`terminate`, `stop` or `rebalance`: the last is an advice, nothing ends yet."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """One complete reading of the provider, with what our journal adds to it."""

    workers: tuple[Worker, ...]
    buckets: tuple[Bucket, ...]
    orders: tuple[Order, ...] = ()
    failures: tuple[LaunchFailure, ...] = ()
    """Newer than the longest unavailability delay, oldest first."""
    enrols_itself: bool = False
    """Whether workers of this provider register themselves in Grid Engine (disabled)."""
    interruptions: tuple[Interruption, ...] = ()
    """Notices that hold now; a provider without any gives none."""
    refused_ends: tuple[RefusedEnd, ...] = ()
    """Of workers whose end was refused when it was last asked for."""
