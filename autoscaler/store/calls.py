"""Every call to the HTTP API: caller, request and answer. In a file of its own beside the store, so that a client which
polls neither wakes the loop nor waits for it. Bounded; it contains no secrets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autoscaler.store import encoding
from autoscaler.store.database import Database, Migration

TABLE: Migration = (
    """
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        method TEXT NOT NULL,
        target TEXT NOT NULL,
        status INTEGER NOT NULL,
        operation TEXT NOT NULL,
        seconds REAL NOT NULL
    ) STRICT
    """,
)
MOST = 10_000
"""This many calls of authenticated callers that only read are kept, the newest, and as many that were refused."""
MOST_STRANGERS = 1_000
"""This many calls of others: they push out no authenticated caller's."""
CHANGES_KEPT = 400 * 86_400.0
"""Seconds for which calls of authenticated callers that may have changed something are kept, however many others come.
"""
MOST_CHANGES = 200_000
"""The most of these."""
READS = ("GET", "HEAD")
LONGEST = 300
"""Characters of a call's path and query that are kept."""
_TRIM_EVERY = 100
_CHANGES = f"who <> '' AND method NOT IN {READS} AND status < 400"


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    at: float
    who: str
    """The authenticated user; '' if there was none."""
    method: str
    target: str
    """Path and query."""
    status: int
    operation: str = ""
    """Id of the operation that it began."""
    seconds: float = 0.0
    """Its duration."""


class CallLog:
    """The log of calls."""

    def __init__(self, database: Database, most: int = MOST, most_strangers: int = MOST_STRANGERS) -> None:
        self._database, self._most, self._most_strangers = database, most, most_strangers

    @classmethod
    def open(cls, path: Path | None, most: int = MOST, most_strangers: int = MOST_STRANGERS) -> CallLog:
        """None: in memory. Raises SettingsError where the file cannot be used."""
        return cls(Database.open(path, (TABLE,)), most, most_strangers)

    def add(self, call: Call) -> None:
        with self._database.transaction():
            short = replace(call, method=call.method[:LONGEST], target=call.target[:LONGEST])
            number = self._database.add("calls", encoding.plain(short))
            if number % _TRIM_EVERY == 0:
                self._trim("who = ''", self._most_strangers)
                self._trim(f"who <> '' AND method IN {READS}", self._most)
                self._trim(f"who <> '' AND method NOT IN {READS} AND status >= 400", self._most)
                self._trim(_CHANGES, MOST_CHANGES)
                self._database.execute(f"DELETE FROM calls WHERE {_CHANGES} AND at < ?", (call.at - CHANGES_KEPT,))

    def _trim(self, whose: str, most: int) -> None:
        """Keep the newest of these."""
        self._database.execute(
            f"DELETE FROM calls WHERE {whose} AND id <= (SELECT id FROM calls WHERE {whose}"
            " ORDER BY id DESC LIMIT 1 OFFSET ?)",
            (most,),
        )

    def newest(self, limit: int = 100) -> tuple[Call, ...]:
        """Newest first."""
        rows = self._database.rows("SELECT * FROM calls ORDER BY id DESC LIMIT ?", (limit,))
        return tuple(encoding.from_row(row, Call) for row in rows)

    def close(self) -> None:
        self._database.close()
