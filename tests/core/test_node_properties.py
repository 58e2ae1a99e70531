"""Every property that a rule may name, of buckets and of workers alike, with its type and unit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from autoscaler.core.constraints.node import (
    PROPERTIES,
    NodeProperties,
    SizeFacts,
    properties_of_bucket,
    properties_of_worker,
)
from autoscaler.core.constraints.values import Size, Value
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, MachineState, PriceType, Worker

GIB = 1024**3
NOW = 1_800_000_000.0
F2 = InstanceType("Standard_F2", "Fv1", 2, 4 * GIB)
KEY = BucketKey("Standard_F2", "execute", "westus2-1", PriceType.SPOT, "pg1")
FACTS = SizeFacts(vm_family="standardFFamily", vcpus_per_core=2, gpu_count=1, infiniband=True)
WORKER = Worker("i-1", F2, "execute", MachineState.RUNNING, NOW - 60, name="host1", address="10.0.0.4", zone="z1")
TYPES = {"str": str, "int": int, "float": float, "bool": bool, "size": Size, "time": datetime}


def of_bucket() -> NodeProperties:
    return properties_of_bucket(Bucket(KEY, F2), location="westus2", facts=FACTS)


def of_worker(worker: Worker = WORKER) -> NodeProperties:
    return properties_of_worker(worker, now=NOW, boot_timeout=900, keep_alive=True)


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("properties", (of_bucket(), of_worker()), ids=("bucket", "worker"))
def test_a_property_has_its_type(properties: NodeProperties, name: str) -> None:
    kind = PROPERTIES[name]
    assert type(properties[name]) in ({TYPES[kind.type], type(None)} if kind.optional else {TYPES[kind.type]})


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("nodearray", "execute"),
        ("vm_size", "Standard_F2"),
        ("vm_family", "standardFFamily"),
        ("location", "westus2"),
        ("vcpu_count", 2),
        ("pcpu_count", 1),
        ("cores_per_socket", 1),
        ("gpu_count", 1),
        ("memory", 4 * GIB),
        ("infiniband", True),
        ("placement_group", "pg1"),
        ("colocated", True),
        ("spot", True),
        ("exists", False),
        ("state", "Off"),
        ("hostname", None),
        ("instance_id", None),
        ("private_ip", None),
        ("keep_alive", False),
        ("create_time_unix", 0.0),
    ),
)
def test_a_bucket_has_the_properties_of_its_future_nodes(name: str, value: Value) -> None:
    assert of_bucket()[name] == value


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("name", "host1"),
        ("hostname", "host1"),
        ("hostname_or_uuid", "host1"),
        ("instance_id", "i-1"),
        ("private_ip", "10.0.0.4"),
        ("location", "z1"),
        ("exists", True),
        ("state", "Ready"),
        ("keep_alive", True),
        ("vm_family", "Fv1"),
        ("pcpu_count", 2),
        ("colocated", False),
        ("placement_group", None),
        ("create_time", datetime.fromtimestamp(NOW - 60, UTC)),
        ("create_time_remaining", 0.0),
        ("last_match_time_unix", NOW - 60),
        ("delete_time_unix", 0.0),
    ),
)
def test_a_worker_has_its_own_properties(name: str, value: Value) -> None:
    assert of_worker()[name] == value


def test_a_booting_worker_has_the_rest_of_its_boot_timeout() -> None:
    booting = Worker("i-1", F2, "execute", MachineState.PENDING, NOW - 60)
    assert (of_worker(booting)["state"], of_worker(booting)["create_time_remaining"]) == ("Preparing", 840.0)


def test_size_facts_are_combined_from_the_file_and_the_provider() -> None:
    known = FACTS.over(F2)
    assert (known.vcpu_count, known.vcpus_per_core, known.vm_family) == (2, 2, "standardFFamily")


@pytest.mark.parametrize(("listed", "provided", "expected"), ((4, 0, 4), (0, 4, 4), (None, 2, 2)))
def test_the_higher_gpu_count_is_used(listed: int | None, provided: int, expected: int) -> None:
    assert SizeFacts(gpu_count=listed).over(InstanceType("t", "f", 1, 1, gpus=provided)).gpu_count == expected


def test_bucket_ids_are_stable_and_distinct() -> None:
    others = (BucketKey("Standard_F2", "execute"), BucketKey("Standard_F2", "other"), KEY)
    ids = [properties_of_bucket(Bucket(key, F2)).bucket_id for key in others]
    assert [ids.index(found) for found in (*ids, of_bucket().bucket_id)] == [0, 1, 2, 2]


def test_a_worker_has_the_bucket_id_of_its_bucket() -> None:
    worker = Worker("i-1", F2, "execute", MachineState.RUNNING, NOW, zone="westus2-1", price_type=PriceType.SPOT,
                    placement_group="pg1")  # fmt: skip
    assert of_worker(worker).bucket_id == of_bucket().bucket_id


def test_an_unknown_property_name_raises_key_error() -> None:
    with pytest.raises(KeyError):
        of_bucket()["__class__"]
