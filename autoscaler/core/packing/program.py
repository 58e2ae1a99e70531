"""How many machines of which content cover all pieces at the least price: a linear program that contents are added to.

A row for each piece says that all of it is covered, and one for each limited kind that no more machines of it are used
than there are. Fractions of machines count. It is solved by the revised simplex method, which goes on from the last
answer after contents were added. At each answer, pieces have *values*: what one more would cost. A content that is
worth more than its machine makes the answer cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from autoscaler.core.packing.pieces import Content

TINY = 1e-9
LEAST_GAIN = 1e-7
"""Contents that gain less are left alone."""
MOST_STEPS = 200
"""Steps of one solution, until the answer found so far has to do: it is feasible after each of them."""
CANDIDATES = 3
"""Variables that gain most are taken into the answer one after the other before all are looked at again."""

_Column = list[tuple[int, float]]
"""Rows, and what one more of a variable adds to each."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A content of one machine of a kind, at a price."""

    kind: int
    content: Content
    price: float


class Program:
    """`counts`: how many there are of each piece. `limits`: by kind, how many machines there are of the limited ones.
    `penalties`: what it costs to leave one of each piece uncovered.
    """

    def __init__(self, counts: Sequence[int], limits: Mapping[int, int], penalties: Sequence[float]) -> None:
        self._pieces = len(counts)
        self._row_of = {kind: self._pieces + at for at, kind in enumerate(limits)}
        rows = self._pieces + len(limits)
        self._amounts = [float(amount) for amount in (*counts, *limits.values())]
        """Of the variables in the basis: at first what is uncovered of each piece, and what is left of each kind."""
        self._prices = [*penalties, *(0.0 for _ in limits)]
        self._basis: list[int | None] = [None] * rows
        """Positions among the patterns; None: of no pattern."""
        self._inverse = [[1.0 if row == column else 0.0 for column in range(rows)] for row in range(rows)]
        self._values = list(self._prices)
        self._patterns: list[Pattern] = []
        self._columns: list[_Column] = []
        self._known: set[tuple[int, tuple[tuple[int, int], ...]]] = set()

    def __len__(self) -> int:
        return len(self._patterns)

    @property
    def price(self) -> float:
        """Of the answer, with penalties."""
        return sum(price * amount for price, amount in zip(self._prices, self._amounts, strict=True))

    @property
    def complete(self) -> bool:
        """Whether no piece is left uncovered, and no more machines are used than there are."""
        for at, price, amount in zip(self._basis, self._prices, self._amounts, strict=True):
            if amount > TINY and (price > 0.0 if at is None else not self._patterns[at].content):
                return False
        return True

    @property
    def values(self) -> list[float]:
        """What one more of each piece would cost."""
        return [max(value, 0.0) for value in self._values[: self._pieces]]

    def rent(self, kind: int) -> float:
        """What one more machine of a limited kind would save."""
        row = self._row_of.get(kind)
        return 0.0 if row is None else max(-self._values[row], 0.0)

    def answer(self) -> Iterator[tuple[float, Pattern]]:
        """How many machines are filled in which way."""
        for at, amount in zip(self._basis, self._amounts, strict=True):
            if at is not None and amount > TINY and self._patterns[at].content:
                yield amount, self._patterns[at]

    def allow_more(self, kind: int, price: float) -> None:
        """More machines of a limited kind than there are, at this price each: while patterns are few, values are then
        bounded by prices of machines, and lead to better patterns.
        """
        self._columns.append([(self._row_of[kind], -1.0)])
        self._patterns.append(Pattern(kind, {}, price))

    def add(self, pattern: Pattern) -> bool:
        """Whether it is new."""
        key = pattern.kind, tuple(sorted(pattern.content.items()))
        if key in self._known:
            return False
        self._known.add(key)
        row = self._row_of.get(pattern.kind)
        column = [(at, float(many)) for at, many in pattern.content.items()]
        self._columns.append(column if row is None else [*column, (row, 1.0)])
        self._patterns.append(pattern)
        return True

    def begin_with(self, pattern: Pattern) -> None:
        """Cover a piece by a pattern of it alone, of a kind that is not limited, before the first solution."""
        ((piece, many),) = pattern.content.items()
        if pattern.kind in self._row_of or not self.add(pattern):
            return
        self._basis[piece] = len(self._patterns) - 1
        self._prices[piece], self._amounts[piece] = pattern.price, self._amounts[piece] / many
        self._inverse[piece][piece], self._values[piece] = 1.0 / many, pattern.price / many

    def solve(self) -> None:
        for _ in range(MOST_STEPS):
            gaining = sorted(self._gaining(), key=lambda each: -each[0])[:CANDIDATES]
            if not gaining:
                break
            for first, (gain, at, column) in enumerate(gaining):
                # The first one gains what it says; after it, values are others.
                gain = gain if not first else self._gain(at, column)
                if gain > LEAST_GAIN and not self._enter(gain, at, column):
                    return

    def _gaining(self) -> Iterator[tuple[float, int | None, _Column]]:
        """The variables that make the answer cheaper if they come in: what one more gains, the position among the
        patterns, and the column. Besides patterns they are pieces that are covered more often than needed, and limited
        machines that are not used.
        """
        values = self._values
        for at, column in enumerate(self._columns):
            gain = -self._patterns[at].price
            for row, amount in column:
                gain += values[row] * amount
            if gain > LEAST_GAIN:
                yield gain, at, column
        for row, value in enumerate(values):
            gain = -value if row < self._pieces else value
            if gain > LEAST_GAIN:
                yield gain, None, [(row, -1.0 if row < self._pieces else 1.0)]

    def _gain(self, at: int | None, column: _Column) -> float:
        price = 0.0 if at is None else self._patterns[at].price
        return sum([self._values[row] * amount for row, amount in column]) - price

    def _enter(self, gain: float, at: int | None, column: _Column) -> bool:
        """Take a variable into the basis, for the one that is the first to be used up by it."""
        inverse, amounts = self._inverse, self._amounts
        if len(column) == 1:
            ((number, factor),) = column
            uses = [row[number] * factor for row in inverse]
        else:
            uses = [sum([row[number] * factor for number, factor in column]) for row in inverse]
        least, pivot = inf, -1
        for number, use in enumerate(uses):
            if use > TINY:
                ratio = amounts[number] / use
                if ratio < least - TINY or (ratio <= least and use > uses[pivot]):
                    least, pivot = ratio, number
        if pivot < 0:
            return False
        factor = 1.0 / uses[pivot]
        chosen = inverse[pivot] = [value * factor for value in inverse[pivot]]
        for number, use in enumerate(uses):
            if number != pivot and abs(use) > TINY:
                inverse[number] = [value - use * each for value, each in zip(inverse[number], chosen, strict=True)]
                amounts[number] = max(amounts[number] - use * least, 0.0)
        amounts[pivot] = least
        self._values = [value - gain * each for value, each in zip(self._values, chosen, strict=True)]
        self._basis[pivot] = at
        self._prices[pivot] = 0.0 if at is None else self._patterns[at].price
        return True
