"""`python -m bench.aws`: ordering and listing 1,000 workers by the AWS provider, against bare boto3 on the same server.

The server is the one that plays AWS in the tests. Each round orders with both and lists with both; figures are the best
of all rounds. Ends with 1 where the provider takes more than half as long again.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import boto3

from autoscaler.core.model.fleet import PriceType
from autoscaler.providers.aws import tags
from autoscaler.providers.aws.calls import Calls
from autoscaler.providers.aws.orders import places, run_request
from autoscaler.providers.aws.provider import AwsProvider
from autoscaler.providers.aws.settings import AwsSettings
from autoscaler.providers.interface import LaunchOrder
from autoscaler.providers.settings import read_settings
from tests.clouds.aws.plane import AwsPlane
from tests.clouds.played import Region, played

WORKERS, ROUNDS, MOST = 1000, 8, 1.5
CELL = "bench"


def main() -> int:
    os.environ.update(AWS_ACCESS_KEY_ID="played", AWS_SECRET_ACCESS_KEY="played")
    with played("aws") as region:
        found = {name: measured(region, zones) for name, zones in (("one zone", "a"), ("two zones, a fleet", "ab"))}
    worst = 0.0
    for name, figures in found.items():
        for what, (bare, ours, calls) in figures.items():
            worst = max(worst, ours / bare)
            print(
                f"{what} {WORKERS} workers, {name}: boto3 {bare:.3f} s, provider {ours:.3f} s in {calls} calls, "
                f"ratio {ours / bare:.2f}"
            )
    return 0 if worst <= MOST else 1


def measured(region: Region, zones: str) -> dict[str, tuple[float, float, int]]:
    """Per kind of call: best of boto3's and of the provider's seconds, and the provider's number of calls."""
    plane = AwsPlane(region, zones)
    settings = read_settings(AwsSettings, plane.values())
    provider = AwsProvider(settings, cell=CELL, calls=Calls(settings))
    client = boto3.client("ec2", region_name="us-east-1", endpoint_url=region.address)
    provider.launch(order(provider, "warm-up", 1))
    provider.workers()
    gc.collect()
    gc.freeze()  # else one of the two pays, by chance, for looking through all of botocore's models
    rounds = [one_round(region, provider, client, number) for number in range(ROUNDS)]
    return {
        what: (
            min(each[what][0] for each in rounds),
            min(each[what][1] for each in rounds),
            rounds[0][what][2],
        )
        for what in ("ordering", "listing")
    }


def one_round(region: Region, provider: AwsProvider, client: Any, number: int) -> dict[str, tuple[float, float, int]]:
    """Seconds of boto3 and of the provider, and the provider's number of calls."""
    bare, ours = order(provider, f"bare-{number}", WORKERS), order(provider, f"ours-{number}", WORKERS)
    terms = provider.market.terms()
    request = run_request(bare, places(bare, terms)[0], provider.settings, terms)
    ordered = timed(partial(client.run_instances, **request))
    region.control("end_all")
    ordering = ordered, *counted(region, partial(provider.launch, ours))
    if number % 2:  # the second one pays for collecting the first one's garbage
        found = counted(region, provider.workers)
        listing = timed(partial(listed, client)), *found
    else:
        listing = timed(partial(listed, client)), *counted(region, provider.workers)
    region.control("end_all")
    return {"ordering": ordering, "listing": listing}


def counted(region: Region, call: Callable[[], object]) -> tuple[float, int]:
    """Seconds and number of calls."""
    before = len(region.control("calls")["recorded"])
    taken = timed(call)
    return taken, len(region.control("calls")["recorded"]) - before


def order(provider: AwsProvider, token: str, count: int) -> LaunchOrder:
    buckets = tuple(
        bucket
        for bucket in provider.buckets()
        if bucket.type.name == "c5.large" and bucket.key.price_type is PriceType.ON_DEMAND
    )
    return LaunchOrder(token, "order", CELL, "execute", buckets, count, "#!/bin/sh\n")


def listed(client: Any) -> list[Any]:
    """The calls of a plain script."""
    pages = client.get_paginator("describe_instances").paginate(
        Filters=tags.filters(cell=CELL), PaginationConfig={"PageSize": 1000}
    )
    return [instance for page in pages for part in page["Reservations"] for instance in part["Instances"]]


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
