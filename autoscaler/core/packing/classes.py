"""Pieces of nearly the same size count as alike while machines are chosen, so that a thousand different jobs take about
as much time as a few kinds of them. A class has the largest size of its pieces: what fits as a class fits as pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from autoscaler.core.packing.pieces import Content, Filled, Piece

MOST = 48
"""Pieces up to which none are put together; and how many classes there should be at most."""
SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""By how much sizes of one class may differ; the first one that gives few enough classes holds."""


def classes_of(pieces: Sequence[Piece]) -> list[list[int]]:
    """Positions of pieces that count as alike, the largest of each class first."""
    classes = [[at] for at in range(len(pieces))]
    for spread in SPREADS:
        if len(classes) <= MOST:
            break
        classes = _within(pieces, spread)
    return classes


def _within(pieces: Sequence[Piece], spread: float) -> list[list[int]]:
    alike: dict[object, list[int]] = {}
    for at, piece in enumerate(pieces):
        # Jobs that spread over machines stay by themselves: how many shares one machine takes depends on their number.
        key = (piece.kinds, piece.size[0], piece.apart) if piece.visits == 1 else at
        alike.setdefault(key, []).append(at)
    found: list[list[int]] = []
    for group in alike.values():
        begun: list[list[int]] = []
        for at in sorted(group, key=lambda at: pieces[at].size, reverse=True):
            into = begun[-1] if begun and _near(pieces[begun[-1][0]], pieces[at], spread) else None
            if into is None:
                begun.append([at])
            else:
                into.append(at)
        found += begun
    return found


def _near(largest: Piece, other: Piece, spread: float) -> bool:
    return all(
        each <= most and (most - each) <= spread * most for most, each in zip(largest.size, other.size, strict=True)
    )


def as_one(pieces: Sequence[Piece], members: Sequence[int]) -> Piece:
    """A class as a piece."""
    first = pieces[members[0]]
    return replace(first, tasks=sum(pieces[at].tasks for at in members))


def expanded(found: Sequence[Filled], pieces: Sequence[Piece], classes: Sequence[Sequence[int]]) -> Iterator[Filled]:
    """The same machines with pieces instead of classes."""
    left = [[(at, pieces[at].count) for at in reversed(members)] for members in classes]
    for each in found:
        machines = each.machines
        while machines:
            tops = {number: left[number][-1] for number in each.content}
            alike = min([machines, *(tops[number][1] // many for number, many in each.content.items())])
            if not alike:
                yield Filled(each.kind, 1, _mixed(each.content, left))
                machines -= 1
                continue
            yield Filled(each.kind, alike, {tops[number][0]: many for number, many in each.content.items()})
            machines -= alike
            for number, many in each.content.items():
                _take(left[number], many * alike)


def _mixed(content: Content, left: Sequence[list[tuple[int, int]]]) -> Content:
    """What one machine holds where the pieces of a class that come next are too few."""
    found: dict[int, int] = {}
    for number, many in content.items():
        for at, taken in _take(left[number], many):
            found[at] = found.get(at, 0) + taken
    return found


def _take(left: list[tuple[int, int]], many: int) -> list[tuple[int, int]]:
    """So many of the pieces of a class, those first that come next."""
    found: list[tuple[int, int]] = []
    while many:
        at, there = left.pop()
        taken = min(many, there)
        found.append((at, taken))
        many -= taken
        if there > taken:
            left.append((at, there - taken))
    return found
