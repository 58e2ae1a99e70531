"""`python -m bench.events`: the cost of jobs' events in a pass.

The pass is bytes → plan of a busy cell; the events' part compares it with earlier reports and writes the news to a
store on disk. Measured are the first pass of a new store, a pass without news, and a pass with twenty new jobs. CPU
seconds, the best of several rounds.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.event_keeper import EventKeeper
from autoscaler.garbage import collect_rarely
from autoscaler.sge.qstat import ListingReader
from autoscaler.store.store import Store
from bench.generate import NOW, Mix, generate
from bench.passes import read
from bench.world import snapshot_of, world

NEW = 20
POLL = 10.0
BAR = 0.02
"""Share of a pass that events may take if there is news."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds."""

    first_pass: float
    """Of the first pass, from the bytes of qstat and qhost to its plan."""
    first: float
    """Of its events, in a new store."""
    whole: float
    """Of a later pass in which loads, priorities and usage changed."""
    same: float
    """Of its events."""
    whole_new: float
    """Of a later pass that also shows twenty new jobs."""
    new: float
    """Of its events."""


def measure(mix: Mix, rounds: int) -> Cost:
    earlier, reader = generate(replace(mix, jobs=mix.jobs - NEW)), ListingReader()
    rest = world(earlier)

    def looked(turn: int) -> tuple[float, Snapshot, Plan]:
        outputs = generate(replace(mix, turn=turn))
        return _pass(lambda: snapshot_of(read(outputs, reader), rest))

    first_pass, before, decided_before = _pass(lambda: snapshot_of(read(earlier, reader), rest))
    whole_new, seen, decided = looked(1)
    whole, later, decided_later = looked(2)
    firsts, sames, news = [], [], []
    clock = itertools.count(NOW.timestamp(), POLL)
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            store = Store.open(Path(folder) / "store.sqlite")
            keeper = EventKeeper(store.events, Path(folder) / "accounting")
            firsts.append(_seconds(partial(keeper.note, replace(before, now=next(clock)), decided_before)))
            news.append(_seconds(partial(keeper.note, replace(seen, now=next(clock)), decided)))
            sames.append(_seconds(partial(keeper.note, replace(later, now=next(clock)), decided_later)))
            store.close()
    return Cost(first_pass, min(firsts), whole, min(sames), whole_new, min(news))


def _pass(observe: Callable[[], Snapshot]) -> tuple[float, Snapshot, Plan]:
    made: list[tuple[Snapshot, Plan]] = []

    def work() -> None:
        snapshot = observe()
        made.append((snapshot, plan(snapshot)))

    seconds = _seconds(work)
    return seconds, *made[0]


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def main(arguments: list[str] | None = None) -> int:
    collect_rarely()  # as every command does
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50_000, help="waiting jobs (default 50,000)")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    kept = True
    for name, mix in (
        ("with arrays", Mix(jobs=options.jobs)),
        ("without arrays", Mix(jobs=options.jobs, arrays=False)),
        ("one category a job", Mix(jobs=options.jobs, arrays=False, unique=True)),
    ):
        cost = measure(mix, options.rounds)
        print(f"{name}: first pass {cost.first_pass:.3f} s, a later one {cost.whole:.3f} s")
        for what, seconds, whole in (
            ("first of a new store", cost.first, cost.first_pass),
            ("nothing is new", cost.same, cost.whole),
            (f"{NEW} new jobs", cost.new, cost.whole_new),
        ):
            print(f"  {what:22} {seconds * 1000:8.1f} ms, {seconds / whole:6.1%} of the pass", flush=True)
        kept &= cost.same <= BAR * cost.whole and cost.new <= BAR * cost.whole_new
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
