"""Orders for the tests here, and their workers."""

from __future__ import annotations

from collections.abc import Callable

from autoscaler.core.model.fleet import ANY, PriceType, Worker
from autoscaler.providers.azure.provider import AzureProvider
from autoscaler.providers.contract import CELL
from autoscaler.providers.interface import LaunchOrder
from tests.deadlines import wait_for

SMALL = "Standard_D2s_v5"


def an_order(
    provider: AzureProvider,
    *,
    count: int = 1,
    token: str = "t-0",
    size: str = SMALL,
    price_type: PriceType = PriceType.ON_DEMAND,
    group: str = ANY,
) -> LaunchOrder:
    """An order of one size in all buckets that differ only in their zones."""
    buckets = tuple(
        bucket
        for bucket in provider.buckets()
        if (bucket.type.name, bucket.key.price_type, bucket.key.placement_group) == (size, price_type, group)
    )
    return LaunchOrder(token, token.removesuffix("-0"), CELL, "execute", buckets, count, "#!/bin/sh\necho booted\n")


def the_worker(provider: AzureProvider) -> Worker:
    (worker,) = provider.workers()
    return worker


def until(what: Callable[[], bool], deadline: float = 5.0) -> None:
    assert wait_for(what, deadline), f"not within {deadline:g} s of an idle machine"
