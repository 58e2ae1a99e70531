"""Crowds of workers that ask at once, in whole passes: thirty workers, fifty callers, and processes that are killed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from autoscaler.core.model.request_sets import AutoStopAnswer, Target
from autoscaler.core.policy import Limits
from autoscaler.engine.loop import Loop
from tests.samples import sample
from tests.simulated.autoscaler import POLICY, TAG, World, start, step
from tests.simulated.cluster import ended_once

MOST, CALLERS, ROUNDS, WANTED = 30, 50, 15, 9
NEVER = 1e9
"""Seconds: nobody leaves for idleness, so that whoever leaves was told so."""
ARRAY = replace(
    POLICY.node_arrays[0], limits=Limits(max_workers=MOST), idle_timeout=NEVER, scale_up_batch=MOST, scale_down_batch=1
)


@dataclass
class Crowd:
    """Callers that request and workers that ask at random, and the answers that they got."""

    world: World
    chance: random.Random
    loop: Loop = field(init=False)
    stopped: set[str] = field(default_factory=set)
    asked: int = 0
    answered: int = 0

    def __post_init__(self) -> None:
        self.loop = start(self.world)

    @property
    def living(self) -> list[str]:
        return [machine.id for machine in self.world.cloud.living(TAG)]

    @property
    def ended(self) -> set[str]:
        return set(self.world.cloud.machines) - set(self.living)

    def want(self, counts: Mapping[int, int]) -> None:
        """Each of these callers requests this many workers, and nothing else."""
        store, at = self.loop.store, self.world.clock.now
        with store.database.transaction():
            for caller, count in counts.items():
                store.requests.update(f"caller-{caller}", "ann", at, None, (Target("execute", count=count),), ())

    def ask(self, workers: Iterable[str], *, killed: bool = False) -> None:
        """All these ask before one pass, whose process may be killed after planning; then they read the answers."""
        table, at, asking = self.loop.store.auto_stops, self.world.clock.now, list(workers)
        with self.loop.store.database.transaction():
            for worker in asking:
                table.ask(worker, at)
        step(self.world, self.loop)
        for worker in asking:
            if (answered := table.answered(worker, at)) is not None:
                self.answered += 1
                self.stopped |= {worker} if answered.answer is AutoStopAnswer.STOPS else set()
        self.asked += len(asking)
        if killed:
            self.loop.store.close()
            self.loop = start(self.world)

    def storm(self) -> None:
        """Jobs come, callers change their requests, workers ask, and now and then the process is replaced."""
        chance = self.chance
        for _ in range(ROUNDS):
            self.world.cluster.submit(chance.randint(0, 4), seconds=chance.choice((5.0, 30.0, 120.0)))
            self.want({caller: int(chance.random() < 0.2) for caller in chance.sample(range(CALLERS), 10)})
            self.ask(chance.sample(self.living, chance.randint(0, len(self.living))), killed=self.chance.random() < 0.2)

    def settle(self) -> None:
        """Nothing is changed any more; make passes until no action is left."""
        for _ in range(40):
            done = step(self.world, self.loop)
            if done is not None and not done.acted and self.stopped <= self.ended:
                return
        pytest.fail("it never came to rest")


@pytest.mark.parametrize("seed", sample(range(3), 0))
def test_in_any_crowd_exactly_the_workers_told_to_stop_leave_and_those_requested_stay(
    seed: int, tmp_path: Path
) -> None:
    world = World(tmp_path / "store.sqlite", policy=replace(POLICY, node_arrays=(ARRAY,)))
    crowd = Crowd(world, random.Random(seed))
    crowd.storm()
    crowd.want({caller: int(caller < WANTED) for caller in range(CALLERS)})
    while not all(job.ended for job in world.cluster.jobs):
        step(world, crowd.loop)
    crowd.settle()
    crowd.ask(crowd.living)
    crowd.settle()
    assert (len(crowd.living), crowd.ended) == (WANTED, crowd.stopped)
    assert (crowd.answered, ended_once(world.cluster.jobs)) == (crowd.asked, True)
