"""Dated findings for plans, kept until they are too old to matter: Grid Engine's answers about jobs, the results of
jobs' starts on hosts, and the last results of workers' health checks.

They are stored when they arise, and the next observation brings them to the plan. A lost finding is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autoscaler.core.model.evidence import Evidence, Finding, Health, JobFailure, JobSuccess
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

KEPT_FOR = 3600.0
"""Seconds after which no plan uses a finding."""
MOST_FAILURES = 50
"""The number kept of one host and owner."""

TABLES: Migration = (
    """
    CREATE TABLE answers (
        job INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at REAL NOT NULL,
        answer TEXT NOT NULL,
        said TEXT NOT NULL
    ) STRICT
    """,
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
    """
    CREATE TABLE health (
        worker_id TEXT PRIMARY KEY,
        at REAL NOT NULL,
        healthy INTEGER NOT NULL,
        message TEXT NOT NULL,
        sick_since REAL
    ) STRICT
    """,
)


class EvidenceTable(Table):
    """Grid Engine's answers, the newest of each job."""

    def find(self, findings: Iterable[Finding]) -> None:
        """Keep these, each instead of an earlier one about the same job."""
        self._database.execute_many(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
            ((one.job, one.fingerprint, one.at, one.answer.value, one.said) for one in findings),
        )

    def load(self, since: float) -> Evidence:
        """All that is newer than `since`."""
        rows = self._database.rows("SELECT * FROM answers WHERE at > ? ORDER BY job", (since,))
        return Evidence(answers={row["job"]: encoding.from_row(row, Finding) for row in rows})

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM answers WHERE at < ?", (before,))


class StartTable(Table):
    """The results of jobs' starts, as far as they matter for the hosts: failures in a row, and whose jobs ran where.

    Bounded: of a host only the newest failures after its last success, of an owner on a host only the last success.
    """

    @property
    def offset(self) -> int | None:
        """How far the accounting file was read; None: never."""
        row = self._database.row("SELECT offset FROM accounting_read")
        return None if row is None else int(row["offset"])

    def add(self, starts: Sequence[JobFailure | JobSuccess], offset: int) -> None:
        """Keep these, in the order in which they happened, and how far accounting was read: both or nothing.

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
        self._database.add("job_failures", encoding.plain(failure))
        self._database.execute(
            "DELETE FROM job_failures WHERE host = ? AND owner = ? AND id NOT IN "
            "(SELECT id FROM job_failures WHERE host = ? AND owner = ? ORDER BY id DESC LIMIT ?)",
            (failure.host, failure.owner, failure.host, failure.owner, MOST_FAILURES),
        )

    def _succeed(self, success: JobSuccess) -> None:
        self._database.execute("DELETE FROM job_failures WHERE host = ?", (success.host,))
        self._database.execute(
            "INSERT OR REPLACE INTO job_successes VALUES (?, ?, ?)", (success.host, success.owner, success.at)
        )

    def failures(self, since: float) -> tuple[JobFailure, ...]:
        """Oldest first."""
        rows = self._database.rows("SELECT * FROM job_failures WHERE at > ? ORDER BY id", (since,))
        return tuple(encoding.from_row(row, JobFailure) for row in rows)

    def successes(self, since: float) -> tuple[JobSuccess, ...]:
        rows = self._database.rows("SELECT * FROM job_successes WHERE at > ? ORDER BY host, owner", (since,))
        return tuple(encoding.from_row(row, JobSuccess) for row in rows)

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM job_failures WHERE at < ?", (before,))
        self._database.execute("DELETE FROM job_successes WHERE at < ?", (before,))


class HealthTable(Table):
    """The last result of each worker's health checks."""

    def note(self, worker_id: str, at: float, *, healthy: bool, message: str = "") -> None:
        """Keep a result. A failed check after a failed one keeps the time of the first."""
        with self._database.transaction():
            row = self._database.row("SELECT sick_since FROM health WHERE worker_id = ?", (worker_id,))
            known = None if row is None else row["sick_since"]
            since = None if healthy else known if known is not None else at
            self._database.execute(
                "INSERT OR REPLACE INTO health VALUES (?, ?, ?, ?, ?)", (worker_id, at, healthy, message, since)
            )

    def unknown(self, worker_id: str) -> None:
        """A check had no result: the earlier result counts no more."""
        self._database.execute("DELETE FROM health WHERE worker_id = ?", (worker_id,))

    def load(self, since: float) -> Mapping[str, Health]:
        """By worker id, all that is newer."""
        rows = self._database.rows("SELECT * FROM health WHERE at > ? ORDER BY worker_id", (since,))
        return {row["worker_id"]: encoding.from_row(row, Health) for row in rows}

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM health WHERE at < ?", (before,))
