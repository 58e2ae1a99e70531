"""The values of packing: pieces of demand, machines, and machines with a content. Amounts are vectors: slots, then
consumables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Vector = tuple[int, ...]
Content = Mapping[int, int]
"""Pieces by position, and how many of each."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one visit of a demand takes of a machine. A visit: slots that must be together."""

    at: int
    """The demand's position."""
    size: Vector
    kinds: frozenset[int]
    """Positions of the kinds of machines that would take it, if they had enough left."""
    tasks: int
    visits: int
    """Visits of each task."""
    apart: bool
    """Whether each visit of a task goes to another machine."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self.tasks * self.visits

    @property
    def most(self) -> int:
        """How many of them one machine takes at most, whatever it has."""
        return self.tasks if self.apart and self.visits > 1 else self.count


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines that are alike, and may be filled."""

    count: int
    has: Vector
    price: float
    scarce: bool = False
    """Whether no more than these could be had of an offer."""


@dataclass(frozen=True, slots=True)
class Filled:
    """So many machines with the same content."""

    kind: int
    """Their position among the given machines."""
    machines: int
    content: Content


def able_of(pieces: Sequence[Piece], kinds: Sequence[Machines]) -> list[frozenset[int]]:
    """For each piece, the kinds of which a machine holds it."""
    with_as_much: dict[Vector, list[int]] = {}
    for kind, machines in enumerate(kinds):
        with_as_much.setdefault(machines.has, []).append(kind)
    large: dict[Vector, frozenset[int]] = {}
    found = []
    for piece in pieces:
        if piece.size not in large:
            large[piece.size] = frozenset(
                [kind for has, alike in with_as_much.items() if _holds(has, piece.size) for kind in alike]
            )
        found.append(piece.kinds & large[piece.size])
    return found


def _holds(has: Vector, size: Vector) -> bool:
    return all(each <= amount for amount, each in zip(has, size, strict=True))


def takes_of(able: Sequence[frozenset[int]], kinds: Sequence[Machines]) -> dict[int, list[int]]:
    """By each kind of which there are machines, the pieces that one of them holds. `able`: parallel to the pieces."""
    found: dict[int, list[int]] = {kind: [] for kind, machines in enumerate(kinds) if machines.count > 0}
    for at, each in enumerate(able):
        for kind in each:
            if kind in found:
                found[kind].append(at)
    return found
