"""Sessions of people who logged in at the page. In a file of its own beside the store, so that a login neither wakes
the loop nor waits for it, and a restart ends no session. It contains hashes of the cookies, never a cookie.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path

from autoscaler.store.database import Database, Migration

TABLE: Migration = (
    """
    CREATE TABLE sessions (
        digest TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        mark TEXT NOT NULL,
        began_at REAL NOT NULL,
        ends_at REAL NOT NULL
    ) STRICT
    """,
)
LENGTH = 12 * 3600.0
"""Seconds for which a session lasts: a working day."""
MOST = 10_000
"""Sessions that are kept; a further login ends the oldest of the one who has the most."""
MOST_OF_ONE = 100
"""Sessions of one user or token that are kept; a further login ends their oldest, and nobody else's."""


@dataclass(frozen=True, slots=True)
class Session:
    """One login, until `ends_at` in Unix seconds."""

    name: str
    """The user, or `token:NAME`."""
    mark: str
    """A digest of what proved the login: the session ends when that changes."""
    ends_at: float


class Sessions:
    """The table above. Any thread may call."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, path: Path | None) -> Sessions:
        """None: in memory. Raises SettingsError, StateNotKept."""
        return cls(Database.open(path, (TABLE,)))

    def begin(self, name: str, mark: str, now: float) -> str:
        """Keep a session, and return its secret for the cookie."""
        secret = secrets.token_urlsafe(32)
        with self._database.transaction():
            self._database.execute("DELETE FROM sessions WHERE ends_at <= ?", (now,))
            self._make_room(name)
            self._database.execute(
                "INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", (_digest(secret), name, mark, now, now + LENGTH)
            )
        return secret

    def _make_room(self, name: str) -> None:
        """End the oldest sessions of this name, so that no login of one ends those of others, and then of the name that
        has the most.
        """
        self._end_oldest(name, MOST_OF_ONE - 1)
        kept = {
            row["name"]: int(row["kept"])
            for row in self._database.rows("SELECT name, COUNT(*) AS kept FROM sessions GROUP BY name")
        }
        while sum(kept.values()) >= MOST:
            most = max(kept, key=lambda each: (kept[each], each))
            kept[most] -= 1
            self._end_oldest(most, kept[most])

    def _end_oldest(self, name: str, kept: int) -> None:
        self._database.execute(
            "DELETE FROM sessions WHERE digest IN (SELECT digest FROM sessions WHERE name = ?"
            " ORDER BY began_at DESC, rowid DESC LIMIT -1 OFFSET ?)",
            (name, kept),
        )

    def find(self, secret: str, now: float) -> Session | None:
        """The session of a cookie; None: there is none, or it has ended."""
        row = self._database.row(
            "SELECT name, mark, ends_at FROM sessions WHERE digest = ? AND ends_at > ?", (_digest(secret), now)
        )
        return None if row is None else Session(row["name"], row["mark"], row["ends_at"])

    def end(self, secret: str) -> None:
        """Forget a session."""
        self._database.execute("DELETE FROM sessions WHERE digest = ?", (_digest(secret),))

    def close(self) -> None:
        self._database.close()


def _digest(secret: str) -> str:
    """The secret has 256 random bits, so its hash needs no salt and may be fast."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
