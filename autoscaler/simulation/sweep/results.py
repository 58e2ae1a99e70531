"""The results of a sweep in an SQLite file: a finished run is kept at once, and never made again."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from autoscaler.errors import MAKE_ROOM, SettingsError, StateNotKept
from autoscaler.simulation.results import Document
from autoscaler.simulation.sweep.runs import Run

APPLICATION = 0x53474553
"""`application_id` of such a file."""
_MADE = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY,   -- digest of all that the result depends on
    point TEXT NOT NULL,    -- settings, as `simulate --compare` takes them
    window TEXT NOT NULL,
    seed INTEGER NOT NULL,
    price REAL NOT NULL,
    mean_wait_s REAL NOT NULL,
    run_s REAL NOT NULL,    -- how long the run took
    document TEXT NOT NULL  -- JSON
) STRICT
"""


class Results:
    """An open file, for one sweep at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path) -> Iterator[Results]:
        """Made if it does not exist. Raises SettingsError."""
        lock = FileLock(f"{path}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise SettingsError(f"{path}: another sweep writes there; wait for it, or name another file") from None
        except OSError as error:
            raise SettingsError(f"cannot write {path}: {error.strerror}; name a file with --results") from error
        try:
            with contextlib.closing(_connected(path)) as connection:
                yield cls(connection)
        finally:
            lock.release()

    def known(self, keys: Iterable[str]) -> dict[str, Document]:
        """The results that are there, by key."""
        wanted = set(keys)
        rows = self._connection.execute("SELECT key, document FROM runs")
        return {key: json.loads(document) for key, document in rows if key in wanted}

    def add(self, run: Run, point: str, window: str, document: Document) -> None:
        """Keep a finished run: it is on the disk when this returns. Raises StateNotKept."""
        row = (
            run.key, point, window, run.seed, document["price"], document["wait_s"]["mean"], document["run_s"],
            json.dumps(document),
        )  # fmt: skip
        try:
            self._connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            raise StateNotKept(f"a result cannot be kept: {error}; {MAKE_ROOM}, and start the sweep again") from error


def _connected(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise SettingsError(f"{path}: {error}; name a new file with --results") from error
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    for pragma in ("busy_timeout=10000", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION:
        return
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
        raise SettingsError(f"{path} is another program's file; name a new one with --results")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_MADE)
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute("COMMIT")
