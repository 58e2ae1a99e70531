"""What callers want done with machines besides ending them (restart, reimage), until it is done or cannot be."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.store.database import Database, Migration

TABLE: Migration = (
    """
    CREATE TABLE verbs (
        id INTEGER PRIMARY KEY,
        verb TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        empty_since REAL,
        begun_at REAL,
        ended_at REAL,
        message TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    "CREATE UNIQUE INDEX verbs_open ON verbs(worker_id) WHERE ended_at IS NULL",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One verb for one machine."""

    id: int
    verb: str
    worker_id: str
    at: float
    who: str
    empty_since: float | None = None
    """The look that first found it closed and empty since this was asked."""
    begun_at: float | None = None
    """When its provider was asked: never again."""


class VerbTable:
    """The table above."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, verb: str, worker_id: str, *, at: float, who: str) -> bool:
        """False: something else is still to be done with this machine."""
        return bool(
            self._database.execute(
                "INSERT INTO verbs (verb, worker_id, at, who) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (verb, worker_id, at, who),
            )
        )

    def open(self) -> tuple[Asked, ...]:
        """Oldest first."""
        rows = self._database.rows("SELECT * FROM verbs WHERE ended_at IS NULL ORDER BY id")
        return tuple(
            Asked(
                row["id"],
                row["verb"],
                row["worker_id"],
                row["at"],
                row["who"],
                row["empty_since"],
                row["begun_at"],
            )
            for row in rows
        )

    def seen_empty(self, asked: Asked, at: float) -> None:
        self._database.execute("UPDATE verbs SET empty_since = ? WHERE id = ?", (at, asked.id))

    def begin(self, asked: Asked, at: float) -> None:
        """Durable before the provider is called."""
        self._database.execute("UPDATE verbs SET begun_at = ? WHERE id = ?", (at, asked.id))

    def end(self, asked: Asked, message: str, at: float) -> None:
        """What came of it."""
        self._database.execute("UPDATE verbs SET ended_at = ?, message = ? WHERE id = ?", (at, message, asked.id))

    def last(self, worker_id: str) -> str:
        """What came of the last one for a machine; '' for nothing yet."""
        row = self._database.row(
            "SELECT message FROM verbs WHERE worker_id = ? AND ended_at IS NOT NULL ORDER BY id DESC LIMIT 1",
            (worker_id,),
        )
        return "" if row is None else str(row["message"])

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM verbs WHERE ended_at < ?", (before,))
