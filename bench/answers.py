"""Measures what it costs to ask: processor time and wall time of each command that shows something, on a private cell
with a running service, and again after it has ended (the command then reads for itself); and the memory that answering
costs the service.

Each figure is the median of several runs, absolute and as a multiple of `python -c pass` in the same run. Needs root
and Debian's Grid Engine packages (`make setup`). Exits 1 if a bar is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoscaler.lab.cell import Cell
from bench.idle import HOSTS, environment, resident, service_below

CPU_BAR, WALL_BAR = 0.2, 0.3
"""Seconds, on two idle cores."""
FIRST_BAR, FURTHER_BAR = 20.0, 2.0
"""Megabytes that the first question costs the service, which then serves its socket, and all further ones together."""
NOTHING = (sys.executable, "-c", "pass")
JOBS = 20
SETTLING = 20.0
READY = 60.0
Figures = Mapping[str, tuple[float, float]]


def questions(job: str) -> dict[str, tuple[str, ...]]:
    return {
        "status": ("status",),
        "jobs": ("jobs",),
        "workers": ("workers",),
        "explain JOB": ("explain", job),
        "explain HOST": ("explain", "exec1"),
        "history": ("history",),
        "status --json": ("status", "--json"),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.answers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=7, help="runs of each command (default 7)")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps(measure(json.loads(options.inside), options.runs)))
        return 0
    with Cell.up(hosts=HOSTS) as cell:
        env = environment(cell)
        job = [cell.submit("-h", "-b", "y", "sleep", "1") for _ in range(JOBS)][-1].partition(".")[0]
        commands = questions(job)
        service = cell.start(("sge-autoscaler", "run"), env=env, output=cell.home / "log")
        try:
            time.sleep(SETTLING)
            sizes = [resident(service_below(service.pid))]
            wait_for_pass(cell, env)
            for runs in (1, options.runs):  # a first one of each warms the service
                warm = inside(cell, env, commands, runs)
                sizes.append(resident(service_below(service.pid)))
        finally:
            service.terminate(10.0)
        alone = inside(cell, env, commands, min(options.runs, 3))
    return report(warm, alone, sizes)


def wait_for_pass(cell: Cell, env: Mapping[str, str]) -> None:
    began = time.monotonic()
    while cell.runner(("sge-autoscaler", "jobs", "--json"), env={**cell.environment, **env}, timeout=READY).returncode:
        if time.monotonic() - began > READY:
            raise RuntimeError("the service makes no pass")
        time.sleep(1)


def inside(cell: Cell, env: Mapping[str, str], commands: Mapping[str, Sequence[str]], runs: int) -> Figures:
    """Measured within the cell, so that entering it does not count."""
    argv = (sys.executable, "-m", "bench.answers", "--runs", str(runs), "--inside", json.dumps(commands))
    root = str(Path(__file__).parent.parent)
    done = cell.runner(argv, env={**cell.environment, **env}, timeout=600, cwd=Path(root))
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return {name: (cpu, wall) for name, (cpu, wall) in json.loads(done.stdout).items()}


def measure(commands: Mapping[str, Sequence[str]], runs: int) -> dict[str, tuple[float, float]]:
    program = str(Path(sys.executable).with_name("sge-autoscaler"))
    lines = {"nothing": NOTHING, **{name: (program, *words) for name, words in commands.items()}}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in lines}
    for _ in range(runs):  # in turns: load comes and goes
        for name, argv in lines.items():
            found[name].append(once(argv))
    return {
        name: (statistics.median(cpu for cpu, _ in each), statistics.median(wall for _, wall in each))
        for name, each in found.items()
    }


def once(argv: Sequence[str]) -> tuple[float, float]:
    """Processor time, its children's included, and wall time."""
    began = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began


def report(warm: Figures, alone: Figures, sizes: Sequence[float]) -> int:
    floor = warm["nothing"]
    print(f"{'':<16}{'from the service':>34}{'without one':>26}")
    print(f"{'':<16}{'CPU s':>8}{'× python':>10}{'wall s':>8}{'× python':>8}{'CPU s':>14}{'wall s':>12}")
    for name, (cpu, wall) in warm.items():
        there = alone[name]
        ratio = f"{cpu / floor[0]:9.1f}×{wall:8.3f}{wall / floor[1]:7.1f}×"
        print(f"{name:<16}{cpu:8.3f}{ratio}{there[0]:14.3f}{there[1]:12.3f}")
    before, first, further = sizes
    figures = f"{before:.1f} MB before a question, {first:.1f} after a few, {further:.1f} after all"
    print(f"resident memory of the service: {figures}")
    slow = [name for name, (cpu, wall) in warm.items() if cpu > CPU_BAR or wall > WALL_BAR]
    large = first - before > FIRST_BAR or further - first > FURTHER_BAR
    result = "PASSED OVER" if slow or large else "kept"
    print(f"bar: {CPU_BAR:g} s CPU, {WALL_BAR:g} s wall, {FIRST_BAR:g} and {FURTHER_BAR:g} MB: {result}")
    return 1 if slow or large else 0


if __name__ == "__main__":
    sys.exit(main())
