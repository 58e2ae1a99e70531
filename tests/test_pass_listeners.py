"""What attaches to the loop hears of each pass, and cannot stop one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import ClassVar

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.loop import Loop
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener
from autoscaler.errors import GridEngineNotObservable, StateNotKept
from autoscaler.report.observed_plan import ObservedPlan
from autoscaler.store.store import Store
from tests.simulated.autoscaler import World, start

METHODS = ("begins", "decided", "passed", "keep")


@pytest.fixture
def cell(tmp_path: Path) -> World:
    return World(tmp_path / "store.sqlite")


class Hearing(PassListener):
    """Notes what it hears, with how many machines there were, and raises in one method while it is broken."""

    title: ClassVar[str] = "the test"

    def __init__(self, cell: World, broken: str = "", error: type[Exception] = ValueError) -> None:
        self.cell, self.broken, self.error, self.heard = cell, broken, error, list[tuple[str, int]]()

    def _hear(self, method: str) -> None:
        self.heard.append((method, len(self.cell.cloud.machines)))
        if method == self.broken:
            raise self.error("no room")

    def begins(self) -> None:
        self._hear("begins")

    def decided(self, seen: ObservedPlan) -> None:
        assert seen.plan.memory.passes > 0
        self._hear("decided")

    def passed(self, done: Pass) -> None:
        assert len(done.observed.workers) == len(done.snapshot.fleet.workers)
        self._hear("passed")

    def keep(self, done: Pass) -> None:
        self._hear("keep")

    def failed(self, failure: FailedPass) -> None:
        self.heard.append((f"failed: {failure.words}", len(self.cell.cloud.machines)))


class InDryRun(Hearing):
    in_dry_run: ClassVar[bool] = True


def a_pass(loop: Loop) -> None:
    loop.listeners.begins()
    loop._guarded_pass()


def needing(cell: World) -> Loop:
    """A loop whose next pass launches for a job that fits nowhere."""
    cell.cluster.submit(1, seconds=100)
    return start(cell)


def test_listeners_hear_of_a_pass_before_and_after_its_actions(cell: World) -> None:
    loop, hearing = needing(cell), Hearing(cell)
    loop.attach(hearing)
    a_pass(loop)
    assert hearing.heard == [("begins", 0), ("decided", 0), ("passed", 1), ("keep", 1)]


@pytest.mark.parametrize("method", METHODS)
def test_a_listener_that_raises_stops_neither_the_pass_nor_others_and_is_told(
    cell: World, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop, broken, sound = needing(cell), Hearing(cell, broken=method), Hearing(cell)
    loop.attach(broken)
    loop.attach(sound)
    for _ in range(3):
        a_pass(loop)
    assert [name for name, _ in sound.heard] == [*METHODS] * 3
    assert len(cell.cloud.machines) == 1
    assert sum(record.levelname == "ERROR" for record in caplog.records) == 1
    last = loop.store.observations.load()
    assert last is not None
    assert last.troubles == ("the test failed: ValueError: no room",)
    broken.broken = ""
    a_pass(loop)
    a_pass(loop)
    assert caplog.messages[-1] == "the test: as usual again"
    last = loop.store.observations.load()
    assert last is not None
    assert last.troubles == ()


def test_what_a_listener_wrote_before_it_raised_is_undone_and_the_pass_is_stored(cell: World) -> None:
    class Half(PassListener):
        def __init__(self, store: Store) -> None:
            self.store = store

        def keep(self, done: Pass) -> None:
            with self.store.database.transaction():
                self.store.database.execute("CREATE TABLE half (a)")
                self.store.database.execute("INSERT INTO half VALUES (1)")
            raise KeyError("the other half")

    loop = start(cell)
    loop.attach(Half(loop.store))
    loop.pass_once()
    tables = [row[0] for row in loop.store.database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert "half" not in tables
    assert loop.store.observations.load() is not None


@pytest.mark.parametrize("method", METHODS[2:])
def test_a_state_that_cannot_be_kept_ends_the_pass_as_before(cell: World, method: str) -> None:
    loop = start(cell)
    loop.attach(Hearing(cell, broken=method, error=StateNotKept))
    with pytest.raises(StateNotKept):
        loop.pass_once()
    assert loop.store.observations.load() is None


def test_listeners_hear_of_a_pass_that_failed(cell: World) -> None:
    def blind(_: Snapshot) -> Plan:
        raise GridEngineNotObservable("qstat hangs")

    loop, hearing = start(cell, decide=blind), Hearing(cell)
    loop.attach(hearing)
    loop._guarded_pass()
    assert [name for name, _ in hearing.heard] == [
        "failed: cannot observe Grid Engine or the provider, so nothing is done: qstat hangs"
    ]


def test_in_a_dry_run_only_listeners_that_change_nothing_hear_of_passes(cell: World) -> None:
    loop = needing(cell)
    loop.dry_run = loop.listeners.dry_run = True
    acting, showing = Hearing(cell), InDryRun(cell)
    loop.attach(acting)
    loop.attach(showing)
    done = loop.pass_once()
    assert any(isinstance(action, Launch) for action in done.plan.actions)
    assert (acting.heard, [name for name, _ in showing.heard]) == ([], ["decided", "passed", "keep"])
