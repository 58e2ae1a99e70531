"""How long a job waits for its start while the context of thousands of others is written: `python -m bench.contexts`.

On a private cell thousands of jobs are held. A job that fits is submitted again and again, and reports when it starts:
first while nothing is written, then while the contexts are written as the autoscaler does (two commands a second, 200
jobs each), then again without. Needs root and Debian's Grid Engine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator

from autoscaler.core.outcome.waiting_notes import AT_ONCE, PAUSE, TOGETHER
from autoscaler.lab.cell import Cell
from autoscaler.sge.admin import Administrator

TEXT = "it waits for a worker: the limit max_workers is reached (sge-autoscaler explain JOB says more); {round}"
SUBMIT = "for n in $(seq {count}); do qsub -h -b y -w n sleep 1 || exit 1; done >/dev/null"
LANES = 4
"""Shells that submit at the same time."""


def hold(cell: Cell, count: int) -> list[str]:
    """This many held jobs."""
    shells: list[threading.Thread] = []
    for lane in range(LANES):
        some = count // LANES + (lane < count % LANES)
        shell = threading.Thread(
            target=lambda some=some: cell.runner(("sh", "-c", SUBMIT.format(count=some)), timeout=3600.0)
        )
        shell.start()
        shells.append(shell)
    for shell in shells:
        shell.join()
    return [str(number) for number in range(1, count + 1)]


def delays(cell: Cell, probes: int) -> Iterator[float]:
    """Seconds from `qsub` to the start of a job that fits, this many times."""
    for number in range(probes):
        started = cell.output / f"started-{number}-{time.monotonic_ns()}"
        began = time.time()
        cell.submit("-b", "y", "-o", "/dev/null", "-e", "/dev/null", "sh", "-c", f"'date +%s.%N >{started}'")
        while not started.exists() or not started.read_text().strip():
            time.sleep(0.02)
        yield float(started.read_text()) - began


class Writing(threading.Thread):
    """Writes contexts as the autoscaler does, until it is stopped."""

    def __init__(self, cell: Cell, jobs: list[str]) -> None:
        super().__init__()
        self._admin, self._jobs, self._over = Administrator(cell.runner, timeout=120.0), jobs, threading.Event()
        self.written, self.seconds = 0, list[float]()

    def run(self) -> None:
        turn = 0
        while not self._over.is_set():
            began = time.monotonic()
            for _ in range(AT_ONCE):
                first = turn * TOGETHER % len(self._jobs)
                some, at = self._jobs[first : first + TOGETHER], time.monotonic()
                text = TEXT.format(round="abcdefghij"[turn * TOGETHER // len(self._jobs) % 10])
                self.written += len(self._admin.set_context(some, "autoscaler", text).done)
                self.seconds.append(time.monotonic() - at)
                turn += 1
            self._over.wait(max(0.0, PAUSE - (time.monotonic() - began)))

    def stop(self) -> None:
        self._over.set()
        self.join()


def shown(what: str, found: list[float]) -> str:
    ordered = sorted(found)
    return (
        f"{what}: median {statistics.median(ordered):.2f} s, nine of ten within "
        f"{ordered[int(len(ordered) * 0.9) - 1]:.2f} s, worst {ordered[-1]:.2f} s ({len(ordered)} jobs)"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000, help="held jobs")
    parser.add_argument("--probes", type=int, default=30, help="jobs that are timed each time")
    options = parser.parse_args(arguments)
    with Cell.up(hosts=1) as cell:
        began = time.monotonic()
        jobs = hold(cell, options.jobs)
        print(f"{options.jobs} jobs held after {time.monotonic() - began:.0f} s", flush=True)
        print(shown("without writes", list(delays(cell, options.probes))), flush=True)
        writing = Writing(cell, jobs)
        writing.start()
        found = list(delays(cell, options.probes))
        while writing.written < options.jobs and writing.is_alive():
            found += delays(cell, 1)
        writing.stop()
        print(shown(f"with {writing.written} writes", found), flush=True)
        print(shown("one command of 200 jobs", writing.seconds).replace(" jobs)", " commands)"), flush=True)
        print(shown("without writes again", list(delays(cell, options.probes))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
