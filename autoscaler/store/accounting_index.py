"""Finds a job's records in Grid Engine's accounting at once, however long the file is.

The index reads the file from its end backwards, a block of lines at a time and a limited amount per call. Of each block
it keeps the job numbers, four bytes each. A file is recognised by its inode and by the bytes at the end of the indexed
part. So a renamed file is found under its new name, a file that was copied and emptied is found as the copy, and
another file under the old name is indexed anew. A last line that is half written waits for its end.
"""

from __future__ import annotations

import os
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from autoscaler.sge.accounting import JobEnd, ends_among, files_of, job_numbers
from autoscaler.store.database import Database, Migration

TABLES: Migration = (
    """
    CREATE TABLE files (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL,
        device INTEGER NOT NULL,
        inode INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        floor INTEGER NOT NULL DEFAULT 0,
        mark BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE blocks (
        file INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE,
        offset INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        low INTEGER NOT NULL,
        high INTEGER NOT NULL,
        jobs BLOB NOT NULL,
        PRIMARY KEY (file, offset)
    ) STRICT
    """,
)
BLOCK = 256 << 10
"""Bytes: some thousand lines."""
MOST_BLOCKS = 8192
"""Bound for all files together; the oldest are forgotten first. 2 GB of accounting, 40 MB of index at most."""
MARK = 96
"""Bytes before the end of the indexed part by which a file is recognised: part of a record, with its times."""
MOST_ENDS = 1000
"""At most this many records of one job are returned, the newest: an array may have a million."""
_MOST_JOB = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """A job's records in the accounting."""

    ends: tuple[JobEnd, ...]
    """In the order written; the last MOST_ENDS of them if there are more."""
    unread: int
    """Bytes that are not indexed yet."""


@dataclass(frozen=True, slots=True)
class _File:
    id: int
    path: Path
    device: int
    inode: int
    end: int
    floor: int
    """Bytes before this are not indexed."""
    mark: bytes


class AccountingIndex:
    """Of one cell. Any thread may ask. Raises StateNotKept where the index cannot be written."""

    def __init__(
        self, database: Database, accounting: Path, block: int = BLOCK, most_blocks: int = MOST_BLOCKS
    ) -> None:
        self._database, self._accounting, self._block, self._most = database, accounting, block, most_blocks
        self._guard = threading.Lock()

    @classmethod
    def open(cls, path: Path | None, accounting: Path) -> AccountingIndex:
        """None: in memory. Raises SettingsError where the index cannot be used."""
        return cls(Database.open(path, (TABLES,)), accounting)

    def close(self) -> None:
        self._database.close()

    def advance(self, most: int) -> int:
        """Index at most `most` bytes, the newest first; returns how many are left. Raises OSError."""
        with self._guard:
            left = 0
            for file, opened in self._opened():
                with closing(opened):
                    taken, unread = self._take_in(file, opened, most)
                most, left = max(most - taken, 0), left + unread
            self._forget()
            return left

    def find(self, job: int, task: int | None = None, most: int = 16 << 20) -> Found:
        """The newest `MOST_ENDS` records of a job, after up to `most` more bytes were indexed. Raises OSError."""
        unread = self.advance(most)
        with self._guard:
            found: list[JobEnd] = []
            for file, opened in self._opened():
                with closing(opened):
                    found += self._ends(file, opened, job, task)
            return Found(tuple(found[-MOST_ENDS:]), unread)

    def _ends(self, file: _File, opened: BinaryIO, job: int, task: int | None) -> list[JobEnd]:
        """The records in one file, in the order written. It is read from its end until they are enough: otherwise a
        question about an array with a million tasks would read everything, and all other callers would wait.
        """
        found: list[JobEnd] = []
        for offset, end in reversed(self._blocks_with(file, job)):
            opened.seek(offset)
            lines = opened.read(end - offset).splitlines()
            found[:0] = (each for each in ends_among(lines, job, task) if task in (None, each.task))
            if len(found) >= MOST_ENDS:
                break
        return found

    # -- which files -------------------------------------------------------------------------------------------------

    def _opened(self) -> Iterator[tuple[_File, BinaryIO]]:
        """Every known file that still exists, the oldest first; the one that is written to is known from now on.

        Files that are gone for good are forgotten.
        """
        for live in files_of(self._accounting):
            with suppress(FileNotFoundError):
                self._know(live)
        for file in self._files():
            opened = self._open(file)
            if opened is None:
                self._database.execute("DELETE FROM files WHERE id = ?", (file.id,))
            else:
                yield file, opened

    def _know(self, live: Path) -> None:
        stat = live.stat()
        if not any((each.device, each.inode) == (stat.st_dev, stat.st_ino) for each in self._files()):
            self._insert(live, stat)
            return
        file = next(each for each in self._files() if (each.device, each.inode) == (stat.st_dev, stat.st_ino))
        with live.open("rb") as opened:
            same = _is(opened, file)
        if not same:  # copied and emptied: the indexed part is in the copy
            copy = next((each for each in self._beside() if each != live and _holds(each, file)), None)
            if copy is None:
                self._database.execute("DELETE FROM files WHERE id = ?", (file.id,))
            else:
                self._moved(file, copy)
            self._insert(live, stat)

    def _insert(self, path: Path, stat: os.stat_result) -> None:
        values = str(path), stat.st_dev, stat.st_ino, 0, b""
        self._database.execute('INSERT INTO files (path, device, inode, "end", mark) VALUES (?, ?, ?, ?, ?)', values)

    def _open(self, file: _File) -> BinaryIO | None:
        """The file under its present name; None: it is gone."""
        for path in (file.path, *self._beside()):
            with suppress(OSError):
                stat = path.stat()
                if (stat.st_dev, stat.st_ino) == (file.device, file.inode):
                    opened = path.open("rb")
                    if _is(opened, file):
                        if path != file.path:
                            self._moved(file, path)
                        return opened
                    opened.close()
        return None

    def _beside(self) -> list[Path]:
        """All names that rotation may have given it."""
        name = self._accounting.name
        return sorted(each for each in self._accounting.parent.glob(f"{name}*") if each.is_file())

    def _moved(self, file: _File, path: Path) -> None:
        stat = path.stat()
        self._database.execute(
            "UPDATE files SET path = ?, device = ?, inode = ? WHERE id = ?",
            (str(path), stat.st_dev, stat.st_ino, file.id),
        )

    def _files(self) -> list[_File]:
        rows = self._database.rows("SELECT * FROM files ORDER BY id")
        return [
            _File(row["id"], Path(row["path"]), row["device"], row["inode"], row["end"], row["floor"], row["mark"])
            for row in rows
        ]

    # -- the index --------------------------------------------------------------------------------------------------

    def _take_in(self, file: _File, opened: BinaryIO, most: int) -> tuple[int, int]:
        """How many bytes were indexed, and how many are not."""
        end = _last_line_end(opened, file.end, self._block)
        taken, left = 0, 0
        with self._database.transaction():
            for bottom, top in self._gaps(file, end):
                while top > bottom and taken < most:
                    begin = self._index(file, opened, bottom, top)
                    taken, top = taken + top - begin, begin
                left += top - bottom
            if end != file.end:
                opened.seek(max(end - MARK, 0))
                mark = opened.read(min(MARK, end))
                self._database.execute('UPDATE files SET "end" = ?, mark = ? WHERE id = ?', (end, mark, file.id))
        return taken, left

    def _gaps(self, file: _File, end: int) -> list[tuple[int, int]]:
        """The ranges that are not indexed, from the end on; as far back as the index goes. A short last block is
        indexed again, with the lines that were added to it.
        """
        rows = self._database.rows('SELECT offset, "end" FROM blocks WHERE file = ? ORDER BY offset DESC', (file.id,))
        known = [(row["offset"], row["end"]) for row in rows]
        if known and known[0][1] < end and known[0][1] - known[0][0] < self._block // 2:
            self._database.execute("DELETE FROM blocks WHERE file = ? AND offset = ?", (file.id, known[0][0]))
            known = known[1:]
        gaps, top = [], end
        for offset, block_end in known:
            if block_end < top:
                gaps.append((block_end, top))
            top = offset
        bottom = max(end - self._most * self._block, file.floor)
        return [*gaps, (bottom, top)] if top > bottom else gaps

    def _index(self, file: _File, opened: BinaryIO, bottom: int, top: int) -> int:
        """Index the block that ends at `top`; returns where it begins."""
        begin = max(bottom, top - self._block)
        opened.seek(begin)
        data = opened.read(top - begin)
        if begin > bottom:  # a line that began before belongs to the block before
            cut = data.find(b"\n") + 1
            if cut < len(data):
                begin, data = begin + cut, data[cut:]
        jobs = array("I", sorted(number for number in job_numbers(data.splitlines()) if number <= _MOST_JOB))
        self._database.execute(
            "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?)",
            (file.id, begin, top, jobs[0] if jobs else 0, jobs[-1] if jobs else 0, jobs.tobytes()),
        )
        return begin

    def _blocks_with(self, file: _File, job: int) -> list[tuple[int, int]]:
        rows = self._database.rows(
            'SELECT offset, "end", jobs FROM blocks WHERE file = ? AND low <= ? AND high >= ? ORDER BY offset',
            (file.id, job, job),
        )
        return [(row["offset"], row["end"]) for row in rows if _among(row["jobs"], job)]

    def _forget(self) -> None:
        row = self._database.row("SELECT count(*) AS blocks FROM blocks")
        beyond = 0 if row is None else row["blocks"] - self._most
        if beyond <= 0:
            return
        with self._database.transaction():
            oldest = 'SELECT rowid, file, "end" FROM blocks ORDER BY file, offset LIMIT ?'
            for each in self._database.rows(oldest, (beyond,)):
                self._database.execute("DELETE FROM blocks WHERE rowid = ?", (each["rowid"],))
                self._database.execute("UPDATE files SET floor = ? WHERE id = ?", (each["end"], each["file"]))


def _among(blob: bytes, job: int) -> bool:
    jobs = array("I")
    jobs.frombytes(blob)
    at = bisect_left(jobs, job)
    return at < len(jobs) and jobs[at] == job


def _last_line_end(opened: BinaryIO, known: int, block: int) -> int:
    """The end of the last whole line."""
    size = os.fstat(opened.fileno()).st_size
    top = size
    while top > known:
        begin = max(known, top - block)
        opened.seek(begin)
        cut = opened.read(top - begin).rfind(b"\n")
        if cut >= 0:
            return begin + cut + 1
        top = begin
    return known


def _is(opened: BinaryIO, file: _File) -> bool:
    """Whether this is the file, or the file with lines added."""
    opened.seek(max(file.end - MARK, 0))
    return opened.read(len(file.mark)) == file.mark


def _holds(path: Path, file: _File) -> bool:
    with suppress(OSError), path.open("rb") as opened:
        return _is(opened, file)
    return False
