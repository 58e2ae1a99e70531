"""The monitor's tables: samples of every observation, at several resolutions at once, each kept for as long as it is of
use.

A row covers a period and holds sums over it: a number times the seconds for which it held, so that rows add up and
means follow. Every observation fills all resolutions, hence nothing has to be thinned later, and the size has a bound
that follows from the table below alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.outcome.sample import ARRAY_MEANS, MEANS, MOSTS, SUMS, ArraySample, Sample, Starts
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table


@dataclass(frozen=True, slots=True)
class Resolution:
    """Rows of one length, all in seconds."""

    seconds: int
    kept_for: float


RESOLUTIONS = (
    Resolution(10, 86_400.0),
    Resolution(60, 7 * 86_400.0),
    Resolution(3600, 400 * 86_400.0),
)
"""Finest first. A day is 8,640 rows, the week 10,080, the hours 9,600."""
MOST_ROWS = 200_000
"""Bound for all node arrays together: many dynamic arrays at a time push out the oldest of the finest rows first."""
HELD = 600.0
"""A sample counts until the next one, but for no longer than this: after it, the state is unknown."""
NONE = Starts()

TABLES: Migration = (
    f"""
    CREATE TABLE samples (
        resolution INTEGER NOT NULL,
        at REAL NOT NULL,
        seconds REAL NOT NULL,
        {" ".join(f"{name} REAL NOT NULL," for name in (*MEANS, *SUMS, *MOSTS))}
        PRIMARY KEY (resolution, at)
    ) STRICT, WITHOUT ROWID
    """,
    f"""
    CREATE TABLE array_samples (
        resolution INTEGER NOT NULL,
        at REAL NOT NULL,
        node_array TEXT NOT NULL,
        {" ".join(f"{name} REAL NOT NULL," for name in (*ARRAY_MEANS, "most"))}
        PRIMARY KEY (resolution, at, node_array)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE TABLE last_sample (only INTEGER PRIMARY KEY CHECK (only = 1), sample TEXT NOT NULL) STRICT",
)


def _upsert(table: str, keys: Sequence[str], sums: Sequence[str], mosts: Sequence[str]) -> str:
    columns = (*keys, *sums, *mosts)
    grown = [f"{name} = {name} + excluded.{name}" for name in sums]
    grown += [f"{name} = max({name}, excluded.{name})" for name in mosts]
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT DO UPDATE SET {', '.join(grown)}"
    )


_ADD = _upsert("samples", ("resolution", "at"), ("seconds", *MEANS, *SUMS), MOSTS)
_ADD_ARRAY = _upsert("array_samples", ("resolution", "at", "node_array"), ARRAY_MEANS, ("most",))


class SampleTable(Table):
    """The tables above."""

    def add(self, sample: Sample, until: float, starts: Starts = NONE) -> float:
        """`sample` held until this time, in which these jobs had begun; what its machines cost. A clock that was set
        back adds nothing.
        """
        until = min(until, sample.at + HELD)
        if until <= sample.at:
            return 0.0
        rows: list[tuple[float, ...]] = []
        array_rows: list[tuple[float | str, ...]] = []
        for resolution in RESOLUTIONS:
            for at, seconds in _cells(sample.at, until, resolution.seconds):
                key = (resolution.seconds, at)
                last = at + resolution.seconds >= until  # jobs began by the time of the later observation
                begun = (float(starts.count), starts.waited) if last else (0.0, 0.0)
                means = (getattr(sample, name) * seconds for name in MEANS)
                longest = starts.longest if last else 0.0
                rows.append((*key, seconds, *means, *begun, sample.longest_wait, sample.most_waiting, longest))
                array_rows += (
                    (*key, name, *(getattr(array, one) * seconds for one in ARRAY_MEANS), array.most)
                    for name, array in sample.arrays.items()
                )
        with self._database.transaction():
            self._database.execute_many(_ADD, rows)
            if array_rows:
                self._database.execute_many(_ADD_ARRAY, array_rows)
        return sample.price_per_hour * (until - sample.at) / 3600

    def keep_last(self, sample: Sample) -> None:
        """The state that holds from now on, also for a process that goes on with it."""
        self._database.keep_only("last_sample", sample=encoding.write(sample))

    def last(self) -> Sample | None:
        """The state of the last observation, of whatever process."""
        row = self._database.row("SELECT sample FROM last_sample")
        return None if row is None else encoding.read(row["sample"], Sample)

    def between(self, since: float, until: float, *, now: float, seconds: int | None = None) -> tuple[Sample, ...]:
        """The known samples of this time, oldest first, in the finest rows that still reach back so far, or in those of
        this length.
        """
        chosen = seconds or next((r.seconds for r in RESOLUTIONS if since >= now - r.kept_for), RESOLUTIONS[-1].seconds)
        where = "WHERE resolution = ? AND at > ? AND at < ? ORDER BY at"
        values = (chosen, since - chosen, until)
        arrays: dict[float, list[sqlite3.Row]] = {}
        for row in self._database.rows(f"SELECT * FROM array_samples {where}, node_array", values):
            arrays.setdefault(row["at"], []).append(row)
        rows = self._database.rows(f"SELECT * FROM samples {where}", values)
        return tuple(_sample(row, arrays.get(row["at"], ())) for row in rows)

    def forget(self, now: float) -> None:
        """Drop rows older than their resolution is kept for, and rows beyond the bound."""
        with self._database.transaction():
            for resolution in RESOLUTIONS:
                old = (resolution.seconds, now - resolution.kept_for)
                for table in ("samples", "array_samples"):
                    self._database.execute(f"DELETE FROM {table} WHERE resolution = ? AND at < ?", old)
            self._push_out()

    def _push_out(self) -> None:
        """If there are too many node arrays for the bound, the oldest go first, of the finest resolution first."""
        (count,) = self._database.rows("SELECT count(*) FROM array_samples")[0]
        excess = int(count) - MOST_ROWS
        for resolution in RESOLUTIONS:
            if excess <= 0:
                return
            row = self._database.row(
                "SELECT at FROM array_samples WHERE resolution = ? ORDER BY at LIMIT 1 OFFSET ?",
                (resolution.seconds, excess - 1),
            )
            last = (resolution.seconds, row["at"]) if row is not None else (resolution.seconds, float("inf"))
            excess -= self._database.execute("DELETE FROM array_samples WHERE resolution = ? AND at <= ?", last)


def _cells(since: float, until: float, length: int) -> Iterator[tuple[float, float]]:
    """Begin of every row that a time touches, and how many seconds of it lie there."""
    at = since // length * length
    while at < until:
        yield at, min(until, at + length) - max(since, at)
        at += length


def _sample(row: sqlite3.Row, arrays: Sequence[sqlite3.Row]) -> Sample:
    seconds = row["seconds"]
    return Sample(
        at=row["at"],
        seconds=seconds,
        **{name: row[name] / seconds for name in MEANS},
        **{name: row[name] for name in (*SUMS, *MOSTS)},
        arrays={
            one["node_array"]: ArraySample(**{name: one[name] / seconds for name in ARRAY_MEANS}, most=one["most"])
            for one in arrays
        },
    )
