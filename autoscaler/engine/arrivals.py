"""How soon the loop observes again while workers boot and join: no event wakes it when a machine has booted, or when
qmaster gets the first load report.
"""

from __future__ import annotations

from collections.abc import Iterable

from autoscaler.core.model.reasons import Code
from autoscaler.core.snapshot import WorkerVerdict

LEAST = 0.25
"""Seconds between two observations, at least."""
SHARE = 0.05
"""Share of the time that a worker has waited: the next observation may be that much later."""
PASSES = 2.0
"""The pause is at least this many times the duration of a pass: the loop leaves this machine most of its time."""
ON_THE_WAY = frozenset({Code.BOOTING, Code.BOOTED, Code.JOINING})
"""Reasons of workers that boot or join."""


def look_after(waited: float, took: float) -> float:
    """Seconds to the next look at a worker that has `waited` for its step, after a pass of `took` seconds."""
    return max(LEAST, PASSES * took, SHARE * waited)


class Arrivals:
    """One for the life of a process."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, Code], float] = {}
        """The time at which each worker was first observed to wait for each step."""

    @property
    def expected(self) -> bool:
        """Whether a worker was booting or joining at the last observation: it costs already, and jobs wait for it."""
        return bool(self._since)

    def next_observation(self, workers: Iterable[WorkerVerdict], now: float, took: float) -> float | None:
        """Seconds until the next observation, after a pass of `took` seconds; None: no worker boots or joins."""
        waiting = {
            (worker.id, worker.reason.code)
            for worker in workers
            if worker.id is not None and worker.reason.code in ON_THE_WAY
        }
        self._since = {key: self._since.get(key, now) for key in waiting}
        if not waiting:
            return None
        return look_after(min(now - since for since in self._since.values()), took)
