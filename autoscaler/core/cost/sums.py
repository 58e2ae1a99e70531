"""Sums of what workers cost, by any key: user, job, instance type … In whole micros, so that every table adds up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from autoscaler.core.cost.amounts import HOUR_MS
from autoscaler.core.cost.shares import Rental, Split, Use, Window

MOST_ROWS = 10_000
"""The costliest rows; the others are one row."""
UNSEEN = 600.0
"""Seconds without an observation after which a worker's end is reported as uncertain."""


@dataclass(slots=True)
class CostRow:
    """The cost of one user, job, type …, in micros."""

    key: str
    used: int = 0
    starting: int = 0
    idle: int = 0
    slot_ms: float = 0.0
    rented_ms: int = 0
    workers: int = 0

    @property
    def cost(self) -> int:
        return self.used + self.starting + self.idle

    def count(self, rented_ms: int) -> None:
        """Count a worker that was rented for so long."""
        self.workers += 1
        self.rented_ms += rented_ms

    def add(self, split: Split) -> None:
        """Add all that a worker cost."""
        self.used += sum(split.micros)
        self.slot_ms += sum(split.slot_ms)
        self.starting += split.starting
        self.idle += split.idle

    def join(self, other: CostRow) -> None:
        self.used += other.used
        self.starting += other.starting
        self.idle += other.idle
        self.slot_ms += other.slot_ms
        self.rented_ms += other.rented_ms
        self.workers += other.workers


@dataclass(slots=True)
class Table:
    """All workers with prices of one currency."""

    currency: str
    rows: dict[str, CostRow] = field(default_factory=dict)
    total: CostRow = field(default_factory=lambda: CostRow("sum"))

    def add(self, uses: Sequence[Use], split: Split, key_of: Callable[[Use], str]) -> None:
        """Add what a worker cost: of each job for its key, and what no job used only in the total."""
        self.total.add(split)
        rows = self.rows
        for use, micros, slot_ms in zip(uses, split.micros, split.slot_ms, strict=True):
            if slot_ms:
                key = key_of(use)
                row = rows.get(key)
                if row is None:
                    rows[key] = CostRow(key, micros, slot_ms=slot_ms)
                else:
                    row.used += micros
                    row.slot_ms += slot_ms

    def add_whole(self, key: str, split: Split, rented_ms: int) -> None:
        """Add what a worker cost for one key. It was rented for so long."""
        self.total.add(split)
        row = self.rows.setdefault(key, CostRow(key))
        row.count(rented_ms)
        row.add(split)

    def sorted(self) -> list[CostRow]:
        """The rows, costliest first; those beyond `MOST_ROWS` as one row."""
        rows = sorted(self.rows.values(), key=attrgetter("key"))
        rows.sort(key=lambda row: -row.used - row.starting - row.idle)
        if len(rows) <= MOST_ROWS:
            return rows
        rest = CostRow(f"({len(rows) - MOST_ROWS + 1} others)")
        for row in rows[MOST_ROWS - 1 :]:
            rest.join(row)
        return [*rows[: MOST_ROWS - 1], rest]


def unseen_micros(rental: Rental, window: Window) -> int:
    """The uncertain micros of a worker whose end was not observed."""
    seen = rental.began if rental.seen is None else max(rental.seen, rental.began)
    if rental.nanos is None or rental.ended is None or rental.ended - seen < UNSEEN * 1000:
        return 0
    low, high = window.of(seen, rental.ended)
    return rental.nanos * (high - low) // (HOUR_MS * 1000)
