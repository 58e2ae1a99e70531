"""What a status and a node record mean: counters, problems, states, owner. Pure, on records written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from autoscaler.core.model.fleet import BucketKey, Ending, InstanceType, MachineState, PriceType
from autoscaler.errors import SettingsError
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.cyclecloud.nodes import attributes, request_id, same_region, state_of, tag_of, worker_from
from autoscaler.providers.cyclecloud.settings import Boot, CycleCloudSettings
from autoscaler.providers.cyclecloud.status import Offered, Status, status_from
from autoscaler.providers.interface import LaunchOrder, Unreachable
from autoscaler.providers.settings import read_settings

PREFIX = "CP_CAP_AUTOSCALE_CYCLECLOUD_"
GIB = 1024**3


def bucket(**given: Any) -> dict[str, Any]:
    return {
        "definition": {"machineType": "Standard_D4s_v5"},
        "virtualMachine": {"vcpuCount": 4, "memory": 16.0, "gpuCount": 0},
        "valid": True,
        "availableCount": 50,
        "availableCoreCount": 200,
        "maxCount": 60,
        **given,
    }


def status(*buckets: Mapping[str, Any], array: Mapping[str, Any] = {}, **given: Any) -> Status:
    execute = {"name": "execute", "nodearray": {"Region": "eastus"}, "buckets": buckets or (bucket(),), **array}
    record = {"state": "Started", "targetState": "Started", "maxCount": 100, "maxCoreCount": 1000, "nodes": []}
    return status_from({**record, "nodearrays": [execute], **given}, "demo")


def only(read: Status) -> Offered:
    ((offered,),) = [array.buckets for array in read.arrays]
    return offered


@pytest.mark.parametrize(
    ("given", "left"),
    (
        ({}, 50),
        ({"availableCount": 3}, 3),
        ({"availableCoreCount": 11}, 2),
        ({"maxCount": 60, "activeCount": 55}, 5),
        ({"quotaCoreCount": 100, "consumedCoreCount": 70}, 7),
        ({"familyQuotaCoreCount": 64, "familyConsumedCoreCount": 60}, 1),
        ({"regionalQuotaCoreCount": 64, "regionalConsumedCoreCount": 63}, 0),
        ({"regionalQuotaCoreCount": 64, "regionalConsumedCoreCount": 80}, 0),
    ),
)
def test_available_is_the_minimum_of_all_given_counters(given: Mapping[str, Any], left: int) -> None:
    assert only(status(bucket(**given))).available(300) == left


def test_a_limit_of_the_node_array_counts_all_its_buckets() -> None:
    other = bucket(definition={"machineType": "Standard_D2s_v5"}, activeCount=8, activeCoreCount=16)
    (array,) = status(bucket(), other, array={"maxCount": 10}).arrays
    assert array.buckets[0].available(300) == 2


def test_a_core_limit_of_the_node_array_counts_whole_nodes() -> None:
    assert only(status(bucket(activeCount=2, activeCoreCount=8), array={"maxCoreCount": 19})).available(300) == 2


def test_available_counts_the_quota_cores_of_a_machine() -> None:
    machine = {"vcpuCount": 2, "memory": 8, "vcpuQuotaCount": 8}
    quota = {"quotaCoreCount": 32, "consumedCoreCount": 0}
    assert only(status(bucket(virtualMachine=machine, **quota))).available(300) == 4


@pytest.mark.parametrize(("ago", "left"), ((-1.0, 50), (0.0, 0), (299.0, 0), (301.0, 50)))
def test_a_bucket_that_failed_recently_has_nothing_available_for_the_set_delay(ago: float, left: int) -> None:
    assert only(status(bucket(lastCapacityFailure=ago))).available(300) == left


def test_a_temporary_shortage_is_not_a_problem() -> None:
    full = only(status(bucket(availableCount=0, quotaCoreCount=100, consumedCoreCount=100, lastCapacityFailure=1.0)))
    assert (full.available(300), full.problem) == (0, None)


def test_a_quota_too_small_for_one_node_is_a_problem() -> None:
    problem = only(status(bucket(quotaCoreCount=3, consumedCoreCount=0))).problem
    assert problem == "the quota of its family: 0 of 3 cores are used, one takes 4"


def test_an_invalid_bucket_has_a_problem_with_its_cause() -> None:
    invalid = only(status(bucket(valid=False, invalidReason="DisabledMachineType")))
    assert invalid.problem == "not valid in the cluster: DisabledMachineType"


def test_sizes_are_read_in_their_units() -> None:
    machine = {"vcpuCount": 6, "memory": 56.5, "gpuCount": 1}
    read = only(status(bucket(definition={"machineType": "Standard_NC6"}, virtualMachine=machine))).type
    assert read == InstanceType("Standard_NC6", "NC", 6, int(56.5 * GIB), 1)


@pytest.mark.parametrize(
    ("state", "target", "started"),
    (
        ("Started", "Started", True),
        ("Terminated", "Started", True),
        ("Terminated", "Terminated", False),
        ("", "", False),
    ),
)
def test_a_cluster_that_is_not_started_has_a_problem(state: str, target: str, started: bool) -> None:
    assert (status(state=state, targetState=target).problem is None) is started


@pytest.mark.parametrize(
    "broken",
    (
        {"nodes": None},
        {"nodes": ["execute-1"]},
        {"maxCount": None},
        {"nodearrays": None},
        {"nodearrays": [{"name": "execute"}]},
        {"nodearrays": [{"name": "execute", "buckets": [{"valid": True}]}]},
    ),
)
def test_a_malformed_status_raises_unreachable(broken: Mapping[str, Any]) -> None:
    with pytest.raises(Unreachable, match="cannot be understood"):
        status(**broken)


@pytest.mark.parametrize(
    ("interruptible", "price_type"), ((True, "spot"), ("true", "spot"), (False, "on_demand"), (None, "on_demand"))
)
def test_an_interruptible_array_has_the_price_type_spot(interruptible: object, price_type: str) -> None:
    (array,) = status(array={"nodearray": {"Interruptible": interruptible}}).arrays
    assert array.price_type == price_type


@pytest.mark.parametrize(("zone", "read"), (("2", "2"), (["2"], "2"), ("1,3", ""), (["1", "3"], ""), (None, "")))
def test_a_node_array_has_a_zone_if_it_names_exactly_one(zone: object, read: str) -> None:
    (array,) = status(array={"nodearray": {"Zone": zone}}).arrays
    assert array.zone == read


# -- nodes -----------------------------------------------------------------------------------------------------


def order(**given: Any) -> LaunchOrder:
    values = {"token": "o-1-0", "order_id": "o-1", "cell": "cell-a", "node_array": "execute", "count": 1}
    return LaunchOrder(**{**values, "buckets": (), "boot_script": "#!/bin/sh\necho hello\n", **given})


def node(**given: Any) -> dict[str, Any]:
    return {
        "Name": "execute-1",
        "NodeId": "n-1",
        "Template": "execute",
        "MachineType": "Standard_D4s_v5",
        "Status": "Ready",
        "TargetState": "Started",
        "Configuration": attributes(order(), "cell-a", 1000.5, Boot.NONE)["Configuration"],
        **given,
    }


@pytest.mark.parametrize(
    ("status", "target", "state"),
    (
        ("Acquiring", "Started", "pending"),
        ("Preparing", "Started", "pending"),
        ("Ready", "Started", "running"),
        ("Failed", "Started", "pending"),
        ("Something new", "Started", "pending"),
        ("Off", "Started", "pending"),
        ("Deallocated", "Started", "pending"),
        ("Terminating", "Started", "stopping"),
        ("Ready", "Terminated", "stopping"),
        ("Terminating", "Terminated", "stopping"),
        ("Failed", "Terminated", "stopping"),
        ("Ready", "Deallocated", "stopping"),
        ("Deallocated", "Deallocated", "pending"),
        ("Deallocated", "", "pending"),
        ("Deallocated", "Terminated", "stopping"),
        ("Off", "Terminated", "terminated"),
        ("Terminated", "Terminated", "terminated"),
    ),
)
def test_the_state_of_a_node_follows_from_status_and_target(status: str, target: str, state: str) -> None:
    assert state_of(node(Status=status, TargetState=target, InstanceId="vm-1")) == state


@pytest.mark.parametrize("target", ("Deallocated", ""))
def test_a_deallocated_node_was_stopped_from_outside_and_has_not_failed(target: str) -> None:
    found = read(node(Status="Deallocated", TargetState=target, InstanceId="vm-1", StatusMessage="by anna"))
    assert (found.failure, found.ending) == (None, Ending.STOPPED)
    assert found.message == "it is deallocated, and its disk is paid for: by anna"


def test_a_deallocated_node_that_is_started_again_has_not_failed() -> None:
    found = read(node(Status="Deallocated", TargetState="Started", InstanceId="vm-1"))
    assert (found.failure, found.ending, found.message) == (None, Ending.UNKNOWN, None)


def test_a_failed_node_without_a_machine_is_terminated() -> None:
    assert state_of(node(Status="Failed")) is MachineState.TERMINATED


def test_a_failed_node_has_the_last_message_of_cyclecloud() -> None:
    failed = node(Status="Failed", StatusMessage="Allocation failed.\n  Retry later.")
    assert read(failed).message == "CycleCloud says Failed: Allocation failed. Retry later."


def read(record: Mapping[str, Any]) -> Any:
    tag = tag_of(record)
    assert tag is not None
    return worker_from(record, tag, status().arrays, load_catalog())


def test_a_node_is_read_as_the_worker_that_was_ordered() -> None:
    worker = read(node(Hostname="IP-0A000004", PrivateIp="10.0.0.4"))
    assert (worker.id, worker.name, worker.address, worker.order_id) == ("n-1", "ip-0a000004", "10.0.0.4", "o-1")
    assert (worker.node_array, worker.created_at, worker.price_per_hour) == ("execute", 1000.5, 0.192)


def test_an_unknown_size_is_read_from_the_node() -> None:
    worker = read(node(MachineType="Standard_Old9", CoreCount=9, Memory=27.0))
    assert (worker.type.vcpus, worker.type.memory) == (9, 27 * GIB)


def test_a_node_without_an_id_fails_the_listing() -> None:
    with pytest.raises(Unreachable, match="without its NodeId"):
        read(node(NodeId=""))


@pytest.mark.parametrize("configuration", (None, {}, "text", {"sge_autoscaler": "text"}, {"gridengine": {"cell": "x"}}))
def test_a_node_without_our_tag_has_no_tag(configuration: object) -> None:
    assert tag_of(node(Configuration=configuration)) is None


def test_a_damaged_tag_does_not_count_as_a_missing_one() -> None:
    with pytest.raises(Unreachable, match="tag of node execute-1"):
        tag_of(node(Configuration={"sge_autoscaler": {"cell": "cell-a"}}))


def test_the_boot_script_is_passed_as_cloud_init() -> None:
    assert attributes(order(), "cell-a", 0.0, Boot.CLOUD_INIT)["CloudInit"] == "#!/bin/sh\necho hello\n"


def test_for_cluster_init_the_boot_script_is_in_the_configuration() -> None:
    given = attributes(order(), "cell-a", 0.0, Boot.CLUSTER_INIT)
    assert "CloudInit" not in given
    assert given["Configuration"]["sge_autoscaler"]["boot_script"] == "IyEvYmluL3NoCmVjaG8gaGVsbG8K"


def test_tags_of_an_order_never_override_the_cell_of_a_node() -> None:
    given = attributes(order(tags={"cell": "cell-b", "team": "bio"}), "cell-a", 0.0, Boot.NONE)
    mark = given["Configuration"]["sge_autoscaler"]
    assert (mark["cell"], mark["team"]) == ("cell-a", "bio")


def test_request_ids_depend_on_cell_token_and_bucket_only() -> None:
    asked = {request_id(cell, token, number) for cell in "ab" for token in "cd" for number in (0, 1)}
    assert len(asked) == 8
    assert request_id("a", "c", 0) in asked


@pytest.mark.parametrize(("one", "same"), (("eastus", True), ("East US", True), ("westus", False), ("", False)))
def test_region_names_are_compared_without_case_and_blanks(one: str, same: bool) -> None:
    assert same_region(one, "eastus") is same


# -- settings --------------------------------------------------------------------------------------------------


def settings(**given: str) -> CycleCloudSettings:
    values = {"url": "https://cc", "username": "u", "password": "p", "cluster": "demo", **given}
    return read_settings(CycleCloudSettings, {PREFIX + name.upper(): value for name, value in values.items()})


def test_without_a_mapping_each_node_array_serves_its_namesake() -> None:
    assert settings().serves("gpu") == "gpu"


def test_with_a_mapping_only_the_mapped_node_arrays_serve() -> None:
    mapped = settings(node_arrays="execute=ondemand, execute=spot")
    assert [mapped.serves(name) for name in ("ondemand", "spot", "gpu")] == ["execute", "execute", None]


@pytest.mark.parametrize("given", ("execute", "execute=", "=spot", "a=spot,b=spot"))
def test_an_incomplete_or_ambiguous_mapping_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="NODE_ARRAYS"):
        settings(node_arrays=given)


def test_a_password_given_by_reference_is_resolved_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC_SECRET", "hush")
    given = settings(password="env:CC_SECRET")
    assert given.password.get_secret_value() == "hush"
    assert "hush" not in repr(given)


def test_a_bucket_key_has_size_array_zone_and_price_type() -> None:
    (array,) = status(array={"nodearray": {"Interruptible": True, "Zone": "1"}}).arrays
    key = BucketKey(array.buckets[0].machine_type, array.name, array.zone, array.price_type)
    assert key == BucketKey("Standard_D4s_v5", "execute", "1", PriceType.SPOT)


@pytest.mark.parametrize("machine", (None, {}, {"vcpuCount": 0, "memory": 16.0}, {"vcpuCount": 4, "memory": 0}))
def test_a_size_that_cyclecloud_does_not_describe_has_size_zero(machine: object) -> None:
    offered = only(status(bucket(virtualMachine=machine, availableCount=3, quotaCoreCount=8, consumedCoreCount=8)))
    assert (offered.type.vcpus, offered.type.memory, offered.available(300)) == (0, 0, 3)
