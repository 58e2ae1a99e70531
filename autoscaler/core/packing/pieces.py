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


def able_of(piece: Piece, kinds: Sequence[Machines]) -> frozenset[int]:
    """The kinds of which a machine holds the piece."""
    return frozenset(
        kind for kind in piece.kinds if all(size <= has for size, has in zip(piece.size, kinds[kind].has, strict=True))
    )
