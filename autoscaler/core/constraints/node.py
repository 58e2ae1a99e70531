"""Nodes: the properties that a rule may name with `node.`, for buckets and workers, and what a node has left.

Properties that no provider reports (physical cores, InfiniBand, the region) come from `SizeFacts` and the caller. If
nothing is known, a size has as many physical as virtual cores, on one socket, and no InfiniBand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType

from autoscaler.core.constraints.values import Size, Value, is_number, less
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, MachineState, PriceType, Worker

NOTHING = Size(0)
VERSION = "1"
"""Version of this set of properties."""
_STATES = {
    MachineState.PENDING: "Preparing",
    MachineState.RUNNING: "Ready",
    MachineState.STOPPING: "Terminating",
    MachineState.TERMINATED: "Terminated",
}


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """What is known of a VM size; None: unknown."""

    vm_family: str | None = None
    vcpu_count: int | None = None
    vcpus_per_core: int | None = None
    memory: Size | None = None
    gpu_count: int | None = None
    infiniband: bool | None = None

    def over(self, known: InstanceType | None) -> SizeFacts:
        """These with the provider's values in their place. Of the two numbers of GPUs the higher one holds, because in
        some regions a provider wrongly reports none.
        """
        if known is None:
            return self
        return replace(
            self,
            vm_family=self.vm_family or known.family,
            vcpu_count=known.vcpus,
            memory=Size(known.memory),
            gpu_count=max(known.gpus, self.gpu_count or 0),
        )


@dataclass(frozen=True, slots=True)
class NodeProperties:
    """What a rule reads as `node.<name>`. Times are Unix seconds; 0: there is none."""

    nodearray: str
    vm_size: str
    bucket_id: str = ""
    name: str = ""
    location: str = ""
    vm_family: str = ""
    vcpu_count: int = 1
    pcpu_count: int = 1
    cores_per_socket: int = 1
    gpu_count: int = 0
    memory: Size = NOTHING
    infiniband: bool = False
    placement_group: str | None = None
    spot: bool = False
    exists: bool = False
    state: str = "Off"
    hostname: str | None = None
    hostname_or_uuid: str = ""
    instance_id: str | None = None
    private_ip: str | None = None
    keep_alive: bool = False
    create_time_unix: float = 0.0
    create_time_remaining: float = 0.0
    delete_time_unix: float = 0.0
    last_match_time_unix: float = 0.0
    version: str = VERSION

    @property
    def colocated(self) -> bool:
        return bool(self.placement_group)

    @property
    def create_time(self) -> datetime:
        return datetime.fromtimestamp(self.create_time_unix, UTC)

    @property
    def delete_time(self) -> datetime:
        return datetime.fromtimestamp(self.delete_time_unix, UTC)

    @property
    def last_match_time(self) -> datetime:
        return datetime.fromtimestamp(self.last_match_time_unix, UTC)

    def __getitem__(self, name: str) -> Value:
        """The property of that name, without `node.`; KeyError: there is none."""
        if name not in PROPERTIES:
            raise KeyError(name)
        value: Value = getattr(self, name)
        return value


@dataclass(frozen=True, slots=True)
class PropertyType:
    """The type of a property, and its meaning."""

    type: str
    """`str`, `int`, `float`, `bool`, `size` or `time`."""
    meaning: str
    optional: bool = False


PROPERTIES: Mapping[str, PropertyType] = MappingProxyType(
    {
        "bucket_id": PropertyType("str", "UUID of its bucket, the same in every pass"),
        "colocated": PropertyType("bool", "whether it is in a placement group"),
        "cores_per_socket": PropertyType("int", "physical cores, all of them: no provider tells the sockets of a size"),
        "create_time": PropertyType("time", "when it was created"),
        "create_time_remaining": PropertyType("float", "seconds of its boot timeout that are left"),
        "create_time_unix": PropertyType("float", "when it was created, Unix seconds"),
        "delete_time": PropertyType("time", "when it was deleted"),
        "delete_time_unix": PropertyType("float", "when it was deleted, Unix seconds"),
        "exists": PropertyType("bool", "whether it has been created"),
        "gpu_count": PropertyType("int", "GPUs"),
        "hostname": PropertyType("str", "host name, once it has one", optional=True),
        "hostname_or_uuid": PropertyType("str", "host name or else a UUID of its own"),
        "infiniband": PropertyType("bool", "whether its size has InfiniBand"),
        "instance_id": PropertyType("str", "the provider's id of its machine", optional=True),
        "keep_alive": PropertyType("bool", "whether it is kept from being removed"),
        "last_match_time": PropertyType("time", "when a job was last matched with it"),
        "last_match_time_unix": PropertyType("float", "when a job was last matched with it, Unix seconds"),
        "location": PropertyType("str", "region of its machine"),
        "memory": PropertyType("size", "main memory as its provider reports it; the system has a little less"),
        "name": PropertyType("str", "its name in its node array"),
        "nodearray": PropertyType("str", "its node array"),
        "pcpu_count": PropertyType("int", "physical cores"),
        "placement_group": PropertyType(
            "str", "its placement group, or its group of workers, if it is in one", optional=True
        ),
        "private_ip": PropertyType("str", "its address, once it has one", optional=True),
        "spot": PropertyType("bool", "whether its cloud may take it back, for a lower price"),
        "state": PropertyType("str", "Off, Preparing, Ready, Failed, Terminating or Terminated"),
        "vcpu_count": PropertyType("int", "virtual cores"),
        "version": PropertyType("str", "version of this list"),
        "vm_family": PropertyType("str", "family of its size"),
        "vm_size": PropertyType("str", "its VM size: the instance type"),
    }
)
"""Every name that may follow `node.`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node while demand is put on it. Immutable: each step returns a new one."""

    properties: NodeProperties
    resources: Mapping[str, Value] = field(default_factory=dict)
    """All that it has."""
    left: Mapping[str, int | float] = field(default_factory=dict)
    """What is left of counted resources of which something is in use."""
    jobs: frozenset[str] = frozenset()
    """Jobs that are on it."""
    taken_by: str | None = None
    """The job that has it to itself."""
    sealed: bool = False
    """Not even another task of that job may come."""

    @property
    def name(self) -> str:
        return self.properties.name or self.properties.bucket_id

    def remaining(self, name: str) -> Value:
        """What is left of a resource; for one that is not counted, all of it."""
        return self.left.get(name, self.resources.get(name))

    def less(self, name: str, amount: int | float) -> Node:
        """The node after an amount of a counted resource was taken."""
        there = self.remaining(name)
        if not is_number(there):
            raise ValueError(f"{name} of {self.name} cannot be counted: {there!r}")
        return replace(self, left={**self.left, name: less(there, amount)})


def bucket_id(key: BucketKey) -> str:
    """A UUID made of the fields of its key."""
    return _uuid("bucket", key.node_array, key.instance_type, key.zone, key.price_type.value, key.placement_group)


def properties_of_bucket(bucket: Bucket, *, location: str = "", facts: SizeFacts | None = None) -> NodeProperties:
    """The properties of a node that could be had of this bucket. Without a location, its zone stands for one."""
    key = bucket.key
    return replace(
        _of_size(key, (facts or SizeFacts()).over(bucket.type)),
        location=location or key.zone,
        hostname_or_uuid=_uuid("node", bucket_id(key)),
    )


def properties_of_worker(
    worker: Worker,
    *,
    now: float,
    boot_timeout: float,
    location: str = "",
    facts: SizeFacts | None = None,
    keep_alive: bool = False,
    last_match: float | None = None,
    made_at: float | None = None,
) -> NodeProperties:
    """The properties of a worker. Without a last match, its creation stands for one. `made_at`: when it was made, by
    the clock of `now`; None: as its cloud says.
    """
    failed = worker.failure is not None or worker.stopped
    state = "Failed" if failed else _STATES[worker.state]
    if worker.state is MachineState.RUNNING and not (worker.ready or failed):
        state = _STATES[MachineState.PENDING]
    coming, begun = state == _STATES[MachineState.PENDING], worker.created_at if made_at is None else made_at
    # If its cloud has no placement groups, its group counts as one.
    key = replace(worker.bucket, placement_group=worker.placement_group or worker.group_id or "")
    return replace(
        _of_size(key, (facts or SizeFacts()).over(worker.type)),
        name=worker.name or worker.id,
        location=location or worker.zone,
        exists=worker.exists,
        state=state,
        hostname=worker.name,
        hostname_or_uuid=worker.name or _uuid("node", worker.id),
        instance_id=worker.id,
        private_ip=worker.address,
        keep_alive=keep_alive,
        create_time_unix=worker.created_at,
        create_time_remaining=max(0.0, begun + boot_timeout - now) if coming else 0.0,
        last_match_time_unix=worker.created_at if last_match is None else last_match,
    )


def named(properties: NodeProperties, name: str) -> NodeProperties:
    """The same for a node to be created, under a name of its own."""
    return replace(properties, name=name, hostname_or_uuid=_uuid("node", properties.bucket_id, name))


def _of_size(key: BucketKey, facts: SizeFacts) -> NodeProperties:
    vcpus = facts.vcpu_count or 1
    cores = max(1, vcpus // (facts.vcpus_per_core or 1))
    return NodeProperties(
        nodearray=key.node_array,
        vm_size=key.instance_type,
        bucket_id=bucket_id(key),
        vm_family=facts.vm_family or key.instance_type,
        vcpu_count=vcpus,
        pcpu_count=cores,
        cores_per_socket=cores,
        gpu_count=facts.gpu_count or 0,
        memory=facts.memory or NOTHING,
        infiniband=bool(facts.infiniband),
        placement_group=key.placement_group or None,
        spot=key.price_type is PriceType.SPOT,
    )


def _uuid(*parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
