"""The node arrays and buckets of a cluster's status, as values. Pure.

Field names and meanings: CycleCloud's REST reference, ClusterStatus. The smallest of the given counters holds. A
shortage that may pass is `available` 0; a permanent one is the bucket's `problem`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaler.core.model.fleet import ANY, InstanceType, PriceType
from autoscaler.providers.catalog import GIB, family_of
from autoscaler.providers.interface import Unreachable

STARTED = "Started"


@dataclass(frozen=True, slots=True)
class Counter:
    """One limit of a bucket: how many nodes it still allows, and would allow if none were in use."""

    left: int
    ever: int
    words: str
    quota: bool = False
    """Whether it is the account's quota, not a limit of the cluster's template."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One bucket of a node array."""

    machine_type: str
    type: InstanceType
    counters: tuple[Counter, ...]
    invalid: str | None = None
    """Why CycleCloud creates no new node of it."""
    last_capacity_failure: float | None = None
    """Seconds since Azure had none left; None: never."""

    @property
    def least(self) -> Counter | None:
        """The counter that allows fewest."""
        return min(self.counters, key=lambda counter: counter.left, default=None)

    def available(self, capacity_delay: float) -> int | None:
        """How many more nodes can be had now; None: no counter was given."""
        if self.failed_recently(capacity_delay):
            return 0
        return None if self.least is None else max(0, self.least.left)

    def failed_recently(self, capacity_delay: float) -> bool:
        return self.last_capacity_failure is not None and self.last_capacity_failure < capacity_delay

    @property
    def problem(self) -> str | None:
        """Why it will never give anything with the present settings."""
        if self.invalid is not None:
            return self.invalid
        return next((counter.words for counter in self.counters if counter.ever <= 0), None)


@dataclass(frozen=True, slots=True)
class NodeArray:
    """One node array of the cluster."""

    name: str
    price_type: PriceType
    region: str
    zone: str
    own_cloud_init: bool
    """Whether the template gives its nodes a cloud-init of their own, which ours would replace."""
    buckets: tuple[Offered, ...]

    def bucket(self, machine_type: str) -> Offered | None:
        return next((bucket for bucket in self.buckets if bucket.machine_type == machine_type), None)


@dataclass(frozen=True, slots=True)
class Status:
    """A cluster's status, with the unchanged records of its nodes."""

    cluster: str
    state: str
    target: str
    arrays: tuple[NodeArray, ...]
    nodes: tuple[Mapping[str, Any], ...]

    @property
    def problem(self) -> str | None:
        """Why no node can be created in this cluster at all."""
        if STARTED in (self.target or self.state, self.state):
            return None
        return f"the cluster {self.cluster} is {self.state or 'not started'}: start it in CycleCloud"


def status_from(record: Mapping[str, Any], cluster: str) -> Status:
    """Read a status that was requested with nodes=true. Raises Unreachable if it does not fit the reference."""
    try:
        nodes = record["nodes"]
        if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
            raise TypeError("nodes is no list of records")
        used = sum(_cores_and_count(record["nodearrays"])[1])
        whole = Counter(
            int(record["maxCount"]) - used,
            int(record["maxCount"]),
            f"the cluster's limit of {record['maxCount']} nodes",
        )
        arrays = tuple(_array(each, whole) for each in record["nodearrays"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreachable(
            f"the status of cluster {cluster} cannot be understood: {type(error).__name__} {error}"
        ) from error
    return Status(cluster, str(record.get("state") or ""), str(record.get("targetState") or ""), arrays, tuple(nodes))


def _cores_and_count(arrays: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[int]]:
    buckets = [bucket for array in arrays for bucket in array["buckets"]]
    return (
        [int(bucket.get("activeCoreCount") or 0) for bucket in buckets],
        [int(bucket.get("activeCount") or 0) for bucket in buckets],
    )


def _array(record: Mapping[str, Any], whole: Counter) -> NodeArray:
    attributes: Mapping[str, Any] = record.get("nodearray") or {}
    name = str(record["name"])
    cores, counts = _cores_and_count([record])
    own = [whole]
    if (most := record.get("maxCount")) is not None:
        own.append(Counter(int(most) - sum(counts), int(most), f"the limit of {most} nodes in node array {name}"))
    return NodeArray(
        name=name,
        price_type=PriceType.SPOT if _true(attributes.get("Interruptible")) else PriceType.ON_DEMAND,
        region=str(attributes.get("Region") or ""),
        zone=_zone(attributes.get("Zone")),
        own_cloud_init=bool(attributes.get("CloudInit")),
        buckets=tuple(
            _bucket(bucket, own, name, record.get("maxCoreCount"), sum(cores)) for bucket in record["buckets"]
        ),
    )


def _bucket(
    record: Mapping[str, Any], own: Sequence[Counter], array: str, most_cores: int | None, used_cores: int
) -> Offered:
    name = str(record["definition"]["machineType"])
    if not name:
        raise ValueError("a machine type without a name")
    # CycleCloud offers some sizes of which it only knows the name: the file of VM sizes may describe them.
    machine: Mapping[str, Any] = record.get("virtualMachine") or {}
    vcpus, memory = int(machine.get("vcpuCount") or 0), float(machine.get("memory") or 0)
    if vcpus <= 0 or memory <= 0:
        vcpus, memory = 0, 0.0
    kind = InstanceType(name, family_of(name, "azure"), vcpus, int(memory * GIB), int(machine.get("gpuCount") or 0))
    counters = [*own, *_counters(record, vcpus, int(machine.get("vcpuQuotaCount") or vcpus))]
    if most_cores is not None and vcpus:
        words = f"the limit of {most_cores} cores in node array {array}"
        counters.append(Counter((int(most_cores) - used_cores) // vcpus, int(most_cores) // vcpus, words))
    failure = record.get("lastCapacityFailure")
    return Offered(
        machine_type=name,
        type=kind,
        counters=tuple(counters),
        invalid=None
        if _true(record["valid"])
        else f"not valid in the cluster: {record.get('invalidReason') or 'no reason given'}",
        # CycleCloud writes a negative number if there was never a failure.
        last_capacity_failure=None if failure is None or float(failure) < 0 else float(failure),
    )


def _counters(record: Mapping[str, Any], vcpus: int, quota_vcpus: int) -> Iterator[Counter]:
    """Every limit of a bucket in its own record. An absent counter limits nothing, nor does one of cores if nobody
    knows how many a machine has: CycleCloud enforces it.
    """
    if (left := record.get("availableCount")) is not None:
        yield Counter(int(left), max(1, int(left)), _none_left(record))
    if (cores := record.get("availableCoreCount")) is not None and vcpus:
        yield Counter(int(cores) // vcpus, max(1, int(cores) // vcpus), _none_left(record))
    active = int(record.get("activeCount") or 0)
    if (most := record.get("maxCount")) is not None:
        yield Counter(int(most) - active, int(most), f"its limit of {most} nodes")
    for scope, total, used in (
        ("its family", record.get("quotaCoreCount"), record.get("consumedCoreCount")),
        ("its family", record.get("familyQuotaCoreCount"), record.get("familyConsumedCoreCount")),
        ("the region", record.get("regionalQuotaCoreCount"), record.get("regionalConsumedCoreCount")),
    ):
        if total is not None and used is not None and quota_vcpus:
            words = f"the quota of {scope}: {used} of {total} cores are used, one takes {quota_vcpus}"
            yield Counter((int(total) - int(used)) // quota_vcpus, int(total) // quota_vcpus, words, quota=True)


def _none_left(record: Mapping[str, Any]) -> str:
    failure = record.get("lastCapacityFailure")
    if failure is not None and float(failure) >= 0:
        return f"none is available; Azure had none {float(failure):.0f} s ago"
    return "none is available"


def _true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _zone(value: object) -> str:
    """The one zone of a node array; ANY if it has several or none."""
    zones = value if isinstance(value, list) else str(value or "").replace(",", " ").split()
    return str(zones[0]) if len(zones) == 1 else ANY
