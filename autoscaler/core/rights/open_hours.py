"""When the calendars of queues let a job start, where the scheduler looks ahead.

With `max_reservation` above 0 the scheduler plans ahead: in a queue with a calendar it starts a job only if the job
ends before the calendar closes the queue. A job ends after its `h_rt` or `s_rt`, whichever is less, else after
`default_duration` (seen on 8.1.9: `offers only qc:slots=0.000000 due to a reservation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from autoscaler.core.model.cluster import Complex, Queue
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.reasons import Code, Reason, because

RUN_TIMES = frozenset({"h_rt", "s_rt"})


@dataclass(frozen=True, slots=True)
class Window:
    """The present or next time in which a calendar has its queue open."""

    opens: float
    """When a job could start on a host that is there."""
    ready: float
    """When a job could start on a worker that is launched now."""
    closes: float
    boot: float


@dataclass(frozen=True, slots=True)
class OpenHours:
    """The windows of queues with calendars."""

    windows: Mapping[tuple[str, str], Window] = field(default_factory=lambda: MappingProxyType({}))
    """By queue and calendar."""
    default_duration: float = inf

    def __bool__(self) -> bool:
        return bool(self.windows)

    def run_time(self, hard: Iterable[tuple[str, str]], complexes: Mapping[str, Complex]) -> float | None:
        """How long a job with these requests runs at most; None: it does not say so."""
        found = ((complexes.get(name), text) for name, text in hard)
        times = (amount(text, entry.type) for entry, text in found if entry is not None and entry.name in RUN_TIMES)
        return min((time for time in times if time is not None), default=None)

    def refusal(self, queue: Queue, run_time: float | None, *, new: bool = False) -> Reason | None:
        """Why a job of this run time starts in the queue on no host that is there or, if `new`, on no new worker; None:
        it may.
        """
        window = self.windows.get((queue.name, queue.calendar))
        if window is None:
            return None
        length = self.default_duration if run_time is None else run_time
        if (window.ready if new else window.opens) + length <= window.closes:
            return None
        return because(
            Code.RUNS_INTO_CLOSING,
            queue=queue.name,
            calendar=queue.calendar,
            closes_at=window.closes,
            asked_s=run_time,
            default=None if run_time is not None else _shown(self.default_duration),
            boot_s=window.boot if new else None,
        )


def _shown(duration: float) -> str:
    return "INFINITY (default_duration)" if duration == inf else f"{duration:g} s (default_duration)"
