"""Writes a folder of new files where others may write, too: below `/tmp`, or in another user's directory.

Every directory is opened relative to the one above, and no link is followed that somebody else made. So whoever
exchanges a directory for a link meanwhile leads us nowhere. Files are new and for their owner alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""To go through, which needs no right to list it."""
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
"""As many as the kernel follows."""


@dataclass(frozen=True, slots=True)
class NewFolder:
    """An open directory that was new or empty."""

    descriptor: int

    def write(self, name: str, data: bytes) -> None:
        """Write one new file; `name` may have directories in it, which are made. Raises OSError."""
        *folders, last = PurePosixPath(name).parts
        with contextlib.ExitStack() as opened:
            at = self.descriptor
            for folder in folders:
                at = _enter(at, folder)
                opened.callback(os.close, at)
                _require_ours(at, folder)
            descriptor = os.open(last, _NEW_FILE, 0o600, dir_fd=at)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)
                file.write(data)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[NewFolder]:
    """Make the directory with those above it, or take one of ours that is empty. Raises OSError with the path."""
    with contextlib.ExitStack() as opened:
        at = os.open("/", _DIRECTORY)
        opened.callback(os.close, at)
        parts, links = list(path.absolute().parts[1:]), 0
        while parts:
            part = parts.pop(0)
            target = _link(at, part)
            if target is not None:
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                if target.is_absolute():
                    at = os.open("/", _DIRECTORY)
                    opened.callback(os.close, at)
                parts = [*(each for each in target.parts if each != "/"), *parts]
                continue
            at = _enter(at, part)
            opened.callback(os.close, at)
        _require_ours(at, str(path))
        if not _is_empty(at):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        yield NewFolder(at)


def _link(at: int, name: str) -> Path | None:
    """The target of a link that root or we made; None: no link, or nothing. Raises OSError for a link of others."""
    try:
        found = os.lstat(name, dir_fd=at)
        if not stat.S_ISLNK(found.st_mode):
            return None
        if found.st_uid not in (0, os.geteuid()):
            raise OSError(errno.ELOOP, "it is a link of another user, which is not followed", name)
        return Path(os.readlink(name, dir_fd=at))
    except FileNotFoundError:
        return None


def _enter(at: int, name: str) -> int:
    """Open a directory, made if it is missing. A link that was put there since fails."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=at)
    return os.open(name, _DIRECTORY, dir_fd=at)


def _require_ours(at: int, path: str) -> None:
    if os.fstat(at).st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user: name a new directory", path)


def _is_empty(at: int) -> bool:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
    try:
        with os.scandir(descriptor) as entries:
            return next(entries, None) is None
    finally:
        os.close(descriptor)
