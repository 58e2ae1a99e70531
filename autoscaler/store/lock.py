"""One autoscaler a cell: a lock that its holder's death releases, with a note that says who holds it.

The lock itself is the kernel's (`flock`), so it cannot be left behind; the note beside it is only there to be read.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from autoscaler.errors import LockHeld, SettingsError


@dataclass(frozen=True, slots=True)
class CellKey:
    """What tells one Grid Engine cell from another on the machines that know it."""

    master: str
    port: int
    cell: str
    root: str
    """SGE_ROOT: private cells side by side may well share all other names."""

    @property
    def slug(self) -> str:
        """For names of files: readable, and no two cells the same."""
        digest = hashlib.sha256("\n".join((self.master, str(self.port), self.cell, self.root)).encode()).hexdigest()
        readable = "".join(letter if letter.isalnum() else "-" for letter in f"{self.cell}-{self.master}-{self.port}")
        return f"{readable[:48]}-{digest[:8]}"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a cell's lock."""

    pid: int
    host: str
    since: float
    state: str = ""
    """Directory of its state; '' where it did not say."""
    socket: str = ""
    """Where it listens for callers; '' where it did not say."""


LOCKS = Path("/run/lock")


def lock_directory() -> Path:
    """The same for every process of this machine whatever its settings: two state directories are no two cells."""
    return LOCKS if os.access(LOCKS, os.W_OK) else Path("/tmp")


@contextmanager
def hold(
    key: CellKey, directory: Path, *, now: float | None = None, state: str = "", socket_path: str = ""
) -> Iterator[Holder]:
    """Serve this cell alone until the end of the block. Raises LockHeld, which says by whom, when somebody does."""
    from filelock import FileLock, Timeout

    path = _path(key, directory)
    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise LockHeld(_held(key, holder(key, directory))) from None
    except OSError as error:
        raise SettingsError(
            f"cannot lock {path}: {error.strerror}; run as the user who owns it, or remove it when no autoscaler runs"
        ) from error
    try:
        since = time.time() if now is None else now
        own = Holder(os.getpid(), socket.gethostname(), since, state, socket_path)
        _write(_note(path), json.dumps(asdict(own)))
        yield own
    finally:
        _note(path).unlink(missing_ok=True)
        lock.release()


def holder(key: CellKey, directory: Path) -> Holder | None:
    """What the last holder wrote of itself; None where there is no note. Tells nothing about whether it still lives."""
    try:
        return Holder(**json.loads(_note(_path(key, directory)).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def held(key: CellKey, directory: Path) -> bool:
    """Whether an autoscaler serves this cell now."""
    path = _path(key, directory)
    if not path.exists():
        return False
    from filelock import FileLock, Timeout

    lock = FileLock(path, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def running(key: CellKey) -> Holder | None:
    """Who serves this cell on this machine now, wherever its lock stands; None: nobody.

    A note in a directory that is everybody's is believed where root or we ourselves have written it.
    """
    for directory in dict.fromkeys((lock_directory(), LOCKS, Path("/tmp"))):
        if not held(key, directory):
            continue
        found = holder(key, directory)
        if found is None:
            return Holder(0, "", 0.0)
        try:
            trusted = _note(_path(key, directory)).lstat().st_uid in _owners()
        except FileNotFoundError:  # it ended this moment
            return None
        if os.access(_path(key, directory), os.R_OK | os.W_OK) or _lives(found):
            return found if trusted else Holder(found.pid, found.host, found.since)
    return None


def _owners() -> tuple[int, ...]:
    """Users whose notes are believed."""
    return 0, os.geteuid()


def _lives(who: Holder) -> bool:
    """Whether that process exists. A lock that is not ours to try stays behind when its holder is killed."""
    try:
        os.kill(who.pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _path(key: CellKey, directory: Path) -> Path:
    return directory / f"sge-autoscaler-{key.slug}.lock"


def _write(path: Path, text: str) -> None:
    """The directory may be everybody's: a link that somebody left there is not followed."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "w") as file:
        file.write(text)


def _note(path: Path) -> Path:
    return path.with_suffix(".holder")


def _held(key: CellKey, who: Holder | None) -> str:
    cell = f"cell {key.cell} of {key.master}:{key.port}"
    if who is None:
        return f"another autoscaler serves {cell}; it left no note of itself"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who.since))
    return f"another autoscaler serves {cell}: process {who.pid} on {who.host}, since {since}"
