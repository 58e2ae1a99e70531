"""What a unit of each resource is worth to some demand: the dual of a small linear program.

If machines could be cut as one likes, the least price that covers the demand would be the optimum of: minimise price ×
machines, so that each resource is covered. The *resource prices* are its dual: no machine's content is worth more than
the machine, beyond the rent of those of which there are only so many, and the demand is worth as much as possible. It
is solved by the dual simplex method, which may begin without any machine because no price is negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

TINY = 1e-9
MOST_STEPS = 200
"""Steps until the prices found so far have to do: they are feasible after each step, only not the best."""


def resource_prices(
    offers: Sequence[tuple[float, Sequence[float], int | None]], demand: Sequence[float]
) -> tuple[float, ...]:
    """The price of one unit of each resource. `offers`: price, content and number of each; `demand`: units of each
    resource. A resource that no offer has is worth nothing.
    """
    covered = [
        at for at, wanted in enumerate(demand) if wanted > 0 and any(content[at] > 0 for _, content, _ in offers)
    ]
    table = _Table(offers, [(at, demand[at]) for at in covered])
    for _ in range(MOST_STEPS):
        if not table.step():
            break
    found = [0.0] * len(demand)
    for at, price in zip(covered, table.prices, strict=True):
        found[at] = max(price, 0.0) / demand[at]
    return tuple(found)


class _Table:
    """Variables: machines of each offer, between none and all; then the surplus of each resource. Content is counted
    in shares of the demand, so that all figures are near 1.
    """

    def __init__(self, offers: Sequence[tuple[float, Sequence[float], int | None]], demand: list[tuple[int, float]]):
        self._offers = len(offers)
        self._upper = [*(inf if most is None else float(most) for _, _, most in offers), *(inf for _ in demand)]
        self._at_upper = [False] * len(self._upper)
        self._costs = [*(max(price, 0.0) for price, _, _ in offers), *(0.0 for _ in demand)]
        """What one more of each variable outside the basis costs."""
        self._rows = [
            [
                *(-content[at] / wanted for _, content, _ in offers),
                *(1.0 if at == other else 0.0 for other, _ in demand),
            ]
            for at, wanted in demand
        ]
        self._basis = [self._offers + row for row in range(len(demand))]
        self._amounts = [-1.0] * len(demand)
        """Of the variables in the basis."""

    @property
    def prices(self) -> list[float]:
        return self._costs[self._offers :]

    def step(self) -> bool:
        """Bring the variable that is farthest outside its bounds to its bound. False: there is none, or it cannot be
        done, as more is demanded than there is.
        """
        gap, leaving, above = TINY, -1, False
        for row, amount in enumerate(self._amounts):
            over = amount - self._upper[self._basis[row]]
            if max(-amount, over) > gap:
                gap, leaving, above = max(-amount, over), row, over > -amount
        if leaving < 0:
            return False
        chosen, sign = self._rows[leaving], 1.0 if above else -1.0
        able = [
            (abs(self._costs[at] / use), at)
            for at, use in enumerate(chosen)
            if (-use if self._at_upper[at] else use) * sign > TINY and at not in self._basis
        ]
        for _, at in sorted(able):
            if self._upper[at] * abs(chosen[at]) >= gap - TINY:
                self._exchange(leaving, at, above=above)
                return True
            gap -= self._upper[at] * abs(chosen[at])  # all of it does not do
            self._move(at, -self._upper[at] if self._at_upper[at] else self._upper[at])
            self._at_upper[at] = not self._at_upper[at]
        return False

    def _move(self, at: int, by: float) -> None:
        for row, uses in enumerate(self._rows):
            self._amounts[row] -= uses[at] * by

    def _exchange(self, leaving: int, entering: int, *, above: bool) -> None:
        chosen, out = self._rows[leaving], self._basis[leaving]
        begun = self._upper[entering] if self._at_upper[entering] else 0.0
        by = (self._amounts[leaving] - (self._upper[out] if above else 0.0)) / chosen[entering]
        self._move(entering, by)
        self._amounts[leaving], self._basis[leaving] = begun + by, entering
        self._at_upper[out], self._at_upper[entering] = above, False
        factor = 1.0 / chosen[entering]
        chosen = self._rows[leaving] = [value * factor for value in chosen]
        for row, uses in enumerate(self._rows):
            if row != leaving and (times := uses[entering]):
                self._rows[row] = [value - times * each for value, each in zip(uses, chosen, strict=True)]
        if times := self._costs[entering]:
            self._costs = [value - times * each for value, each in zip(self._costs, chosen, strict=True)]
