"""Measures how long one ended job takes to find in a long accounting file: by reading it, as without an index; by the
index, while it grows and when it is complete; and what indexing the file costs, in steps.

CPU seconds of this process; the file is in the page cache. Exits 1 if a job is not found or a bar is passed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from autoscaler.sge.accounting import read_ends
from autoscaler.store.accounting_index import AccountingIndex

FOUND_BAR = 0.1
"""CPU seconds for one job if the index is complete."""
STEP_BAR = 0.2
"""CPU seconds for a megabyte of indexing."""
LINE = (
    "main.q:exec{host}:users:ann:job-{job}:{job}:sge:0:{at}:{at}:{end}:0:0:59:0.120:0.030:5120.000:0:0:0:0:1200:0:0:"
    "0.000:16:0:0:0:40:12:NONE:defaultdepartment:NONE:1:0:0.150:0.010:0.002:-U deadlineusers -l h_rt=3600:0.000:NONE:"
    "12345678.000:0:0\n"
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.accounting", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500, help="of the file (default 500)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sge-accounting-") as made:
        file = Path(made) / "accounting"
        jobs = write(file, options.megabytes << 20)
        return measure(file, Path(made) / "index", jobs)


def write(file: Path, most: int) -> int:
    """Write this many bytes of records; returns the number of their jobs."""
    job, size = 0, 0
    with file.open("w", encoding="ascii") as opened:
        while size < most:
            lines = [
                LINE.format(job=job + n, host=n % 50, at=1_795_000_000 + job, end=1_795_000_060 + job)
                for n in range(5000)
            ]
            size += opened.write("".join(lines))
            job += 5000
    return job


def measure(file: Path, kept: Path, jobs: int) -> int:
    newest, middle, oldest = jobs - 10, jobs // 2, 10
    size = file.stat().st_size
    print(f"{size / 1e6:.0f} MB of accounting, {jobs:,} jobs")
    everything = timed("the whole file read for one job", lambda: len(read_ends(file, oldest, size)))
    index = AccountingIndex.open(kept, file)
    first = timed("the newest job, no index yet (32 MB taken in)", lambda: len(index.find(newest, most=32 << 20).ends))
    steps: list[float] = []
    left = 1
    began = time.process_time()
    while left:
        at = time.process_time()
        left = index.advance(1 << 20)
        steps.append(time.process_time() - at)
    print(f"{'the rest taken in, 1 MB a step':<48}{time.process_time() - began:8.3f} s in {len(steps)} steps")
    print(f"{'the longest of these steps':<48}{max(steps):8.3f} s")
    found = [
        timed(f"the {name} job, index whole", lambda job=job: len(index.find(job).ends))  # type: ignore[misc]
        for name, job in (("newest", newest), ("middle", middle), ("oldest", oldest))
    ]
    missing = timed("a job that is not there", lambda: 1 + len(index.find(jobs + 1).ends))
    index.close()
    print(f"the index: {kept.stat().st_size / 1e6:.1f} MB")
    slowest = max(*(seconds for _, seconds in found), missing[1])
    kept_bar = slowest <= FOUND_BAR and sorted(steps)[len(steps) // 2] <= STEP_BAR
    right = all(count == 1 for count, _ in (everything, first, *found, missing))
    print(f"bar: {FOUND_BAR:g} s for a job, {STEP_BAR:g} s a step: {'kept' if kept_bar and right else 'PASSED OVER'}")
    return 0 if kept_bar and right else 1


def timed(what: str, do: Callable[[], int]) -> tuple[int, float]:
    cpu, wall = time.process_time(), time.monotonic()
    count = do()
    seconds = time.process_time() - cpu
    print(f"{what:<48}{seconds:8.3f} s CPU{time.monotonic() - wall:8.3f} s wall  {count} found")
    return count, seconds


if __name__ == "__main__":
    sys.exit(main())
