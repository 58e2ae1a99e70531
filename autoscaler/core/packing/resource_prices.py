"""What a unit of each resource is worth to some demand: the dual of a small linear program.

If machines could be cut as one likes, the least price that covers the demand would be the optimum of: minimise price ×
machines, so that each resource is covered. Its dual has one variable a resource, the *resource prices*: no machine's
content is worth more than the machine, and the demand is worth as much as possible. It is solved by the simplex method
from the origin, which is feasible because no price is negative.
"""

from __future__ import annotations

from collections.abc import Sequence

TINY = 1e-9
MOST_STEPS = 200
"""Steps until the prices found so far have to do: they are feasible after each step, only not the best."""


def resource_prices(
    offers: Sequence[tuple[float, Sequence[float], int | None]], demand: Sequence[float]
) -> tuple[float, ...]:
    """The price of one unit of each resource. `offers`: price, content and number of each; `demand`: units of each
    resource.

    Where there are only so many of an offer, its rent is a further variable: what one more of it would save. A resource
    that no offer has is worth nothing.
    """
    width = len(demand)
    had = [any(content[at] > 0 for _, content, _ in offers) for at in range(width)]
    # Content is counted in shares of the demand, so that all figures are near 1.
    scale = [wanted if wanted > 0 and had[at] else 0.0 for at, wanted in enumerate(demand)]
    limited = [number for number, (_, _, most) in enumerate(offers) if most is not None]
    rows = [
        [
            *(content[at] / scale[at] if scale[at] else 0.0 for at in range(width)),
            *(-1.0 if number == other else 0.0 for other in limited),
            max(price, 0.0),
        ]
        for number, (price, content, _) in enumerate(offers)
    ]
    goal = [*(1.0 if each else 0.0 for each in scale), *(-float(offers[number][2] or 0) for number in limited)]
    basis = [-1 - row for row in range(len(rows))]
    columns = list(range(len(goal)))
    for _ in range(MOST_STEPS):
        at = max(range(len(goal)), key=lambda column: goal[column], default=None)
        if at is None or goal[at] <= TINY:
            break
        ratios = [(row[-1] / row[at], number) for number, row in enumerate(rows) if row[at] > TINY]
        if not ratios:
            break  # more is demanded than there is: the prices so far have to do
        _, pivot = min(ratios)
        _exchange(rows, goal, pivot, at)
        basis[pivot], columns[at] = columns[at], basis[pivot]
    found = [0.0] * width
    for row, variable in zip(rows, basis, strict=True):
        if 0 <= variable < width and scale[variable]:
            found[variable] = max(row[-1], 0.0) / scale[variable]
    return tuple(found)


def _exchange(rows: list[list[float]], goal: list[float], pivot: int, at: int) -> None:
    """One step: the variable of column `at` takes the place of that of row `pivot`."""
    chosen = rows[pivot]
    factor = 1.0 / chosen[at]
    chosen[at] = 1.0
    for column in range(len(chosen)):
        chosen[column] *= factor
    for number, row in enumerate(rows):
        if number != pivot and (times := row[at]):
            row[at] = 0.0
            for column, value in enumerate(chosen):
                row[column] -= times * value
    times, goal[at] = goal[at], 0.0
    for column in range(len(goal)):
        goal[column] -= times * chosen[column]
