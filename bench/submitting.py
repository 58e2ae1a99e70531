"""Submits jobs at their times from within a cell, several at once: `python -m bench.submitting`, with lines of JSON on
its standard input. Prints a line for each job: its own number, Grid Engine's, and how many seconds too late it came.

Each line has the job's number, the Unix time of its submission, the number of the job that has to be submitted before
it (or null), and the words of its qsub. Ends with its standard input's last job.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

AT_ONCE = 8
TIMEOUT = 120.0
_MADE = re.compile(rb"Your job(?:-array)? (\d+)\b.* has been submitted")


def submit(words: Sequence[str]) -> int:
    """Grid Engine's number of the job. Raises RuntimeError if none was made."""
    ended = subprocess.run(("qsub", *words), capture_output=True, timeout=TIMEOUT, check=False)
    made = _MADE.search(ended.stdout + ended.stderr)
    if made is None:
        raise RuntimeError(f"qsub {' '.join(words)}: {(ended.stdout + ended.stderr).decode(errors='replace')}")
    return int(made[1])


def main() -> int:
    under_way: dict[int, Future[None]] = {}

    def one(number: int, at: float, after: int | None, words: Sequence[str]) -> None:
        if after is not None and after in under_way:
            under_way[after].result(TIMEOUT)
        made = submit(words)
        print(json.dumps([number, made, time.time() - at]), flush=True)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for line in sys.stdin:
            number, at, after, words = json.loads(line)
            time.sleep(max(0.0, at - time.time()))
            under_way[number] = threads.submit(one, number, at, after, words)
            for done in [key for key, future in under_way.items() if future.done() and key < number - 1000]:
                under_way.pop(done).result()
    for future in under_way.values():
        future.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
