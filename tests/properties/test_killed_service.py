"""The service that callers talk to is killed with the loop: with repeated requests a short day ends as undisturbed.

Like real callers, each asks again when it got no answer.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoscaler.constraints.request_documents import Caller, ask
from autoscaler.core.policy import Limits
from tests.sge.grid_engine_model import Killed
from tests.simulated.autoscaler import POLICY, World, left_over, start, step
from tests.simulated.killing import Instants, MortalNames, MortalProvider, MortalRunner, mortal_store

HOUR = 3600.0
DYNAMIC = {"Name": "dynamic_array", "Extends": "execute", "Dynamic": True, "MachineType": "m5.xlarge"}


@dataclass(frozen=True)
class Update:
    """One caller's update, at an hour of the day."""

    hour: int
    request_set: str
    arrays: tuple[dict[str, Any], ...]
    lasts: float = 300.0


DAY = (
    Update(1, "standard", ({"Name": "execute", "TargetCoreCount": 3},), 2.5 * HOUR),
    Update(2, "nightly", ({**DYNAMIC, "TargetCount": 1, "Configuration": {"version": 1}},), 5 * HOUR),
    Update(3, "nightly", ({**DYNAMIC, "TargetCount": 2, "Configuration": {"version": 2}},), 5 * HOUR),
    Update(4, "other", ({"Name": "execute", "TargetCount": 9},), 1.5 * HOUR),
    Update(5, "nightly", ({"Name": "execute", "TargetCount": 1},), 2 * HOUR),
    Update(6, "standard", ({"Name": "execute", "MachineType": "m5.xlarge", "TargetCoreCount": 5},), 1.5 * HOUR),
    Update(9, "standard", ({"Name": "execute", "MachineType": "m5.xlarge", "TargetCoreCount": 5},), 0.5 * HOUR),
)
JOBS_AT = {2: 2, 6: 3}
"""Hour → how many jobs are submitted then: job demand, in addition to the callers' requests."""
HOURS = 11
SETTLED = 12
"""Passes after which nothing changes any more."""
DAYS, DEATHS = 2, 10
"""Days that are played, and how often each is killed, at instants at which the others are not."""


def seen(world: World) -> Counter[tuple[str, str]]:
    """Machines by node array and type."""
    there = (machine for machine in world.provider().workers() if machine.exists)
    return Counter((machine.node_array, machine.type.name) for machine in there)


@dataclass
class Day:
    """One world, and the processes that serve it one after the other."""

    directory: Path
    killing: frozenset[int] = frozenset()
    hours: list[Any] = field(default_factory=list)
    deaths: int = 0
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        array = replace(POLICY.node_arrays[0], limits=Limits(max_workers=5))
        self.world = World(self.directory / "store.sqlite", policy=replace(POLICY, node_arrays=(array,)))
        self.instants = Instants(self.killing)
        self._begin()

    def _begin(self) -> None:
        world = self.world
        self.loop = start(
            world,
            store=mortal_store(world.store_file, self.instants),
            runner=MortalRunner(world.cluster, self.instants),
            provider=MortalProvider(world.provider(), self.instants),
            names=MortalNames(world.names, self.instants),
        )

    def _alive(self, do: Callable[[], object]) -> None:
        """Do it, again by a new process as often as the old one is killed."""
        while True:
            try:
                do()
                return
            except Killed:
                self.deaths += 1
                self.loop.store.close()
                self._begin()

    def play(self) -> Day:
        for hour in range(HOURS):
            if hour in JOBS_AT:
                self.world.cluster.submit(JOBS_AT[hour], seconds=20)
            for update in DAY:
                if update.hour == hour:
                    self._alive(partial(self._ask, update))
            for _ in range(SETTLED):
                self._alive(self._pass)
            requests = self.loop.store.requests.load(self.world.clock.now)
            targets = [(one.name, one.targets) for one in requests.sets]
            self.hours.append((seen(self.world), targets, requests.arrays))
            self.world.cluster.advance(HOUR - self.world.clock.now % HOUR)
        self.left = left_over(self.world, self.loop)
        self.loop.store.close()
        return self

    def _pass(self) -> None:
        step(self.world, self.loop)

    def _ask(self, update: Update) -> None:
        ask(
            self.loop.store,
            list(update.arrays),
            Caller("ann", self.world.clock.now, ("execute",)),
            request_set=update.request_set,
            expiration_interval=update.lasts,
        )


def played(killing: frozenset[int] = frozenset()) -> Day:
    """A day in a directory where a commit need not wait for a disk."""
    fast = Path("/dev/shm")
    base = fast if fast.is_dir() else None
    with tempfile.TemporaryDirectory(dir=base, prefix="sge-autoscaler-test-") as directory:
        return Day(Path(directory), killing).play()


@pytest.fixture(scope="module")
def undisturbed() -> Day:
    return played()


def test_a_day_of_requests_launches_what_is_requested_and_leaves_nothing(undisturbed: Day) -> None:
    """What is there and idle serves a target, whatever type new ones would have; at most five are allowed."""
    small, large, made = ("execute", "m5.large"), ("execute", "m5.xlarge"), ("dynamic_array", "m5.xlarge")
    assert ([dict(machines) for machines, *_ in undisturbed.hours], undisturbed.left) == (
        [
            {},
            {small: 2},
            {small: 2, made: 1},
            {small: 2, made: 2},
            {small: 3, made: 2},
            {small: 5},
            {small: 4},
            {small: 3},
            {},
            {large: 2},
            {},
        ],
        [],
    )


@pytest.mark.parametrize("day", range(DAYS))
def test_killed_at_sampled_instants_the_day_ends_the_same(undisturbed: Day, day: int) -> None:
    between = len(undisturbed.instants.names) // (DAYS * DEATHS)
    chosen = frozenset(1 + between * (day + DAYS * death) for death in range(DEATHS))
    again = played(chosen)
    assert (again.deaths, again.hours, again.left) == (DEATHS, undisturbed.hours, [])
