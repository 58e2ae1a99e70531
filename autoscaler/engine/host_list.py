"""A platform's list of the hosts of a cluster, one name a line, in which workers stand for as long as they exist: what
people's own programs read, such as `mpirun --hostfile`. Cloud Pipeline's scripts write it as well.

A line holds a name alone, so nothing in the file says which are ours: a note of our own does. It is written before a
name is added and after one is removed, so that none is forgotten in between. Every other line keeps its bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from autoscaler.errors import HostsFileUnusable
from autoscaler.hosts_file import NAME
from autoscaler.store.lock import write_note

LOCK = Path("/run/hosts-modification.lock")
"""What the platform's own scripts lock while they change the file (shell/add_to_hosts, remove_from_hosts)."""
PATIENCE = 2.0
"""Seconds to wait for the lock; the platform's scripts hold it for a moment."""
STEP = 0.05


class HostList:
    """One such file; keeps names as `HostsFile` does."""

    def __init__(self, path: Path, note: Path, lock: Path = LOCK) -> None:
        """`note`: a file of ours, with the names that we keep."""
        self._path, self._note, self._lock = path, note, lock

    def kept(self) -> dict[str, str]:
        """Address by name, as we noted them."""
        try:
            found = json.loads(self._note.read_text(encoding="utf-8"))
            return {str(name): str(address) for name, address in found.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def keep(self, addresses: Mapping[str, str]) -> bool:
        """List these names, and no others of ours; returns whether that changed the file. Raises HostsFileUnusable."""
        known, wanted = self.kept(), {name: at for name, at in addresses.items() if NAME.fullmatch(name)}
        try:
            if known == wanted and wanted.keys() <= set(self._names()):
                return False
            with self._locked():
                write_note(self._note, json.dumps({**known, **wanted}), mode=0o600)
                changed = self._change(gone=known.keys() - wanted.keys(), new=wanted.keys())
                write_note(self._note, json.dumps(wanted), mode=0o600)
                return changed
        except OSError as error:
            raise HostsFileUnusable(f"{error.filename or self._path} cannot be changed ({error.strerror})") from error

    def _change(self, gone: Set[str], new: Set[str]) -> bool:
        before = self._content()
        lines = [
            line for line in before.splitlines(keepends=True) if line.strip().decode("utf-8", "replace") not in gone
        ]
        there = {line.strip().decode("utf-8", "replace") for line in lines}
        kept, added = b"".join(lines), b"".join(f"{name}\n".encode() for name in sorted(new - there))
        end = b"\n" if added and kept and not kept.endswith(b"\n") else b""
        after = kept + end + added
        if after == before:
            return False
        if after.startswith(before):
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            with os.fdopen(file, "wb") as opened:
                opened.write(after[len(before) :])
        else:
            self._replace(after)
        return True

    def _replace(self, content: bytes) -> None:
        """The whole new file or the whole old one, for every reader."""
        like = self._path.lstat()
        draft, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(draft, "wb") as file:
                file.write(content)
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _names(self) -> list[str]:
        return self._content().decode("utf-8", "replace").split()

    def _content(self) -> bytes:
        """No link is followed: the folder may be other people's."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        with os.fdopen(file, "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise HostsFileUnusable(f"{self._path} is no regular file")
            return opened.read()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            until = time.monotonic() + PATIENCE
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > until:
                    raise HostsFileUnusable(
                        f"another program has locked {self._lock}; the autoscaler tries again later"
                    )
                time.sleep(STEP)
            yield
        finally:
            os.close(lock)
