"""The service's clock: a step of the machine's clock, forward or back an hour, changes no wait, limit or deadline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import Target
from autoscaler.core.policy import Limits
from autoscaler.engine.steady_clock import LONGEST_GAP, SteadyClock
from autoscaler.store.store import Store
from tests import samples
from tests.simulated.autoscaler import POLICY, World, start, step

HOUR = 3600.0
NOW = 1_800_000_000.0


@dataclass
class Machine:
    """A machine's two clocks."""

    wall: float = NOW
    since_boot: float = 500.0
    boot: str = "first"

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.since_boot += seconds

    def clock(self, store: Store) -> SteadyClock:
        return SteadyClock(store, lambda: self.wall, lambda: self.since_boot, self.boot)


@pytest.fixture
def one_pass_store(tmp_path: Path) -> Store:
    opened = Store.open(tmp_path / "store.sqlite")
    opened.memory.save(Memory(passes=1, workers={"i-1": WorkerNote(NOW)}, observed_at=NOW), NOW)
    opened.requests.update("nightly", "ann", NOW, NOW + 600, (Target("execute", count=1),), ())
    return opened


def moved_by(store: Store) -> float:
    """By how much the store's times have been moved."""
    return store.memory.load().workers["i-1"].first_seen - NOW


@pytest.mark.parametrize("by", (HOUR, -HOUR))
def test_a_clock_that_is_set_between_two_passes_moves_all_that_is_remembered(one_pass_store: Store, by: float) -> None:
    machine = Machine()
    clock = machine.clock(one_pass_store)
    clock.adjust()
    machine.passes(10)
    machine.wall += by
    before = clock()
    clock.adjust()
    assert (before, clock(), moved_by(one_pass_store), one_pass_store.memory.saved_at) == (
        NOW + 10,
        NOW + 10 + by,
        by,
        NOW + by,
    )
    (requested,) = one_pass_store.requests.load(NOW + by).sets
    assert requested.expires_at == NOW + 600 + by


@pytest.mark.parametrize("by", (HOUR, -HOUR))
def test_a_clock_that_is_set_while_the_service_is_away_moves_all_that_is_remembered(
    one_pass_store: Store, by: float
) -> None:
    machine = Machine()
    first = machine.clock(one_pass_store)
    first.adjust()
    first.keep()
    machine.passes(7200)
    machine.wall += by
    machine.clock(one_pass_store).adjust()
    assert moved_by(one_pass_store) == by


def test_time_that_passes_moves_nothing(one_pass_store: Store) -> None:
    machine = Machine()
    first = machine.clock(one_pass_store)
    first.adjust()
    first.keep()
    machine.passes(7200)
    machine.clock(one_pass_store).adjust()
    machine.passes(86_400)
    first.adjust()
    assert moved_by(one_pass_store) == 0.0


@pytest.mark.parametrize(
    ("passed", "moved"), ((300.0, 0.0), (HOUR, HOUR - LONGEST_GAP), (-HOUR, -HOUR)), ids=("short", "long", "back")
)
def test_after_a_reboot_no_long_gap_counts_and_time_never_goes_back(
    one_pass_store: Store, passed: float, moved: float
) -> None:
    machine = Machine()
    first = machine.clock(one_pass_store)
    first.adjust()
    first.keep()
    Machine(NOW + passed, 5.0, "second").clock(one_pass_store).adjust()
    assert moved_by(one_pass_store) == moved


def test_small_differences_are_followed(one_pass_store: Store) -> None:
    machine = Machine()
    clock = machine.clock(one_pass_store)
    clock.adjust()
    machine.passes(10)
    machine.wall += 0.5
    clock.adjust()
    assert (clock(), moved_by(one_pass_store)) == (NOW + 10.5, 0.0)


PASSES = 24


def history(
    directory: Path, at: int | None, by: float, *, restart: bool, cloud: float = 0.0
) -> list[list[tuple[str, Code]]]:
    """What each pass does while jobs come and go: boot, limits an hour, idle time; the clock is set before a pass. The
    cloud's clock is `cloud` seconds ahead.
    """
    directory.mkdir()
    array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=2, max_launches_per_hour=2))
    world = World(directory / "store.sqlite", boot_delay=60.0, policy=replace(POLICY, node_arrays=(array,)))
    world.cloud.clock = lambda: world.clock.now + cloud
    offset, store = [0.0], world.open_store()

    def process() -> SteadyClock:
        return SteadyClock(store, lambda: world.clock.now + offset[0], lambda: world.clock.now, "boot")

    loop = start(world, store=store, clock=process())
    world.cluster.submit(1, seconds=40)
    done = []
    for number in range(PASSES):
        if number == at:
            offset[0] += by
            loop = start(world, store=store, clock=process()) if restart else loop
        if number == PASSES - 6:
            world.cluster.submit(1, seconds=40)
        made = step(world, loop)
        done.append([] if made is None else [(each.kind, each.reason.code) for each in made.plan.actions])
    store.close()
    return done


@pytest.mark.parametrize("by", (HOUR, -HOUR), ids=("forward", "back"))
def test_a_clock_that_is_set_before_any_pass_changes_nothing_that_is_done(tmp_path: Path, by: float) -> None:
    usual = history(tmp_path / "usual", None, 0.0, restart=False)
    kinds = {kind for done in usual for kind, _ in done}
    assert {"launch", "enrol", "enable", "disable", "remove", "terminate"} <= kinds
    every = 1 if samples.thorough() else 3
    for at in range(1, PASSES, every):
        assert history(tmp_path / str(at), at, by, restart=at % 2 == 0) == usual, at


@pytest.mark.parametrize("cloud", (HOUR, -HOUR), ids=("ahead", "behind"))
def test_nothing_that_is_done_depends_on_the_clouds_clock(tmp_path: Path, cloud: float) -> None:
    usual = history(tmp_path / "usual", None, 0.0, restart=False)
    assert history(tmp_path / "apart", None, 0.0, restart=False, cloud=cloud) == usual
