"""Our own client of CycleCloud's API talks to our own server, behind which a loop serves a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from requests.auth import HTTPBasicAuth

from autoscaler.core.model.fleet import Bucket, MachineState
from autoscaler.engine.loop import Loop
from autoscaler.providers.cyclecloud.provider import CycleCloudProvider
from autoscaler.providers.cyclecloud.settings import CycleCloudSettings
from autoscaler.providers.interface import Launched, LaunchOrder, OutOfCapacity, QuotaReached, Refused
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.rest import Limits, Rest
from autoscaler.providers.settings import read_settings
from tests.simulated.autoscaler import World, start
from tests.web.served import PASSWORD, USER, Served, served

PREFIX = "CP_CAP_AUTOSCALE_CYCLECLOUD_"


class Pair:
    """A client, and the server with its loop."""

    def __init__(self, world: World, api: Served, loop: Loop) -> None:
        self.world, self.api, self.loop = world, api, loop
        self.client = self.connect()

    def connect(self, cell: str = "their-cell", **values: str) -> CycleCloudProvider:
        given = {"url": self.api.client.url, "username": USER, "password": PASSWORD, "cluster": "demo", "boot": "none"}
        settings = read_settings(
            CycleCloudSettings, {PREFIX + name.upper(): value for name, value in (given | values).items()}
        )
        rest = Rest(
            settings.url,
            auth=HTTPBasicAuth(USER.encode(), PASSWORD.encode()),
            limits=Limits(connect=30.0, read=60.0, total=120.0, tries=2, pause=0.01),
            rate_limiter=RateLimiter(rate=1000, burst=1000, patience=0.3),
        )
        return CycleCloudProvider(settings, cell=cell, rest=rest, clock=self.world.clock)

    def passes(self, count: int) -> None:
        for _ in range(count):
            self.loop.pass_once()
            self.world.cluster.advance(5.0)

    def bucket(self) -> Bucket:
        (found,) = self.client.buckets()
        return found

    def launch(self, count: int = 1, token: str = "t-0") -> Launched:
        bucket = self.bucket()
        return self.client.launch(
            LaunchOrder(token, f"order-{token}", self.client.cell, "execute", (bucket,), count, "#!/bin/sh")
        )

    def states(self) -> list[MachineState]:
        return [worker.state for worker in self.client.workers()]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    world = World(tmp_path / "store.sqlite", boot_delay=7.0)
    with served(world.store_file, clock=world.clock) as api:
        loop = start(world)
        loop.pass_once()
        yield Pair(world, api, loop)


def test_the_client_reads_the_buckets_of_our_server(pair: Pair) -> None:
    bucket = pair.bucket()
    assert (bucket.type.name, bucket.type.vcpus, bucket.key.node_array, bucket.available, bucket.problem) == (
        "m5.large",
        2,
        "execute",
        2,
        None,
    )


def test_our_server_passes_the_check_of_the_client(pair: Pair) -> None:
    assert [problem.what for problem in pair.client.check() if problem.fatal] == []


def test_an_order_becomes_workers_that_run_jobs(pair: Pair) -> None:
    launched = pair.launch(2)
    pair.passes(8)
    (job,) = pair.world.cluster.submit()
    pair.passes(2)
    workers = pair.client.workers()
    assert ([worker.id for worker in workers], pair.states()) == (list(launched.ids), [MachineState.RUNNING] * 2)
    assert job.host in {worker.name for worker in workers}


def test_a_repeated_order_brings_the_same_workers(pair: Pair) -> None:
    assert pair.launch(2).ids == pair.launch(2).ids


def test_workers_beyond_the_limits_are_a_shortfall(pair: Pair) -> None:
    launched = pair.launch(5)
    ((_, error),) = launched.shortfalls
    assert (len(launched.ids), isinstance(error, OutOfCapacity | QuotaReached)) == (2, True)


def test_a_terminated_worker_is_listed_as_stopping_until_it_is_gone(pair: Pair) -> None:
    launched = pair.launch(1)
    pair.passes(8)
    pair.client.terminate(launched.ids)
    before = pair.states()
    pair.passes(10)
    assert (before, pair.states()) == ([MachineState.STOPPING], [])


def test_terminating_a_node_that_is_gone_succeeds(pair: Pair) -> None:
    launched = pair.launch(1)
    assert len(pair.states()) == 1
    pair.client.terminate(launched.ids)
    pair.client.terminate(launched.ids)
    assert pair.states() == []


def test_nodes_of_another_cell_are_neither_listed_nor_terminated(pair: Pair) -> None:
    launched = pair.launch(1)
    other = pair.connect("another-cell")
    with pytest.raises(Refused, match="does not carry the tag"):
        other.terminate(launched.ids)
    assert (list(other.workers()), pair.states()) == ([], [MachineState.PENDING])


def test_a_boot_script_that_would_not_run_is_refused(pair: Pair) -> None:
    pair.client = pair.connect(boot="cloud-init")
    with pytest.raises(Refused, match="CloudInit"):
        pair.launch(1)


def test_a_verb_that_the_server_does_not_have_is_refused(pair: Pair) -> None:
    launched = pair.launch(1)
    with pytest.raises(Refused, match="has no reimage"):
        pair.client.operate(launched.ids[0], "reimage")
