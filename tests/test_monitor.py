"""The monitor in a loop: the history that a life of workers leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.outcome.sample import merged
from autoscaler.engine.loop import Loop
from autoscaler.engine.meter import Meter
from autoscaler.engine.monitor import Monitor
from autoscaler.store.samples import HELD
from tests.simulated.autoscaler import World, settle, start


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "store.sqlite")


def watched(world: World) -> Loop:
    loop = start(world)
    loop.attach(Monitor(loop.store.samples))
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


@pytest.mark.parametrize("gap", (65.0, 4000.0))
def test_machines_cost_while_no_process_runs_as_long_as_the_last_state_holds(world: World, gap: float) -> None:
    """Else the history and `price_total` fall behind `cost` at each restart."""

    def metered() -> Loop:
        loop = start(world)
        meter = Meter(loop.store.measures)
        loop.attach(Monitor(loop.store.samples, meter.sampled))
        loop.attach(meter)
        return loop

    def costs(loop: Loop) -> tuple[float, float, float]:
        now = world.clock.now
        history = merged(loop.store.samples.between(now - 9000, now, now=now, seconds=10), 0.0).cost
        counted = loop.store.measures.load().values["price_total"][()]
        return history, counted, sum(each.cost(now) or 0.0 for each in loop.store.history.lifetimes())

    loop = metered()
    world.cluster.submit(2, seconds=100_000)
    settle(world, loop, passes=30)
    loop.pass_once()
    before = costs(loop)
    world.cluster.advance(gap)
    again = metered()
    again.pass_once()
    history, counted, cost = (after - earlier for after, earlier in zip(costs(again), before, strict=True))
    expected = cost * min(gap, HELD) / gap
    assert cost > 0
    assert [history, counted] == pytest.approx([expected, expected], rel=0.03)
