"""Marked lines in a hosts file, so that names of hosts without a machine resolve for as long as they are needed.

Every other line keeps its bytes: ours are added at the end in one write, and taken away by cutting the file where they
began. Only where somebody wrote behind them meanwhile is the file written anew: by replacement, or in place where it
is a mount point, as in containers. A lock keeps two writers apart, and lines of a writer that died are taken away by
the next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from autoscaler.errors import HostsFileUnusable

HOSTS = Path("/etc/hosts")
_OURS = b"# of sge-autoscaler, for a moment"
"""Ends every line of ours."""
_LINE_ENDED = b"# (the line above was not ended) " + _OURS
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")


class HostsFile:
    """One hosts file. `lock` is a file beside which nobody else may plant anything (see `store.lock`)."""

    def __init__(self, path: Path, lock: Path) -> None:
        self._path, self._lock = path, lock

    @contextlib.contextmanager
    def alone(self, patience: float) -> Iterator[None]:
        """Nobody else of us changes the file until the end of the block; a death in it releases it.

        Raises HostsFileUnusable where somebody does for longer than `patience` seconds.
        """
        lock = FileLock(self._lock, mode=0o600)
        try:
            lock.acquire(timeout=patience, poll_interval=0.05)
        except Timeout:
            raise HostsFileUnusable(f"{self._path} is in the hands of another autoscaler; asked again later") from None
        except OSError as error:
            raise HostsFileUnusable(f"cannot lock {self._lock}: {error.strerror}") from error
        try:
            yield
        finally:
            lock.release()

    def put(self, addresses: Mapping[str, str]) -> None:
        """Let these names resolve to these addresses, and no others of ours. Raises HostsFileUnusable."""
        self.clear()
        lines = [f"{address} {name} ".encode() + _OURS for name, address in addresses.items()]
        with self._opened() as file:
            size = os.fstat(file).st_size
            whole = size == 0 or os.pread(file, 1, size - 1) == b"\n"
            _write(file, b"\n".join((*(() if whole else (b"", _LINE_ENDED)), *lines, b"")), size)

    def clear(self) -> None:
        """Take our lines away. Raises HostsFileUnusable."""
        with self._opened() as file:
            before = os.pread(file, os.fstat(file).st_size, 0)
            after = _of_others(before)
            if len(after) == len(before):
                return
            if before.startswith(after):
                os.ftruncate(file, len(after))
            else:
                self._rewrite(file, after)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise HostsFileUnusable(self._complaint(error)) from error
        try:
            yield file
        except OSError as error:
            raise HostsFileUnusable(self._complaint(error)) from error
        finally:
            os.close(file)

    def _rewrite(self, file: int, content: bytes) -> None:
        """By replacement; where that cannot be, in place: longer lines first, then the cut."""
        target = self._path.resolve()
        try:
            _replace(target, content, os.fstat(file))
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            _write(file, content, 0)
            os.ftruncate(file, len(content))

    def _complaint(self, error: OSError) -> str:
        return f"{self._path} cannot be changed ({error.strerror}), so Grid Engine cannot be asked about hosts to be"


def _of_others(content: bytes) -> bytes:
    """The file as everybody else left it. A line that we had to end stays ended only where others went on behind it."""
    kept: list[bytes] = []
    ended_by_us = False
    for line in _LINE.findall(content):
        text = line.rstrip(b"\n")
        if text.endswith(_OURS):
            ended_by_us = ended_by_us or text == _LINE_ENDED
        else:
            ended_by_us = False
            kept.append(line)
    return b"".join(kept)[: -1 if ended_by_us else None]


def _replace(target: Path, content: bytes, like: os.stat_result) -> None:
    """The whole new file or the whole old one, whoever reads and whenever we die."""
    draft, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        try:
            _write(draft, content, 0)
            os.fchown(draft, like.st_uid, like.st_gid)
            os.fchmod(draft, stat.S_IMODE(like.st_mode))
            os.fsync(draft)
        finally:
            os.close(draft)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write(file: int, content: bytes, offset: int) -> None:
    written = 0
    while written < len(content):
        written += os.pwrite(file, content[written:], offset + written)
