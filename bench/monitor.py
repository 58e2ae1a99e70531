"""`python -m bench.monitor`: the cost of the monitor in a pass, and the size of the history.

The pass is bytes → plan of a cluster with a thousand workers, full of jobs; the monitor's part is its sample, the jobs
that began and its rows, committed to a file. Both are timed in turn in one process, the best of several rounds each.
Then a store gets as many days as requested, an observation a minute, which fills as many rows as more of them would,
and is cleaned up hourly as the loop does it.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.outcome.sample import ArraySample, Sample, Starts
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.engine.monitor import Monitor
from autoscaler.sge.cluster import Outputs
from autoscaler.store.samples import SampleTable
from autoscaler.store.store import Store
from bench.generate import NOW, Mix, generate
from bench.passes import read
from bench.world import WORKERS, snapshot_of, world

POLL = 10.0
BEGAN = 10
"""On this many hosts all jobs began since the last pass."""
LOOK = 60.0
DAY = 86_400.0
BAR = 0.1
"""Share of a pass that the monitor may take."""
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds."""

    whole: float
    """Of a pass, from the bytes of qstat and qhost to its plan."""
    monitor: float

    @property
    def share(self) -> float:
        return self.monitor / self.whole


def measure(jobs: int, rounds: int) -> Cost:
    """The same pass again and again, each ten seconds after the one before."""
    outputs = generate(Mix(jobs=jobs, hosts=WORKERS))
    decided = plan(_snapshot(outputs))
    passes, watched = [], []
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "store.sqlite")
        monitor, clock = Monitor(store.samples), itertools.count(NOW.timestamp(), POLL)
        seen = _snapshot(outputs)
        before = replace(seen, cluster=replace(seen.cluster, hosts=seen.cluster.hosts[BEGAN:]))
        for _ in range(rounds):
            passes.append(_seconds(lambda: plan(_snapshot(outputs))))
            _note_pass(monitor, replace(before, now=next(clock)), decided)
            watched.append(_seconds(partial(_note_pass, monitor, replace(seen, now=next(clock)), decided)))
        store.close()
    return Cost(min(passes), min(watched))


def _note_pass(monitor: Monitor, snapshot: Snapshot, decided: Plan) -> None:
    """With the observed workers that the loop makes for it."""
    observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
    monitor.note(snapshot, decided, observed)


def _snapshot(outputs: Outputs) -> Snapshot:
    """As `make bench` has it, with a worker of ours behind every host."""
    snapshot = snapshot_of(read(outputs), world(outputs))
    kind = InstanceType("m5.xlarge", "m5", 4, 16 << 30)
    hosts = snapshot.cluster.hosts[:WORKERS]
    workers = tuple(
        Worker(f"i-{host.name}", kind, "execute", MachineState.RUNNING, NOW.timestamp() - DAY, host.name)
        for host in hosts
    )
    notes = {worker.id: WorkerNote(NOW.timestamp() - DAY, joined_at=NOW.timestamp() - DAY) for worker in workers}
    memory = replace(snapshot.memory, workers=notes)
    return replace(snapshot, fleet=replace(snapshot.fleet, workers=workers), memory=memory)


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def grown(days: int, arrays: int, seed: int = 7) -> list[float]:
    """Megabytes of the store's file after each day."""
    chance, sizes = random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite"
        store = Store.open(file)
        for day in range(days):
            for hour in range(24):
                _hour(store.samples, store, day * DAY + hour * 3600.0, arrays, chance)
            store.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            sizes.append(file.stat().st_size / MEGABYTE)
        store.close()
    return sizes


def _hour(table: SampleTable, store: Store, began: float, arrays: int, chance: random.Random) -> None:
    with store.database.transaction():
        for number in range(int(3600 / LOOK)):
            at = began + number * LOOK
            table.add(_sample(at, arrays, chance), at + LOOK, Starts(chance.randrange(20), 300.5, 60.25))
        table.forget(began + 3600.0)


def _sample(at: float, arrays: int, chance: random.Random) -> Sample:
    live = {
        f"array-{number}": ArraySample(
            coming=chance.randrange(5),
            busy=chance.randrange(100),
            idle=chance.randrange(10),
            cores=chance.randrange(1600),
            price_per_hour=chance.random() * 99,
            target_workers=chance.randrange(9),
            most=100,
        )
        for number in range(arrays)
    }
    return Sample(
        at,
        waiting=chance.randrange(50_000),
        counted=chance.randrange(50_000),
        fitting=chance.randrange(1000),
        running=chance.randrange(4000),
        slots=4000,
        slots_used=chance.randrange(4000),
        persistent=3,
        longest_wait=chance.random() * 7200,
        most_waiting=50_000,
        arrays=live,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.monitor", description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000, help="waiting jobs (default 50,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, the best of which counts (default 5)")
    parser.add_argument("--days", type=int, default=31, help="days of looks (default 31)")
    parser.add_argument("--arrays", type=int, default=4, help="node arrays with workers all the time (default 4)")
    chosen = parser.parse_args(arguments)
    cost = measure(chosen.jobs, chosen.rounds)
    figures = f"{chosen.jobs} waiting jobs: a pass {cost.whole:.3f} s, the monitor {cost.monitor * 1000:.1f} ms of it"
    sys.stdout.write(f"{figures}, {cost.share:.1%} (bar {BAR:.0%})\n")
    sizes = grown(chosen.days, chosen.arrays)
    at = {day: sizes[day - 1] for day in (1, 7, 8, 14, chosen.days) if day <= chosen.days}
    days = ", ".join(f"{size:.1f} MB after {day}" for day, size in at.items())
    sys.stdout.write(f"{chosen.arrays} node arrays: {days} days\n")
    return int(cost.share > BAR)


if __name__ == "__main__":
    sys.exit(main())
