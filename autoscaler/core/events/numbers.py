"""A set of job numbers of which few are new in a pass: adding these copies only them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import chain

MOST_APART = 2000
"""How many new ones are kept apart before they are copied together with the others."""


class Numbers(Set[int]):
    """Immutable; made for large sets that are asked for single numbers."""

    __slots__ = ("_few", "_many")

    def __init__(self, many: frozenset[int] = frozenset(), few: frozenset[int] = frozenset()) -> None:
        """`many` and `few` have no number in common."""
        self._many, self._few = many, few

    def __hash__(self) -> int:
        return self._hash()

    def __contains__(self, number: object) -> bool:
        return number in self._many or number in self._few

    def __iter__(self) -> Iterator[int]:
        return chain(self._many, self._few)

    def __len__(self) -> int:
        return len(self._many) + len(self._few)

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Indices of the numbers that it does not have."""
        many, few = self._many, self._few
        if many.issuperset(numbers):  # the usual case, and the fastest question
            return []
        return [at for at, number in enumerate(numbers) if number not in many and number not in few]

    def plus(self, more: Set[int]) -> Numbers:
        """The set with these; the same object if none is new."""
        new = frozenset(more) - self._many - self._few
        if not new:
            return self
        few = self._few | new
        return Numbers(self._many, few) if len(few) <= MOST_APART else Numbers(self._many | few)

    def minus(self, fewer: Set[int]) -> Numbers:
        """The set without these; the same object if it has none of them."""
        if self._many.isdisjoint(fewer) and self._few.isdisjoint(fewer):
            return self
        return Numbers(self._many - fewer, self._few - fewer)

    def only(self, those: Set[int]) -> Numbers:
        """The numbers that are also in `those`."""
        return Numbers(self._many & those, self._few & those)
