"""Azure on loopback for the tests here: one process for all of them, an empty region for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from autoscaler.providers.azure.provider import AzureProvider
from autoscaler.providers.contract import CELL
from tests.clouds.azure.plane import AzurePlane
from tests.clouds.played import Region, played


@pytest.fixture(scope="session")
def region() -> Iterator[Region]:
    with played("azure") as found:
        yield found


@pytest.fixture
def azure_plane(region: Region) -> Iterator[AzurePlane]:
    """An empty region, which refused no request as unknown or malformed by the end of the test."""
    made = AzurePlane(region)
    yield made
    assert region.control()["refused"] == []


Connect = Callable[..., AzureProvider]


@pytest.fixture
def connect(region: Region) -> Connect:
    """A provider in an empty region: `connect(zones="1,2", spot_max_price="0.1")`."""

    def made(**settings: str) -> AzureProvider:
        return AzurePlane(region, **settings).connect(CELL)

    return made
