"""Common to the files of users and of tokens: notice a change, and replace the file whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from autoscaler.errors import NO_ROOM, StateNotKept

log = logging.getLogger("autoscaler.api")
State = tuple[int, int, int, int, int]


def state_of(path: Path) -> State | None:
    """A value that changes with the file or its mode; None: there is no file."""
    try:
        now = path.stat()
    except OSError:
        return None
    return now.st_mtime_ns, now.st_size, now.st_ino, now.st_mode, now.st_uid


def changed(error: Exception) -> None:
    """Log that the changed file cannot be used."""
    log.error("logins by this file are refused until it is corrected: %s", error)


def replace_file(path: Path, lines: Iterable[str]) -> None:
    """Write the file anew, with mode 0600. Raises StateNotKept if the disk is full."""
    try:
        _replace(path, lines)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise StateNotKept(f"{path} cannot be written: {error.strerror}; make room there, and try again") from error


def _replace(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        Path(made).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(made).unlink()
        raise
