"""Measures two passes of a busy cell, from the bytes of qstat and qhost to a plan, against expat's walk of the bytes.

The first pass is that of a process that has just started. In the next one the same jobs wait and run, and loads,
priorities and usage have changed. Every round is a process of its own, which measures the floors as well: expat with
three handlers that do nothing, and without. Figures are CPU seconds, the best of several rounds, because other work on
the machine only ever adds. Memory is the growth of the peak resident size over the memory held with the input read.
Exits with 1 if a bar is passed.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.generate import Mix, generate
from bench.passes import Figures

CHILD_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of the first pass, in walks with handlers; of the next one, in first passes; and of memory in megabytes."""

    first: float
    memory: float
    next: float = 0.2


FEW = Bars(first=1.0, memory=80.0)
UNIQUE = Bars(first=4.0, memory=150.0)
MIXES = (
    ("few categories, with arrays", Mix(), FEW),
    ("few categories, without arrays", Mix(arrays=False), FEW),
    ("one category a job", Mix(arrays=False, unique=True), UNIQUE),
)


def measure(mix: Mix, rounds: int) -> Figures:
    """The best of each figure in this many processes; memory in one more."""
    outputs = generate(mix), generate(replace(mix, turn=1))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "outputs")
        file.write_bytes(pickle.dumps(outputs))
        found = [_child(file, "time") for _ in range(rounds)]
        memory = _child(file, "memory").memory
    best = {name: min(asdict(each)[name] for each in found) for name in asdict(found[0])}
    return replace(Figures(**best), memory=memory)


def _child(file: Path, what: str) -> Figures:
    done = subprocess.run(
        [sys.executable, "-m", "bench.passes", str(file), what],
        check=True,
        stdout=subprocess.PIPE,
        timeout=CHILD_TIMEOUT,
        cwd=Path(__file__).parent.parent,
    )
    return Figures(**json.loads(done.stdout))


def report(name: str, mix: Mix, figures: Figures, bars: Bars) -> bool:
    """Print the figures of one mix, and say whether it keeps the bars."""
    print(f"{name}: {mix.jobs:,} waiting jobs ({figures.tasks:,} tasks, {figures.job_categories:,} verdicts)")
    rows = [
        ("expat without handlers", figures.bare),
        ("expat with three handlers", figures.walk),
        ("first pass, to cluster", figures.first_cluster),
        ("first pass, to plan", figures.first),
        ("next pass, to cluster", figures.next_cluster),
        ("next pass, to plan", figures.next),
    ]
    for what, seconds in rows:
        by = f"{seconds / figures.walk:6.2f}x with, {seconds / figures.bare:6.2f}x without handlers"
        print(f"  {what:26} {seconds:7.3f} s {by}")
    first, following = figures.first / figures.walk, figures.next / figures.first
    print(f"  next pass                  {following:7.3f} of the first")
    print(f"  peak memory, both passes   {figures.memory:7.1f} MB above the input")
    kept = first <= bars.first and following <= bars.next and figures.memory <= bars.memory
    limits = f"first {bars.first:g}x, next {bars.next:g} of the first, {bars.memory:g} MB"
    print(f"  bars: {limits}: {'kept' if kept else 'PASSED OVER'}", flush=True)
    return kept


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=50_000, help="waiting jobs (default 50,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, the best of which counts (default 5)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    passed = []
    for name, mix, bars in MIXES:
        mix = replace(mix, jobs=options.jobs, seed=options.seed)
        passed.append(report(name, mix, measure(mix, options.rounds), bars))
    return 0 if all(passed) else 1
