"""Requests to Azure: nothing is created twice or remains when its machine is deleted."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.providers.azure.provider import AzureProvider
from autoscaler.providers.contract import CELL, OTHER_CELL
from autoscaler.providers.interface import OutOfCapacity, QuotaReached, Refused, Throttled, Unreachable
from tests.clouds.azure.plane import AzurePlane
from tests.clouds.azure.region import GROUP_PATH
from tests.clouds.played import Region
from tests.providers.azure.building import an_order, until

ROLE = "/subscriptions/x/roleDefinitions/worker"


def launched(plane: AzurePlane, **order: Any) -> dict[str, Any]:
    """The machine of an order, as it was requested of Azure."""
    provider = plane.connect(CELL)
    (name,) = provider.launch(an_order(provider, **order)).ids
    machine: dict[str, Any] = plane.region.control()["machines"][name]
    return machine


def test_all_tags_of_a_worker_are_in_the_creating_call(azure_plane: AzurePlane) -> None:
    assert launched(azure_plane, token="o-0")["tags"] == {
        "sge-autoscaler-cell": CELL,
        "sge-autoscaler-order": "o",
        "sge-autoscaler-token": "o-0",
        "sge-autoscaler-node-array": "execute",
    }


def test_a_spot_worker_is_deleted_on_eviction_and_has_the_set_price_limit(region: Region) -> None:
    properties = launched(AzurePlane(region, spot_max_price="0.05"), price_type=PriceType.SPOT)["properties"]
    assert (properties["priority"], properties["evictionPolicy"], properties["billingProfile"]) == (
        "Spot",
        "Delete",
        {"maxPrice": 0.05},
    )


def test_an_on_demand_worker_has_no_spot_properties(azure_plane: AzurePlane) -> None:
    assert launched(azure_plane)["properties"].keys().isdisjoint({"priority", "evictionPolicy", "billingProfile"})


@pytest.mark.parametrize(
    ("image", "reference"),
    (
        ("p:o:s:latest", {"publisher": "p", "offer": "o", "sku": "s", "version": "latest"}),
        ("/subscriptions/x/images/worker", {"id": "/subscriptions/x/images/worker"}),
        ("/CommunityGalleries/a/Images/b", {"communityGalleryImageId": "/CommunityGalleries/a/Images/b"}),
        ("/SharedGalleries/a/Images/b", {"sharedGalleryImageId": "/SharedGalleries/a/Images/b"}),
    ),
)
def test_an_image_is_referenced_according_to_its_kind(region: Region, image: str, reference: dict[str, str]) -> None:
    profile = launched(AzurePlane(region, image=image))["properties"]["storageProfile"]
    assert profile["imageReference"] == reference


def test_disk_network_card_and_public_address_are_deleted_with_their_machine(region: Region) -> None:
    plane = AzurePlane(region, public_address="true", disk="64", security_group="closed")
    provider = plane.connect(CELL)
    ids = provider.launch(an_order(provider)).ids
    things = [each.partition(" ")[0] for each in plane.billable()]
    provider.terminate(ids)
    until(lambda: not plane.billable())
    assert sorted(things)[1:] == ["address", "card", "disk"]


def test_an_image_that_demands_trusted_launch_gets_it(region: Region) -> None:
    uefi = {"secureBootEnabled": True, "vTpmEnabled": True}
    profile = launched(AzurePlane(region, trusted_launch="true"))["properties"]["securityProfile"]
    assert profile == {"securityType": "TrustedLaunch", "uefiSettings": uefi}
    own = launched(AzurePlane(region, trusted_launch="true", secure_boot="false"))["properties"]["securityProfile"]
    assert own["uefiSettings"]["secureBootEnabled"] is False


def test_disks_are_encrypted_at_their_host_if_set_and_nothing_is_said_otherwise(region: Region) -> None:
    profile = launched(AzurePlane(region, encryption_at_host="true"))["properties"]["securityProfile"]
    assert profile == {"encryptionAtHost": True}
    assert "securityProfile" not in launched(AzurePlane(region))["properties"]


@pytest.mark.parametrize("placement", ("CacheDisk", "ResourceDisk", "NvmeDisk"))
def test_an_ephemeral_system_disk_is_requested_without_storage(region: Region, placement: str) -> None:
    plane = AzurePlane(region, ephemeral_disk=placement, disk="64")
    disk = launched(plane)["properties"]["storageProfile"]["osDisk"]
    assert disk == {
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "caching": "ReadOnly",
        "diffDiskSettings": {"option": "Local", "placement": placement},
        "diskSizeGB": 64,
    }


def test_an_availability_set_replaces_zones(region: Region) -> None:
    plane = AzurePlane(region, families="HBrsv3", availability_sets="tight", zones="1")
    machine = launched(plane, size="Standard_HB120rs_v3", group="tight")
    assert machine["properties"]["availabilitySet"]["id"].endswith("/availabilitySets/tight")
    assert "zones" not in machine


def test_a_scale_set_is_joined_in_the_creating_call(region: Region) -> None:
    properties = launched(AzurePlane(region, scale_set="flexible"))["properties"]
    assert properties["virtualMachineScaleSet"]["id"].endswith("/virtualMachineScaleSets/flexible")


def test_the_identity_of_a_worker_gets_the_worker_role_for_its_own_machine_and_no_other(region: Region) -> None:
    provider = AzurePlane(region, identity="system", worker_role=ROLE).connect(CELL)
    provider.launch(an_order(provider, count=2))
    found = region.control()
    expected = {name: (machine["identity"]["principalId"], ROLE) for name, machine in found["machines"].items()}
    granted = {name: (of["principalId"], of["roleDefinitionId"]) for name, of in found["grants"].items()}
    assert (granted, found["refused"]) == (expected, [])
    assert len(set(expected.values())) == 2


def test_a_refused_grant_does_not_fail_the_launch(region: Region, caplog: pytest.LogCaptureFixture) -> None:
    plane = AzurePlane(region, identity="system", worker_role=ROLE)
    region.fault({"kind": "error", "operation": "Grant", "code": "AuthorizationFailed", "status": 403})
    launched(plane)
    assert "cannot delete itself" in caplog.text


def test_an_identity_that_azure_does_not_know_yet_gets_its_grant_later(region: Region) -> None:
    plane = AzurePlane(region, identity="system", worker_role=ROLE)
    region.control("set", fresh=1)
    provider = plane.connect(CELL)
    provider.launch(an_order(provider))
    assert region.control()["grants"] == {}
    provider.grants._tried_at.clear()  # the pause between two tries is over
    until(lambda: [*provider.workers()] != [] and len(region.control()["grants"]) == 1)


def test_a_worker_without_its_grant_gets_it_after_a_restart_once(region: Region) -> None:
    AzurePlane(region)
    without = AzurePlane(region, identity="system").connect(CELL)
    without.launch(an_order(without))
    granting = AzurePlane.__new__(AzurePlane)
    granting.region, granting.unreachable = region, False
    granting.own = {"identity": "system", "worker_role": ROLE}  # type: ignore[assignment]
    provider = granting.connect(CELL)
    until(lambda: [*provider.workers()] != [] and len(region.control()["grants"]) == 1)
    calls = region.control()["calls"].count("Grant")
    provider.workers()
    assert region.control()["calls"].count("Grant") == calls


IMAGES = {
    "own": f"{GROUP_PATH}/providers/Microsoft.Compute/images/worker",
    "gallery": f"{GROUP_PATH}/providers/Microsoft.Compute/galleries/mine/images/worker",
    "version": f"{GROUP_PATH}/providers/Microsoft.Compute/galleries/mine/images/worker/versions/1.0.0",
    "community": "/CommunityGalleries/theirs/Images/worker/Versions/1.0.0",
    "community, newest": "/communityGalleries/theirs/images/worker/versions/latest",
    "shared": "/sharedGalleries/theirs/images/worker/versions/1.0.0",
    "shared, newest": "/sharedGalleries/theirs/images/worker",
    "marketplace": "p:o:s:latest",
    "marketplace version": "p:o:s:1.10.0",
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_data_disks_of_the_image_are_deleted_with_their_machine(region: Region, image: str) -> None:
    plane = AzurePlane(region, image=image)
    region.control("set", image_disks=[0, 3])
    provider = plane.connect(CELL)
    ids = provider.launch(an_order(provider)).ids
    assert len([thing for thing in plane.billable() if thing.startswith("disk ")]) == 3
    provider.terminate(ids)
    until(lambda: not plane.billable())


def test_an_image_that_may_not_be_read_does_not_prevent_a_launch(region: Region) -> None:
    plane = AzurePlane(region)
    region.fault({"kind": "error", "operation": "Versions", "code": "AuthorizationFailed", "status": 403})
    provider = plane.connect(CELL)
    assert len(provider.launch(an_order(provider)).ids) == 1


def test_a_worker_without_a_key_is_refused_before_azure_is_asked(region: Region) -> None:
    plane = AzurePlane(region, key="")
    with pytest.raises(Refused, match="CP_CAP_AUTOSCALE_AZURE_KEY"):
        launched(plane)
    assert "CreateMachine" not in region.control()["calls"]


def test_a_full_zone_is_asked_once_and_replaced_by_the_others(region: Region) -> None:
    plane = AzurePlane(region, zones="1,2")
    provider = plane.connect(CELL)
    region.control("set", stock={"Standard_D2s_v5/1": 0})
    answer = provider.launch(an_order(provider, count=4))
    zones = [machine["zones"] for machine in region.control()["machines"].values()]
    assert (answer.shortfalls, zones) == ((), [["2"]] * 4)
    assert region.control()["calls"].count("CreateMachine") == 1 + 4


def test_a_full_quota_is_reported_with_its_name_limit_and_usage(azure_plane: AzurePlane) -> None:
    provider = azure_plane.connect(CELL)
    order = an_order(provider)
    azure_plane.region.control("limit", standardDSv5Family=1)
    ((_, error),) = provider.launch(order).shortfalls
    assert isinstance(error, QuotaReached)
    assert "standardDSv5Family Cores quota. Current Limit: 1, Current Usage: 0, Additional Required: 2" in str(error)


@pytest.mark.parametrize(("code", "status"), (("AuthorizationFailed", 403), ("TooManyRequests", 429)))
def test_existing_machines_of_an_order_that_may_not_be_looked_at_leave_it_open(
    azure_plane: AzurePlane, code: str, status: int
) -> None:
    provider = azure_plane.connect(CELL)
    order = an_order(provider)
    provider.launch(order)
    azure_plane.region.fault(
        {"kind": "error", "operation": "GetMachine", "code": code, "status": status, "seconds": 30}
    )
    with pytest.raises(Unreachable):
        azure_plane.connect(CELL).launch(order)


@pytest.mark.parametrize("listed", (True, False), ids=["listed", "not listed yet"])
def test_a_machine_whose_end_has_no_answer_keeps_no_other_from_being_ended(
    azure_plane: AzurePlane, listed: bool
) -> None:
    provider = azure_plane.connect(CELL)
    ids = provider.launch(an_order(provider, count=4)).ids
    if listed:
        until(lambda: len(provider.workers()) == 4)
    operation = "DeleteMachine" if listed else "GetMachine"
    azure_plane.region.fault(
        {"kind": "error", "operation": operation, "code": "InternalError", "status": 500, "times": 1}
    )
    with pytest.raises(Unreachable) as caught:
        provider.terminate(ids)
    until(lambda: len(azure_plane.region.control()["machines"]) == 1)
    assert list(azure_plane.region.control()["machines"]) == list(caught.value.ids)


def test_an_interrupted_order_asked_again_gives_its_existing_machines(azure_plane: AzurePlane) -> None:
    """The process died after the first machine, say. Launched again, nothing more is created."""
    provider = azure_plane.connect(CELL)
    order = an_order(provider, count=3)
    azure_plane.region.control("set", stock={"*/*": 1})
    first = provider.launch(order).ids
    azure_plane.heal()
    again = azure_plane.connect(CELL).launch(order)
    assert (again.ids, [type(error) for _, error in again.shortfalls]) == (first, [Throttled])


def test_an_order_repeated_after_a_machine_was_lost_gives_the_same_ids(azure_plane: AzurePlane) -> None:
    provider = azure_plane.connect(CELL)
    order = an_order(provider, count=3)
    ids = provider.launch(order).ids
    azure_plane.region.control("vanish", name=ids[0])
    until(lambda: len(azure_plane.region.control()["machines"]) == 2)
    assert set(azure_plane.connect(CELL).launch(order).ids) == set(ids)


def test_an_order_is_refused_if_another_cell_has_a_machine_of_that_name(
    azure_plane: AzurePlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.providers.azure.tags.names", lambda order: ("taken",))
    theirs = azure_plane.connect(OTHER_CELL)
    order = an_order(theirs)
    theirs.launch(type(order)(**{**_fields(order), "cell": OTHER_CELL}))
    with pytest.raises(Refused, match="taken"):
        azure_plane.connect(CELL).launch(order)


def _fields(order: object) -> dict[str, Any]:
    return {name: getattr(order, name) for name in type(order).__slots__}  # type: ignore[attr-defined]


def test_throttling_has_the_retry_time_of_azure(azure_plane: AzurePlane) -> None:
    provider = azure_plane.connect(CELL)
    order = an_order(provider)
    azure_plane.region.fault(
        {"kind": "error", "operation": "CreateMachine", "code": "TooManyRequests", "status": 429, "seconds": 17}
    )
    with pytest.raises(Throttled) as caught:
        provider.launch(order)
    assert caught.value.retry_after == 17


@pytest.mark.parametrize(
    "fault",
    (
        {"kind": "error", "status": 500, "code": "InternalServerError"},
        {"kind": "error", "status": 401, "code": "ExpiredAuthenticationToken"},
        {"kind": "reset"},
    ),
)
def test_a_temporary_error_leaves_the_order_open(azure_plane: AzurePlane, fault: dict[str, Any]) -> None:
    provider: AzureProvider = azure_plane.connect(CELL)
    order = an_order(provider)
    azure_plane.region.fault({"operation": "CreateMachine", **fault})
    with pytest.raises(Unreachable):
        provider.launch(order)


def test_a_size_that_is_short_everywhere_is_out_of_capacity(azure_plane: AzurePlane) -> None:
    provider = azure_plane.connect(CELL)
    order = an_order(provider)
    azure_plane.region.fault(
        {"kind": "error", "operation": "CreateMachine", "code": "ZonalAllocationFailed", "status": 409}
    )
    assert [type(error) for _, error in provider.launch(order).shortfalls] == [OutOfCapacity]
