"""The difference of two listings, by identity: an object that is in both has not changed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

FEWEST, MOST = 4, 256
"""How many are compared at a time: most are the same, and changed ones are often next to each other."""
LOOK_AHEAD = 50
"""How many in a row may be gone before the following ones count as new."""


def compared(
    before: Sequence[object], now: Sequence[object], marks_before: Sequence[bool] = (), marks: Sequence[bool] = ()
) -> tuple[list[int], list[int]]:
    """Indices in `now` of objects that are not in `before` or have another mark there; indices in `before` of objects
    that are not in `now`.

    Both have nearly the same order. An object that moved far is among both.
    """
    if not before:
        return list(range(len(now))), []
    new: list[int] = []
    gone: list[int] = []
    at = place = 0
    chunk = FEWEST
    while at < len(now):
        alike = _alike(before, now, place, at, chunk)
        if marks:
            alike = min(alike, _alike(marks_before, marks, place, at, chunk))
        if alike:
            at, place = at + alike, place + alike
            chunk = min(MOST, 2 * chunk) if alike == chunk else FEWEST
            continue
        ahead = range(place, min(place + LOOK_AHEAD, len(before)))
        same = next((there for there in ahead if before[there] is now[at]), -1)
        if same < 0 or (marks and marks_before[same] is not marks[at]):
            new.append(at)
        if same >= 0:
            gone += range(place, same)
            place = same + 1
        at += 1
    gone += range(place, len(before))
    return new, gone


def _alike(before: Sequence[object], now: Sequence[object], place: int, at: int, chunk: int) -> int:
    """How many of the next `chunk` are the same."""
    same = list(map(is_, before[place : place + chunk], now[at : at + chunk]))
    return same.index(False) if False in same else len(same)
