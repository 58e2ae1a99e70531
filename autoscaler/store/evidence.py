"""Dated findings that a plan may rest on, kept between passes: what Grid Engine answered when it was asked about a job.

Written where they come about, brought to plan by the next observe. A finding that is lost is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable

from autoscaler.core.evidence import Answer, Evidence, Finding
from autoscaler.store.database import Database, Migration

KEPT_FOR = 3600.0
"""Seconds after which a finding matters to no plan any more."""

TABLE: Migration = (
    """
    CREATE TABLE answers (
        job INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        at REAL NOT NULL,
        answer TEXT NOT NULL,
        said TEXT NOT NULL
    ) STRICT
    """,
)


class EvidenceTable:
    """The table above."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, findings: Iterable[Finding]) -> None:
        """Keep these, each instead of an earlier one about the same job."""
        self._database.execute_many(
            "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
            ((one.job, one.fingerprint, one.at, one.answer.value, one.said) for one in findings),
        )

    def load(self, since: float) -> Evidence:
        """All that is newer than `since`."""
        rows = self._database.rows("SELECT * FROM answers WHERE at > ? ORDER BY job", (since,))
        return Evidence(
            answers={
                row["job"]: Finding(row["job"], row["fingerprint"], row["at"], Answer(row["answer"]), row["said"])
                for row in rows
            }
        )

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM answers WHERE at < ?", (before,))
