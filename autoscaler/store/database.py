"""One SQLite file: opened, migrated and written in transactions that survive the process and the machine.

It does not know any table: each table's SQL stands in the module that owns it, and `store.MIGRATIONS` lists them in
order. WAL lets commands read while the loop writes; `synchronous=FULL` keeps a committed order through a power cut.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any

from autoscaler.errors import SettingsError, StateNotKept, StateReplaced
from autoscaler.store.state_place import OTHER_TABLES, remedy_of

BUSY_TIMEOUT_MS = 10_000
"""Milliseconds that one process waits while another commits: far longer than any transaction of ours."""

log = logging.getLogger("autoscaler.store")
Migration = tuple[str, ...]
"""The statements that lead from one version of the file to the next."""


def _make(path: Path) -> None:
    """Make an empty file if there is none. An existing one is not opened, not even for a moment: closing it would drop
    the locks that another connection of this process holds, and the next process to open it would remove its log.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _connected(path: Path | None) -> sqlite3.Connection:
    """An open file, made if there is none. Raises StateNotKept, SettingsError."""
    try:
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make(path)
        # Without isolation_level=None, Python itself begins a transaction before a change, and a deferred one.
        connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            for pragma in (
                f"busy_timeout={BUSY_TIMEOUT_MS}",
                "journal_mode=WAL",
                "synchronous=FULL",
                # SQLite checks foreign keys only for connections that ask for it.
                "foreign_keys=ON",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:
            connection.close()
            raise
    except (OSError, sqlite3.Error) as error:
        said = f"cannot keep state in {path}: {error}"
        if path is not None and (isinstance(error, PermissionError) or _is_of_others(path)):
            raise SettingsError(f"{said}; run this command as root, or as the user that owns that directory") from error
        remedy = f"{remedy_of(path, error)}, or set CP_CAP_AUTOSCALE_WORKDIR to a directory of your own"
        raise StateNotKept(f"{said}; {remedy}") from error
    return connection


def _is_of_others(path: Path) -> bool:
    """Whether its mode or owner keeps us from writing it; a read-only file system is another matter."""
    where = path if path.exists() else path.parent
    try:
        return where.exists() and not os.access(where, os.W_OK) and not os.statvfs(where).f_flag & os.ST_RDONLY
    except OSError:
        return False


def _insertion(table: str, columns: Iterable[str], on_conflict: str) -> str:
    names = tuple(columns)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) {on_conflict}"


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and number of a file; None: there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateNotKept(
            f"the state in {path} cannot be found: {error.strerror}; {remedy_of(path, error)}"
        ) from error
    return found.st_dev, found.st_ino


class Role(Enum):
    """What becomes of an open file that somebody removed or replaced."""

    OWNER = auto()
    """Of the process that acts: it is written anew; another one is refused, since memory does not fit it."""
    SHARED = auto()
    """It is written anew; another one is used."""
    GUEST = auto()
    """Its owner writes it anew; another one is used."""


class Table:
    """Owner of one table of a file, or of several that belong together."""

    def __init__(self, database: Database) -> None:
        self._database = database


def _writable(values: Sequence[Any]) -> list[Any]:
    """JSON of a cloud may contain half a character (`"\\ud800"`), which SQLite refuses and nobody can read."""
    return [each.encode("utf-8", "replace").decode() if isinstance(each, str) else each for each in values]


class Database:
    """A connection that several threads may share: one transaction at a time.

    Every method raises StateNotKept if the file cannot be read or written (a full disk, a broken one).
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self._connection = connection
        self._path = path
        self.file = None if path is None else _identity(path)
        """The file that is open: another one may come into its place."""
        self.role = Role.SHARED
        self._lock = threading.RLock()
        self._depth = 0

    @classmethod
    def open(cls, path: Path | None, migrations: Sequence[Migration], *, migrate: bool = True) -> Database:
        """Open or make the file (mode 0600) and bring it to the newest version. None: in memory, gone with the process.

        Raises StateNotKept if it cannot be read or written, SettingsError if that is not for this user, if it was
        written by a newer version, or needs a migration without `migrate`: an autoscaler of the earlier version still
        writes it then, and would fail.
        """
        database = cls(_connected(path), path)
        try:
            database._migrate(path, migrations, allowed=migrate)
        except BaseException:
            database.close()
            raise
        return database

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Database]:
        """All statements inside become durable together, or none of them. Nested use joins the outer one."""
        with self._lock:
            if self._depth == 0:
                self._stay_in_place()
                # A deferred transaction fails at its first write, without a wait, if others committed since it read.
                self._ask("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield self
                if self._depth == 1:
                    self._commit()
            except BaseException:
                if self._depth == 1 and self._connection.in_transaction:  # a full disk has rolled it back already
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """Within a transaction: if the block raises, what it wrote is undone, and what was written before stays."""
        self._ask("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO part")
                self._connection.execute("RELEASE part")
            raise
        self._ask("RELEASE part")

    def _stay_in_place(self) -> None:
        """Notice that the file was removed or replaced while it is open: what is written to it then is lost.

        Raises StateReplaced, StateNotKept.
        """
        if self._path is None or (there := _identity(self._path)) == self.file:
            return
        if there is None and self.role is not Role.GUEST:
            self._put_back(self._path)
        elif there is not None:
            if self.role is Role.OWNER:
                raise StateReplaced(f"another file is in the place of the state in {self._path}: start anew to use it")
            self._reopen(self._path)

    def _put_back(self, path: Path) -> None:
        """Write the file anew from what is still open, if somebody removed it: else a restart would lose all of it."""
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            _make(draft)
            with contextlib.closing(sqlite3.connect(draft)) as copy:
                self._connection.backup(copy)
            for suffix in ("-wal", "-shm"):  # of the old one, if it alone was removed
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(draft, path)
        except (OSError, sqlite3.Error) as error:
            raise StateNotKept(
                f"the state in {path} was removed while it was in use, and cannot be written anew: {error}; "
                f"{remedy_of(path, error)}"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        log.error("the state in %s was removed while it was in use: it was written anew", path)
        self._reopen(path)

    def _reopen(self, path: Path) -> None:
        """Go on with the file that is there now, if it is of the same version."""
        before, connection = self._connection, _connected(path)
        versions = [each.execute("PRAGMA user_version").fetchone()[0] for each in (before, connection)]
        if versions[0] != versions[1]:
            connection.close()
            raise StateReplaced(f"a file of another version is in the place of the state in {path}: start anew")
        # SQLite leaves the files beside it alone while it closes one that was moved or removed.
        before.close()
        self._connection, self.file = connection, _identity(path)

    def _commit(self) -> None:
        self._ask("COMMIT")

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        with self._kept():
            try:
                return self._connection.execute(sql, values)
            except UnicodeEncodeError:
                return self._connection.execute(sql, _writable(values))

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            # Python reports a full disk as OperationalError, a broken file as plain DatabaseError.
            if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
                raise  # a broken constraint or a wrong call is a defect of ours
            remedy = remedy_of(self._path, error)
            what = "used" if remedy is OTHER_TABLES else "written"
            raise StateNotKept(
                f"the state in {self._path or 'memory'} cannot be {what}: {error}; no action begins that is "
                f"not journalled; {remedy}"
            ) from error

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Change something; returns the number of changed rows. Durable when its transaction ends."""
        with self.transaction():
            return self._ask(sql, values).rowcount

    def insert(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Insert one row; returns its row id."""
        with self.transaction():
            return self._ask(sql, values).lastrowid or 0

    def add(self, table: str, columns: Mapping[str, object], *, on_conflict: str = "") -> int:
        """Insert one row, given by column; returns its row id. `on_conflict`: a clause for an existing row."""
        return self.insert(_insertion(table, columns, on_conflict), tuple(columns.values()))

    def add_new(
        self, table: str, columns: Mapping[str, object], *, on_conflict: str = "ON CONFLICT DO NOTHING"
    ) -> bool:
        """As `add`; returns whether there was no such row."""
        return bool(self.execute(_insertion(table, columns, on_conflict), tuple(columns.values())))

    def keep_only(self, table: str, **columns: object) -> None:
        """Make this the row of a table that has only one."""
        newest = ", ".join(f"{name} = excluded.{name}" for name in columns)
        self.add_new(table, {"only": 1, **columns}, on_conflict=f"ON CONFLICT DO UPDATE SET {newest}")

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        rows = list(rows)
        with self.transaction(), self._kept():
            self._connection.execute("SAVEPOINT rows")
            try:
                self._connection.executemany(sql, rows)
            except UnicodeEncodeError:  # rows before the odd one are there already
                self._connection.execute("ROLLBACK TO rows")
                self._connection.executemany(sql, map(_writable, rows))
            self._connection.execute("RELEASE rows")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._lock, self._kept():
            return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        return next(iter(self.rows(sql, values)), None)

    @property
    def changes_by_others(self) -> int:
        """A number that differs from an earlier one once another process has committed."""
        row = self.row("PRAGMA data_version")
        return int(row[0]) if row is not None else 0

    @property
    def log_file(self) -> Path | None:
        """The file that every commit is written to first; None: in memory."""
        return None if self._path is None else self._path.with_name(f"{self._path.name}-wal")

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _migrate(self, path: Path | None, migrations: Sequence[Migration], *, allowed: bool) -> None:
        with self.transaction():
            # In SQLite, new tables and user_version are part of the transaction.
            row = self.row("PRAGMA user_version")
            version = int(row[0]) if row is not None else 0
            if version > len(migrations):
                raise SettingsError(
                    f"{path} was written by a newer sge-autoscaler (version {version}, known are {len(migrations)}): "
                    "use that one, or set CP_CAP_AUTOSCALE_WORKDIR to another directory; if it is of commit 3486b244, "
                    f"`sge-autoscaler convert {path}` takes it over"
                )
            if 0 < version < len(migrations) and not allowed:
                raise SettingsError(
                    f"{path} is of an earlier version, and the autoscaler that writes it still runs: stop it, then "
                    "start `run` of this version"
                )
            for statements in migrations[version:]:
                for statement in statements:
                    self._ask(statement)
            if version < len(migrations):
                self._ask(f"PRAGMA user_version={len(migrations)}")
