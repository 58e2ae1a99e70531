"""What is wrong with the place of our state, and what a person does about it: full, read-only, damaged, or of
another form.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import MAKE_ROOM, WRITABLE

LITTLE, SCARCE = 1 << 20, 100 << 20
"""Bytes left below which nothing can be kept, and below which that may come soon."""
DAMAGED = (
    "the file is damaged: move it away with those beside it (`-wal`, `-shm`), and a new one is made: workers are found "
    "again by their tag, but history, costs, requests and pauses are lost"
)
OTHER_TABLES = (
    "its tables are not those of this version, though it has its number: another program or a person changed them; put "
    "a copy from before that in its place, or move the file away with those beside it (`-wal`, `-shm`), and a new one "
    "is made: workers are found again by their tag, but history, costs, requests and pauses are lost"
)
EXAMINE = "examine the disk (`dmesg`)"
_OTHER_TABLES = re.compile(r"no such (table|column)|has no column named")
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


@dataclass(frozen=True, slots=True)
class StateProblem:
    what: str
    remedy: str
    fatal: bool = True


def remedy_of(path: Path | None, error: Exception) -> str:
    """The remedy for an error of a read or write of this file."""
    number = error.errno if isinstance(error, OSError) else None
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DAMAGED
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process holds it: end that one, or try again"
    if code == sqlite3.SQLITE_ERROR and _OTHER_TABLES.search(str(error)):
        return OTHER_TABLES
    if number == errno.EROFS or (path is not None and _read_only(path)):
        return WRITABLE
    if number in _FULL or code == sqlite3.SQLITE_FULL or (path is not None and _free(path) < LITTLE):
        return MAKE_ROOM
    return EXAMINE


def state_problems(file: Path) -> list[StateProblem]:
    """The problems of a state file's place, and of the file itself, which may not exist yet."""
    found = []
    if _read_only(file):
        found.append(StateProblem(f"nothing can be kept in {file.parent}", WRITABLE))
    elif (free := _free(file)) < LITTLE:
        found.append(StateProblem(f"nothing can be kept in {file.parent}: the disk is full", MAKE_ROOM))
    elif free < SCARCE:
        words = f"{free >> 20} MiB are left in {file.parent}: with none, nothing is launched or removed"
        found.append(StateProblem(words, MAKE_ROOM, fatal=False))
    if why := _damage(file):
        found.append(StateProblem(f"{file} cannot be read: {why}", DAMAGED))
    return found


def _damage(file: Path) -> str:
    """Why the file is no sound database; '' if it is, or does not exist, or may not be read."""
    if not file.exists() or not os.access(file, os.R_OK):
        return ""
    kept = "?mode=ro" + ("&immutable=1" if _read_only(file) else "")
    try:
        with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}{kept}", uri=True)) as connection:
            words = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return str(error) if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else ""
    return "" if words == "ok" else words


def _read_only(path: Path) -> bool:
    found = _file_system(path)
    return found is not None and bool(found.f_flag & os.ST_RDONLY)


def _free(path: Path) -> int:
    """Bytes that we may still write there; without a free inode, none."""
    found = _file_system(path)
    if found is None:
        return SCARCE
    return 0 if found.f_files and not found.f_favail else found.f_bavail * found.f_frsize


def _file_system(path: Path) -> os.statvfs_result | None:
    """Of the first directory on the way up that exists."""
    for directory in path.absolute().parents:
        with contextlib.suppress(OSError):
            return os.statvfs(directory)
    return None
