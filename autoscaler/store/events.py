"""The table of events, for 30 days and at most `MOST_ROWS` rows: what happened to jobs and workers, each reported once.
If there are more, the owners with most of them lose their oldest.

A pass without news writes nothing. The state that a restart needs is kept beside the events: which jobs run, and how
far accounting was read. What was reported of waiting jobs is read off the events themselves.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.events.event import OF_WORKERS, EventKind, JobEvent, span, those_within, within
from autoscaler.core.events.events import PassEvents
from autoscaler.core.events.known import KnownEvents, Run
from autoscaler.core.events.numbers import Numbers
from autoscaler.core.model.cluster import short_name
from autoscaler.store.database import Migration, Table

KEPT_FOR = 30 * 86_400.0
MOST_ROWS = 100_000
MOST_TEXT = 64 << 20
"""Bound of all events together in characters: numbers of many jobs or tasks that are not in a row take some room."""

TABLES: Migration = (
    """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        at REAL NOT NULL,
        until REAL NOT NULL,
        seen_at REAL NOT NULL,
        first_job INTEGER,
        last_job INTEGER,
        jobs TEXT NOT NULL,
        tasks TEXT NOT NULL,
        count INTEGER NOT NULL,
        owner TEXT NOT NULL,
        project TEXT NOT NULL,
        hosts TEXT NOT NULL,
        queue TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        order_id TEXT NOT NULL,
        code TEXT NOT NULL,
        message TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX events_by_job ON events(first_job, last_job)",
    "CREATE INDEX events_of_workers ON events(order_id) WHERE kind = 'joined'",
    """
    CREATE TABLE event_runs (
        job INTEGER NOT NULL,
        task TEXT NOT NULL,
        owner TEXT NOT NULL,
        hosts TEXT NOT NULL,
        queue TEXT NOT NULL,
        started REAL,
        project TEXT NOT NULL,
        PRIMARY KEY (job, task)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE event_marks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        file TEXT,
        offset INTEGER,
        pushed_out REAL
    ) STRICT
    """,
    "INSERT INTO event_marks VALUES (1, NULL, NULL, NULL)",
)

_TEXT = "length(jobs || tasks || owner || project || hosts || queue || message)"
_FIELDS = tuple(field.name for field in dataclasses.fields(JobEvent))
_COLUMNS = ("first_job", "last_job", *_FIELDS)
_INSERT = f"INSERT INTO events ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


AccountingPosition = tuple[str | None, int | None]
"""A file of accounting, and how far it was read; None: not yet."""


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An event with its number: a later one has a greater number."""

    id: int
    event: JobEvent


class EventTable(Table):
    """The tables above."""

    def keep(self, news: PassEvents, place: AccountingPosition | None = None) -> None:
        """Keep the news of one pass, with the jobs that run since and those that are over, and how far accounting was
        read, if that changed.
        """
        if not (news.events or news.started or news.ended or place):
            return
        with self._database.transaction():
            self._database.execute_many(
                "DELETE FROM event_runs WHERE job = ? AND task = ?", [run.key for run in news.ended]
            )
            self._database.execute_many(
                "INSERT OR REPLACE INTO event_runs VALUES (?, ?, ?, ?, ?, ?, ?)", map(_run_row, news.started)
            )
            self._database.execute_many(_INSERT, map(_row, news.events))
            if place:
                self._database.execute("UPDATE event_marks SET file = ?, offset = ?", place)

    def place(self) -> AccountingPosition:
        """Which file of accounting was read, and how far."""
        row = self._database.row("SELECT file, offset FROM event_marks")
        return (None, None) if row is None else (row["file"], row["offset"])

    def known(self, jobs: Collection[int]) -> KnownEvents:
        """What was reported of these jobs, of those that run, and of workers and orders."""
        reported: dict[EventKind, set[int]] = {EventKind.SUBMITTED: set(), EventKind.COUNTED: set()}
        reported[EventKind.NOT_COUNTED] = set()
        for row in self._of_waiting(jobs):
            kind, found = EventKind(row["kind"]), those_within(row["jobs"], jobs)
            if kind in (EventKind.COUNTED, EventKind.NOT_COUNTED):
                reported[EventKind.COUNTED] -= found
                reported[EventKind.NOT_COUNTED] -= found
            reported[kind] |= found
        runs = [_run(row) for row in self._database.rows("SELECT * FROM event_runs")]
        mark = self._database.row("SELECT pushed_out FROM event_marks")
        return KnownEvents(
            submitted=Numbers(frozenset(reported[EventKind.SUBMITTED])),
            counted=Numbers(frozenset(reported[EventKind.COUNTED])),
            uncounted=Numbers(frozenset(reported[EventKind.NOT_COUNTED])),
            runs={run.key: run for run in runs},
            joined=frozenset(self._ids("worker_id", EventKind.JOINED)),
            orders=frozenset(self._ids("order_id", EventKind.ORDERED)),
            since=float("-inf") if mark is None or mark["pushed_out"] is None else mark["pushed_out"],
        )

    def _of_waiting(self, jobs: Collection[int]) -> list[sqlite3.Row]:
        if not jobs:
            return []
        return self._database.rows(
            "SELECT kind, jobs FROM events WHERE kind IN (?, ?, ?) AND first_job <= ? AND last_job >= ? ORDER BY id",
            (EventKind.SUBMITTED, EventKind.COUNTED, EventKind.NOT_COUNTED, max(jobs), min(jobs)),
        )

    def _ids(self, column: str, kind: EventKind) -> Iterator[str]:
        return (row[0] for row in self._database.rows(f"SELECT {column} FROM events WHERE kind = ?", (kind,)))

    def read(
        self,
        *,
        job: int | None = None,
        task: int | None = None,
        host: str = "",
        after: int = 0,
        since: float = 0.0,
        last: int = MOST_ROWS,
    ) -> tuple[KeptEvent, ...]:
        """At most `last` of the newest, in the order in which they were noticed. Events of a job come in the order in
        which they happened, with the workers that were launched for it or on which it started, with what happened to
        these while it ran, and with launches for it that failed. `after`: those with a
        greater number; `since`: those that were noticed from this time on.
        """
        if job is None:
            rows = self._database.rows(
                "SELECT * FROM events WHERE id > ? AND seen_at >= ? AND (hosts LIKE ? OR worker_id = ?)"
                " ORDER BY id DESC LIMIT ?",
                (after, since, f"%{host.partition('.')[0]}%", host, last),
            )
        else:
            rows = self._of_job(job, task)
        new = (row for row in rows if row["id"] > after and row["seen_at"] >= since)
        kept = sorted(map(_kept, new), key=lambda one: one.id)
        if job is not None:
            kept.sort(key=lambda one: one.event.at)
        return tuple(one for one in kept if not host or _names(one.event, host))[-last:]

    def of_order(self, order_id: str) -> tuple[KeptEvent, ...]:
        """A launch, how it failed, and its workers."""
        kinds = (EventKind.ORDERED, EventKind.FAILED, *OF_WORKERS)
        rows = self._database.rows(
            f"SELECT * FROM events WHERE order_id = ? AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY id",
            (order_id, *kinds),
        )
        return tuple(map(_kept, rows))

    def _of_job(self, job: int, task: int | None) -> list[sqlite3.Row]:
        near = self._database.rows("SELECT * FROM events WHERE first_job <= ? AND last_job >= ?", (job, job))
        mine = [row for row in near if within(row["jobs"], job)]
        if task is not None:
            mine = [row for row in mine if not row["tasks"] or within(row["tasks"], task)]
        orders = {row["order_id"] for row in mine if row["kind"] == EventKind.ORDERED}
        started = {host: row["at"] for row in mine if row["kind"] == EventKind.STARTED for host in row["hosts"].split()}
        workers: dict[str, sqlite3.Row] = {}
        for row in self._database.rows("SELECT * FROM events WHERE kind = ? ORDER BY id", (EventKind.JOINED,)):
            if row["order_id"] in orders:
                workers[row["worker_id"]] = row
            elif row["hosts"] in started and row["at"] <= started[row["hosts"]]:
                workers[row["hosts"]] = row  # the last one of that name
        ran = {row["worker_id"]: started[row["hosts"]] for row in workers.values() if row["hosts"] in started}
        ended = max((row["at"] for row in mine if row["kind"] == EventKind.ENDED), default=0.0)
        until = ended if ended >= max(started.values(), default=0.0) else float("inf")
        others = self._database.rows(
            "SELECT * FROM events WHERE kind IN (?, ?, ?, ?)",
            (EventKind.FAILED, EventKind.DISABLED, EventKind.ENABLED, EventKind.GONE),
        )
        mine += [
            row
            for row in others
            if (row["order_id"] in orders and row["kind"] == EventKind.FAILED)
            or ran.get(row["worker_id"], float("inf")) <= row["at"] <= until
        ]
        return [*mine, *{row["id"]: row for row in workers.values()}.values()]

    def forget(self, now: float) -> None:
        """Drop old events, and the oldest of the owners that have most beyond the bounds."""
        with self._database.transaction():
            self._database.execute("CREATE TEMP TABLE IF NOT EXISTS pushed_out (id INTEGER PRIMARY KEY)")
            self._database.execute("DELETE FROM pushed_out")
            self._database.execute("INSERT INTO pushed_out SELECT id FROM events WHERE seen_at < ?", (now - KEPT_FOR,))
            self._push_out_beyond_shares()
            row = self._database.row("SELECT max(until) AS at FROM events WHERE id IN (SELECT id FROM pushed_out)")
            if row is None or row["at"] is None:
                return
            self._database.execute("DELETE FROM events WHERE id IN (SELECT id FROM pushed_out)")
            self._database.execute(
                "UPDATE event_marks SET pushed_out = max(coalesce(pushed_out, ?1), ?1)", (row["at"],)
            )

    def _push_out_beyond_shares(self) -> None:
        """The oldest events of the owners that have more than their share of the bounds."""
        left = "FROM events WHERE id NOT IN (SELECT id FROM pushed_out)"
        sums = self._database.rows(f"SELECT owner, count(*) AS rows, sum({_TEXT}) AS text {left} GROUP BY owner")
        rows = share([row["rows"] for row in sums], MOST_ROWS)
        text = share([row["text"] for row in sums], MOST_TEXT)
        if rows is None and text is None:
            return
        self._database.execute(
            "INSERT OR IGNORE INTO pushed_out SELECT id FROM ("
            f"SELECT id, count(*) OVER newest AS place, sum({_TEXT}) OVER newest AS text {left}"
            " WINDOW newest AS (PARTITION BY owner ORDER BY id DESC)) WHERE place > ? OR text > ?",
            (MOST_ROWS if rows is None else rows, MOST_TEXT if text is None else text),
        )


def share(amounts: Sequence[int], most: int) -> int | None:
    """The most that each may have so that all together have no more than `most`; None: they have not. Who has less than
    an equal part leaves the rest to others.
    """
    if sum(amounts) <= most:
        return None
    left = most
    for at, amount in enumerate(sorted(amounts)):
        equal = left // (len(amounts) - at)
        if amount > equal:
            return equal
        left -= amount
    return None


def _names(event: JobEvent, host: str) -> bool:
    return event.worker_id == host or short_name(host) in map(short_name, event.hosts)


def _row(event: JobEvent) -> tuple[object, ...]:
    first, last = span(event.jobs) or (None, None)
    plain = {name: getattr(event, name) for name in _FIELDS}
    plain |= {"kind": event.kind.value, "hosts": " ".join(event.hosts), "first_job": first, "last_job": last}
    return tuple(plain[name] for name in _COLUMNS)


def _kept(row: sqlite3.Row) -> KeptEvent:
    plain = {name: row[name] for name in _FIELDS}
    return KeptEvent(
        row["id"], JobEvent(**{**plain, "kind": EventKind(row["kind"]), "hosts": tuple(row["hosts"].split())})
    )


def _run_row(run: Run) -> tuple[object, ...]:
    return run.job, run.task, run.owner, " ".join(run.hosts), run.queue, run.started, run.project


def _run(row: sqlite3.Row) -> Run:
    hosts = tuple(row["hosts"].split())
    return Run(row["job"], row["task"], row["owner"], hosts, row["queue"], row["started"], row["project"])
