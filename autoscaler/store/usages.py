"""Which job held slots of which worker from when to when, for as long as cost is kept.

A job that a pass observes is noted while it runs (`observed`), and replaced by its accounting record when it has ended.
Jobs that ran between two passes are known from accounting alone. Reading the same line twice changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.core.cost.shares import Payer, Use
from autoscaler.sge.accounting_tail import AccountingPosition
from autoscaler.store.database import Database, Migration, Table

MOST_ROWS = 1_000_000
"""Some 230 MB; beyond it the oldest are forgotten."""
AT_ONCE = 50
"""Workers whose jobs one statement reads: other threads use the store in between."""
SOON = 5.0
"""Seconds by which qmaster's and an execd's start time of a job may differ, and more."""

TABLES: Migration = (
    """
    CREATE TABLE payers (
        id INTEGER PRIMARY KEY,
        user TEXT NOT NULL,
        "group" TEXT NOT NULL,
        department TEXT NOT NULL,
        project TEXT NOT NULL,
        account TEXT NOT NULL,
        queue TEXT NOT NULL,
        UNIQUE (user, "group", department, project, account, queue)
    ) STRICT
    """,
    """
    CREATE TABLE usages (
        worker_id TEXT NOT NULL,
        job INTEGER NOT NULL,
        task INTEGER NOT NULL,
        began REAL NOT NULL,
        ended REAL,
        slots INTEGER NOT NULL,
        payer INTEGER NOT NULL REFERENCES payers(id),
        observed INTEGER NOT NULL,
        PRIMARY KEY (worker_id, job, task, began)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX usages_by_end ON usages(ended)",
    "CREATE INDEX usages_observed ON usages(job, task) WHERE observed = 1",
    """
    CREATE TABLE usage_marks (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        inode INTEGER,
        offset INTEGER,
        mark BLOB,
        seen_at REAL,
        since REAL,
        forgotten REAL
    ) STRICT
    """,
    "INSERT INTO usage_marks VALUES (1, NULL, NULL, NULL, NULL, NULL, NULL)",
)


class RunKey(NamedTuple):
    """A job or task on one worker."""

    worker_id: str
    job: int
    task: int


@dataclass(frozen=True, slots=True)
class Run:
    """One run that a pass observes, or that accounting has. Times as Unix seconds."""

    key: RunKey
    payer: Payer
    slots: int
    began: float
    ended: float | None = None
    """None: it runs."""


_ADD = "INSERT OR REPLACE INTO usages VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class UsageTable(Table):
    """The tables above."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._payers: dict[Payer, int] = {}
        self._by_id: Mapping[int, Payer] = {}

    # -- writing -------------------------------------------------------------------------------------------------

    def running(self) -> dict[RunKey, Run]:
        """Those that no pass has found to be over. Nothing else is kept in memory, so a transaction that failed leaves
        no trace.
        """
        self._payers, self._by_id = {}, {}
        return {
            run.key: run for run in map(_run, self._database.rows(f"{_SELECT} WHERE observed = 1 AND ended IS NULL"))
        }

    def begin(self, runs: Iterable[Run]) -> None:
        """Passes observe these from now on."""
        self._database.execute_many(_ADD, [self._row(run, observed=True) for run in runs])

    def end(self, runs: Iterable[Run], at: float) -> None:
        """These are over; accounting later has their ends."""
        self._database.execute_many(
            "UPDATE usages SET ended = max(began, ?) WHERE worker_id = ? AND job = ? AND task = ? AND began = ?",
            [(at, *run.key, run.began) for run in runs],
        )

    def account(self, runs: Iterable[Run]) -> tuple[RunKey, ...]:
        """Store accounting's records of ended runs, in place of what was observed of them: on all their hosts, while
        accounting names one. Returns which observed runs they were.
        """
        over: list[RunKey] = []
        for run in runs:
            assert run.ended is not None
            slots, seen_before = run.slots, self._observed_of(run)
            for seen in seen_before:
                over.append(seen.key)
                self._database.execute(
                    "DELETE FROM usages WHERE worker_id = ? AND job = ? AND task = ? AND began = ?",
                    (*seen.key, seen.began),
                )
                if seen.key.worker_id == run.key.worker_id:
                    slots = seen.slots
                else:
                    other = Run(seen.key, run.payer, seen.slots, run.began, run.ended)
                    self._database.execute(_ADD, self._row(other, observed=False))
            # A line that was read before has its row, with the slots that it had on this host.
            add = _ADD if seen_before else _ADD.replace("REPLACE", "IGNORE")
            self._database.execute(add, self._row(Run(run.key, run.payer, slots, run.began, run.ended), observed=False))
        return tuple(over)

    def _observed_of(self, run: Run) -> list[Run]:
        """The observed rows of this very run; a later run of the same job is another."""
        rows = self._database.rows(
            f"{_SELECT} WHERE observed = 1 AND job = ? AND task = ?", (run.key.job, run.key.task)
        )
        last = max(run.ended or run.began, run.began + SOON)
        return [
            seen
            for seen in map(_run, rows)
            if seen.began < last and (seen.ended is None or seen.ended >= run.began - SOON)
        ]

    def _row(self, run: Run, *, observed: bool) -> tuple[object, ...]:
        return (*run.key, run.began, run.ended, run.slots, self._payer(run.payer), int(observed))

    def _payer(self, payer: Payer) -> int:
        if payer not in self._payers:
            columns = dict(zip(("user", '"group"', "department", "project", "account", "queue"), payer, strict=True))
            self._database.add("payers", columns, on_conflict="ON CONFLICT DO NOTHING")
            where = " AND ".join(f"{name} = ?" for name in columns)
            (row,) = self._database.rows(f"SELECT id FROM payers WHERE {where}", tuple(columns.values()))
            self._payers[payer] = row["id"]
        return self._payers[payer]

    # -- how far ----------------------------------------------------------------------------------------------------

    @property
    def place(self) -> AccountingPosition | None:
        """How far accounting was read."""
        row = self._database.row("SELECT inode, offset, mark FROM usage_marks WHERE inode IS NOT NULL")
        return None if row is None else AccountingPosition(row["inode"], row["offset"], row["mark"])

    @property
    def seen_at(self) -> float | None:
        """The time at which a pass last observed what runs."""
        row = self._database.row("SELECT seen_at FROM usage_marks")
        return None if row is None else row["seen_at"]

    @property
    def since(self) -> float | None:
        """The time since which it is known for whom workers were; None: unknown, or not all of accounting has been
        read.
        """
        row = self._database.row("SELECT max(since, coalesce(forgotten, since)) AS at FROM usage_marks")
        return None if row is None else row["at"]

    def mark(self, place: AccountingPosition | None, seen_at: float, since: float | None) -> None:
        """Store how far accounting was read. `since`: from when on it is known for whom workers were, unless that was
        stored before; None: it is not known yet.
        """
        self._database.execute(
            "UPDATE usage_marks SET inode = ?, offset = ?, mark = ?, seen_at = ?, since = coalesce(since, ?)",
            (*((None, None, None) if place is None else (place.inode, place.offset, place.mark)), seen_at, since),
        )

    # -- reading ----------------------------------------------------------------------------------------------------

    def of_worker(self, worker_id: str, since: float, until: float) -> list[Use]:
        """All that held slots of it in a period."""
        (found,) = self.of_workers([worker_id], since, until)
        return found

    def of_workers(self, worker_ids: Sequence[str], since: float, until: float) -> Iterator[list[Use]]:
        """The same of many workers, in their order; `AT_ONCE` are read at a time."""
        for at in range(0, len(worker_ids), AT_ONCE):
            chunk = worker_ids[at : at + AT_ONCE]
            found: dict[str, list[Use]] = defaultdict(list)
            rows = self._database.rows(
                "SELECT worker_id, job, task, payer, slots, CAST(round(began * 1000) AS INTEGER),"
                " CAST(round(ended * 1000) AS INTEGER) FROM usages"
                f" WHERE worker_id IN ({', '.join('?' * len(chunk))}) AND began < ? AND coalesce(ended, ?) > ?",
                (*chunk, until, until, since),
            )
            payers = self._known_payers({row[3] for row in rows})
            for worker_id, job, task, payer, slots, began, ended in rows:
                found[worker_id].append(_new(Use, (job, task, payers[payer], slots, began, ended)))
            yield from (found[worker_id] for worker_id in chunk)

    def of_job(self, job: int, task: int | None, now: float) -> Mapping[str, tuple[float, float]]:
        """By worker, from when to when a job, or one task of it, held slots there, including gaps."""
        # CROSS JOIN: worker by worker, each by the primary key; SQLite would read all usages otherwise.
        rows = self._database.rows(
            "SELECT worker_id, min(usages.began) AS began, max(coalesce(usages.ended, ?)) AS ended FROM lifetimes"
            " CROSS JOIN usages USING (worker_id) WHERE job = ? AND (task = ? OR ? IS NULL) GROUP BY worker_id",
            (now, job, task, task),
        )
        return {row["worker_id"]: (row["began"], max(row["ended"], row["began"])) for row in rows}

    def _known_payers(self, ids: set[int]) -> Mapping[int, Payer]:
        if ids - self._by_id.keys():
            self._by_id = {row["id"]: _payer(row) for row in self._database.rows("SELECT * FROM payers")}
        return self._by_id

    # -- forgetting -------------------------------------------------------------------------------------------------

    def forget(self, before: float, most: int = MOST_ROWS) -> None:
        """Drop what ended by then, and the oldest beyond the bound."""
        with self._database.transaction():
            (count,) = self._database.rows("SELECT count(*) FROM usages")[0]
            if count > most:
                beyond = "SELECT ended FROM usages WHERE ended IS NOT NULL ORDER BY ended LIMIT 1 OFFSET ?"
                row = self._database.row(beyond, (count - most - 1,))
                before = max(before, row["ended"] if row is not None else before)
            if self._database.execute("DELETE FROM usages WHERE ended <= ?", (before,)):
                self._database.execute("UPDATE usage_marks SET forgotten = ?", (before,))
                self._database.execute("DELETE FROM payers WHERE id NOT IN (SELECT payer FROM usages)")
                self._payers.clear()
                self._by_id = {}


_new = tuple.__new__
"""Makes a named tuple without the call of its own constructor: a month has tens of thousands."""
_SELECT = "SELECT usages.*, payers.* FROM usages JOIN payers ON payers.id = payer"


def _payer(row: sqlite3.Row) -> Payer:
    return Payer(row["user"], row["group"], row["department"], row["project"], row["account"], row["queue"])


def _run(row: sqlite3.Row) -> Run:
    key = RunKey(row["worker_id"], row["job"], row["task"])
    return Run(key, _payer(row), row["slots"], row["began"], row["ended"])
