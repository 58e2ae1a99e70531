"""Machines filled with whole tasks: pieces that are nearly alike count as one while a way chooses machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from autoscaler.core.packing.balanced import Balance
from autoscaler.core.packing.classes import as_one, classes_of, expanded
from autoscaler.core.packing.patterns import on_present
from autoscaler.core.packing.pieces import Filled, Machines, Piece

Way = Callable[[Sequence[Piece], Sequence[Machines]], Sequence[Filled]]
"""Which machines to use, and what to put on them."""
QUICK: tuple[Way, ...] = (Balance(), Balance(constrained_first=False))
WAYS: tuple[Way, ...] = (on_present, Balance(exchanges=True))
MOST_KINDS = 64
"""With more kinds of machines only the quick ways are tried."""


def ways(kinds: int) -> Sequence[Way]:
    """The ways to try with so many kinds of machines, the best first."""
    return WAYS if kinds <= MOST_KINDS else QUICK


def filled(pieces: Sequence[Piece], kinds: Sequence[Machines], way: Way) -> tuple[list[Filled], list[int]]:
    """Machines filled in this way, and the tasks that are placed, parallel to the pieces."""
    if not pieces:
        return [], []
    classes = classes_of(pieces)
    chosen = way([as_one(pieces, members) for members in classes], kinds)
    found = list(expanded(chosen, pieces, classes))
    placed = _loads(pieces, found)
    for at, piece in enumerate(pieces):
        if piece.visits > 1:
            placed[at] = _whole_tasks(piece, [(each.machines, each.content.get(at, 0)) for each in found])
            found = list(_cut(found, at, placed[at], piece))
    return found, placed


def _loads(pieces: Sequence[Piece], found: Sequence[Filled]) -> list[int]:
    """How many of each piece are on machines."""
    loads = [0] * len(pieces)
    for each in found:
        for at, many in each.content.items():
            loads[at] += many * each.machines
    return loads


def _whole_tasks(piece: Piece, loads: Sequence[tuple[int, int]]) -> int:
    """How many tasks make all their visits, if so many machines take so many visits each."""
    visits = piece.visits
    if not piece.apart:
        return sum(machines * many for machines, many in loads) // visits
    tasks = piece.tasks
    while tasks and sum(machines * min(many, tasks) for machines, many in loads) < tasks * visits:
        tasks -= 1
    return tasks


def _cut(found: Sequence[Filled], at: int, tasks: int, piece: Piece) -> Iterator[Filled]:
    """The same with so many tasks of one piece: the last machines lose the visits beyond."""
    left = tasks * piece.visits
    for each in found:
        many = each.content.get(at, 0)
        many = min(many, tasks) if piece.apart else many
        if not each.content.get(at, 0):
            yield each
            continue
        whole = min(each.machines, left // many) if many else 0
        left -= whole * many
        yield from _so_many(each, at, whole, many)
        rest = each.machines - whole
        if rest and left:
            yield from _so_many(each, at, 1, left)
            rest, left = rest - 1, 0
        yield from _so_many(each, at, rest, 0)


def _so_many(each: Filled, at: int, machines: int, many: int) -> Iterator[Filled]:
    if machines:
        content = {piece: many if piece == at else count for piece, count in each.content.items()}
        yield Filled(each.kind, machines, {piece: count for piece, count in content.items() if count})
