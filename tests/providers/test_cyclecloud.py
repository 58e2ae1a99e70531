"""The CycleCloud provider keeps the contract, against a server that speaks the published API to the letter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.contract import ProviderContract
from tests.clouds.cyclecloud.plane import CycleCloudPlane, serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def cloud(server: str) -> Iterator[CycleCloudPlane]:
    plane = CycleCloudPlane(server)
    yield plane
    assert plane.tell()["refused"] == [], "a request did not fit the published reference"


class TestCycleCloud(ProviderContract):
    @pytest.fixture
    def plane(self, cloud: CycleCloudPlane) -> CycleCloudPlane:
        return cloud
