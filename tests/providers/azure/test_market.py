"""What is available: restrictions, quotas and InfiniBand; prices are those of this region or unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.model.fleet import Bucket, PriceType
from autoscaler.errors import SettingsError
from autoscaler.providers.azure.prices import Price, ask_prices, offers, prices
from autoscaler.providers.catalog import GIB, catalog_text, load_catalog
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import Unreachable
from tests.clouds.azure.plane import NOWHERE, AzurePlane
from tests.clouds.played import Region
from tests.providers.azure.conftest import Connect


def of(buckets: object, size: str, price_type: PriceType = PriceType.ON_DEMAND) -> list[Bucket]:
    assert isinstance(buckets, list)
    return [each for each in buckets if (each.type.name, each.key.price_type) == (size, price_type)]


def test_a_size_has_the_cores_memory_and_gpus_that_azure_reports(connect: Connect) -> None:
    (bucket,) = of(connect(families="NCasT4v3").buckets(), "Standard_NC4as_T4_v3")
    type_ = bucket.type
    assert (type_.vcpus, type_.memory, type_.gpus, type_.arch) == (4, 28 * GIB, 1, "lx-amd64")


def test_a_constrained_size_has_only_its_enabled_vcpus(connect: Connect) -> None:
    (bucket,) = of(connect(families="Esv5").buckets(), "Standard_E8-4s_v5")
    assert bucket.type.vcpus == 4


def test_an_arm_size_has_the_arm_architecture(connect: Connect) -> None:
    (bucket,) = of(connect(families="Dpsv5").buckets(), "Standard_D4ps_v5")
    assert bucket.type.arch == "lx-arm64"


def test_a_size_that_is_restricted_in_the_region_has_a_problem(connect: Connect) -> None:
    (bucket,) = of(connect(families="Esv5").buckets(), "Standard_E4s_v5")
    assert bucket.problem is not None
    assert "NotAvailableForSubscription" in bucket.problem


def test_a_size_that_is_restricted_in_one_zone_is_available_in_the_others(connect: Connect) -> None:
    found = of(connect(families="Fsv2", zones="1,2,3").buckets(), "Standard_F8s_v2")
    assert [(bucket.key.zone, bucket.problem is None) for bucket in found] == [("1", True), ("2", False), ("3", False)]


def test_a_size_that_is_not_sold_as_spot_has_no_spot_bucket(connect: Connect) -> None:
    assert of(connect(families="NDsv9").buckets(), "Standard_ND96s_v9", PriceType.SPOT) == []


def test_an_infiniband_size_is_available_in_an_availability_set_only(connect: Connect) -> None:
    buckets = connect(families="HBrsv3", availability_sets="mpi=tight").buckets()
    found = [(each.key.node_array, each.key.placement_group, each.problem is None) for each in buckets]
    assert found == [("", "", False), ("", "", False), ("mpi", "tight", True)]


def test_the_tightest_quota_limits_what_is_available(region: Region) -> None:
    plane = AzurePlane(region)
    region.control("limit", cores=9, standardDSv5Family=7, lowPriorityCores=5, virtualMachines=3)
    found = {(b.type.name, b.key.price_type): b.available for b in plane.connect(CELL).buckets()}
    assert found == {
        ("Standard_D2s_v5", PriceType.ON_DEMAND): 3,
        ("Standard_D4s_v5", PriceType.ON_DEMAND): 1,
        ("Standard_D2s_v5", PriceType.SPOT): 2,
        ("Standard_D4s_v5", PriceType.SPOT): 1,
    }


def test_a_quota_too_small_for_one_machine_is_a_problem(region: Region) -> None:
    plane = AzurePlane(region)
    region.control("limit", standardDSv5Family=3)
    (large,) = of(plane.connect(CELL).buckets(), "Standard_D4s_v5")
    assert large.problem == "the quota Quota of standardDSv5Family is 3, and one takes 4: ask Azure for more"


def test_prices_of_this_region_come_from_the_catalogue(connect: Connect) -> None:
    (bucket,) = of(connect().buckets(), "Standard_D2s_v5")
    assert bucket.price_per_hour == load_catalog().offers["Standard_D2s_v5"].on_demand


def test_prices_of_another_region_are_unknown(connect: Connect) -> None:
    provider = connect()
    provider.market.settings = provider.settings.model_copy(update={"location": "westeurope"})
    assert provider.market.price("Standard_D2s_v5", PriceType.ON_DEMAND) is None


def test_sizes_and_quotas_are_requested_once_for_several_passes(region: Region) -> None:
    provider = AzurePlane(region).connect(CELL)
    for _ in range(3):
        provider.buckets()
    calls = region.control()["calls"]
    assert (calls.count("Skus"), calls.count("Usages")) == (1, 1)


def test_an_unreadable_list_of_sizes_gives_no_buckets(region: Region) -> None:
    plane = AzurePlane(region)
    region.fault({"kind": "garbage", "operation": "Skus"})
    with pytest.raises(Unreachable):
        plane.connect(CELL).buckets()


def test_without_quotas_there_are_buckets_of_unknown_stock_and_a_trouble(region: Region) -> None:
    plane = AzurePlane(region)
    region.fault({"kind": "garbage", "operation": "Usages"})
    provider = plane.connect(CELL)
    assert {bucket.available for bucket in provider.buckets() if bucket.problem is None} == {None}
    assert list(provider.troubles()) == ["quotas"]


@pytest.mark.parametrize("address", ("http://azure.example.org", "ftp://127.0.0.1", "management.azure.com"))
def test_an_endpoint_without_https_is_refused(region: Region, address: str) -> None:
    with pytest.raises(SettingsError, match="https"):
        AzurePlane(region, endpoint=address).connect(CELL)


def entry(
    price: float = 0.1, kind: str = "D2s v5", product: str = "Virtual Machines Dsv5 Series", **more: str
) -> object:
    plain = {"armSkuName": "Standard_D2s_v5", "type": "Consumption", "unitOfMeasure": "1 Hour"}
    return {**plain, "retailPrice": price, "skuName": kind, "productName": product, **more}


def test_only_linux_on_demand_and_spot_prices_are_read_from_the_price_list() -> None:
    listed = [
        entry(0.096),
        entry(0.19, product="Virtual Machines Dsv5 Series Windows"),
        entry(0.03, kind="D2s v5 Spot"),
        entry(0.02, kind="D2s v5 Low Priority"),
        entry(500.0, type="Reservation"),
        entry(9.0, unitOfMeasure="1 GB"),
        entry(0.0, armSkuName="Standard_D4s_v5"),
    ]
    assert prices(listed) == {"Standard_D2s_v5": Price(0.096, 0.03)}  # type: ignore[arg-type]


def test_a_price_list_makes_a_catalogue_that_can_be_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    type_ = load_catalog().types["Standard_NC4as_T4_v3"]
    known = {type_.name: Price(0.6, 0.2)}
    file.write_text(catalog_text(offers([type_], known, "westeurope", "2026-11-21")))
    offer = load_catalog(file).offers[type_.name]
    assert (offer.type, offer.region, offer.on_demand, offer.spot) == (type_, "westeurope", 0.6, 0.2)


def test_offers_have_the_prices_of_all_pages_of_the_price_list(connect: Connect) -> None:
    found = {offer.type.name: (offer.on_demand, offer.spot) for offer in connect().offers("2026-01-02")}
    assert found == {"Standard_D2s_v5": (0.096, 0.0173), "Standard_D4s_v5": (0.192, None)}


def test_an_unreachable_price_list_is_not_an_empty_one() -> None:
    with pytest.raises(Unreachable, match="list of prices"):
        ask_prices("eastus", f"{NOWHERE}/api/retail/prices")
