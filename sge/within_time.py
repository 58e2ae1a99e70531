"""Asks about many things in few commands, where some of them may take too long: such a group is halved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

NAMED = 3
"""The most names in one sentence."""
Item = TypeVar("Item")


@dataclass(slots=True)
class WithinTime(Generic[Item]):
    """What did not come of it."""

    too_long: dict[Item, float] = field(default_factory=dict)
    """Items about which alone a command took too long, with the seconds that it was given."""
    left: list[Item] = field(default_factory=list)
    """Items for which there was no time."""


def read_within(
    groups: Iterable[tuple[Item, ...]],
    ask: Callable[[tuple[Item, ...], float], bool],
    *,
    patience: Callable[[tuple[Item, ...]], float],
    budget: float,
    stopwatch: Callable[[], float],
) -> WithinTime[Item]:
    """Ask about each group, in their order. `ask` gets a group and the seconds that it may take, and returns whether
    the answer came in time. `budget`: seconds of all together.
    """
    found = WithinTime[Item]()
    waiting, ends = [group for group in groups if group], stopwatch() + budget
    while waiting:
        group, time_left = waiting.pop(0), ends - stopwatch()
        if time_left <= 0:
            found.left += group
            continue
        seconds = min(patience(group), time_left)
        if ask(group, seconds):
            continue
        if len(group) > 1:
            middle = len(group) // 2
            waiting[:0] = [group[:middle], group[middle:]]
        elif seconds < patience(group):
            found.left += group
        else:
            found.too_long[group[0]] = seconds
    return found


def few(names: Sequence[str]) -> str:
    """`a, b, c and 9 more`."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
