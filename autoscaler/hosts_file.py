"""Marked lines in a hosts file, so that names of hosts without a machine resolve for as long as they are needed.

Every other line keeps its bytes: ours are added at the end in one write, and removed by cutting the file where they
begin. Only if somebody else added lines behind them is the file written anew: by replacement, or in place if it is a
mount point, as in containers. A lock keeps two writers apart, and the next writer removes lines of one that died.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoscaler.errors import HostsFileUnusable

HOSTS = Path("/etc/hosts")
LOCKS = Path("/run/sge-autoscaler-hosts")
"""The folder of the lock of /etc/hosts, root's alone. A unit that sees no other part of /run has it as its own."""
STEP = 0.05
"""Seconds between two tries for the lock."""
PASSING = b"# of sge-autoscaler, for a moment"
"""Ends every line of ours that is removed at once."""
OF_WORKERS = b"# worker of sge-autoscaler"
"""Ends every line that stays for as long as its worker exists."""
_NOT_ENDED = b"# (the line above was not ended) "
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE | re.ASCII)
"""The form of a host name."""
_RESERVED = frozenset(
    {"localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "loopback"}
    | {"ip6-localnet", "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "broadcasthost"}
)


def reserved_names() -> frozenset[str]:
    """Names, in small letters, that lead to this machine or to none in particular, and so never to a worker."""
    own = socket.gethostname().lower()
    return _RESERVED | {own, own.partition(".")[0]}


class HostsFile:
    """One hosts file, of which the lines that end with `mark` are ours.

    The lock (`flock`) is on a file of its own that no other user can open, in a folder that no other user can write:
    everybody may read a hosts file, and so lock it for as long as they like. Only where there is no such folder, the
    lock is on the hosts file itself.
    """

    def __init__(self, path: Path = HOSTS, mark: bytes = PASSING) -> None:
        self._path, self._mark = path, mark
        self._held: list[int] = []
        """Locked files, the one that has the name now last: a replacement is locked before it gets the name."""

    @contextlib.contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        """No other autoscaler process changes the file until the end of the block; if we die, the lock is released.

        Raises HostsFileUnusable if another one holds it for longer than `patience` seconds, or it cannot be changed.
        """
        until = time.monotonic() + patience
        while not self._lock():
            if time.monotonic() > until:
                raise HostsFileUnusable(f"another process has locked {self._path}; the autoscaler tries again later")
            time.sleep(STEP)
        try:
            yield
        finally:
            while self._held:
                os.close(self._held.pop())

    def _lock(self) -> bool:
        """Lock the file that is under the name now; False if another process has locked it."""
        with self._opened():  # or it cannot be changed anyway
            lock = _lock_file(self._path)
        if lock is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return False
            self._held.append(lock)
            return True
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(self._opened())
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            # Between open and flock the file may have been replaced: this lock would then be on one without a name.
            if not os.path.samestat(os.fstat(file), self._path.stat()):
                return False
            # The lock belongs to the open file: a duplicate keeps it when the first descriptor is closed.
            self._held.append(os.dup(file))
        return True

    def kept(self) -> dict[str, str]:
        """Address by name, from our lines. Raises HostsFileUnusable."""
        with self._opened() as file:
            lines = os.pread(file, os.fstat(file).st_size, 0).split(b"\n")
        ours = [
            line.removesuffix(self._mark).decode("utf-8", "replace").split()
            for line in lines
            if line.endswith(self._mark)
        ]
        return {words[1]: words[0] for words in ours if len(words) == 2 and _is_line(words[1], words[0])}

    def names_of_others(self) -> frozenset[str]:
        """Every name, in small letters, in lines that are not ours, and reserved ones. Raises HostsFileUnusable."""
        with self._opened() as file:
            lines = os.pread(file, os.fstat(file).st_size, 0).split(b"\n")
        others = (line.partition(b"#")[0].split()[1:] for line in lines if not line.endswith((PASSING, OF_WORKERS)))
        return reserved_names().union(name.decode("utf-8", "replace").lower() for names in others for name in names)

    def keep(self, addresses: Mapping[str, str]) -> bool:
        """Like `put`, if that changes anything; returns whether it did. Invalid names and addresses are left out, and
        names of others: a line of ours would lead them elsewhere, too.
        """
        good = {name: address for name, address in sorted(addresses.items()) if _is_line(name, address)}
        if good:
            taken = self.names_of_others()
            good = {name: address for name, address in good.items() if name.lower() not in taken}
        ours = [f"{address} {name} ".encode() + self._mark for name, address in good.items()]
        with self._opened() as file:
            lines = os.pread(file, os.fstat(file).st_size, 0).split(b"\n")
        if [line for line in lines if line.endswith(self._mark) and not line.startswith(_NOT_ENDED)] == ours:
            return False
        with self.locked(patience=2.0):
            self.put(good)
        return True

    def put(self, addresses: Mapping[str, str]) -> None:
        """Make these names resolve to these addresses, and no others of ours. Raises HostsFileUnusable."""
        self.clear()
        if not addresses:
            return
        lines = [f"{address} {name} ".encode() + self._mark for name, address in addresses.items()]
        with self._opened() as file:
            size = os.fstat(file).st_size
            whole = size == 0 or os.pread(file, 1, size - 1) == b"\n"
            _write(file, b"\n".join((*(() if whole else (b"", _NOT_ENDED + self._mark)), *lines, b"")), size)

    def clear(self) -> None:
        """Remove our lines. Raises HostsFileUnusable."""
        with self._opened() as file:
            before = os.pread(file, os.fstat(file).st_size, 0)
            after = _of_others(before, self._mark)
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
        """By replacement; if that is impossible, in place: longer lines first, then the cut."""
        target = self._path.resolve()
        try:
            new = _replace(target, content, os.fstat(file))
            if self._held:
                self._held.append(new)
            else:
                os.close(new)
        except OSError as error:
            # rename(2) onto a mount point, as /etc/hosts is in a container, fails with EBUSY.
            if error.errno not in (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            _write(file, content, 0)
            os.ftruncate(file, len(content))

    def _complaint(self, error: OSError) -> str:
        return f"{self._path} cannot be changed ({error.strerror}), so the autoscaler cannot keep host names in it"


def _lock_file(path: Path) -> int | None:
    """The open lock file of a hosts file; None: there is no folder for it that is ours alone."""
    target = path.resolve()
    if target == HOSTS.resolve():
        folder, name = LOCKS, "hosts"
        with contextlib.suppress(OSError):  # systemd has made it, or only the lock on the file itself is left
            folder.mkdir(mode=0o700)
    else:
        folder, name = target.parent, f".{target.name}.lock"
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return None
        return os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _is_line(name: str, address: str) -> bool:
    """Whether these make one line of a hosts file: a cloud's answer is never written unchecked."""
    return address_of(address) is not None and NAME.fullmatch(name) is not None


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None: no address, or one with a zone (`fe80::1%eth0`), for which Python accepts any text, ends of lines too."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _of_others(content: bytes, mark: bytes) -> bytes:
    """The file without our lines. If we had to end a line, the end stays only if others added lines behind it."""
    kept: list[bytes] = []
    ended_by_us = False
    for line in _LINE.findall(content):
        text = line.rstrip(b"\n")
        if text.endswith(mark):
            ended_by_us = ended_by_us or text == _NOT_ENDED + mark
        else:
            ended_by_us = False
            kept.append(line)
    return b"".join(kept)[: -1 if ended_by_us else None]


def _replace(target: Path, content: bytes, like: os.stat_result) -> int:
    """The whole new file or the whole old one, for every reader and whenever we die. Returns the new one, locked."""
    draft, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        fcntl.flock(draft, fcntl.LOCK_EX)
        _write(draft, content, 0)
        os.fchown(draft, like.st_uid, like.st_gid)
        os.fchmod(draft, stat.S_IMODE(like.st_mode))
        os.fsync(draft)
        Path(name).replace(target)
    except BaseException:
        os.close(draft)
        Path(name).unlink(missing_ok=True)
        raise
    return draft


def _write(file: int, content: bytes, offset: int) -> None:
    written = 0
    while written < len(content):
        # pwrite(2) may write less than it was given.
        written += os.pwrite(file, content[written:], offset + written)
