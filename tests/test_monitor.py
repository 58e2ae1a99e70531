"""The monitor in a loop: the history that a life of workers leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.outcome.sample import merged
from autoscaler.engine.loop import Loop
from autoscaler.engine.monitor import Monitor
from tests.simulated.autoscaler import World, settle, start


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store.sqlite")


def watched(world: World) -> Loop:
    loop = start(world)
    loop.monitor = Monitor(loop.store.samples).note
    return loop


def test_the_history_has_what_ran_and_what_it_cost(world: World) -> None:
    loop = watched(world)
    world.cluster.submit(2, seconds=60)
    settle(world, loop)
    loop.pass_once()
    now = world.clock.now
    result = merged(loop.store.samples.between(now - 3600, now, now=now), 0.0)
    lifetimes = loop.store.history.lifetimes()
    cost = sum(lifetime.cost(now) or 0.0 for lifetime in lifetimes)
    assert (result.started, result.arrays["execute"].most) == (2, len(lifetimes))
    assert result.cost == pytest.approx(cost, rel=0.2)  # a machine is first observed in one pass, and ends between two


def test_a_new_process_does_not_count_the_time_in_which_none_ran(world: World) -> None:
    loop = watched(world)
    loop.pass_once()
    world.cluster.advance(30.0)
    loop.pass_once()
    world.cluster.advance(300.0)
    again = watched(world)
    again.pass_once()
    world.cluster.advance(30.0)
    again.pass_once()
    now = world.clock.now
    assert merged(again.store.samples.between(now - 3600, now, now=now), 0.0).seconds == 60.0
