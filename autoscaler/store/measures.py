"""Measurements across passes (gauges, counters and histograms, by metric and label values), as one row.

Each pass stores it, so that a process without the loop can report it, and counters go on after a restart.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from autoscaler.store.database import Migration, Table

log = logging.getLogger("autoscaler.store")
TABLE: Migration = (
    """
    CREATE TABLE measures (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        measures TEXT NOT NULL
    ) STRICT
    """,
)

Labels = tuple[str, ...]


@dataclass(slots=True)
class Histogram:
    """How many values lie at or below each bound and above the one before; the last number: above all bounds."""

    counts: list[int]
    total: float = 0.0
    """Of all values."""

    def add(self, value: float, bounds: Sequence[float]) -> None:
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value

    def cumulative(self, bounds: Sequence[float]) -> list[tuple[str, float]]:
        """As Prometheus has them: each bound with how many values are at or below it."""
        names = (*(f"{bound:g}" for bound in bounds), "+Inf")
        return [(name, float(count)) for name, count in zip(names, accumulate(self.counts), strict=True)]


@dataclass(slots=True)
class Measures:
    """All that is measured. Counters and histograms only grow, also across restarts."""

    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    histograms: dict[str, dict[Labels, Histogram]] = field(default_factory=dict)

    def set(self, name: str, value: float) -> None:
        """A gauge without labels."""
        self.values[name] = {(): value}

    def set_all(self, name: str, values: Mapping[Labels, float]) -> None:
        """A gauge: labels that are not among `values` are removed."""
        self.values[name] = dict(values)

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        series = self.values.setdefault(name, {})
        series[labels] = series.get(labels, 0.0) + by

    def observe(self, name: str, values: Iterable[float], bounds: Sequence[float], *labels: str) -> None:
        """Add these to a histogram; without values it exists all the same."""
        series = self.histograms.setdefault(name, {})
        found = series.get(labels)
        if found is None or len(found.counts) != len(bounds) + 1:  # of a version with other bounds
            found = series[labels] = Histogram([0] * (len(bounds) + 1))
        for value in values:
            found.add(max(0.0, value), bounds)


class MeasureTable(Table):
    """The table above."""

    def keep(self, measures: Measures, at: float) -> None:
        values = {
            name: [(labels, value) for labels, value in series.items()] for name, series in measures.values.items()
        }
        histograms = {
            name: [(labels, each.counts, each.total) for labels, each in series.items()]
            for name, series in measures.histograms.items()
        }
        text = json.dumps({"values": values, "histograms": histograms}, ensure_ascii=False)
        self._database.keep_only("measures", at=at, measures=text)

    def load(self) -> Measures:
        """Empty if no pass has stored any, or they cannot be read."""
        row = self._database.row("SELECT measures FROM measures")
        try:
            return Measures() if row is None else _read(row["measures"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("the stored measures cannot be read and begin anew: %s", error)
            return Measures()


def _read(text: str) -> Measures:
    found = json.loads(text)
    return Measures(
        {
            name: {tuple(map(str, labels)): float(value) for labels, value in series}
            for name, series in found["values"].items()
        },
        {
            name: {
                tuple(map(str, labels)): Histogram([int(count) for count in counts], float(total))
                for labels, counts, total in series
            }
            for name, series in found["histograms"].items()
        },
    )
