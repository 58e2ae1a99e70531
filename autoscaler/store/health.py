"""What health checks last said of each worker."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.evidence import Health
from autoscaler.store.database import Database, Migration

TABLE: Migration = (
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


class HealthTable:
    """The table above."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, worker_id: str, at: float, *, healthy: bool, message: str = "") -> None:
        """Keep what a check said. Sick after sick is sick since the first."""
        with self._database.transaction():
            row = self._database.row("SELECT sick_since FROM health WHERE worker_id = ?", (worker_id,))
            known = None if row is None else row["sick_since"]
            since = None if healthy else known if known is not None else at
            self._database.execute(
                "INSERT OR REPLACE INTO health VALUES (?, ?, ?, ?, ?)", (worker_id, at, healthy, message, since)
            )

    def unknown(self, worker_id: str) -> None:
        """A check said neither: whatever was said before stands alone no more."""
        self._database.execute("DELETE FROM health WHERE worker_id = ?", (worker_id,))

    def load(self, since: float) -> Mapping[str, Health]:
        """By worker id, all that is newer."""
        rows = self._database.rows("SELECT * FROM health WHERE at > ? ORDER BY worker_id", (since,))
        return {
            row["worker_id"]: Health(
                row["worker_id"], row["at"], bool(row["healthy"]), row["message"], row["sick_since"]
            )
            for row in rows
        }

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM health WHERE at < ?", (before,))
