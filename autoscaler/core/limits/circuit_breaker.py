"""The circuit breaker: if a window has more removals, or launches that helped no job, than the settings allow, it stops
everything until a person resumes. It only limits the rate of other launches (`core/limits/limits.py`).

No single owner of jobs may stop it for all (docs/decisions/0067): where jobs have several owners, the part of the one
who caused most is left out. What jobs are deleted or held then only stops deleting and holding: of one owner within the
window (`core/unsatisfiable/deadlock.py`), and of all if others caused too many. In a cell of one owner everything
counts, and stops everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import CircuitBreaker


def tripped(
    circuit_breaker: CircuitBreaker,
    removals: Sequence[Event],
    now: float,
    resumed_at: float | None = None,
    *,
    kills: Sequence[Event] = (),
    helped_no_job: Sequence[Event] = (),
    several_owners: bool = False,
) -> Reason | None:
    """Why the circuit breaker must stop everything, given all events since the last resume, those of this pass
    included.

    `helped_no_job`: launches of which it is known that no job that they were for started, whether their workers came or
    not.
    """
    for what, events, most in (
        ("launches that helped no job", helped_no_job, circuit_breaker.max_launches),
        ("removals", removals, circuit_breaker.max_removals),
        ("deleted or held jobs", () if several_owners else kills, circuit_breaker.max_kills),
    ):
        count = _count(events, circuit_breaker.window, now, resumed_at, several_owners=several_owners)
        if most is not None and count > most:
            return because(Code.CIRCUIT_BREAKER, what=what, count=count, most=most, window_s=circuit_breaker.window)
    return None


def too_many_kills(
    circuit_breaker: CircuitBreaker, kills: Sequence[Event], now: float, resumed_at: float | None
) -> Reason | None:
    """In a cell of several owners: why no job is deleted or held any more."""
    count = _count(kills, circuit_breaker.window, now, resumed_at, several_owners=True)
    if circuit_breaker.max_kills is None or count <= circuit_breaker.max_kills:
        return None
    return because(Code.KILLS_STOPPED, count=count, most=circuit_breaker.max_kills, window_s=circuit_breaker.window)


def by_owner(events: Sequence[Event], window: float, now: float, resumed_at: float | None = None) -> Mapping[str, int]:
    """The number of events in the last `window` seconds and since the last resume, by owner."""
    found: Counter[str] = Counter()
    for event in events:
        if event.at > (resumed_at or 0.0) and now - event.at < window:
            found[event.owner] += event.count
    return found


def _count(
    events: Sequence[Event], window: float, now: float, resumed_at: float | None, *, several_owners: bool
) -> int:
    found = by_owner(events, window, now, resumed_at)
    most = max((count for owner, count in found.items() if owner), default=0) if several_owners else 0
    return sum(found.values()) - most
