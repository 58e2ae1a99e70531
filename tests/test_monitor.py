"""The monitor in a loop: the history that a life of workers leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.outcome.sample import merged
from autoscaler.engine.loop import Loop
from autoscaler.engine.meter import Meter
from autoscaler.engine.monitor import Monitor
from autoscaler.providers.fake import Faults
from autoscaler.store.samples import HELD
from tests.simulated.autoscaler import World, settle, start


@pytest.fixture
def empty_cell(tmp_path: Path) -> World:
    return World(tmp_path / "store.sqlite")


def watched(world: World) -> Loop:
    loop = start(world)
    loop.attach(Monitor(loop.store.samples))
    return loop


@pytest.mark.parametrize("listed_after", (0.0, 30.0), ids=("listed at once", "listed late"))
@pytest.mark.parametrize("restarted", (False, True), ids=("same process", "restarted"))
def test_history_metrics_and_cost_agree_if_no_pass_follows_a_launch_for_a_while(
    empty_cell: World, *, restarted: bool, listed_after: float
) -> None:
    """Machines cost from their launch, which no listing of the pass that launched them shows."""
    empty_cell.cloud.faults = Faults(listing_lag=listed_after)
    loop = metered(empty_cell)
    empty_cell.cluster.submit(40, seconds=300)
    for _ in range(30):
        loop.pass_once()
        if empty_cell.cloud.machines:
            break
        empty_cell.cluster.advance(1)
    assert not loop.store.history.lifetimes()
    began = empty_cell.clock.now
    empty_cell.cluster.advance(65)
    loop = metered(empty_cell) if restarted else loop
    for _ in range(60):
        loop.pass_once()
        empty_cell.cluster.advance(1)
    loop.pass_once()
    history, counted, cost = costs(empty_cell, loop)
    assert (cost > 0, empty_cell.clock.now - began) == (True, 125.0)
    assert [history, counted] == pytest.approx([cost, cost], rel=0.01)


def metered(world: World) -> Loop:
    """With what keeps the history and `price_total`."""
    loop = start(world)
    meter = Meter(loop.store.measures)
    loop.attach(Monitor(loop.store.samples, meter.sampled))
    loop.attach(meter)
    return loop


def costs(world: World, loop: Loop) -> tuple[float, float, float]:
    """What machines cost by the history, by `price_total` and by `cost`."""
    now = world.clock.now
    history = merged(loop.store.samples.between(now - 9000, now, now=now, seconds=10), 0.0).cost
    counted = loop.store.measures.load().values["price_total"][()]
    return history, counted, sum(each.cost(now) or 0.0 for each in loop.store.history.lifetimes())


def test_the_history_has_what_ran_and_what_it_cost(empty_cell: World) -> None:
    loop = watched(empty_cell)
    empty_cell.cluster.submit(2, seconds=60)
    settle(empty_cell, loop)
    loop.pass_once()
    now = empty_cell.clock.now
    result = merged(loop.store.samples.between(now - 3600, now, now=now), 0.0)
    lifetimes = loop.store.history.lifetimes()
    cost = sum(lifetime.cost(now) or 0.0 for lifetime in lifetimes)
    assert (result.started, result.arrays["execute"].most) == (2, len(lifetimes))
    assert result.cost == pytest.approx(cost, rel=0.01)


@pytest.mark.parametrize("gap", (65.0, 4000.0))
def test_machines_cost_while_no_process_runs_as_long_as_the_last_state_holds(empty_cell: World, gap: float) -> None:
    """Else the history and `price_total` fall behind `cost` at each restart."""
    loop = metered(empty_cell)
    empty_cell.cluster.submit(2, seconds=100_000)
    settle(empty_cell, loop, passes=30)
    loop.pass_once()
    before = costs(empty_cell, loop)
    empty_cell.cluster.advance(gap)
    again = metered(empty_cell)
    again.pass_once()
    history, counted, cost = (after - earlier for after, earlier in zip(costs(empty_cell, again), before, strict=True))
    expected = cost * min(gap, HELD) / gap
    assert cost > 0
    assert [history, counted] == pytest.approx([expected, expected], rel=0.03)
