"""The brake: more launches, removals or jobs deleted and held in a window than set, and none of it happens until a
person resumes.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.memory import Event
from autoscaler.core.policy import Brake
from autoscaler.core.reasons import Code, Reason, because


def pressed(
    brake: Brake,
    launches: Sequence[Event],
    removals: Sequence[Event],
    now: float,
    resumed_at: float | None = None,
    *,
    kills: Sequence[Event] = (),
) -> Reason | None:
    """Why the brake is to be pressed, given everything counted up to and with this pass, since the last resume."""
    for what, events, most in (
        ("launches", launches, brake.max_launches),
        ("removals", removals, brake.max_removals),
        ("deleted or held jobs", kills, brake.max_kills),
    ):
        count = within([event for event in events if event.at > (resumed_at or 0.0)], brake.window, now)
        if most is not None and count > most:
            return because(Code.BRAKE, what=what, count=count, most=most, window_s=brake.window)
    return None


def within(events: Sequence[Event], window: float, now: float) -> int:
    """How many were counted in the last `window` seconds."""
    return sum(event.count for event in events if now - event.at < window)
