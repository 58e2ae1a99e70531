"""The circuit breaker: if a window has more removals, deleted and held jobs, or launches that helped no job than the
settings allow, it stops everything until a person resumes. It only limits the rate of other launches
(`core/limits/limits.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Brake


def tripped(
    brake: Brake,
    removals: Sequence[Event],
    now: float,
    resumed_at: float | None = None,
    *,
    kills: Sequence[Event] = (),
    helped_no_job: Sequence[Event] = (),
) -> Reason | None:
    """Why the circuit breaker must stop everything, given all events since the last resume, those of this pass
    included.

    `helped_no_job`: launches of which it is known that no job that they were for started, whether their workers came or
    not.
    """
    for what, events, most in (
        ("launches that helped no job", helped_no_job, brake.max_launches),
        ("removals", removals, brake.max_removals),
        ("deleted or held jobs", kills, brake.max_kills),
    ):
        count = within([event for event in events if event.at > (resumed_at or 0.0)], brake.window, now)
        if most is not None and count > most:
            return because(Code.CIRCUIT_BREAKER, what=what, count=count, most=most, window_s=brake.window)
    return None


def within(events: Sequence[Event], window: float, now: float) -> int:
    """The number of events in the last `window` seconds."""
    return sum(event.count for event in events if now - event.at < window)
