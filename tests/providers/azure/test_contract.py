"""The Azure provider keeps the contract, with and without zones, against a server that accepts only what Azure
accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoscaler.providers.contract import CELL, ControlPlane, Fault, ProviderContract
from autoscaler.providers.interface import LaunchOrder, OutOfCapacity, Provider
from tests.clouds.azure.plane import AzurePlane
from tests.clouds.played import Region


class TestAnywhere(ProviderContract):
    @pytest.fixture
    def plane(self, region: Region) -> Iterator[AzurePlane]:
        plane = AzurePlane(region)
        yield plane
        assert region.control()["refused"] == []


class TestSeveralZones(ProviderContract):
    """An order for all zones of a size is met zone by zone. A long listing is the same as without."""

    @pytest.fixture
    def plane(self, region: Region) -> Iterator[AzurePlane]:
        plane = AzurePlane(region, zones="1,2")
        plane.many = 20
        yield plane
        assert region.control()["refused"] == []

    def order(self, provider: Provider, *, count: int = 1, token: str = "", cell: str = CELL) -> LaunchOrder:
        order = super().order(provider, count=count, token=token, cell=cell)
        (chosen,) = order.buckets
        alike = [each for each in provider.buckets() if replace(each.key, zone=chosen.key.zone) == chosen.key]
        return replace(order, buckets=tuple(alike))

    def test_a_partial_launch_reports_the_shortfall(self, plane: ControlPlane) -> None:
        """It names both zones: each was asked and had none left."""
        order = self.order(plane.connect(CELL), count=3)
        plane.inject(Fault.PARTIAL)
        launched = plane.connect(CELL).launch(order)
        assert len(launched.ids) == 2
        assert {(key.zone, type(error)) for key, error in launched.shortfalls} == {
            ("1", OutOfCapacity),
            ("2", OutOfCapacity),
        }
