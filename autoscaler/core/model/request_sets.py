"""What callers want node arrays to hold: request sets with their targets, definitions that came with them, nodes
that were created one by one, and workers that ask to stop.

Words: a *request set* is one caller's whole request; its newest update replaces the one before. Targets of several sets
on one node array add up; the queue's own demand is one more set, `queue`. Names of targets as CycleCloud's autoscale
API has them. Cores are vCPUs as the instance type has them, times Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.core.model.fleet import PriceType

STANDARD = "standard"
"""The request set of a caller that names none."""
QUEUE = "queue"
"""The set of the queues' own demand. No caller may take this name."""
POLICY_PREFIX = "policy:"
"""Begins the names of sets that autoscale policies of this process ask for."""


@dataclass(frozen=True, slots=True)
class Target:
    """What one set wants of one node array: at most one of `count`, `cores` and `groups` is set."""

    node_array: str
    count: int | None = None
    """Workers (`TargetCount`)."""
    cores: int | None = None
    """vCPUs, rounded up to whole workers (`TargetCoreCount`)."""
    groups: int | None = None
    """Groups of workers near each other (`TargetGroupCount`), each of `group_cores` or `group_count`."""
    group_cores: int | None = None
    """vCPUs a group (`GroupCoreCount`), rounded up to whole workers."""
    group_count: int | None = None
    """Workers a group (`GroupInstanceCount`)."""


@dataclass(frozen=True, slots=True)
class RequestSet:
    """The newest update of one set."""

    name: str
    by: str
    """Who asked: a user name, `policy`, a worker."""
    at: float
    expires_at: float | None
    """None: never lapses."""
    targets: tuple[Target, ...]
    arrays: tuple[str, ...] = ()
    """Names of all node arrays that it names, sorted: also of those of which it wants nothing."""


@dataclass(frozen=True, slots=True)
class ArrayDefinition:
    """What requests say of a node array beside its targets, merged over the updates of all live sets that name it.

    What a set says ends with it. A dynamic array *is* what the set said that made it, which stays.
    """

    name: str
    dynamic: bool = False
    extends: str | None = None
    """Node array whose settings it starts from; None: the first of the settings."""
    machine_types: tuple[str, ...] = ()
    """Instance types in the order in which they are tried; empty: as set."""
    price_type: PriceType | None = None
    """From `Interruptible`."""
    max_count: int | None = None
    max_cores: int | None = None
    """`MaxCount`, `MaxCoreCount`: further limits, never above what is set (rule 5)."""
    group_cores: int | None = None
    group_count: int | None = None
    """Set for the dynamic array of a grouped target (`execute:64`): the size of each of its groups, the same number
    where some are of so many vCPUs and some of so many workers.
    """
    keep_alive: tuple[tuple[str, bool], ...] = ()
    """From `KeepAlive`: by live set that names the array and said so, whether its workers stay, however idle."""
    health_check: str | None = None
    """Name of one of the operator's health checks (`HealthCheck`); None: as set."""
    configuration: str = "{}"
    """`Configuration` as JSON: what a worker's `config get` answers from."""
    attributes: str = "{}"
    """All other attributes as JSON, as they were given."""
    said_by: tuple[tuple[str, str], ...] = ()
    """By field, the live set that said what holds. A field that is not here is the dynamic array's own."""
    wanted: bool = True
    """Whether a live request names it. A dynamic array that none names is flagged for removal: it gets no more workers
    and is gone once its last worker stopped.
    """

    @property
    def kept_by(self) -> tuple[str, ...]:
        """The sets that keep its workers alive: one that does not want that takes nothing from another."""
        return tuple(name for name, kept in self.keep_alive if kept)


@dataclass(frozen=True, slots=True)
class CreatedNode:
    """One node that a caller created by itself: a request for one worker without expiry, not removed for idleness."""

    id: str
    name: str
    node_array: str
    created_at: float
    request_id: str = ""
    machine_type: str | None = None
    """None: any that the array allows."""
    placement_group: str | None = None
    worker_id: str | None = None
    """The machine that serves it, once there is one. One that ends without our doing is not replaced."""
    lost: tuple[str, ...] = ()
    """Machines that served it and failed, before somebody wanted it to be tried again."""


@dataclass(frozen=True, slots=True)
class NodeOperation:
    """What a caller wants done with one machine besides ending it, while it is neither done nor refused."""

    id: int
    operation: str
    """Kind of the action that does it: `restart`, `reimage`."""
    worker_id: str
    by: str
    begun_at: float | None = None
    """When its provider was asked: never again."""


class AutoStopAnswer(StrEnum):
    """What a worker that asked to stop is told."""

    STOPS = "stops"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Requests:
    """All that holds now."""

    sets: tuple[RequestSet, ...] = ()
    """Live ones, sorted by name."""
    arrays: tuple[ArrayDefinition, ...] = ()
    """Sorted by name; a dynamic array comes after what it extends is looked up by name, in any order."""
    nodes: tuple[CreatedNode, ...] = ()
    """Created and not ended, oldest first."""
    auto_stops: frozenset[str] = frozenset()
    """Ids of workers that ask to stop and have no answer yet, or were told that they stop and are not gone."""
    operations: tuple[NodeOperation, ...] = ()
    """Oldest first, of each machine one at most."""
