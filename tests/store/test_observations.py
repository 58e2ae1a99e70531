"""The last observation of the loop, as other processes read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoscaler.core.workers.phases import Phase
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.store.observations import LastObservation, last_observation
from autoscaler.store.store import Store
from tests.simulated.autoscaler import World, start


def seen(world: World, passes: int) -> LastObservation:
    """The last observation of such a world after this many passes with five jobs in it."""
    world.cluster.submit(count=5)
    loop = start(world)
    for _ in range(passes):
        done = loop.pass_once()
        world.cluster.advance(10.0)
    snapshot = done.observation.snapshot
    observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    return last_observation(snapshot, observed, done.plan, provider="fake")


def test_the_last_observation_reads_back_as_stored(tmp_path: Path) -> None:
    result = seen(World(tmp_path / "s", boot_delay=0.0), 4)
    store = Store.open(tmp_path / "s")
    store.observations.keep(result, 100.0)
    assert Store.open(tmp_path / "s").observations.load() == result
    assert [(each.phase, each.decisive) for each in result.workers] == [(Phase.READY, None)] * 2


def test_an_order_whose_workers_came_and_left_is_not_outstanding(tmp_path: Path) -> None:
    world = World(tmp_path / "s", boot_delay=0.0)
    world.cluster.submit(count=5)
    loop = start(world)
    loop.pass_once()
    provider = world.provider()
    provider.terminate([worker.id for worker in provider.workers()])
    world.cluster.advance(10.0)
    done = loop.pass_once()
    snapshot = done.observation.snapshot
    observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    gone = [machine.worker for machine in observed.workers if machine.gone]
    result = last_observation(snapshot, observed, done.plan, provider="fake")
    assert gone
    assert {worker.order_id for worker in gone}.isdisjoint(order.id for order in result.orders)
    assert {worker.id for worker in gone}.isdisjoint(seen.worker.id for seen in result.workers)


def test_types_that_an_array_may_not_use_are_left_out(tmp_path: Path) -> None:
    result = seen(World(tmp_path / "s"), 1)
    assert list(result.arrays[0].types) == ["m5.large"]


def test_an_unchanged_observation_is_not_written_again(tmp_path: Path) -> None:
    store, other = Store.open(tmp_path / "s"), Store.open(tmp_path / "s")
    store.observations.keep(LastObservation("fake"), 1.0)
    before = other.database.changes_by_others
    store.observations.keep(LastObservation("fake"), 2.0)
    assert other.database.changes_by_others == before


def test_a_newer_observation_replaces_the_older_one(tmp_path: Path) -> None:
    store, other = Store.open(tmp_path / "s"), Store.open(tmp_path / "s")
    store.observations.keep(LastObservation("fake"), 1.0)
    first = other.observations.load()
    store.observations.keep(replace(LastObservation("fake"), stopping=True), 2.0)
    assert (first, other.observations.load()) == (LastObservation("fake"), LastObservation("fake", stopping=True))


def test_before_the_first_observation_there_is_none() -> None:
    assert Store.open(None).observations.load() is None


def test_an_observation_of_another_version_reads_as_none(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    store.database.execute("INSERT INTO observations VALUES (1, 7, 1.0, '{\"workers\": 3}')")
    before = store.observations.load()
    store.observations.keep(LastObservation("fake"), 2.0)
    assert (before, store.observations.load()) == (None, LastObservation("fake"))
