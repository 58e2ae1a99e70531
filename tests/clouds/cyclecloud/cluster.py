"""A cluster of CycleCloud in memory: node arrays with buckets and limits, nodes that go through their states with time.

What the reference leaves open follows the stock client library's expectations: names fill gaps from 1, a node's id
never changes, an ended node leaves the listing. A request id is remembered for good; asked again, it is a conflict.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class Conflict(Exception):
    """A request that fits the reference, and that this cluster refuses."""


MACHINES: Mapping[str, tuple[int, float, int, str]] = {
    "Standard_F2s_v2": (2, 4.0, 0, "Fsv2"),
    "Standard_D2s_v5": (2, 8.0, 0, "Dsv5"),
    "Standard_D4s_v5": (4, 16.0, 0, "Dsv5"),
    "Standard_NC4as_T4_v3": (4, 28.0, 1, "NCasT4v3"),
}
"""vCPUs, memory in GB, GPUs, quota family."""
ACQUIRING, PREPARING = 0.3, 0.7
"""Parts of the boot time after which a node has got its machine, and is set up."""


@dataclass(slots=True)
class Bucket:
    machine_type: str
    max_count: int = 2000
    last_capacity_failure: float | None = None
    """When Azure had none left, in the cluster's time."""
    throttled: bool = False
    """Whether 0 is reported since (ThrottleCapacity)."""
    invalid_reason: str = ""
    bucket_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(slots=True)
class Array:
    name: str
    buckets: list[Bucket]
    attributes: dict[str, Any] = field(default_factory=dict)
    max_count: int = 2000
    max_core_count: int = 100_000


@dataclass(slots=True)
class Node:
    id: str
    name: str
    array: str
    machine_type: str
    number: int
    created_at: float
    operation: str
    attributes: dict[str, Any]
    placement_group: str | None = None
    ended_at: float | None = None
    failed: str | None = None
    """Why its orchestration failed."""
    machine: bool = True
    """Whether it gets one in its time."""
    evicted: bool = False
    deallocated: bool = False
    host: str = ""
    """Name and address of its real host; '': made of its number."""
    address: str = ""


@dataclass(slots=True)
class Operation:
    id: str
    action: str
    started: float
    request: str | None
    nodes: list[str]


def _default_arrays() -> list[Array]:
    region = {"Region": "eastus", "SubnetId": "rg/vnet/default", "Azure": {"MaxScalesetSize": 40}}
    machines = [Bucket("Standard_D2s_v5"), Bucket("Standard_D4s_v5"), Bucket("Standard_F2s_v2")]
    return [
        Array("execute", machines, {**region, "Interruptible": False}),
        Array("spot", [Bucket("Standard_D2s_v5")], {**region, "Interruptible": True}),
        Array("gpu", [Bucket("Standard_NC4as_T4_v3")], {**region, "Interruptible": False}),
    ]


@dataclass(slots=True)
class Cluster:
    """One cluster. Its callers hold a lock around every call."""

    name: str
    state: str = "Started"
    max_count: int = 5000
    max_core_count: int = 100_000
    arrays: list[Array] = field(default_factory=_default_arrays)
    family_quota: int = 50_000
    regional_quota: int = 50_000
    consumed_by_others: int = 0
    """Cores of the region that are not ours."""
    boot: float = 0.1
    """Seconds from creation to Ready."""
    end: float = 0.03
    """Seconds from an end call to the node's disappearance."""
    failing: str | None = None
    nameless: bool = False
    """Whether records lack the ids of their nodes."""
    """Every new node fails with these words instead of getting a machine."""
    nodes: dict[str, Node] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    on_made: Callable[[Node], None] = lambda _: None
    on_ended: Callable[[Node], None] = lambda _: None
    clock: Callable[[], float] = time.time
    _made: int = 0

    # -- reading ---------------------------------------------------------------------------------------

    def living(self) -> list[Node]:
        """Nodes that are listed; ended ones leave for good."""
        now = self.clock()
        for node in [node for node in self.nodes.values() if node.ended_at is not None]:
            if now >= (node.ended_at or 0) + self.end:
                del self.nodes[node.id]
        return list(self.nodes.values())

    def status(self, *, with_nodes: bool) -> dict[str, Any]:
        living = self.living()
        record: dict[str, Any] = {
            "state": self.state,
            "targetState": self.state,
            "maxCount": self.max_count,
            "maxCoreCount": self.max_core_count,
            "nodearrays": [self._array(array, living, with_nodes=with_nodes) for array in self.arrays],
        }
        return record | ({"nodes": [self.record(node) for node in living]} if with_nodes else {})

    def _array(self, array: Array, living: Sequence[Node], *, with_nodes: bool) -> dict[str, Any]:
        return {
            "name": array.name,
            "maxCount": array.max_count,
            "maxCoreCount": array.max_core_count,
            "nodearray": {"Name": array.name, **array.attributes},
            "buckets": [self._bucket(array, bucket, living, with_nodes=with_nodes) for bucket in array.buckets],
        }

    def _bucket(self, array: Array, bucket: Bucket, living: Sequence[Node], *, with_nodes: bool) -> dict[str, Any]:
        vcpus, memory, gpus, family = MACHINES[bucket.machine_type]
        active = [node for node in living if (node.array, node.machine_type) == (array.name, bucket.machine_type)]
        family_used, used = self._cores(living, family), self._cores(living, None) + self.consumed_by_others
        available, most, quota = self.available(array, bucket, living), self._most(array, bucket), self.family_quota
        failure = bucket.last_capacity_failure
        groups = sorted({node.placement_group for node in active if node.placement_group})
        record = {
            "bucketId": bucket.bucket_id,
            "definition": {"machineType": bucket.machine_type},
            "virtualMachine": {
                "vcpuCount": vcpus, "pcpuCount": vcpus // 2, "gpuCount": gpus, "memory": memory,
                "infiniband": False, "vcpuQuotaCount": vcpus,
            },
            "valid": not bucket.invalid_reason,
            "invalidReason": bucket.invalid_reason,
            "activeCount": len(active), "activeCoreCount": len(active) * vcpus,
            "availableCount": available, "availableCoreCount": available * vcpus,
            "maxCount": most, "maxCoreCount": most * vcpus,
            "quotaCount": quota // vcpus, "quotaCoreCount": quota, "consumedCoreCount": family_used,
            "familyQuotaCount": quota // vcpus, "familyQuotaCoreCount": quota, "familyConsumedCoreCount": family_used,
            "regionalQuotaCount": self.regional_quota // vcpus, "regionalQuotaCoreCount": self.regional_quota,
            "regionalConsumedCoreCount": used,
            "maxPlacementGroupSize": 40, "maxPlacementGroupCoreSize": 40 * vcpus,
            "placementGroups": [
                {"name": name, "activeCount": sum(node.placement_group == name for node in active),
                 "activeCoreCount": sum(node.placement_group == name for node in active) * vcpus}
                for name in groups
            ],
            "lastCapacityFailure": -1.0 if failure is None else self.clock() - failure,
        }  # fmt: skip
        return record | ({"activeNodes": [node.name for node in active]} if with_nodes else {})

    def available(self, array: Array, bucket: Bucket, living: Sequence[Node]) -> int:
        vcpus, _, _, family = MACHINES[bucket.machine_type]
        if bucket.throttled or bucket.invalid_reason:
            return 0
        own = sum((node.array, node.machine_type) == (array.name, bucket.machine_type) for node in living)
        in_array = [node for node in living if node.array == array.name]
        return max(
            0,
            min(
                bucket.max_count - own,
                array.max_count - len(in_array),
                self.max_count - len(living),
                (array.max_core_count - self._cores(in_array, None)) // vcpus,
                (self.family_quota - self._cores(living, family)) // vcpus,
                (self.regional_quota - self._cores(living, None) - self.consumed_by_others) // vcpus,
            ),
        )

    def _most(self, array: Array, bucket: Bucket) -> int:
        vcpus = MACHINES[bucket.machine_type][0]
        return min(bucket.max_count, array.max_count, self.max_count, array.max_core_count // vcpus)

    @staticmethod
    def _cores(nodes: Sequence[Node], family: str | None) -> int:
        machines = [MACHINES[node.machine_type] for node in nodes]
        return sum(vcpus for vcpus, _, _, own in machines if family in (None, own))

    def record(self, node: Node) -> dict[str, Any]:
        """A node record as GET nodes shows it."""
        array = next(array for array in self.arrays if array.name == node.array)
        age = self.clock() - node.created_at
        status = self._status(node, age)
        vcpus, memory, _, _ = MACHINES[node.machine_type]
        record = {
            "Name": node.name,
            "NodeId": node.id,
            "Template": node.array,
            "MachineType": node.machine_type,
            "Status": status,
            "TargetState": "Started",
            "CoreCount": vcpus,
            "Memory": memory,
            "KeepAlive": False,
            "Interruptible": array.attributes.get("Interruptible", False),
            **({key: value for key, value in array.attributes.items() if key == "Region"}),
            **node.attributes,
            "Configuration": {**array.attributes.get("Configuration", {}), **node.attributes.get("Configuration", {})},
        }
        if node.ended_at is not None:
            record["TargetState"] = "Terminated"
        elif node.deallocated:
            record["TargetState"] = "Deallocated"
        if node.placement_group:
            record["PlacementGroupId"] = node.placement_group
        if node.machine and age >= ACQUIRING * self.boot:
            octets = f"{node.number // 250 % 250}.{node.number % 250 + 4}"
            record["Hostname"] = node.host.upper() or f"IP-0A00{node.number:04X}"
            record["PrivateIp"] = node.address or f"10.0.{octets}"
            record["InstanceId"] = f"vm-{node.id}"
        if node.failed is not None:
            record["StatusMessage"] = node.failed
        elif node.evicted:
            record["StatusMessage"] = "Waiting for eviction"
        if self.nameless:
            del record["NodeId"]
        return record

    def _status(self, node: Node, age: float) -> str:
        if node.ended_at is not None:
            return "Terminating"
        if node.deallocated:
            return "Deallocated"
        if age < ACQUIRING * self.boot:
            return "Acquiring"
        if node.failed is not None:
            return "Failed"
        return "Preparing" if age < self.boot else "Ready"

    # -- changing --------------------------------------------------------------------------------------

    def create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Raises Conflict for what becomes a 409, before anything is created."""
        request = body.get("requestId")
        if request and self.requested(request):
            raise Conflict(f"a request with id {request} was made before")
        if self.state != "Started":
            raise Conflict(f"cluster {self.name} is {self.state}")
        chosen = [(each, *self._chosen(each)) for each in body["sets"]]
        operation = Operation(str(uuid.uuid4()), "create", self.clock(), request, [])
        self.operations[operation.id] = operation
        sets = []
        for each, array, bucket in chosen:
            left = self.available(array, bucket, self.living())
            added = min(left, each["count"])
            for _ in range(added):
                operation.nodes.append(self._make(each, array, bucket, operation.id).id)
            short = {} if added == each["count"] else {"message": f"Only {left} of {bucket.machine_type} are available"}
            sets.append({"added": added, **short})
        return {"operationId": operation.id, "sets": sets}

    def _chosen(self, each: Mapping[str, Any]) -> tuple[Array, Bucket]:
        array = next((array for array in self.arrays if array.name == each["nodearray"]), None)
        if array is None:
            raise Conflict(f"cluster {self.name} has no nodearray {each['nodearray']}")
        wanted = each.get("definition", {}).get("machineType")
        fitting = [bucket for bucket in array.buckets if wanted in (None, bucket.machine_type)]
        if not fitting:
            raise Conflict(f"nodearray {array.name} has no machine type {wanted}")
        return array, fitting[0]

    def _make(self, each: Mapping[str, Any], array: Array, bucket: Bucket, operation: str) -> Node:
        self._made += 1
        node = Node(
            id=str(uuid.uuid4()),
            name=next(self._free_names(array.name)),
            array=array.name,
            machine_type=bucket.machine_type,
            number=self._made,
            created_at=self.clock(),
            operation=operation,
            attributes=dict(each.get("nodeAttributes", {})),
            placement_group=each.get("placementGroupId"),
            failed=self.failing,
            machine=self.failing is None,
        )
        if self.failing:
            bucket.last_capacity_failure = self.clock()
        self.nodes[node.id] = node
        self.on_made(node)
        return node

    def _free_names(self, array: str) -> Iterator[str]:
        taken = {node.name for node in self.nodes.values()}
        return (name for number in range(1, len(taken) + 2) if (name := f"{array}-{number}") not in taken)

    def requested(self, request: str) -> Operation | None:
        return next((each for each in self.operations.values() if each.request == request), None)

    def manage(self, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The union of all selectors; what names no node is left out of the answer. Raises Conflict for a filter."""
        if body.get("filter"):
            raise Conflict("this server evaluates no filter expressions")
        if (request := body.get("requestId")) and self.requested(request):
            raise Conflict(f"a request with id {request} was made before")
        named = [
            node
            for node in self.living()
            if node.id in body.get("ids", ())
            or node.name in body.get("names", ())
            or str(self.record(node).get("Hostname", "")).lower()
            in [host.lower() for host in body.get("hostnames", ())]
            or self.record(node).get("PrivateIp") in body.get("ip_addresses", ())
        ]
        operation = Operation(str(uuid.uuid4()), verb, self.clock(), request, [node.id for node in named])
        self.operations[operation.id] = operation
        return {"operationId": operation.id, "nodes": [self._managed(verb, node) for node in named]}

    def _managed(self, verb: str, node: Node) -> dict[str, Any]:
        answer = {"id": node.id, "name": node.name, "status": "OK"}
        if node.attributes.get("KeepAlive") and verb in ("terminate", "remove", "shutdown", "deallocate"):
            return {**answer, "status": "Error", "error": "This node is marked KeepAlive"}
        if verb in ("terminate", "remove", "shutdown"):
            node.ended_at = node.ended_at if node.ended_at is not None else self.clock()
            self.on_ended(node)
        elif verb == "deallocate":
            node.deallocated = True
        elif verb == "start":
            node.deallocated = False
        return answer
