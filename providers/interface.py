"""The contract between the autoscaler and the providers of machines.

The docstrings here are the contract; `autoscaler.providers.contract` tests it. A provider does not know Grid Engine and
decides nothing. It is called from more than one thread: `launch` and `terminate` run off the loop's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

from autoscaler.core.model.fleet import Bucket, BucketKey, Interruption, Worker
from autoscaler.errors import AutoscalerError, ProviderNotObservable
from autoscaler.providers.catalog import Offer

__all__ = [
    "GROUP_ID",
    "Chooses",
    "ForgetsNotices",
    "HasCallBudget",
    "HasCatalog",
    "HasConsole",
    "HasInterruptions",
    "HasTroubles",
    "Interruption",
    "LaunchOrder",
    "Launched",
    "NotAuthenticated",
    "Operates",
    "OutOfCapacity",
    "Problem",
    "Provider",
    "ProviderError",
    "QuotaReached",
    "Refused",
    "Throttled",
    "Unreachable",
]


class ProviderError(AutoscalerError):
    """Base of a provider's errors."""


class OutOfCapacity(ProviderError):
    """The cloud has none left of this bucket.

    The loop puts the bucket into backoff after the set number of these and tries the next candidate at once.
    """


class QuotaReached(ProviderError):
    """The account's quota is full; the message says which and by how much.

    The bucket gets a backoff as if out of capacity.
    """


class Throttled(ProviderError):
    """Too many calls: nothing of the order was made by this call.

    Raised only after the provider's own bounded retries. The order is closed, unless an earlier call of its token got
    no answer; after a wait a plan orders anew what is still needed. If anything may have been made, raise Unreachable.
    """

    retry_after: float | None = None
    """Seconds that the cloud asks to wait; None: it does not say."""


class Refused(ProviderError):
    """Permanent: bad image, no permission, bad setting. Credentials that are not taken are `NotAuthenticated`.

    The loop orders none of these buckets for this node array again until a person resumes, and reports it once.
    """


class Unreachable(ProviderNotObservable, ProviderError):
    """No answer, or none that can be understood.

    The call may or may not have had its effect: the loop keeps the order open and observes again.
    """

    ids: tuple[str, ...] = ()
    """Of `terminate`, if only these machines have no answer, and all others are ended."""

    @classmethod
    def of(cls, error: ProviderError) -> Unreachable:
        """A listing that is not whole does not count, whatever the reason."""
        if isinstance(error, Unreachable):
            return error
        return cls(f"too many calls: {error}" if isinstance(error, Throttled) else str(error))


class NotAuthenticated(Unreachable):
    """The cloud does not take the credentials now, or their source gives none: expired, being renewed, a hiccup.

    It says nothing about the order, and nobody's permissions are missing: a launch is repeated, and no array stops.
    `check` makes a problem of it.
    """


OLD_PRICES = 30
"""Days after which operators are warned that prices are old."""
GROUP_ID = "group_id"
"""Tag of an order whose machines are (the rest of) one group, near each other."""


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """One candidate of a launch. The same `token` requested twice gives the same workers, never more."""

    token: str
    """Unique per candidate tried, made and journalled before the call; [a-zA-Z0-9-], at most 64 characters."""
    order_id: str
    cell: str
    """This cell's own unique tag, which marks its machines (rule 4)."""
    node_array: str
    buckets: tuple[Bucket, ...]
    """Any of these, in order of preference; all of one instance type and price type."""
    count: int
    boot_script: str
    """The script that the machine runs at its first boot, as root. A machine that no master accepts, or that has lost
    its master, ends itself by `shutdown`: the provider must make sure that such a machine costs nothing. If the
    provider `enrols_itself`, the script only writes the worker configuration, under the id that it finds as RUN_ID. It
    contains the secret of the order, if there is one, unless `key` does.
    """
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Further tags of its machines. With GROUP_ID they belong near each other: all of them in one zone, and in one
    placement group if the cloud has them, or none of them if the cloud accepts such a request; their workers are listed
    with that `group_id`.
    """
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The operator's settings for this node array, by environment name without its suffix: for providers whose machines
    join by themselves, or that have an image or disk for each array.
    """
    key: str = field(default="", repr=False)
    """The secret of the order, if its machines read that in their own metadata; '' if there is none, or the boot script
    contains it.
    """
    chosen: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What the provider chose for this order (`Chooses`), as it stands in the journal."""
    asked_before: bool = False
    """Whether an earlier request under this token, perhaps by an earlier process, got no answer and may have been
    carried out. A provider whose cloud knows no tokens makes nothing until that surely shows in a listing.
    """


@dataclass(frozen=True, slots=True)
class Launched:
    """The result of an order: fewer than requested is an answer, not an error."""

    ids: tuple[str, ...]
    shortfalls: tuple[tuple[BucketKey, ProviderError], ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A future failure, found before anything was launched."""

    what: str
    remedy: str
    fatal: bool = True


class Provider(Protocol):
    """Made by the registry as `Class(settings, cell=…)`.

    `settings` is an instance of the class's own `Settings` model.
    """

    name: ClassVar[str]
    enrols_itself: ClassVar[bool]
    """Whether its workers register themselves in Grid Engine."""
    Settings: ClassVar[type[Any]]
    """An `ExtensionSettings` that declares the provider's settings under its own prefix."""

    def buckets(self) -> Sequence[Bucket]:
        """All that may be ordered, problems included. A size of which only the name is known has 0 vCPUs and no memory:
        the file of VM sizes may describe it, else it is left out.

        Cached as the provider sees fit. Raises Unreachable; never a silent part.
        """
        ...

    def workers(self) -> Sequence[Worker]:
        """All existing machines that carry this cell's tag, or Unreachable: never a part.

        Terminated ones may be listed for a while. May lag behind launches; a worker missing here is not thereby gone.
        """
        ...

    def launch(self, order: LaunchOrder) -> Launched:
        """Request machines; returns within 30 s, when the order is accepted. Readiness shows only in `workers()`.

        If there is no machine at all, the ids are empty and `shortfalls` says why for each bucket tried. Raises
        Throttled, Refused, Unreachable.
        """
        ...

    def terminate(self, ids: Sequence[str]) -> None:
        """End these machines, disks and addresses included.

        Missing machines count as done; an id that is not this cell's is refused. One that cannot be ended yet never
        keeps the others: then Unreachable names it (`Unreachable.ids`).
        """
        ...

    def check(self) -> Sequence[Problem]:
        """Find what would fail: credentials, network, image, permissions. Changes nothing."""
        ...


@runtime_checkable
class Chooses(Protocol):
    """A provider that chooses by its present settings what a request contains and a repetition must not change, such
    as subnets.
    """

    def choose(self, order: LaunchOrder) -> Mapping[str, str]:
        """The choices for a new order. They are journalled before its first request, and every request of it has them
        as `order.chosen`, whatever the settings are by then. Raises as `launch` does.
        """
        ...


@runtime_checkable
class HasConsole(Protocol):
    """A provider that can show a machine's last output."""

    def console(self, worker_id: str) -> str: ...


@dataclass(frozen=True, slots=True)
class CallBudget:
    """The state of the rate limit of calls to a cloud in this process."""

    left: int = 0
    """Calls that may start at once."""
    waiting: int = 0
    """Calls that wait for their turn."""
    calls: int = 0
    """Calls made since the process began; repeated ones count each time."""
    throttled: int = 0
    """Of these, those that the cloud answered with "too many calls"."""
    waited_s: float = 0.0
    """Seconds that calls waited for their turn, all together."""
    paused: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Kinds of calls that the cloud asked to pause, each with the seconds that are left."""


@runtime_checkable
class HasCallBudget(Protocol):
    """A provider that limits the rate of its calls, as by `autoscaler.providers.rate_limiter`."""

    def call_budget(self) -> CallBudget:
        """At this moment. Makes no call to the cloud."""
        ...


@runtime_checkable
class HasTroubles(Protocol):
    """A provider with sources that it can do without, as by `providers.advice`."""

    def troubles(self) -> Mapping[str, str]:
        """Which of them fail now, and what calls pause: by source, why. Makes no call to the cloud."""
        ...


@runtime_checkable
class HasCatalog(Protocol):
    """A provider whose cloud reports sizes and prices, to be written down as a catalogue."""

    def offers(self, as_of: str) -> Sequence[Offer]:
        """Every type of the provider's one region, with today's prices (`as_of`, ISO 8601) as far as the cloud reported
        them just now: no price of any catalogue is among them. Raises ProviderError.
        """
        ...


@runtime_checkable
class HasLocation(Protocol):
    """A provider whose workers are all in one region."""

    @property
    def location(self) -> str:
        """Its name, as its cloud has it."""
        ...


@runtime_checkable
class HasInterruptions(Protocol):
    """A provider that reports interruption notices."""

    def interruptions(self) -> Sequence[Interruption]: ...


@runtime_checkable
class ForgetsNotices(Protocol):
    """A provider that reads each notice once from a source that then forgets it."""

    def notices_kept(self) -> None:
        """A plan that has the notices of the last `interruptions` is kept: its source may forget them now."""
        ...


@runtime_checkable
class HandsBack(Protocol):
    """A provider whose workers may be somebody else's again while they run, as on a change-over."""

    def handed_back(self) -> frozenset[str]:
        """Ids of machines of the cluster that are somebody else's, as of the last listing. Safe to be called by another
        thread than lists.
        """
        ...


@runtime_checkable
class Operates(Protocol):
    """A provider with further operations (start, restart, reimage, …)."""

    def operate(self, worker_id: str, verb: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the cluster, additional or not."""

    name: str
    """Host name without domain."""
    worker_id: str | None
    """None: no worker of ours."""
    is_master: bool = False


@runtime_checkable
class ShowsUse(Protocol):
    """A provider whose platform shows people which machines are in use."""

    def show_use(self, machine: Machine, *, in_use: bool) -> None:
        """Show whether jobs use this machine; all else of it stays as it is. A machine that the platform does not know
        is left alone. Raises ProviderError.
        """
        ...


@runtime_checkable
class HasHostList(Protocol):
    """A provider whose platform keeps a file with the names of a cluster's hosts, one a line, for people's programs."""

    @property
    def host_list(self) -> Path | None:
        """The file, in which the autoscaler keeps the names of workers; None: there is none."""
        ...


@runtime_checkable
class KeepsCredentials(Protocol):
    """A provider whose credentials expire, and which renews them."""

    def credentials(self) -> Mapping[str, str]:
        """The settings with which the next provider of this process begins, by environment name, renewed if that is
        due. Never to be stored.
        """
        ...


@runtime_checkable
class HasRunLog(Protocol):
    """A provider whose platform keeps a log and tags of the very run in which the autoscaler works."""

    def tell(self, line: str) -> None:
        """Append a line to that log. Raises ProviderError; the line is then not repeated."""
        ...

    def mark(self, tags: Mapping[str, str]) -> None:
        """Set these tags of that run and leave its others as they are. Raises ProviderError."""
        ...
