"""The circuit breaker: if a window has more removals, or launches that helped no job, than the settings allow, it stops
everything until a person resumes. It only limits the rate of other launches (`core/limits/limits.py`).

No owners of jobs may stop it for all, also not several who agree (docs/decisions/0082): where jobs have several
owners, half as many as the cell has had in 30 days, and two at least (of two, one), are left out, those who caused
most. If only the one who caused most is left out and the rest is more than the settings allow, nothing is launched
for those who caused most, and none of their workers is removed, until some of the window has passed. What jobs are
deleted or held likewise only stops deleting and holding: of one owner within the window
(`core/unsatisfiable/deadlock.py`), and of all if others caused too many. In a cell of one owner everything counts,
and stops everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autoscaler.core.model.memory import Event
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import CircuitBreaker

LEFT_OUT = 2
"""So many owners who agree stop nothing for others, however few these are: of all owners, one always counts."""


def tripped(
    circuit_breaker: CircuitBreaker,
    removals: Sequence[Event],
    now: float,
    resumed_at: float | None = None,
    *,
    kills: Sequence[Event] = (),
    helped_no_job: Sequence[Event] = (),
    several_owners: bool = False,
    known: int = 0,
) -> Reason | None:
    """Why the circuit breaker must stop everything, given all events since the last resume, those of this pass
    included.

    `known`: how many owners the cell has had. `helped_no_job`: launches of which it is known that no job that they
    were for started, whether their workers came or not.
    """
    for what, events, most in (
        ("launches that helped no job", helped_no_job, circuit_breaker.max_launches),
        ("removals", removals, circuit_breaker.max_removals),
        ("deleted or held jobs", () if several_owners else kills, circuit_breaker.max_kills),
    ):
        count = _count(events, circuit_breaker.window, now, resumed_at, several_owners=several_owners, known=known)
        if most is not None and count > most:
            return because(Code.CIRCUIT_BREAKER, what=what, count=count, most=most, window_s=circuit_breaker.window)
    return None


def too_many_kills(
    circuit_breaker: CircuitBreaker, kills: Sequence[Event], now: float, resumed_at: float | None, *, known: int = 0
) -> Reason | None:
    """In a cell of several owners: why no job is deleted or held any more."""
    count = _count(kills, circuit_breaker.window, now, resumed_at, several_owners=True, known=known)
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


def slowed_owners(
    circuit_breaker: CircuitBreaker,
    removals: Sequence[Event],
    helped_no_job: Sequence[Event],
    now: float,
    resumed_at: float | None,
) -> Mapping[str, Reason]:
    """In a cell of several owners: those for whom nothing is launched and no worker removed now, and why. Those who
    caused least are not slowed down, as many of them as together stay within the limit: else some who agree would slow
    down everybody who caused anything.
    """
    found: dict[str, Reason] = {}
    for what, events, most in (
        ("launches that helped no job", helped_no_job, circuit_breaker.max_launches),
        ("removals", removals, circuit_breaker.max_removals),
    ):
        counts = dict(by_owner(events, circuit_breaker.window, now, resumed_at))
        so_far = counts.pop("", 0)
        least_first = sorted(counts, key=lambda owner: (counts[owner], owner))
        if most is None or so_far + sum(counts[owner] for owner in least_first[:-1]) <= most:
            continue
        recent = [event for event in events if now - event.at < circuit_breaker.window]
        for owner in least_first:
            so_far += counts[owner]
            if so_far > most:
                until_at = min(event.at for event in recent if event.owner == owner) + circuit_breaker.window
                found[owner] = because(Code.OWNER_SLOWED, owner=owner, what=what, most=most, until_at=until_at)
    return {owner: found[owner] for owner in sorted(found)}


def most_left_out(owners: int) -> int:
    """Of so many owners, how many who agree stop nothing for others."""
    return max(min(max(owners // 2, LEFT_OUT), owners - 1), 0)


def _count(
    events: Sequence[Event],
    window: float,
    now: float,
    resumed_at: float | None,
    *,
    several_owners: bool,
    known: int = 0,
) -> int:
    if not events:
        return 0
    found = by_owner(events, window, now, resumed_at)
    most = sorted((count for owner, count in found.items() if owner), reverse=True)
    left_out = most[: most_left_out(max(len(most), known, 2))] if several_owners else ()
    return sum(found.values()) - sum(left_out)
