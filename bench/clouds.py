"""`python -m bench.clouds`: ordering and listing 1,000 workers by each cloud's provider, against its bare client on the
same server, one of those that play the clouds in the tests. (AWS, which has more ways to order: `python -m bench.aws`.)

The bare client makes the calls of a plain script: the same requests, one after another, by the library that the
provider itself uses. Each round does both, in turns first; figures are the medians of the rounds' ratios. Ends with 1
if a provider takes more than half as long again.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import requests
from requests.auth import HTTPBasicAuth

from autoscaler.providers.azure import tags
from autoscaler.providers.azure.calls import Calls
from autoscaler.providers.azure.machine import body
from autoscaler.providers.azure.provider import AzureProvider
from autoscaler.providers.azure.settings import AzureSettings
from autoscaler.providers.cloud_pipeline.parameters import launch_body
from autoscaler.providers.cloud_pipeline.provider import CloudPipelineProvider
from autoscaler.providers.cloud_pipeline.runs import CELL as CELL_PARAMETER
from autoscaler.providers.cloud_pipeline.runs import LIVING
from autoscaler.providers.cyclecloud.provider import CycleCloudProvider
from autoscaler.providers.interface import LaunchOrder, Provider
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.settings import read_settings
from tests.clouds.azure.plane import AzurePlane, Played
from tests.clouds.cloud_pipeline.plane import CloudPipelinePlane, started
from tests.clouds.cyclecloud.plane import CHOSEN, CycleCloudPlane
from tests.clouds.cyclecloud.server import PASSWORD, USER
from tests.clouds.played import played, served

WORKERS, ROUNDS, MOST = 1000, 5, 1.5
CELL = "bench"
WITHOUT_PACE = 1e6
"""Calls a second: the provider's own work is measured, not the rate limit of a real cloud."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """One cloud's provider and bare client, on one server."""

    name: str
    provider: Provider
    bare_order: Callable[[LaunchOrder], object]
    bare_list: Callable[[], object]
    end_all: Callable[[], object]


def main() -> int:
    worst = 0.0
    for cloud in (cloud_pipeline, cyclecloud, azure):
        with cloud() as found:
            ordering, listing = measured(found)
        worst = max(worst, ordering, listing)
        print(f"{found.name}: ordering {WORKERS} workers {ordering:.2f}x the bare client, listing them {listing:.2f}x")
    return 0 if worst <= MOST else 1


def measured(cloud: Cloud) -> tuple[float, float]:
    """Median ratios, provider to bare client: of ordering, and of listing."""
    cloud.end_all()
    cloud.provider.launch(order(cloud.provider, "warm-up", 1))
    cloud.provider.workers()
    rounds = [one_round(cloud, number) for number in range(ROUNDS)]
    return statistics.median(each[0] for each in rounds), statistics.median(each[1] for each in rounds)


def one_round(cloud: Cloud, number: int) -> tuple[float, float]:
    ours, bare = (order(cloud.provider, f"{who}-{number}", WORKERS) for who in ("ours", "bare"))
    taken: dict[str, float] = {}
    for who in ("bare", "ours") if number % 2 else ("ours", "bare"):
        cloud.end_all()
        taken[who] = timed(lambda: cloud.bare_order(bare)) if who == "bare" else timed(lambda: launched(cloud, ours))
    lists = [timed(cloud.bare_list), timed(cloud.provider.workers)]
    return taken["ours"] / taken["bare"], lists[1] / lists[0]


def launched(cloud: Cloud, asked: LaunchOrder) -> None:
    got = len(cloud.provider.launch(asked).ids)
    if got != asked.count:
        raise SystemExit(f"{cloud.name}: {got} of {asked.count} workers were given")


def order(provider: Provider, token: str, count: int) -> LaunchOrder:
    bucket = next(bucket for bucket in provider.buckets() if bucket.problem is None)
    return LaunchOrder(token, "order", CELL, "execute", (bucket,), count, "#!/bin/sh\n")


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@contextlib.contextmanager
def cloud_pipeline() -> Iterator[Cloud]:
    with started() as process, requests.Session() as session:
        plane = CloudPipelinePlane(process)
        process.control("timing", initialized=1e9)  # workers that come up are asked for their state one by one
        settings = read_settings(CloudPipelineProvider.Settings, plane.environment)
        provider = CloudPipelineProvider(settings, cell=CELL, rate_limiter=RateLimiter(rate=WITHOUT_PACE, burst=10))
        session.headers["Authorization"] = f"Bearer {plane.environment['API_TOKEN']}"
        api = plane.environment["API"].rstrip("/")

        def ask(path: str, wanted: Any) -> Any:
            answer = session.post(f"{api}/{path}", json=wanted, timeout=30).json()
            if answer["status"] != "OK":
                raise SystemExit(answer["message"])
            return answer["payload"]

        def make(asked: LaunchOrder) -> None:
            for index in range(asked.count):
                ask("run", launch_body(asked, index, settings, {}))

        def listing() -> None:
            wanted = {
                "parentId": settings.run_id,
                "statuses": list(LIVING),
                "partialParameters": f"{CELL_PARAMETER}={CELL}",
            }
            found = total = 0
            for page in range(1, 100):
                payload = ask("run/filter", {**wanted, "page": page, "pageSize": settings.page_size})
                found, total = found + len(payload["elements"]), payload["totalCount"]
                if found >= total:
                    break
            session.get(f"{api}/run/parents/{settings.run_id}", timeout=30).json()  # the ended ones

        yield Cloud("cloud_pipeline", provider, make, listing, lambda: process.control("forget"))


@contextlib.contextmanager
def cyclecloud() -> Iterator[Cloud]:
    with served("cyclecloud") as url, requests.Session() as session:
        plane = CycleCloudPlane(url)
        provider: CycleCloudProvider = plane.connect(CELL)
        session.auth = HTTPBasicAuth(USER, PASSWORD)
        cluster = f"{url}/clusters/demo"

        def make(asked: LaunchOrder) -> None:
            request, kind = str(uuid.uuid4()), asked.buckets[0].type.name
            nodes = {"nodearray": CHOSEN["array"], "count": asked.count, "definition": {"machineType": kind}}
            session.post(f"{cluster}/nodes/create", json={"requestId": request, "sets": [nodes]}, timeout=30).json()
            session.get(f"{cluster}/nodes", params={"request_id": request}, timeout=30).json()

        def listing() -> None:
            session.get(f"{cluster}/status", params={"nodes": "true"}, timeout=30).json()

        yield Cloud("cyclecloud", provider, make, listing, lambda: plane.control(do="reset"))


@contextlib.contextmanager
def azure() -> Iterator[Cloud]:
    with played("azure") as region:
        plane = AzurePlane(region)
        settings = read_settings(AzureSettings, plane.values())
        calls = Calls(settings, RateLimiter(rate=WITHOUT_PACE, burst=10), Played())
        provider = AzureProvider(settings, cell=CELL, calls=calls)
        client, group = calls.client, settings.resource_group

        def make(asked: LaunchOrder) -> None:
            for name in tags.names(asked):
                wanted: Any = body(asked, name, asked.buckets[0].key, settings)
                client.virtual_machines.begin_create_or_update(group, name, wanted, polling=False).result()

        yield Cloud(
            "azure",
            provider,
            make,
            lambda: list(client.virtual_machines.list(group)),
            lambda: region.control("forget"),
        )


if __name__ == "__main__":
    sys.exit(main())
