"""A machine that is listed under the name of a host that is not ours neither has that host, nor leads its name
elsewhere.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.engine.foreign_names import CLOCKS, ForeignNames
from autoscaler.engine.observe import Observer
from tests.core.building import LONG_AGO, NOW, AWorker, a_host, a_machine, a_snapshot, a_worker, acts
from tests.simulated.autoscaler import World
from tests.test_observe import observer

HOUR = 3600.0


def seen(names: ForeignNames, snapshot: Snapshot) -> Snapshot:
    """The snapshot as it is decided on."""
    fleet = names.without(snapshot.fleet, snapshot.cluster, snapshot.memory, snapshot.policy.master, snapshot.now)
    return replace(snapshot, fleet=fleet)


def after_an_observation(*hosts: Any, ago: float = HOUR) -> ForeignNames:
    names = ForeignNames()
    seen(names, a_snapshot(*hosts, now=NOW - ago))
    return names


def names_of(snapshot: Snapshot) -> list[str | None]:
    return [worker.name for worker in snapshot.fleet.workers]


def test_a_persistent_host_is_not_changed_for_a_machine_of_its_name(caplog: pytest.LogCaptureFixture) -> None:
    names = after_an_observation(a_host("node1"))
    snapshot = a_snapshot(a_host("node1"), a_machine("node1"))
    with caplog.at_level(logging.WARNING):
        for later in range(3):
            decided = plan(seen(names, replace(snapshot, now=NOW + later * HOUR)))
            assert [each for each in acts(decided) if each[1] == "node1"] == []
            snapshot = replace(snapshot, memory=decided.memory)
    assert caplog.text.count("i-node1 is listed as node1") == 1


@pytest.mark.parametrize("name", ("master", "MASTER.example.org", "localhost", "global", "template"))
def test_no_machine_is_enrolled_under_the_name_of_the_master_or_a_word_of_grid_engine(name: str) -> None:
    assert acts(plan(seen(ForeignNames(), a_snapshot(a_machine(name))))) == []


@pytest.mark.parametrize("name", ("-oProxyCommand=id", "../w1", "w1\nw2", "w1 w2", "w1;id", "wörker", "a" * 300))
def test_what_is_no_name_reaches_no_command(name: str) -> None:
    made = seen(ForeignNames(), a_snapshot(a_machine(name, id="i-1"), a_machine("w2", address="10.0.0.7")))
    assert [(worker.name, worker.address) for worker in made.fleet.workers] == [(None, None), ("w2", "10.0.0.7")]


@pytest.mark.parametrize("address", ("-oProxyCommand=id", "10.0.0.1 evil", "fe80::1%\nx"))
def test_what_is_no_address_reaches_no_command(address: str) -> None:
    made = seen(ForeignNames(), a_snapshot(a_machine("w1", address=address)))
    assert [(worker.name, worker.address) for worker in made.fleet.workers] == [("w1", None)]


@pytest.mark.parametrize(
    ("there", "listed", "believed"),
    (
        ("node1", "node1.example.org", False),
        ("node1.example.org", "Node1", False),
        ("node1.one.org", "node1.two.org", True),
        ("node1", "node11", True),
    ),
)
def test_a_domain_counts_only_where_both_have_one(there: str, listed: str, *, believed: bool) -> None:
    made = seen(after_an_observation(a_host(there)), a_snapshot(a_host(there), a_machine(listed)))
    assert names_of(made) == [listed if believed else None]


@pytest.mark.parametrize(
    ("before", "now"),
    (
        ((), a_host("w1")),  # the host came after the machine was made
        ((a_host("w1", heard=False),), a_host("w1")),  # a machine that is gone had the name
    ),
    ids=("joined by itself", "left by another machine"),
)
def test_a_machine_keeps_its_name_if_no_host_reported_under_it_before(before: tuple[Any, ...], now: Any) -> None:
    assert names_of(seen(after_an_observation(*before), a_snapshot(now, a_machine("w1")))) == ["w1"]


def test_a_name_that_a_worker_of_ours_had_is_used_again() -> None:
    names = ForeignNames()
    seen(names, a_snapshot(a_worker("w1", age=2 * HOUR), now=NOW - HOUR))
    assert names_of(seen(names, a_snapshot(a_host("w1"), a_machine("w1", id="i-2")))) == ["w1"]


def test_a_name_whose_last_worker_is_remembered_is_used_again() -> None:
    gone = Memory(workers={"i-1": WorkerNote(first_seen=LONG_AGO, host="w1", gone=True)})
    names = ForeignNames()
    seen(names, a_snapshot(a_host("w1"), gone, now=NOW - HOUR))
    assert names_of(seen(names, a_snapshot(a_host("w1"), a_machine("w1", id="i-2"), gone))) == ["w1"]


def test_a_worker_that_had_its_host_keeps_it() -> None:
    known: AWorker = a_worker("w1", age=HOUR)
    names = after_an_observation(a_host("w1"), ago=2 * HOUR)
    assert names_of(seen(names, a_snapshot(known))) == ["w1"]


def test_clocks_may_differ() -> None:
    age = HOUR - CLOCKS / 2
    names = after_an_observation(a_host("w1"))
    assert names_of(seen(names, a_snapshot(a_host("w1"), a_machine("w1", age=age)))) == ["w1"]


@pytest.mark.parametrize(
    ("age", "ago", "believed"),
    ((-HOUR, 60.0, True), (HOUR, 600.0, False)),
    ids=("the cloud is ahead, and the host reported before a listing showed it", "the cloud is behind"),
)
def test_the_clouds_clock_may_be_set(age: float, ago: float, *, believed: bool) -> None:
    names = after_an_observation(a_host("w1"), ago=ago)
    shown = a_snapshot(a_host("w1"), a_machine("w1", age=age), Memory(passes=7, observed_at=NOW - 10))
    assert names_of(seen(names, shown)) == ["w1" if believed else None]


def test_an_observation_believes_no_such_name(tmp_path: Path) -> None:
    world = World(tmp_path / "store.sqlite", persistent={"w1": 2})
    watching: Observer = observer(world)
    watching.observe()
    fleet = a_snapshot(a_machine("w1"), a_machine("w2")).fleet
    later = world.clock() + HOUR
    workers = tuple(replace(worker, created_at=later) for worker in fleet.workers)
    watching.clock = lambda: later
    watching.executor = lambda _, name: Done(workers)  # type: ignore[assignment]
    assert names_of(watching.observe().snapshot) == [None, "w2"]


class Done:
    """A listing that has ended."""

    def __init__(self, workers: Any) -> None:
        self.workers, self.buckets, self.interruptions = workers, (), ()

    def result(self, _: float) -> Done:
        return self

    def done(self) -> bool:
        return True
