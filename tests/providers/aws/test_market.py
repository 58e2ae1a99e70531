"""What is available and for how much: from AWS if it answers, else from the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import Bucket, PriceType
from autoscaler.providers.aws.catalogue import catalog_prices
from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.cache import Cached
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.interface import Refused, Unreachable
from tests.clouds.played import Region
from tests.providers.aws.conftest import Connect

DENIED = {"kind": "error", "code": "UnauthorizedOperation", "status": 403}


def prices(provider: AwsProvider, price_type: PriceType) -> dict[str, float | None]:
    """By type, in any zone."""
    found = [bucket for bucket in provider.buckets() if bucket.key.price_type is price_type]
    return {bucket.type.name: bucket.price_per_hour for bucket in found}


def first(provider: AwsProvider, name: str) -> Bucket:
    return next(bucket for bucket in provider.buckets() if bucket.type.name == name)


def test_types_have_the_size_that_ec2_reports(connect: Connect) -> None:
    type_ = first(connect(families="c5,g4dn"), "g4dn.12xlarge").type
    assert (type_.vcpus, type_.memory, type_.gpus, type_.arch) == (48, 192 * 1024**3, 4, "lx-amd64")


def test_only_types_of_the_images_architecture_are_offered(connect: Connect) -> None:
    assert {bucket.type.family for bucket in connect(families="c5,c6g").buckets()} == {"c5"}


def test_a_zone_has_only_the_types_that_ec2_offers_there(connect: Connect) -> None:
    zones = {bucket.key.zone for bucket in connect("ae", families="c7i").buckets()}
    assert zones == {"us-east-1a"}


def test_without_permission_to_list_types_those_of_the_catalogue_are_used(region: Region, connect: Connect) -> None:
    provider = connect()
    region.fault({**DENIED, "operation": "DescribeInstanceTypes"})
    assert first(provider, "c5.2xlarge").price_per_hour == 0.34


def test_an_unreachable_market_is_not_an_empty_one(region: Region, connect: Connect) -> None:
    provider = connect()
    region.fault({"kind": "reset", "operation": "DescribeInstanceTypes"})
    with pytest.raises(Unreachable):
        provider.buckets()


def test_buckets_are_not_requested_again_in_a_later_pass(region: Region, connect: Connect) -> None:
    provider = connect(prices="ask")
    provider.buckets()
    before = region.control("calls")["recorded"]
    assert provider.buckets() is provider.buckets()
    assert region.control("calls")["recorded"] == before


def test_the_price_list_overrides_the_shipped_prices(region: Region, connect: Connect) -> None:
    provider = connect(prices="ask")
    region.control("stock", on_demand_prices={"c5.large": 0.5, "c5.xlarge": 1.0, "c5.2xlarge": 2.0})
    found = prices(provider, PriceType.ON_DEMAND)
    assert (found["c5.large"], found["c5.2xlarge"], found["c5.4xlarge"]) == (0.5, 2.0, 0.68)


def test_the_operators_own_prices_override_the_price_list(region: Region, connect: Connect, tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[types]\n"c5.large" = { on_demand = 0.04 }\n', encoding="utf-8")
    provider = connect(prices="ask", catalog=str(own))
    region.control("stock", on_demand_prices={"c5.large": 0.5})
    assert prices(provider, PriceType.ON_DEMAND)["c5.large"] == 0.04


def test_spot_prices_are_current_and_unknown_if_aws_gives_none(region: Region, connect: Connect) -> None:
    provider = connect(prices="ask")
    region.control("stock", spot_prices={"c5.large": 0.031})
    found = prices(provider, PriceType.SPOT)
    assert (found["c5.large"], found["c5.xlarge"]) == (0.031, None)


def test_prices_without_permission_are_unknown_or_those_of_the_catalogue(region: Region, connect: Connect) -> None:
    provider = connect(prices="ask")
    region.fault({**DENIED, "operation": "DescribeSpotPriceHistory"}, {"kind": "reset", "operation": "GetProducts"})
    assert prices(provider, PriceType.SPOT)["c5.large"] is None
    assert prices(provider, PriceType.ON_DEMAND)["c5.large"] == 0.085


def test_a_new_catalogue_has_the_highest_spot_price_of_our_zones(region: Region, connect: Connect) -> None:
    provider = connect("ab", prices="ask")
    spot = {"c5.large": 0.03, "c5.large/us-east-1b": 0.05, "c5.large/us-east-1f": 9.0}
    region.control("stock", on_demand_prices={"c5.large": 0.5}, spot_prices=spot)
    assert {offer.type.name: offer.spot for offer in provider.offers("2026-01-02")}["c5.large"] == 0.05


def test_a_new_catalogue_has_only_the_prices_that_aws_gives_now(region: Region, connect: Connect) -> None:
    provider = connect(prices="ask")
    region.control("stock", on_demand_prices={"c5.large": 0.5}, spot_prices={"c5.xlarge": 0.07})
    found = {offer.type.name: offer for offer in provider.offers("2026-01-02")}
    large, xlarge = found["c5.large"], found["c5.xlarge"]
    assert (large.on_demand, large.spot, large.region) == (0.5, None, "us-east-1")
    assert (xlarge.on_demand, xlarge.spot, xlarge.as_of) == (None, 0.07, "2026-01-02")


def test_making_a_catalogue_is_refused_without_a_price_list(region: Region, connect: Connect) -> None:
    provider = connect(prices="ask")
    region.fault({**DENIED, "operation": "GetProducts"})
    with pytest.raises(Refused, match="pricing:GetProducts"):
        provider.offers("2026-01-02")


def test_prices_of_another_region_are_not_used() -> None:
    assert catalog_prices(load_catalog(), "us-west-2", PriceType.ON_DEMAND) == {}


def test_a_placement_group_for_every_array_leaves_no_bucket_outside(connect: Connect) -> None:
    assert {bucket.key.placement_group for bucket in connect(placement_groups="close").buckets()} == {"close"}


class TestCached:
    """Requested once, renewed in the background."""

    def cached(self, answers: list[int | Exception]) -> tuple[Cached[int], list[float]]:
        now = [0.0]

        def ask() -> int:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        def at_once(call: Callable[[], int], name: str) -> Future[int]:
            future: Future[int] = Future()
            try:
                future.set_result(call())
            except Unreachable as error:
                future.set_exception(error)
            return future

        return Cached(ask, 100.0, clock=lambda: now[0], executor=at_once), now  # type: ignore[arg-type]

    def test_the_first_error_is_raised_to_the_caller(self) -> None:
        cached, _ = self.cached([Unreachable("no"), 1])
        with pytest.raises(Unreachable):
            cached.get()
        assert cached.get() == 1

    def test_an_old_answer_is_returned_while_a_new_one_is_requested(self) -> None:
        cached, now = self.cached([1, 2])
        cached.get()
        now[0] = 100.0
        assert [cached.get(), cached.get()] == [1, 2]

    def test_a_failed_renewal_keeps_the_old_answer_and_is_retried_later(self) -> None:
        cached, now = self.cached([1, Unreachable("no"), 3])
        cached.get()
        now[0] = 100.0
        assert [cached.get(), cached.get()] == [1, 1]
        now[0] = 111.0
        assert [cached.get(), cached.get()] == [1, 3]


def test_the_size_of_a_type_is_requested_once_and_only_if_it_is_not_offered(region: Region, connect: Connect) -> None:
    provider = connect(families="c5")
    provider.buckets()
    asked = region.control("calls")["recorded"].count("ec2:DescribeInstanceTypes")
    sizes = {name: provider.market.type_of(name).vcpus for name in ("c5.2xlarge", "m5.large", "m5.large")}
    assert sizes == {"c5.2xlarge": 8, "m5.large": 2}
    assert region.control("calls")["recorded"].count("ec2:DescribeInstanceTypes") == asked + 1
