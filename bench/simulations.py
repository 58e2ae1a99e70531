"""What a simulation takes while it goes on: CPU, passes that are made and skipped, and memory, by simulated time.

Without WORKLOAD: a year of a million jobs that are made of a seed. A loop of plain Python is timed beside it before and
after, so that runs on different or busy machines compare.

    python -m bench.simulations [WORKLOAD] [--jobs N] [--skip N] [--hybrid] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from autoscaler.commands._simulated import SimulationOptions, conditions_of, workload_of
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.garbage import collect_rarely
from autoscaler.simulation.candidates import Candidate, try_policy
from autoscaler.simulation.run import Simulation
from bench.plans import reference

YEAR = "generated:1000000:1:365"
PARTS = 12
"""Parts of the jobs of which each gets a line."""
DAY = 86_400.0
MB = 1024**2


@dataclass(frozen=True, slots=True)
class Part:
    """From the last line to this one; `memory_mb` is at its end."""

    until_day: float
    tasks: int
    cpu_s: float
    passes_cpu_s: float
    made: int
    skipped: int
    memory_mb: float


class Watch:
    """Makes the parts while a simulation submits its jobs."""

    def __init__(self, expected: int) -> None:
        self._each = max(expected // PARTS, 1)
        self.parts: list[Part] = []
        self.run: Simulation | None = None
        self._last = Part(0.0, 0, time.process_time(), 0.0, 0, 0, 0.0)

    def begun(self, run: Simulation) -> None:
        self.run = run

    def submitted(self, name: str, now: float, tasks: int) -> None:
        """`tasks`: so far."""
        if tasks - self._last.tasks >= self._each:
            self.part(now, tasks)

    def part(self, now: float, tasks: int) -> None:
        """Until this second of the simulation."""
        run, last = self.run, self._last
        if run is None:
            return
        now_is = Part(now / DAY, tasks, time.process_time(), run.pass_cpu, run.passes, run.skipped, _memory() / MB)
        self._last = now_is
        self.parts.append(
            Part(
                now_is.until_day,
                now_is.tasks - last.tasks,
                now_is.cpu_s - last.cpu_s,
                now_is.passes_cpu_s - last.passes_cpu_s,
                now_is.made - last.made,
                now_is.skipped - last.skipped,
                now_is.memory_mb,
            )
        )
        print(_row(self.parts[-1]), flush=True)


def _memory() -> float:
    """Resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _row(part: Part) -> str:
    each = 1000 * part.passes_cpu_s / part.made if part.made else 0.0
    return (
        f"{part.until_day:8.1f} {part.tasks:9,} {part.cpu_s:9.1f} {part.made:9,} {part.skipped:9,} {each:9.2f} "
        f"{part.memory_mb:10.0f}"
    )


def a_policy(*, hybrid: bool) -> Policy:
    """One queue: workers of one type that stay for ten minutes; hybrid: of all sizes of m5, as settings have it without
    others.
    """
    array = NodeArrayPolicy(
        name="execute",
        queue="main.q",
        host_group="@allhosts",
        instance_type="m5.large" if hybrid else "m5.24xlarge",
        hybrid=hybrid,
        limits=Limits(max_workers=1_000),
        idle_timeout=30.0 if hybrid else 600.0,
    )
    return Policy(queues=(QueuePolicy("main.q", "execute"),), node_arrays=(array,), master="master")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", default=YEAR, help=f"as `simulate` has it (default {YEAR})")
    parser.add_argument("--jobs", type=int, help="only so many")
    parser.add_argument("--skip", type=int, default=0, help="begin after so many")
    parser.add_argument("--hybrid", action="store_true", help="workers of all sizes of m5, idle for 30 s at most")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args(arguments)
    collect_rarely()  # as the command does
    options = SimulationOptions(most=given.jobs, skip=given.skip, one_host=16)
    read = workload_of(given.workload, options, 16)
    watch = Watch(read.expected or 1)
    units = [reference() for _ in range(3)]
    print(" day, to     tasks     CPU s    passes   skipped   ms each  memory, MB", flush=True)
    began = time.monotonic()
    document = try_policy(
        Candidate("bench", a_policy(hybrid=given.hybrid)), read, conditions_of(options), watch.submitted, watch.begun
    )
    if watch.run is not None:
        watch.part(watch.run.now, watch.run.measures.submitted)
    units += [reference() for _ in range(3)]
    summary = _summary(watch.parts, min(units), time.monotonic() - began)
    print(
        f"{summary['tasks']:,} tasks, {summary['days']:.0f} days: {summary['cpu_s']:.0f} s of CPU in "
        f"{summary['wall_s']:.0f} s; {summary['made']:,} passes of {summary['ms_a_pass']:.2f} ms "
        f"({summary['reference_share']:.4f} of the reference loop), {summary['skipped']:,} skipped; at most "
        f"{summary['memory_mb']:.0f} MB"
    )
    print(f"all have ended: {'yes' if document['complete'] else 'no'}; reference loop {1000 * min(units):.1f} ms")
    if given.json is not None:
        given.json.parent.mkdir(exist_ok=True)
        of_run = {name: value for name, value in document.items() if name != "series"}
        given.json.write_text(json.dumps({**summary, "parts": [asdict(part) for part in watch.parts], "run": of_run}))
    return 0 if document["complete"] else 1


def _summary(parts: Sequence[Part], unit: float, wall: float) -> dict[str, float]:
    made, passes = sum(part.made for part in parts), sum(part.passes_cpu_s for part in parts)
    return {
        "tasks": sum(part.tasks for part in parts),
        "days": max(part.until_day for part in parts),
        "cpu_s": sum(part.cpu_s for part in parts),
        "wall_s": wall,
        "made": made,
        "skipped": sum(part.skipped for part in parts),
        "ms_a_pass": 1000 * passes / made if made else 0.0,
        "reference_share": passes / made / unit if made else 0.0,
        "memory_mb": max(part.memory_mb for part in parts),
    }


if __name__ == "__main__":
    sys.exit(main())
