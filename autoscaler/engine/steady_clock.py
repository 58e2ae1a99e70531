"""The service's clock: it never jumps. When the machine's clock is set, all that was remembered moves with it.

Between two observations it runs with the time since boot, so that a step of the machine's clock changes no duration.
Each observation finds such a step, and moves the store's times by it. Over a restart the store has both clocks' last
readings; over a reboot, or on another machine, only a clock that went back is certain, and of a long gap ten minutes
count (decision 60).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from autoscaler.engine.cell_lease import since_boot
from autoscaler.store.clock import Reading
from autoscaler.store.store import Store

STEP = 2.0
"""Seconds of difference above which the clock was set; smaller ones are followed."""
LONGEST_GAP = 600.0
"""At most this many seconds count between two passes if nothing shows how long it was."""

log = logging.getLogger("autoscaler.engine.steady_clock")


def this_boot() -> str:
    """Which boot of which machine this is; '' if that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class SteadyClock:
    """One for the life of a process. Calling it gives the time in Unix seconds."""

    def __init__(
        self,
        store: Store,
        wall: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = since_boot,
        boot: str | None = None,
    ) -> None:
        self._store, self._wall, self._elapsed = store, wall, elapsed
        self._boot = this_boot() if boot is None else boot
        self._base: Reading | None = None

    def __call__(self) -> float:
        if self._base is None:
            return self._wall()
        return self._base.at + (self._elapsed() - self._base.since_boot)

    def adjust(self) -> None:
        """Follow the machine's clock. If it was set, the store's times are moved. Raises StateNotKept."""
        now = Reading(self._wall(), self._elapsed(), self._boot)
        before = self._base or self._store.clock.load()
        step = 0.0 if before is None else _step(before, now)
        if abs(step) > STEP:
            log.warning(
                "the clock of this machine was set %s by %.0f s: all waits and limits go on as if it had not been",
                "forward" if step > 0 else "back",
                abs(step),
            )
            self._store.move_times(step, now)
        self._base = now

    def keep(self) -> None:
        """Store the readings, for the next process."""
        self._store.clock.keep(Reading(self(), self._elapsed(), self._boot))


def _step(before: Reading, now: Reading) -> float:
    """By how many seconds the clock was set between two readings, as far as it shows."""
    passed = now.at - before.at
    if before.boot and before.boot == now.boot:
        return passed - (now.since_boot - before.since_boot)
    return passed - min(max(passed, 0.0), LONGEST_GAP)
