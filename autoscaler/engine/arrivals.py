"""How soon the loop observes again for workers on their way into service: nothing wakes it when a machine has
booted, or when qmaster first hears its execd.
"""

from __future__ import annotations

from collections.abc import Iterable

from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import WorkerVerdict

LEAST = 0.5
"""Seconds between two observations, at least."""
SHARE = 0.05
"""Of the time that a worker has waited: so much longer it may wait for the next observation."""
PASSES = 4.0
"""Times what a pass takes, at least: the loop leaves this machine most of its time."""
_ON_THE_WAY = frozenset({Code.BOOTING, Code.BOOTED, Code.JOINING})


class Arrivals:
    """One for the life of a process."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, Code], float] = {}
        """When each worker was first seen waiting for this."""

    @property
    def expected(self) -> bool:
        """Whether a worker was on its way at the last observation: it costs already, and jobs wait for it."""
        return bool(self._since)

    def next_observation(self, workers: Iterable[WorkerVerdict], now: float, took: float) -> float | None:
        """Seconds from now, after a pass that `took` so many; None: no worker is on its way."""
        waiting = {
            (worker.id, worker.reason.code)
            for worker in workers
            if worker.id is not None and worker.reason.code in _ON_THE_WAY
        }
        self._since = {key: self._since.get(key, now) for key in waiting}
        if not waiting:
            return None
        return max(LEAST, PASSES * took, SHARE * min(now - since for since in self._since.values()))
