"""Figures over time, as the mean of each of some periods: a year needs no more memory than a day."""

from __future__ import annotations

from collections.abc import Sequence

POINTS = 600
"""Periods, at most."""


class Series:
    """Periods are equally long and begin at second 0. As time goes on, two of them become one."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._values: tuple[float, ...] = (0.0,) * len(names)
        self._at = 0.0
        """Until then all is added up."""
        self._period = 1.0
        """Seconds: a power of two, so that edges are exact."""
        self._sums: list[list[float]] = []
        """By period and figure: the figure times the seconds for which it held."""

    def change(self, now: float, values: tuple[float, ...]) -> None:
        """The figures are these from now on."""
        if values != self._values:
            self._add_up(now)
            self._values = values

    def means(self, until: float) -> dict[str, list[float]]:
        """When each period begins (`at_s`), and the mean of each figure in it. The last one ends at `until`, or where a
        figure changed last.
        """
        self._add_up(until)
        begins = [number * self._period for number in range(len(self._sums))]
        seconds = [min(self._period, self._at - at) for at in begins]
        columns = (
            [round(row[index] / lasted, 3) for row, lasted in zip(self._sums, seconds, strict=True)]
            for index in range(len(self.names))
        )
        return {"at_s": begins, **dict(zip(self.names, columns, strict=True))}

    def _add_up(self, until: float) -> None:
        while self._at < until:
            number = int(self._at // self._period)
            if number >= POINTS:
                self._double()
                continue
            if number == len(self._sums):
                self._sums.append([0.0] * len(self.names))
            ends = min(until, (number + 1) * self._period)
            for index, value in enumerate(self._values):
                self._sums[number][index] += value * (ends - self._at)
            self._at = ends

    def _double(self) -> None:
        pairs = zip(self._sums[::2], self._sums[1::2], strict=True)
        self._sums = [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]
        self._period *= 2
