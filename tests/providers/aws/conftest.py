"""AWS on loopback for the tests here: one process for all of them, an empty region for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import Problem
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region, played


@pytest.fixture(scope="session")
def region() -> Iterator[Region]:
    with played("aws") as found:
        yield found


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, region: Region) -> None:
    """Credentials as AWS's own tools take them, and only the played services of AWS."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ACCESS_KEY_ID": "played",
        "AWS_SECRET_ACCESS_KEY": "played",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_ENDPOINT_URL_PRICING": region.address,
        "AWS_ENDPOINT_URL_SQS": region.address,
    }.items():
        monkeypatch.setenv(name, value)


Connect = Callable[..., AwsProvider]


def problems_but_prices(provider: AwsProvider) -> list[Problem]:
    """What a check finds besides the age of the prices, which are those of the shipped catalogue."""
    return [problem for problem in provider.check() if not problem.what.startswith("the prices, which")]


@pytest.fixture
def aws_plane(region: Region) -> AwsPlane:
    return AwsPlane(region)


@pytest.fixture
def connect(region: Region) -> Connect:
    """A provider in an empty region: `connect(zones="ab", spot_max_price="0.1")`."""

    def made(zones: str = "a", **settings: str) -> AwsProvider:
        return AwsPlane(region, zones, **settings).connect(CELL)

    return made
