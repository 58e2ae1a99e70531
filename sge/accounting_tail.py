"""Reads all of Grid Engine's accounting once and in its order, from the last place on: including lines that were
written while no autoscaler ran, and files that rotation has moved since.

A file is recognised by its inode and by the bytes before the last place. A renamed file is found under its new name; a
file that was copied and emptied is found as the copy. Files that rotation compressed or deleted meanwhile are missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler.sge.accounting import written_last

MARK = 1024
"""Bytes before the last place that identify a file: some records, with their times."""


@dataclass(frozen=True, slots=True)
class AccountingPosition:
    """How far accounting was read."""

    inode: int
    offset: int
    mark: bytes
    """The bytes before the offset."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The bytes written since."""

    place: AccountingPosition | None
    """The place where these end; None: there is no file yet."""
    data: bytes
    """Whole lines."""
    more: bool = False
    """Whether there is more to read."""
    missing: bool = False
    """Whether the file that was read last is gone, with all that was added to it."""


def read_tail(accounting: Path, place: AccountingPosition | None, most: int, back: int) -> Tail:
    """The bytes after a place, at most this many. None: the last `back` bytes. Raises OSError."""
    try:
        if place is None:
            live = written_last(accounting)
            begin = max(live.stat().st_size - back, 0)
            return _read(live, begin, most, ())
        files = _files(accounting)
        # Its own file, else the copy that was made to empty it, but no other copy that somebody keeps.
        nearest = sorted((files[-1], *files), key=lambda file: file.stat().st_ino != place.inode)
        found = next((file for file in nearest if _holds(file, place)), None)
        if found is None:
            live = written_last(accounting)
            return _read(live, 0, most, (), missing=bool(place.offset))
        return _read(found, place.offset, most, files[files.index(found) + 1 :])
    except FileNotFoundError:
        return Tail(place, b"")


def _files(accounting: Path) -> list[Path]:
    """All files that rotation may have made of it, in the order of their last lines, the live one last."""
    live = written_last(accounting)
    beside = [file for file in accounting.parent.glob(f"{accounting.name}*") if file.is_file() and file != live]
    return [*sorted(beside, key=lambda file: (file.stat().st_mtime_ns, file.name)), live]


def _holds(file: Path, place: AccountingPosition) -> bool:
    with file.open("rb") as opened:
        stat = os.fstat(opened.fileno())
        if stat.st_size < place.offset:
            return False
        if not place.mark:
            return stat.st_ino == place.inode
        opened.seek(place.offset - len(place.mark))
        return opened.read(len(place.mark)) == place.mark


def _read(file: Path, begin: int, most: int, later: Sequence[Path], *, missing: bool = False) -> Tail:
    with file.open("rb") as opened:
        stat = os.fstat(opened.fileno())
        opened.seek(begin)
        data = opened.read(most)
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == most else 0)
        if not end and later:  # nothing more is added to this one
            return Tail(AccountingPosition(later[0].stat().st_ino, 0, b""), b"", more=True)
        upto = begin + end
        opened.seek(max(upto - MARK, 0))
        mark = opened.read(min(MARK, upto))
        more = (upto < stat.st_size and end > 0) or bool(later)
        return Tail(AccountingPosition(stat.st_ino, upto, mark), data[:end], more, missing)


def lines_of(data: bytes, hosts: frozenset[str]) -> Iterator[str]:
    """Those that may be of these hosts, by the first part of a host's name; the others are not read any further."""
    for line in data.split(b"\n"):
        words = line.split(b":", 2)
        host = words[1].partition(b".")[0].lower() if len(words) == 3 else b""
        if line.startswith(b"{") or host.decode("utf-8", "replace") in hosts:
            yield line.decode("utf-8", "replace")
