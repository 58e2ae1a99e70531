"""A pass listener that writes a line of JSON for each pass into the file that BENCH_PASS_TIMES names."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener

FILE_ENV = "BENCH_PASS_TIMES"


class PassTimes(PassListener):
    """Attached by `CP_CAP_AUTOSCALE_LISTENERS=bench.pass_times:PassTimes`."""

    title: ClassVar[str] = "the benchmark"

    def __init__(self) -> None:
        self._file = Path(os.environ[FILE_ENV]).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115 - for life
        self._began_at = self._began = self._spent = 0.0

    def begins(self) -> None:
        self._began_at, self._began, self._spent = time.time(), time.monotonic(), time.process_time()

    def keep(self, done: Pass) -> None:
        outcomes = Counter(f"{outcome.action.kind} {outcome.result.value}" for outcome in done.outcomes)
        self._write(
            {
                "pass": done.plan.memory.passes,
                "at": done.snapshot.now,
                "parts": dict(done.timings),
                "waiting": done.plan.waiting,
                "workers": len(done.observed.workers),
                "outcomes": outcomes,
                "next_in": done.next_in,
            }
        )

    def failed(self, failure: FailedPass) -> None:
        self._write({"at": failure.at, "failed": f"{type(failure.error).__name__}: {failure.error}"})

    def _write(self, row: dict[str, object]) -> None:
        seconds = {
            "began": self._began_at,
            "whole": time.monotonic() - self._began,
            "cpu": time.process_time() - self._spent,
        }
        self._file.write(json.dumps(row | seconds) + "\n")
