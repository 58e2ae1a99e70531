"""Nodes that callers created one by one, and the operations that created, ended or changed nodes.

A row is a caller's request for one worker. The loop stores which worker serves it, and that it failed with its worker;
callers store that it is to end, or to be tried again. Names are unique among the nodes that have not ended; ids are
never given twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from autoscaler.core.model.reasons import Reason
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

TABLES: Migration = (
    """
    CREATE TABLE operations (
        id TEXT PRIMARY KEY,
        request_id TEXT NOT NULL DEFAULT '',
        action TEXT NOT NULL,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        nodes TEXT NOT NULL
    ) STRICT
    """,
    "CREATE UNIQUE INDEX operations_by_request ON operations(request_id) WHERE request_id != ''",
    "CREATE INDEX operations_by_time ON operations(at)",
    """
    CREATE TABLE nodes (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        node_array TEXT NOT NULL,
        created_at REAL NOT NULL,
        request_id TEXT NOT NULL,
        machine_type TEXT,
        placement_group TEXT,
        attributes TEXT NOT NULL,
        worker_id TEXT,
        ended_at REAL,
        ended_by TEXT NOT NULL DEFAULT '',
        failed TEXT,
        failed_at REAL,
        lost TEXT NOT NULL DEFAULT '[]'
    ) STRICT
    """,
    "CREATE UNIQUE INDEX nodes_live_names ON nodes(name) WHERE ended_at IS NULL",
    "CREATE INDEX nodes_live ON nodes(number) WHERE ended_at IS NULL",
    "CREATE UNIQUE INDEX nodes_by_worker ON nodes(worker_id) WHERE worker_id IS NOT NULL",
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call that changed nodes."""

    id: str
    action: str
    """`create`, `terminate`, … as the call was named."""
    at: float
    who: str
    nodes: tuple[str, ...] = ()
    """Ids of its nodes."""
    request_id: str = ""
    """The caller's own token, '' if none: one that was used before is refused."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A created node with its caller's values, and its end."""

    node: CreatedNode
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """`nodeAttributes` as given."""
    ended_at: float | None = None
    ended_by: str = ""
    failed: Reason | None = None
    """The failure of its machine: the node is kept for its caller to see until somebody ends it, or asks for a retry.
    """


class NodeTable(Table):
    """The tables above. Every method is one transaction, or part of the caller's."""

    # -- operations ----------------------------------------------------------------------------------------------

    def begin(self, operation: Operation) -> bool:
        """Note an operation; False if its request id was used before: then nothing may be done."""
        on_conflict = "ON CONFLICT (request_id) WHERE request_id != '' DO NOTHING"
        return self._database.add_new("operations", encoding.columns_of(operation), on_conflict=on_conflict)

    def operation(self, operation_id: str) -> Operation | None:
        return next(self._operations("WHERE id = ?", (operation_id,)), None)

    def operation_of(self, request_id: str) -> Operation | None:
        """The operation of a caller's token."""
        return next(self._operations("WHERE request_id = ? AND request_id != ''", (request_id,)), None)

    def operations(self, limit: int = 1000) -> tuple[Operation, ...]:
        """The newest ones, newest first."""
        return tuple(self._operations("ORDER BY at DESC, rowid DESC LIMIT ?", (limit,)))

    def creators(self, node_ids: Iterable[str]) -> dict[str, str]:
        """Who created each of these nodes; those that no caller created are left out."""
        rows = self._database.rows(
            "SELECT value AS node, who FROM operations, json_each(operations.nodes)"
            " WHERE action = 'create' AND value IN (SELECT value FROM json_each(?))",
            (encoding.write(list(node_ids)),),
        )
        return {row["node"]: row["who"] for row in rows}

    def _operations(self, clause: str, values: Sequence[Any]) -> Iterator[Operation]:
        for row in self._database.rows(f"SELECT * FROM operations {clause}", values):
            yield encoding.from_row(row, Operation)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def create(self, rows: Iterable[NodeRow]) -> None:
        """Add nodes. Their names must be free among the live ones (else sqlite3.IntegrityError: a defect)."""
        with self._database.transaction():
            for row in rows:
                attributes = {"attributes": encoding.write(row.attributes)}
                self._database.add("nodes", encoding.columns_of(row.node) | attributes)

    def live(self) -> tuple[CreatedNode, ...]:
        """Created, not ended and not failed, oldest first: the nodes of a plan."""
        return tuple(row.node for row in self._rows("WHERE ended_at IS NULL AND failed IS NULL"))

    def listed(self, worker_ids: Iterable[str]) -> tuple[NodeRow, ...]:
        """Those that have not ended, and those whose worker is one of these, oldest first."""
        ids = encoding.write(list(worker_ids))
        clause = "WHERE ended_at IS NULL OR worker_id IN (SELECT value FROM json_each(?))"
        return tuple(self._rows(clause, (ids,)))

    def row(self, node_id: str) -> NodeRow | None:
        return next(self._rows("WHERE id = ?", (node_id,)), None)

    def bind(self, node_id: str, worker_id: str) -> bool:
        """A worker serves this node from now on; False if the node or the worker is bound already, or the worker failed
        it.

        An ended node is bound, too: its worker was ordered before the end was requested, and has to be known as its
        own.
        """
        return bool(
            self._database.execute(
                "UPDATE OR IGNORE nodes SET worker_id = ? WHERE id = ? AND worker_id IS NULL"
                " AND NOT EXISTS (SELECT 1 FROM json_each(nodes.lost) WHERE value = ?)",
                (worker_id, node_id, worker_id),
            )
        )

    def end(self, node_id: str, *, at: float, by: str) -> bool:
        """End the node; returns whether it was live until now."""
        return bool(
            self._database.execute(
                "UPDATE nodes SET ended_at = ?, ended_by = ? WHERE id = ? AND ended_at IS NULL", (at, by, node_id)
            )
        )

    def lose(self, workers: Mapping[str, Reason | None], *, at: float) -> None:
        """These machines ended: a node that one of them served ends with it or, if a reason says what failed, has
        failed. Neither is replaced.
        """
        self._database.execute_many(
            "UPDATE nodes SET ended_at = ?, ended_by = 'its machine ended' WHERE worker_id = ? AND ended_at IS NULL",
            [(at, worker_id) for worker_id, failed in workers.items() if failed is None],
        )
        self._database.execute_many(
            "UPDATE nodes SET failed = ?, failed_at = ? WHERE worker_id = ? AND ended_at IS NULL AND failed IS NULL",
            [(encoding.write(failed), at, worker_id) for worker_id, failed in workers.items() if failed is not None],
        )

    def retry(self) -> tuple[str, ...]:
        """Let all that failed be tried again, each with another machine: their names."""
        with self._database.transaction():
            names = tuple(row.node.name for row in self._rows("WHERE failed IS NOT NULL AND ended_at IS NULL"))
            self._database.execute(
                "UPDATE nodes SET lost = json_insert(lost, '$[#]', worker_id), worker_id = NULL, failed = NULL,"
                " failed_at = NULL WHERE failed IS NOT NULL AND ended_at IS NULL"
            )
        return names

    def end_failed(self, node_array: str, *, at: float) -> None:
        """End the failed nodes of an array that is gone: nobody can see them any more."""
        self._database.execute(
            "UPDATE nodes SET ended_at = ?, ended_by = 'its node array ended'"
            " WHERE node_array = ? AND failed IS NOT NULL AND ended_at IS NULL",
            (at, node_array),
        )

    def forget(self, before: float) -> None:
        """Drop nodes that ended or failed, and operations of which no node is left, before this time."""
        with self._database.transaction():
            self._database.execute("DELETE FROM nodes WHERE ended_at < ? OR failed_at < ?", (before, before))
            self._database.execute(
                "DELETE FROM operations WHERE at < ? AND NOT EXISTS ("
                "SELECT 1 FROM json_each(operations.nodes) JOIN nodes ON nodes.id = value)",
                (before,),
            )

    def _rows(self, clause: str, values: Sequence[Any] = ()) -> Iterator[NodeRow]:
        for row in self._database.rows(f"SELECT * FROM nodes {clause} ORDER BY number", values):
            yield _row(row)


def _row(row: sqlite3.Row) -> NodeRow:
    return encoding.from_row(row, NodeRow, node=encoding.from_row(row, CreatedNode))
