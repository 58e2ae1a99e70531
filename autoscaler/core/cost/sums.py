"""Sums of what workers cost, by any key: user, job, instance type … In whole micros, so that every table adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from autoscaler.core.cost.amounts import HOUR_MS
from autoscaler.core.cost.shares import CostKind, Part, Rental, Use, Window

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

    def add(self, part: Part) -> None:
        if part.kind is CostKind.USED:
            self.used += part.micros
            self.slot_ms += part.slot_ms
        elif part.kind is CostKind.STARTING:
            self.starting += part.micros
        else:
            self.idle += part.micros

    def join(self, other: CostRow) -> None:
        for name in ("used", "starting", "idle", "slot_ms", "rented_ms", "workers"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Table:
    """All workers with prices of one currency."""

    currency: str
    rows: dict[str, CostRow] = field(default_factory=dict)
    total: CostRow = field(default_factory=lambda: CostRow("sum"))

    def count(self, rented_ms: int) -> None:
        """Count a worker that was rented for so long. Its parts are to be added."""
        self.total.workers, self.total.rented_ms = self.total.workers + 1, self.total.rented_ms + rented_ms

    def add(self, parts: Iterable[Part], rented_ms: int, whole: str | None, key_of: Callable[[Use], str]) -> None:
        """Add the parts of a worker that was rented for so long. `whole`: the key of all of it; None: each part counts
        for the key of the job that it was used by, and what no job used only in the total.
        """
        if whole is not None:
            row = self._row(whole)
            row.workers, row.rented_ms = row.workers + 1, row.rented_ms + rented_ms
        total, rows, used = self.total, self.rows, CostKind.USED
        for part in parts:
            total.add(part)
            key = whole
            if key is None:
                if part.kind is not used:
                    continue
                assert part.use is not None
                key = key_of(part.use)
            row_of_key = rows.get(key)
            if row_of_key is None:
                row_of_key = rows[key] = CostRow(key)
            row_of_key.add(part)

    def _row(self, key: str) -> CostRow:
        return self.rows.setdefault(key, CostRow(key))

    def sorted(self) -> list[CostRow]:
        """The rows, costliest first; those beyond `MOST_ROWS` as one row."""
        rows = sorted(self.rows.values(), key=lambda row: (-row.cost, row.key))
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
