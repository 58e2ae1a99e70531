"""A check reports what is missing before anything is launched, with a remedy."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import SettingsError
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import Unreachable
from autoscaler.providers.registry import oldest_price
from autoscaler.providers.settings import read_settings
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region
from tests.providers.aws.conftest import Connect, problems_but_prices


def fresh(plane: AwsPlane, **without: str) -> AwsProvider:
    """A provider with a client of its own, so that credentials and region are looked for anew."""
    values = {name: value for name, value in plane.values().items() if not name.endswith(tuple(without))}
    settings = read_settings(AwsSettings, values)
    return AwsProvider(settings, cell=CELL, calls=Calls(settings))


def only(provider: AwsProvider) -> tuple[str, str]:
    (problem,) = problems_but_prices(provider)
    return problem.what, problem.remedy


@pytest.mark.parametrize("zones", ("a", "ab"))
def test_a_correct_setup_has_no_problem_and_a_check_creates_nothing(
    region: Region, connect: Connect, zones: str
) -> None:
    assert problems_but_prices(connect(zones, placement_groups="")) == []
    assert (region.control("billable")["billable"], region.control("templates")["names"]) == ([], [])
    assert region.control("calls")["refused"] == []


@pytest.mark.parametrize("stock", ({"left": {"*/*/*": 0}}, {"vcpus": 0}))
def test_a_shortage_of_capacity_or_quota_is_a_problem_that_is_not_fatal(
    region: Region, connect: Connect, stock: dict[str, Any]
) -> None:
    provider = connect()
    region.control("stock", **stock)
    assert [problem.fatal for problem in problems_but_prices(provider)] == [False]


def test_a_missing_region_is_a_problem(aws_plane: AwsPlane) -> None:
    what, remedy = only(fresh(aws_plane, REGION=""))
    assert "region" in what
    assert "CP_CAP_AUTOSCALE_AWS_REGION" in remedy


def test_missing_credentials_are_a_problem(aws_plane: AwsPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    what, remedy = only(fresh(aws_plane))
    assert "credentials" in what
    assert "AWS_PROFILE" in remedy


@pytest.mark.parametrize(
    ("settings", "named"),
    (
        ({"image": "ami-00000000"}, "ami-00000000"),
        ({"subnets": "subnet-00000000"}, "subnet-00000000"),
        ({"launch_template": "nobodys"}, "nobodys"),
        ({"security_groups": "sg-00000000"}, "sg-00000000"),
        ({"key": "nobodys-key"}, "nobodys-key"),
        ({"placement_groups": "execute=nowhere"}, "nowhere"),
        ({"families": "z99"}, "z99"),
    ),
)
def test_a_setting_that_names_a_missing_resource_is_a_problem(
    connect: Connect, settings: dict[str, str], named: str
) -> None:
    what, remedy = only(connect(**settings))
    assert named in what
    assert remedy


@pytest.mark.parametrize(
    ("zones", "operation"),
    (
        ("a", "RunInstances"),
        ("ab", "CreateFleet"),
        ("ab", "CreateLaunchTemplate"),
        ("a", "DescribeImages"),
        ("a", "DescribeSubnets"),
    ),
)
def test_a_missing_permission_is_a_problem_and_is_found_by_dry_runs_only(
    region: Region, connect: Connect, zones: str, operation: str
) -> None:
    provider = connect(zones)
    region.fault({"kind": "error", "operation": operation, "code": "UnauthorizedOperation", "status": 403})
    what, remedy = only(provider)
    assert "UnauthorizedOperation" in what
    assert "conf/aws/policy.json" in remedy
    assert (region.control("billable")["billable"], region.control("templates")["names"]) == ([], [])


def test_an_unreachable_cloud_is_not_a_problem_of_the_settings(region: Region, connect: Connect) -> None:
    provider = connect()
    region.fault({"kind": "reset"})
    with pytest.raises(Unreachable):
        provider.check()


@pytest.mark.parametrize(
    ("settings", "words"),
    (
        ({"image": "library/centos"}, "not an EC2 image"),
        ({"launch_template": ":3"}, "before the version"),
        ({"host_names": "long"}, "'full' or 'short'"),
        ({"familys": "c5"}, "FAMILIES"),
    ),
)
def test_an_invalid_setting_is_refused_when_the_provider_is_made(
    connect: Connect, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        connect(**settings)


OLD = "the prices, which a price cap uses, are of 2026-01-19, older than 30 days"


def of_prices(provider: AwsProvider) -> list[str]:
    return [problem.what for problem in provider.check() if problem.what.startswith("the prices, which")]


@pytest.mark.parametrize(("given", "found"), (({"c5.large": 0.09}, []), ({}, [OLD])))
def test_old_prices_are_reported_if_aws_gives_none(
    region: Region, connect: Connect, given: dict[str, float], found: list[str]
) -> None:
    provider = connect(prices="ask")
    region.control("stock", on_demand_prices=given)
    assert of_prices(provider) == found


def test_old_prices_are_reported_if_aws_is_never_asked(connect: Connect) -> None:
    assert of_prices(connect()) == [OLD]


@pytest.mark.parametrize(("days", "found"), ((0, False), (31, True)))
@pytest.mark.parametrize("prices", ("ask", "catalog"))
def test_old_prices_of_the_operators_own_catalogue_are_reported(
    connect: Connect, region: Region, tmp_path: Path, days: int, found: bool, prices: str
) -> None:
    day = datetime.now(UTC).date() - timedelta(days=days)
    names = [name for name, offer in load_catalog().offers.items() if offer.region == "us-east-1"]
    lines = ['cloud = "aws"', 'region = "us-east-1"', f"as_of = {day}", "[types]"]
    lines += [f'"{name}" = {{ on_demand = 0.5 }}' for name in names]
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    provider = connect(prices=prices, catalog=str(tmp_path / "mine.toml"))
    region.control("stock", on_demand_prices={"c5.large": 0.09})
    assert (of_prices(provider) != []) is found
    values = AwsPlane(region, prices=prices, catalog=str(tmp_path / "mine.toml")).values()
    assert oldest_price("aws", values) == day  # what `status` uses


def test_status_uses_the_date_of_the_catalogue_unless_prices_are_asked_for(region: Region) -> None:
    dates = [oldest_price("aws", AwsPlane(region, prices=prices).values()) for prices in ("catalog", "ask")]
    assert dates == [date(2026, 1, 19), None]
