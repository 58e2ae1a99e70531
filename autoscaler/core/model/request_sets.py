"""Requests of callers: request sets with their targets, the definitions of node arrays that came with them, nodes that
were created one by one, and workers that ask to stop.

Words: a *request set* is one caller's whole request; its newest update replaces the one before. Targets of several sets
on one node array add up; the queue's own demand is one more set, `queue`. Targets are named as in CycleCloud's
autoscale API. Cores are the instance type's vCPUs, times are Unix seconds.
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
"""Names of sets of this process's autoscale policies begin with it."""


@dataclass(frozen=True, slots=True)
class Target:
    """The request of one set for one node array: at most one of `count`, `cores` and `groups` is set."""

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
    """All node arrays that it names, sorted, even those without a target."""


@dataclass(frozen=True, slots=True)
class ArrayDefinition:
    """What requests define of a node array besides its targets, merged over all live sets that name it.

    A set's definitions end with it. A dynamic array keeps the definition of the set that created it.
    """

    name: str
    dynamic: bool = False
    extends: str | None = None
    """Node array whose settings it takes over; None: the first of the settings."""
    machine_types: tuple[str, ...] = ()
    """Instance types in the order in which they are tried; empty: those of the settings."""
    price_type: PriceType | None = None
    """From `Interruptible`."""
    max_count: int | None = None
    max_cores: int | None = None
    """`MaxCount`, `MaxCoreCount`: further limits, never above those of the settings (rule 5)."""
    group_cores: int | None = None
    group_count: int | None = None
    """Set for the dynamic array of a grouped target (`execute:64`): the size of its groups. If it has groups of both
    kinds, both are the same number.
    """
    keep_alive: tuple[tuple[str, bool], ...] = ()
    """From `KeepAlive`, by live set that gave it: whether the array's workers stay even if idle."""
    health_check: str | None = None
    """Name of one of the operator's health checks (`HealthCheck`); None: that of the settings."""
    configuration: str = "{}"
    """`Configuration` as JSON, which a worker's `config get` reads."""
    attributes: str = "{}"
    """All other attributes as JSON, as they were given."""
    defined_by: tuple[tuple[str, str], ...] = ()
    """By field, the live set that defined it. A field that is not here is the dynamic array's own."""
    requested: bool = True
    """Whether a live request names it. A dynamic array that no request names gets no more workers, and is gone once its
    last worker stopped.
    """

    @property
    def kept_by(self) -> tuple[str, ...]:
        """The sets that keep its workers alive; other sets do not change that."""
        return tuple(name for name, kept in self.keep_alive if kept)


@dataclass(frozen=True, slots=True)
class CreatedNode:
    """A single node that a caller created: a request for one worker without expiry, which stays when idle."""

    id: str
    name: str
    node_array: str
    created_at: float
    request_id: str = ""
    machine_type: str | None = None
    """None: any that the array allows."""
    placement_group: str | None = None
    worker_id: str | None = None
    """The machine that serves it, once there is one. If that ends without our doing, it is not replaced."""
    lost: tuple[str, ...] = ()
    """Machines that served it and failed before somebody asked for a retry."""


@dataclass(frozen=True, slots=True)
class NodeOperation:
    """An operation on one machine that a caller requested and that is neither done nor refused."""

    id: int
    operation: str
    """Kind of the action that does it: `restart`, `reimage`."""
    worker_id: str
    by: str
    begun_at: float | None = None
    """When its provider was asked, which happens once only."""


class AutoStopAnswer(StrEnum):
    """The answer to a worker that asked to stop."""

    STOPS = "stops"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Requests:
    """All live requests."""

    sets: tuple[RequestSet, ...] = ()
    """Live sets, sorted by name."""
    arrays: tuple[ArrayDefinition, ...] = ()
    """Sorted by name. An array that another one extends is looked up by name, so the order does not matter."""
    nodes: tuple[CreatedNode, ...] = ()
    """Created and not ended, oldest first."""
    auto_stops: frozenset[str] = frozenset()
    """Ids of workers that asked to stop and have no answer yet, or got the answer that they stop and are not gone."""
    operations: tuple[NodeOperation, ...] = ()
    """Oldest first, at most one for each machine."""
