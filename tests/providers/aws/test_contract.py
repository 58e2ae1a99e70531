"""The AWS provider keeps the contract: with one zone, where an order is a single request, with several, where it is a
fleet, and in a placement group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autoscaler.core.model.fleet import Bucket
from autoscaler.providers.contract import CELL, ControlPlane, ProviderContract
from autoscaler.providers.interface import LaunchOrder, Provider
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region


class TestOneZone(ProviderContract):
    @pytest.fixture
    def plane(self, region: Region) -> ControlPlane:
        return AwsPlane(region)


class TestSeveralZones(ProviderContract):
    """An order for all zones of the type is one fleet."""

    @pytest.fixture
    def plane(self, region: Region) -> ControlPlane:
        return AwsPlane(region, zones="ab")

    def order(self, provider: Provider, *, count: int = 1, token: str = "", cell: str = CELL) -> LaunchOrder:
        order = super().order(provider, count=count, token=token, cell=cell)
        return replace(order, buckets=_alike(order.buckets[0], provider.buckets()))


def _alike(chosen: Bucket, buckets: Sequence[Bucket]) -> tuple[Bucket, ...]:
    """The bucket in every zone."""
    return tuple(bucket for bucket in buckets if replace(bucket.key, zone=chosen.key.zone) == chosen.key)
