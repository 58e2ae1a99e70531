"""What became of jobs' starts, as far as it tells of the hosts: failures in a row, and who ran something where.

Bounded: of a host only the newest failures after its last success, of an owner on a host only the last success.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.evidence import JobFailure, JobSuccess
from autoscaler.store.database import Database, Migration

MOST_FAILURES = 50
"""Kept of one host."""

TABLES: Migration = (
    """
    CREATE TABLE job_failures (
        id INTEGER PRIMARY KEY,
        host TEXT NOT NULL,
        job INTEGER NOT NULL,
        at REAL NOT NULL,
        failed TEXT NOT NULL,
        owner TEXT NOT NULL,
        task INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX job_failures_of_host ON job_failures (host)",
    """
    CREATE TABLE job_successes (
        host TEXT NOT NULL,
        owner TEXT NOT NULL,
        at REAL NOT NULL,
        PRIMARY KEY (host, owner)
    ) STRICT
    """,
    """
    CREATE TABLE accounting_read (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        offset INTEGER NOT NULL
    ) STRICT
    """,
)


class StartTable:
    """The tables above."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def offset(self) -> int | None:
        """How far the accounting file was read; None: never."""
        row = self._database.row("SELECT offset FROM accounting_read")
        return None if row is None else int(row["offset"])

    def add(self, starts: Sequence[JobFailure | JobSuccess], offset: int) -> None:
        """Keep these, in the order in which they came about, and how far that was read: both or nothing.

        A success ends the row of its host's failures.
        """
        with self._database.transaction():
            for start in starts:
                if isinstance(start, JobFailure):
                    self._fail(start)
                else:
                    self._succeed(start)
            self._database.execute("INSERT OR REPLACE INTO accounting_read VALUES (1, ?)", (offset,))

    def _fail(self, failure: JobFailure) -> None:
        self._database.execute(
            "INSERT INTO job_failures (host, job, at, failed, owner, task) VALUES (?, ?, ?, ?, ?, ?)",
            (failure.host, failure.job, failure.at, failure.failed, failure.owner, failure.task),
        )
        self._database.execute(
            "DELETE FROM job_failures WHERE host = ? AND id NOT IN "
            "(SELECT id FROM job_failures WHERE host = ? ORDER BY id DESC LIMIT ?)",
            (failure.host, failure.host, MOST_FAILURES),
        )

    def _succeed(self, success: JobSuccess) -> None:
        self._database.execute("DELETE FROM job_failures WHERE host = ?", (success.host,))
        self._database.execute(
            "INSERT OR REPLACE INTO job_successes VALUES (?, ?, ?)", (success.host, success.owner, success.at)
        )

    def failures(self, since: float) -> tuple[JobFailure, ...]:
        """Oldest first."""
        rows = self._database.rows("SELECT * FROM job_failures WHERE at > ? ORDER BY id", (since,))
        names = ("host", "job", "at", "failed", "owner", "task")
        return tuple(JobFailure(*(row[name] for name in names)) for row in rows)

    def successes(self, since: float) -> tuple[JobSuccess, ...]:
        rows = self._database.rows("SELECT * FROM job_successes WHERE at > ? ORDER BY host, owner", (since,))
        return tuple(JobSuccess(row["host"], row["owner"], row["at"]) for row in rows)

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM job_failures WHERE at < ?", (before,))
        self._database.execute("DELETE FROM job_successes WHERE at < ?", (before,))
