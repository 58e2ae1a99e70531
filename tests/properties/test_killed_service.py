"""The service that callers talk to is killed with the loop: asked again, a short day goes and ends as undisturbed.

The callers are as real ones: each asks again when it got no answer.
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
class Asked:
    """One caller's update, at an hour of the day."""

    hour: int
    request_set: str
    arrays: tuple[dict[str, Any], ...]
    lasts: float = 300.0


DAY = (
    Asked(1, "standard", ({"Name": "execute", "TargetCoreCount": 3},), 2.5 * HOUR),
    Asked(2, "nightly", ({**DYNAMIC, "TargetCount": 1, "Configuration": {"version": 1}},), 5 * HOUR),
    Asked(3, "nightly", ({**DYNAMIC, "TargetCount": 2, "Configuration": {"version": 2}},), 5 * HOUR),
    Asked(4, "other", ({"Name": "execute", "TargetCount": 9},), 1.5 * HOUR),
    Asked(5, "nightly", ({"Name": "execute", "TargetCount": 1},), 2 * HOUR),
    Asked(6, "standard", ({"Name": "execute", "MachineType": "m5.xlarge", "TargetCoreCount": 5},), 1.5 * HOUR),
    Asked(9, "standard", ({"Name": "execute", "MachineType": "m5.xlarge", "TargetCoreCount": 5},), 0.5 * HOUR),
)
JOBS_AT = {2: 2, 6: 3}
"""Hour → how many jobs are submitted then: the queue's own demand, beside the callers'."""
HOURS = 11
AT_REST = 12
"""Passes after which nothing moves any more."""
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
            for asked in DAY:
                if asked.hour == hour:
                    self._alive(partial(self._ask, asked))
            for _ in range(AT_REST):
                self._alive(self._pass)
            requests = self.loop.store.requests.load(self.world.clock.now)
            wanted = [(one.name, one.targets) for one in requests.sets]
            self.hours.append((seen(self.world), wanted, requests.arrays))
            self.world.cluster.advance(HOUR - self.world.clock.now % HOUR)
        self.left = left_over(self.world, self.loop)
        self.loop.store.close()
        return self

    def _pass(self) -> None:
        step(self.world, self.loop)

    def _ask(self, asked: Asked) -> None:
        ask(
            self.loop.store,
            list(asked.arrays),
            Caller("ann", self.world.clock.now, ("execute",)),
            request_set=asked.request_set,
            expiration_interval=asked.lasts,
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


def test_a_day_of_requests_brings_what_is_asked_for_and_leaves_nothing(undisturbed: Day) -> None:
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
def test_killed_at_any_instant_it_goes_on_and_ends_the_same(undisturbed: Day, day: int) -> None:
    between = len(undisturbed.instants.names) // (DAYS * DEATHS)
    chosen = frozenset(1 + between * (day + DAYS * death) for death in range(DEATHS))
    again = played(chosen)
    assert (again.deaths, again.hours, again.left) == (DEATHS, undisturbed.hours, [])
