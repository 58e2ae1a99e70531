"""Writes new files, one or a folder of them, where others may write, too: below `/tmp`, or in another user's directory.

Every directory is opened relative to the one above, and no link is followed that somebody else made. So whoever
exchanges a directory for a link meanwhile leads us nowhere. Files are new, and for their owner alone unless a caller
says otherwise.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
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
    with _opened(path, make=True) as at:
        _require_ours(at, str(path))
        if not _is_empty(at):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        yield NewFolder(at)


def write_file(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] = (-1, -1),
    make: bool = False,
    replace: bool = True,
) -> None:
    """Write the whole file or nothing, in the place of whatever has the name: a link there is replaced, not followed.

    `owner`: uid and gid, -1 for our own; `make`: the directories above that are missing are made; `replace`: False
    where an existing file is an error. Raises OSError.
    """
    with _opened(path.parent, make=make) as at:
        name = f".{path.name[:100]}.{secrets.token_hex(8)}" if replace else path.name
        try:
            descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=at)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    if owner != (-1, -1):
                        os.fchown(descriptor, *owner)
                    os.fchmod(descriptor, mode)
                if replace:
                    os.rename(name, path.name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=at)
                raise
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def _opened(path: Path, *, make: bool) -> Iterator[int]:
    """A directory, reached without a link of others. `make`: those that are missing are made."""
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
            at = _enter(at, part) if make else _directory(at, part, path)
            opened.callback(os.close, at)
        yield at


def _directory(at: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=at)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


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
