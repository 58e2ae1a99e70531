"""What two listings do not have in common, by identity: what is the same object has no news."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

FEWEST, MOST = 4, 256
"""So many are compared at a time: most are the same, and where some are not, others beside them often are not."""
LOOK_AHEAD = 50
"""So many in a row may be gone before what follows counts as other."""


def compared(
    before: Sequence[object], now: Sequence[object], marks_before: Sequence[bool] = (), marks: Sequence[bool] = ()
) -> tuple[list[int], list[int]]:
    """Places in `now` of objects that are not in `before`, or have another mark there; places in `before` of objects
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
    """How many of so many from these places on are the same."""
    same = list(map(is_, before[place : place + chunk], now[at : at + chunk]))
    return same.index(False) if False in same else len(same)
