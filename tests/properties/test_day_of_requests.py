"""A day of requests, with and without repeated kills of the process: every hour ends in the same state."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Target
from autoscaler.core.policy import Limits
from autoscaler.engine.loop import Loop
from autoscaler.store.nodes import NodeRow
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.sge.grid_engine_model import Killed
from tests.simulated.autoscaler import POLICY, TAG, World, start
from tests.simulated.killing import Instants, MortalProvider, MortalRunner, mortal_store

HOUR, HOURS = 3600.0, 24
BUSY = 1500.0
"""Callers ask in this many first seconds of every hour; by its end all has settled."""
ARRAY = replace(
    POLICY.node_arrays[0], limits=Limits(max_workers=12), scale_up_batch=3, scale_down_batch=3, idle_timeout=60.0
)
BURST = ArrayDefinition("burst", dynamic=True, machine_types=("m5.xlarge",))


@dataclass(frozen=True)
class Call:
    """What somebody does at a second of the day."""

    at: float
    what: str
    name: str
    targets: tuple[Target, ...] = ()
    lasts: float | None = None


def a_day(chance: random.Random) -> list[Call]:
    """Updates of three sets, nodes that are created and ended, jobs."""
    calls: list[Call] = []
    for number in range(4 * HOURS):
        at = number // 4 * HOUR + chance.uniform(0, BUSY)
        what = chance.choice(("update", "update", "update", "jobs", "create", "end"))
        targets = (Target("execute", count=chance.randint(0, 3)), Target("burst", cores=chance.randint(0, 9)))
        lasts = chance.choice((1200.0, 3 * HOUR + 1800.0, None))
        name = chance.choice(("day", "night", "standard"))
        calls.append(Call(at, what, f"n-{number}" if what == "create" else name, targets, lasts))
    return sorted(calls, key=lambda call: call.at)


def do(call: Call, world: World) -> None:
    """As another process does it."""
    with people(world) as store:
        now = world.clock.now
        if call.what == "update":
            expires_at = None if call.lasts is None else now + call.lasts
            requested = [target for target in call.targets if target.count or target.cores]
            definitions = [BURST] if any(target.node_array == "burst" for target in requested) else []
            store.requests.update(call.name, "ann", now, expires_at, requested, definitions)
        elif call.what == "jobs":
            world.cluster.submit(2, seconds=300)
        elif call.what == "create":
            store.nodes.create([NodeRow(CreatedNode(call.name, call.name, "execute", now))])
        elif nodes := store.nodes.live():
            store.nodes.end(nodes[0].id, at=now, by="ann")
            if nodes[0].worker_id is not None:
                store.overrides.ask(Verb.DRAIN, who="ann", at=now, host=nodes[0].worker_id)


@contextmanager
def people(world: World) -> Iterator[Store]:
    store = world.open_store()
    try:
        yield store
    finally:
        store.close()


@dataclass
class Day:
    """One day in one world, served by one process after another."""

    world: World
    calls: list[Call]
    killing: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.instants = Instants(self.killing)
        self.deaths = 0

    def live(self) -> list[Mapping[str, int]]:
        """What there is at the end of every hour."""
        began, calls = self.world.clock.now, list(self.calls)
        loop = self._start()
        hours: list[Mapping[str, int]] = []
        while len(hours) < HOURS:
            now = self.world.clock.now - began
            while calls and calls[0].at <= now:
                do(calls.pop(0), self.world)
            try:
                done = loop.pass_once()
                pause = 1.0 if done.acted else min(240.0, (done.plan.due or self.world.clock.now + HOUR) - began - now)
            except Killed:
                self.deaths += 1
                loop.store.close()
                loop, pause = self._start(), 1.0
            next_call = calls[0].at - now if calls else HOUR
            hour_ends = (len(hours) + 1) * HOUR - now
            self.world.cluster.advance(max(1.0, min(pause, next_call, hour_ends)))
            if self.world.clock.now - began >= (len(hours) + 1) * HOUR:
                hours.append(self.there())
        loop.store.close()
        return hours

    def there(self) -> Mapping[str, int]:
        """Machines by node array, execution hosts, live sets, arrays and nodes."""
        machines = Counter(machine.order.node_array for machine in self.world.cloud.living(TAG))
        with people(self.world) as store:
            requests = store.requests.load(self.world.clock.now)
            rows = {"sets": len(requests.sets), "arrays": len(requests.arrays), "nodes": len(requests.nodes)}
        return {**machines, **rows, "hosts": len(self.world.cluster.workers)}

    def _start(self) -> Loop:
        store = mortal_store(self.world.store_file, self.instants)
        runner = MortalRunner(self.world.cluster, self.instants)
        provider = MortalProvider(self.world.provider(), self.instants)
        try:
            return start(self.world, store=store, runner=runner, provider=provider)
        except Killed:
            self.deaths += 1
            store.close()
            return self._start()


def lived(directory: Path, seed: int, killing: frozenset[int] = frozenset()) -> tuple[Day, list[Mapping[str, int]]]:
    directory.mkdir()
    world = World(directory / "store.sqlite", policy=replace(POLICY, node_arrays=(ARRAY,)))
    day = Day(world, a_day(random.Random(seed)), killing)
    return day, day.live()


@pytest.fixture
def directory() -> Iterator[Path]:
    """One where a commit need not wait for a disk."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None, prefix="sge-autoscaler-test-") as made:
        yield Path(made)


@pytest.mark.thorough
def test_a_day_of_requests_has_the_same_hourly_states_if_the_process_is_killed(directory: Path) -> None:
    undisturbed, hours = lived(directory / "undisturbed", seed=1)
    instants = len(undisturbed.instants.names)
    killing = frozenset(random.Random(1).sample(range(1, instants), 60))
    killed, others = lived(directory / "killed", 1, killing)
    assert (others, killed.deaths > 50, max(hour.get("execute", 0) for hour in hours) > 2) == (hours, True, True)
