"""The memory that one pass leaves for the next, as one row; the same JSON is a record folder's `memory.json`."""

from __future__ import annotations

import logging

from autoscaler.core.model.memory import Memory
from autoscaler.store import encoding
from autoscaler.store.database import Migration, Table

log = logging.getLogger("autoscaler.store")

TABLE: Migration = (
    """
    CREATE TABLE memory (
        only INTEGER PRIMARY KEY CHECK (only = 1),
        at REAL NOT NULL,
        memory TEXT NOT NULL
    ) STRICT
    """,
)


class MemoryTable(Table):
    """Where the memory is kept."""

    def load(self) -> Memory:
        """The last memory; the empty one for a new cell, which is safe (rule 8).

        One that cannot be read (a person edited it, a version went back) likewise counts as lost.
        """
        row = self._database.row("SELECT memory FROM memory")
        if row is None:
            return Memory()
        try:
            return encoding.read(row["memory"], Memory)
        except encoding.Unreadable as error:
            log.warning("the stored memory cannot be read and counts as lost: %s", error)
            return Memory()

    @property
    def saved_at(self) -> float:
        """The time of the pass that left it; 0 for a new cell."""
        row = self._database.row("SELECT at FROM memory")
        return 0.0 if row is None else float(row["at"])

    def save(self, memory: Memory, at: float) -> None:
        self._database.keep_only("memory", at=at, memory=encoding.write(memory))
