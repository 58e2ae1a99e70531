"""The calls that the stock client library for autoscalers makes to CycleCloud's API, and what it reads, after its
public code, in our own words: which calls in which order, which names it needs, which answers it drops. It cannot be
installed from a package registry, so this stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.web.served import Client

Record = Mapping[str, Any]


@dataclass(frozen=True)
class StockBucket:
    """A bucket as the library keeps it: one for each placement group, and one for none."""

    node_array: str
    machine_type: str
    placement_group: str | None
    available: int
    nodes: tuple[str, ...]
    """Names."""


@dataclass
class StockClient:
    """One reading of a cluster, kept up to date by its own calls only."""

    client: Client
    buckets: list[StockBucket] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def refresh(self) -> None:
        """Read status and nodes. Raises KeyError for a name that the library reads without a default."""
        status = self.client.get("status", nodes="true").json()
        nodes = self.client.get("nodes").json()["nodes"]
        self.taken = {node["Name"] for node in nodes}
        regions = {array["name"]: array["nodearray"]["Region"] for array in status["nodearrays"]}
        for node in status["nodes"]:
            _ = regions[node["Template"]], node["MachineType"], node["TargetState"], node["Status"]
        self.buckets = [
            bucket
            for array in status["nodearrays"]
            for each in array["buckets"]
            if each["valid"]
            for bucket in self._of(status, array, each, nodes)
        ]

    def _of(self, status: Record, array: Record, bucket: Record, nodes: Sequence[Record]) -> Iterator[StockBucket]:
        """The smallest of its counters: the most that the library would request."""
        vcpus, attributes = bucket["virtualMachine"]["vcpuCount"], array["nodearray"]
        _ = attributes["SubnetId"], bucket["lastCapacityFailure"], bucket["virtualMachine"]["gpuCount"] + 0
        limits = (
            bucket["availableCount"],
            (bucket["regionalQuotaCoreCount"] - bucket["regionalConsumedCoreCount"]) // vcpus,
            (bucket["familyQuotaCoreCount"] - bucket["familyConsumedCoreCount"]) // vcpus,
            array["maxCount"],
            array["maxCoreCount"] // vcpus,
            status["maxCoreCount"] // vcpus,
        )
        machine_type = bucket["definition"]["machineType"]
        for group in (None, *(each["name"] for each in bucket["placementGroups"])):
            mine = (
                node["Name"]
                for node in nodes
                if (node["Template"], node["MachineType"]) == (array["name"], machine_type)
                and (node["TargetState"] == "Started" or node["Status"] == "Deallocated")
                and node.get("PlacementGroupId") == group
            )
            yield StockBucket(array["name"], machine_type, group, min(limits), tuple(mine))

    def start(
        self, asked: Sequence[tuple[StockBucket, int]], request_id: str | None = None, **attributes: Any
    ) -> dict[str, Record]:
        """Create nodes of these buckets in one call. Returns, by name, those created under the name that the library
        predicted.
        """
        guessed, sets = [], []
        for bucket, number in asked:
            for _ in range(number):
                names = (f"{bucket.node_array}-{index}" for index in count(1))
                guessed.append(next(name for name in names if name not in self.taken))
                self.taken.add(guessed[-1])
            group = {"placementGroupId": bucket.placement_group} if bucket.placement_group else {}
            named = {"nodeAttributes": attributes} if attributes else {}
            definition = {"machineType": bucket.machine_type}
            sets.append({"count": number, "nodearray": bucket.node_array, "definition": definition, **group, **named})
        repeated = {"requestId": request_id} if request_id else {}
        operation = self.client.post("nodes/create", {**repeated, "sets": sets}).json()["operationId"]
        created = self.client.nodes(operation=operation)
        return {node["Name"]: node for node in created if node["Name"] in guessed}

    def failed(self) -> list[str]:
        """Ids of the nodes that the library now hands to its driver to be terminated."""
        return [node["NodeId"] for node in self.client.nodes() if node["Status"] == "Failed"]

    def retry_failed(self) -> None:
        """Raises AssertionError if the answer is not one that the library accepts."""
        answer = self.client.ask("POST", f"/cloud/actions/retry/{self.client.cluster}")
        assert answer.status_code == 200, answer.text
        _ = answer.json()

    def of_request(self, request_id: str) -> list[str]:
        """Names of the nodes of one of its requests, as it finds them after a lost answer."""
        return [node["Name"] for node in self.client.nodes(request_id=request_id)]

    def end(self, ids: Sequence[str]) -> dict[str, str]:
        """Terminate nodes as its `delete` does; returns the affected ones by name, with their target state."""
        answer = self.client.post("nodes/shutdown", {"ids": list(ids)}).json()
        targets = {node["Name"]: node["TargetState"] for node in self.client.nodes(operation=answer["operationId"])}
        return {node["name"]: targets.get(node["name"], "") for node in answer["nodes"] if node["status"] == "OK"}
