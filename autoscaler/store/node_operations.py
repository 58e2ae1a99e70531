"""Callers' requests to restart or reimage machines, until they are done or refused."""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.model.request_sets import NodeOperation
from autoscaler.store.database import Migration, Table

TABLE: Migration = (
    """
    CREATE TABLE node_operations (
        id INTEGER PRIMARY KEY,
        verb TEXT NOT NULL,
        worker_id TEXT NOT NULL,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        begun_at REAL,
        ended_at REAL,
        message TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    "CREATE UNIQUE INDEX node_operations_open ON node_operations(worker_id) WHERE ended_at IS NULL",
)


class NodeOperationTable(Table):
    """The table above."""

    def ask(self, verb: str, worker_id: str, *, at: float, who: str) -> bool:
        """False: another operation of this machine is still open."""
        return self._database.add_new("node_operations", {"verb": verb, "worker_id": worker_id, "at": at, "who": who})

    def open(self) -> tuple[NodeOperation, ...]:
        """Operations that are neither done nor refused; oldest first."""
        rows = self._database.rows("SELECT * FROM node_operations WHERE ended_at IS NULL ORDER BY id")
        return tuple(
            NodeOperation(row["id"], row["verb"], row["worker_id"], row["who"], row["begun_at"]) for row in rows
        )

    def begin(self, verb: str, worker_id: str, at: float) -> bool:
        """Durable before the provider is called. False: it was begun or ended before, and must not be begun again."""
        return bool(
            self._database.execute(
                "UPDATE node_operations SET begun_at = ?"
                " WHERE worker_id = ? AND verb = ? AND begun_at IS NULL AND ended_at IS NULL",
                (at, worker_id, verb),
            )
        )

    def end(self, worker_id: str, message: str, at: float) -> None:
        """Store the result of an operation that was begun."""
        self._database.execute(
            "UPDATE node_operations SET ended_at = ?, message = ?"
            " WHERE worker_id = ? AND begun_at IS NOT NULL AND ended_at IS NULL",
            (at, message, worker_id),
        )

    def refuse(self, refused: Mapping[int, str], at: float) -> None:
        """End operations that were not begun. `refused`: by id, why."""
        self._database.execute_many(
            "UPDATE node_operations SET ended_at = ?, message = ? WHERE id = ?",
            [(at, f"not done: {why}", operation) for operation, why in sorted(refused.items())],
        )

    def sweep(self, at: float) -> None:
        """At start: an operation that had begun when the process died is not begun again."""
        self._database.execute(
            "UPDATE node_operations SET ended_at = ?, message = 'interrupted: it may have been done, or not'"
            " WHERE begun_at IS NOT NULL AND ended_at IS NULL",
            (at,),
        )

    def last(self, worker_id: str) -> str:
        """The result of the last one for a machine; '' for none yet."""
        row = self._database.row(
            "SELECT message FROM node_operations WHERE worker_id = ? AND ended_at IS NOT NULL ORDER BY id DESC LIMIT 1",
            (worker_id,),
        )
        return "" if row is None else str(row["message"])

    def forget(self, before: float) -> None:
        self._database.execute("DELETE FROM node_operations WHERE ended_at < ?", (before,))
