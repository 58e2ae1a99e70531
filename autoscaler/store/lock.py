"""One autoscaler a cell: a lock that is released when its holder dies, with a note that says who holds it.

The lock itself is the kernel's (`flock`), so it cannot be left behind; the note beside it is only for readers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from autoscaler.errors import LockHeld, SettingsError
from autoscaler.strict_modes import ours, owner, refuse_exposed


@dataclass(frozen=True, slots=True)
class CellKey:
    """The properties that distinguish Grid Engine cells on the machines that know them."""

    master: str
    port: int
    cell: str
    root: str
    """SGE_ROOT: private cells side by side may share all other names."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.cell} of {self.master}:{self.port}"

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
    """Directory of its state; '' if it gave none."""
    socket: str = ""
    """Where it listens for callers; '' if it gave none."""


LOCKS = Path("/run/sge-autoscaler/lock")
"""Of root, or of the user for whom systemd made `/run/sge-autoscaler`."""


def lock_directory() -> Path:
    """The same for every process of this user on this machine, whatever its settings: a second state directory makes no
    second cell. Nobody else can write there: otherwise anybody could hold or delete the lock.
    """
    if os.geteuid() == 0 or ours(LOCKS) or (not LOCKS.exists() and ours(LOCKS.parent)):
        return LOCKS
    return Path(f"~{_user()}").expanduser() / ".local" / "state" / "sge-autoscaler" / "lock"


@contextmanager
def hold(
    key: CellKey, directory: Path, *, now: float | None = None, state: str = "", socket_path: str = ""
) -> Iterator[Holder]:
    """Serve this cell alone until the end of the block. Raises LockHeld, which names the other autoscaler, if one does,
    and SettingsError if others could hold or delete the lock.
    """
    path = _path(key, directory)
    try:
        make_lock_directory(directory)
        descriptor = _locked(path)
    except BlockingIOError:
        raise LockHeld(_held(key, holder(key, directory))) from None
    except OSError as error:
        raise SettingsError(
            f"cannot lock {path}: {error.strerror}; run as the user who owns it, or remove it when no autoscaler runs"
        ) from error
    try:
        since = time.time() if now is None else now
        own = Holder(os.getpid(), socket.gethostname(), since, state, socket_path)
        write_note(_note(path), json.dumps(asdict(own)))
        yield own
    finally:
        _note(path).unlink(missing_ok=True)
        os.close(descriptor)


def make_lock_directory(directory: Path) -> None:
    """Everybody may look a holder up; only its owner may change anything."""
    for missing in [each for each in (directory, *directory.parents) if not each.exists()][::-1]:
        missing.mkdir(exist_ok=True)
        # The umask takes bits from mkdir's own mode.
        missing.chmod(0o755)
    refuse_exposed("the lock's directory", directory)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock of the file that has this name now; None if another process holds it."""
    try:
        return _locked(path)
    except BlockingIOError:
        return None


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of the file that has this name now. Raises BlockingIOError if it is held."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            refuse_exposed("the lock", path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was deleted while we waited for it: its lock keeps nobody away


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def holder(key: CellKey, directory: Path) -> Holder | None:
    """The note of the last holder; None if there is none. It does not say whether the holder still lives."""
    try:
        return Holder(**json.loads(_note(_path(key, directory)).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def held(key: CellKey, directory: Path) -> bool:
    """Whether an autoscaler serves this cell now."""
    path = _path(key, directory)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:  # not ours to try
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def running(key: CellKey) -> Holder | None:
    """The autoscaler that serves this cell on this machine now, as root, as systemd's user or as our own user; None:
    none.

    A note counts if root, the user for whom systemd made the directory, or our own user wrote it.
    """
    for directory in dict.fromkeys((lock_directory(), LOCKS)):
        if not held(key, directory):
            continue
        found = holder(key, directory)
        if found is None and os.access(_path(key, directory), os.R_OK | os.W_OK):
            return Holder(0, "", 0.0)
        if found is None:  # root's, which we cannot try: a holder that ends removes its note
            continue
        try:
            trusted = _note(_path(key, directory)).lstat().st_uid in _owners()
        except FileNotFoundError:  # it ended this moment
            return None
        if os.access(_path(key, directory), os.R_OK | os.W_OK) or _lives(found):
            return found if trusted else Holder(found.pid, found.host, found.since)
    return None


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return ""


def _owners() -> tuple[int | None, ...]:
    """Users whose notes count. In /run only root makes a directory, or gives one away."""
    return 0, os.geteuid(), owner(LOCKS.parent)


def _lives(who: Holder) -> bool:
    """Whether that process exists. The note of a killed holder whose lock we cannot try stays behind."""
    try:
        os.kill(who.pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _path(key: CellKey, directory: Path) -> Path:
    return directory / f"sge-autoscaler-{key.slug}.lock"


def write_note(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Whole or not at all, and never through a link."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "w") as file:
        file.write(text)
    new.replace(path)


def _note(path: Path) -> Path:
    return path.with_suffix(".holder")


def _held(key: CellKey, who: Holder | None) -> str:
    cell = f"cell {key.cell} of {key.master}:{key.port}"
    if who is None:
        return f"another autoscaler serves {cell}; its lock file does not name it"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(who.since))
    return f"another autoscaler serves {cell}: process {who.pid} on {who.host}, since {since}"
