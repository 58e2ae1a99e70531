"""Measures bytes → cluster and bytes → plan in one process against expat's bare walk of the same bytes.

The walk has handlers for start, end and characters that do nothing: the least that any reader of the XML by expat
could cost. Every figure is the best of several interleaved rounds, because other work on the machine only ever adds.
Memory is the growth of a fresh child's peak resident size over what it holds with the input read. Exits 1 where a bar
is passed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from xml.parsers import expat

from autoscaler.core.model.cluster import Cluster
from bench.generate import NOW, Mix, generate
from sge.cluster import Outputs, cluster_from

TIME_BAR = 3.0
"""Times the bare walk."""
MEMORY_BAR = 80.0
"""Megabytes above the input."""
CHILD_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the bare walk and of ours; `plan` is None while there is no planner to call."""

    walk: float
    cluster: float
    plan: float | None

    @property
    def ratio(self) -> float:
        """Of the most that was measured: bytes → plan, else bytes → cluster."""
        return (self.cluster if self.plan is None else self.plan) / self.walk


def walk(outputs: Outputs) -> None:
    """Expat over qstat's and qhost's bytes, doing nothing with them."""

    def start(_name: str, _attributes: dict[str, str]) -> None: ...
    def end(_name: str) -> None: ...
    def characters(_text: str) -> None: ...

    for document in (outputs.qstat, outputs.qhost or b""):
        parser = expat.ParserCreate()
        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CharacterDataHandler = characters
        parser.Parse(document, True)


def read(outputs: Outputs) -> Cluster:
    return cluster_from(outputs, zone=UTC, now=NOW.timestamp())


def decide(outputs: Outputs) -> Callable[[], object] | None:
    """Bytes → plan, with everything that is no reading of Grid Engine prepared beforehand."""
    if importlib.util.find_spec("autoscaler.core.plan") is None:
        return None
    from autoscaler.core.plan import plan
    from bench.world import snapshot_of, world

    rest = world(outputs)
    return lambda: plan(snapshot_of(read(outputs), rest))


def measure(outputs: Outputs, rounds: int, clock: Callable[[], float] = time.perf_counter) -> Measured:
    planned = decide(outputs)
    walks, reads, plans = [], [], []
    for _ in range(rounds):
        walks.append(_seconds(lambda: walk(outputs), clock))
        reads.append(_seconds(lambda: read(outputs), clock))
        if planned is not None:
            plans.append(_seconds(planned, clock))
    return Measured(min(walks), min(reads), min(plans, default=None))


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.collect()
    began = clock()
    work()
    return clock() - began


def peak_megabytes(outputs: Outputs) -> float:
    """How far the peak of bytes → plan (else cluster) lies above the input, in a child of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("qstat.xml", outputs.qstat), ("qhost.xml", outputs.qhost or b"")):
            Path(folder, name).write_bytes(data)
        done = subprocess.run(
            [sys.executable, "-m", "bench.peak", folder],
            check=True,
            capture_output=True,
            timeout=CHILD_TIMEOUT,
            cwd=Path(__file__).parent.parent,
        )
    return float(done.stdout)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=50_000, help="waiting jobs (default 50,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, the best of which counts (default 5)")
    parser.add_argument("--bar", type=float, default=TIME_BAR, help=f"times the bare walk (default {TIME_BAR:g})")
    parser.add_argument(
        "--memory-bar", type=float, default=MEMORY_BAR, help=f"MB above the input (default {MEMORY_BAR:g})"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    passed = [
        report(
            Mix(jobs=options.jobs, arrays=arrays, seed=options.seed), options.rounds, options.bar, options.memory_bar
        )
        for arrays in (True, False)
    ]
    return 0 if all(passed) else 1


def report(mix: Mix, rounds: int, bar: float, memory_bar: float) -> bool:
    """Measure one mix, print it in lines, and say whether it keeps the bars."""
    outputs = generate(mix)
    cluster = read(outputs)
    tasks = sum(shape.count for shape in cluster.shapes)
    size = (len(outputs.qstat) + len(outputs.qhost or b"")) / 1e6
    print(
        f"{mix.jobs:,} waiting jobs ({tasks:,} tasks, {len(cluster.shapes):,} shapes), {mix.hosts} full hosts, "
        f"{size:.1f} MB, {'with' if mix.arrays else 'without'} arrays"
    )
    measured = measure(outputs, rounds)
    memory = peak_megabytes(outputs)
    print(f"  expat's bare walk   {measured.walk:7.3f} s   1.00x")
    print(f"  bytes to cluster    {measured.cluster:7.3f} s  {measured.cluster / measured.walk:5.2f}x")
    if measured.plan is None:
        print("  bytes to plan       not measured: there is no autoscaler.core.plan")
    else:
        print(f"  bytes to plan       {measured.plan:7.3f} s  {measured.plan / measured.walk:5.2f}x")
    print(f"  peak memory         {memory:7.1f} MB above the input")
    kept = measured.ratio <= bar and memory <= memory_bar
    print(f"  bar: {bar:g}x and {memory_bar:g} MB: {'kept' if kept else 'PASSED OVER'}")
    return kept
