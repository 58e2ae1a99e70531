"""Child of the benchmark: the cost of two passes in a cold process, the first and one after it. `python -m bench.passes
FILE time|memory` reads a pickled pair of outputs and prints `Figures` as JSON.

Times are CPU seconds, so that other work on the machine does not count. Memory is read from the kernel's high-water
mark, reset before the work: `ru_maxrss` would include the parent's. It is that of both passes, with the values that the
first keeps for the second.
"""

from __future__ import annotations

import gc
import json
import pickle
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC
from pathlib import Path
from xml.parsers import expat

from autoscaler.core.model.cluster import Cluster
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan
from autoscaler.garbage import collect_rarely
from autoscaler.sge.cluster import Outputs, cluster_from
from autoscaler.sge.qstat import ListingReader
from bench.generate import NOW
from bench.world import World, snapshot_of, world

_MARK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figures:
    """CPU seconds of the walks over the first outputs' bytes, and of each pass: bytes → cluster, and bytes → plan. Or
    megabytes.
    """

    bare: float = 0.0
    walk: float = 0.0
    first_cluster: float = 0.0
    first: float = 0.0
    next_cluster: float = 0.0
    next: float = 0.0
    memory: float = 0.0
    job_categories: int = 0
    tasks: int = 0


def walk(outputs: Outputs, *, handlers: bool = True) -> None:
    """Expat over qstat's and qhost's bytes, doing nothing with them. With handlers for start, end and characters it is
    the least that any reader by expat could cost.
    """

    def start(_name: str, _attributes: dict[str, str]) -> None: ...
    def end(_name: str) -> None: ...
    def characters(_text: str) -> None: ...

    for document in (outputs.qstat, outputs.qhost or b""):
        parser = expat.ParserCreate()
        if handlers:
            parser.StartElementHandler = start
            parser.EndElementHandler = end
            parser.CharacterDataHandler = characters
        parser.Parse(document, True)


def read(outputs: Outputs, reader: ListingReader | None = None) -> Cluster:
    """Read as the service does, which keeps its reader from pass to pass."""
    listing = (reader or ListingReader()).read(outputs.qstat, UTC)
    return cluster_from(replace(outputs, listing=listing), zone=UTC, now=NOW.timestamp())


class Passes:
    """One pass after the other, in a world where nothing but Grid Engine's outputs changes."""

    def __init__(self, rest: World) -> None:
        self._rest = rest
        self._reader = ListingReader()

    def one(self, outputs: Outputs) -> tuple[float, float, Plan]:
        """CPU seconds of bytes → cluster and of bytes → plan, and the plan."""
        gc.collect()
        began = time.process_time()
        cluster = read(outputs, self._reader)
        been_read = time.process_time()
        decided = plan(snapshot_of(cluster, self._rest))
        return been_read - began, time.process_time() - began, decided


def timed(first: Outputs, following: Outputs) -> Figures:
    passes = Passes(world(first))
    bare, walked = _seconds(lambda: walk(first, handlers=False)), _seconds(lambda: walk(first))
    first_cluster, whole, decided = passes.one(first)
    job_categories, tasks = len(decided.job_categories), decided.waiting
    next_cluster, following_whole, decided = passes.one(following)
    return Figures(
        bare, walked, first_cluster, whole, next_cluster, following_whole, job_categories=job_categories, tasks=tasks
    )


def weighed(first: Outputs, following: Outputs) -> Figures:
    passes = Passes(world(first))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _high_water()
    for outputs in (first, following):
        passes.one(outputs)
    return Figures(memory=(_high_water() - before) / 1024)


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def _high_water() -> int:
    found = _MARK.search(Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError("no VmHWM in /proc/self/status: this kernel keeps no high-water mark")
    return int(found[1])


def main(file: Path, what: str) -> None:
    collect_rarely()  # as every command does
    first, following = pickle.loads(file.read_bytes())
    print(json.dumps(asdict((weighed if what == "memory" else timed)(first, following))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
