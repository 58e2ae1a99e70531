"""One autoscaler a cell, on whichever machine: its holder renews a lease in Grid Engine, and no pass acts without it.

Clocks of two machines are never compared. A process that wants the lease watches it: if it does not change for EXPIRES
seconds of the watcher's own clock, its holder is gone. The holder acts only in the first VALID seconds after it began
to renew, by its own clock, which goes on while the machine is suspended.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from autoscaler.errors import AutoscalerError, CommandError, GridEngineRefused, LockHeld, NotObservable
from autoscaler.sge.leases import Lease
from autoscaler.supervised import supervised

RENEW = 20.0
"""Seconds between two renewals: short enough to repeat a failed one in time."""
VALID = 45.0
"""Seconds for which the holder relies on a renewal."""
EXPIRES = 60.0
"""Seconds without a renewal after which another process may take the lease."""

log = logging.getLogger("autoscaler.run")
Given = TypeVar("Given")
Done = TypeVar("Done")


class LeaseStore(Protocol):
    """`autoscaler.sge.leases.Leases`."""

    def numbers(self) -> list[int]: ...
    def read(self, number: int) -> Lease | None: ...
    def add(self, lease: Lease) -> bool: ...
    def put(self, lease: Lease) -> bool: ...
    def drop(self, number: int) -> None: ...
    def drop_before(self, number: int) -> None: ...


class LeaseNotHeld(NotObservable):
    """It is not known yet whether another autoscaler serves the cell; the message says which one may."""


def since_boot() -> float:
    """Seconds since boot, including those in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def own_lease(locks: Path) -> Lease:
    """Our own identity. Two processes count as the same holder only if the lock in `locks` keeps one of them away: same
    boot of the same machine, same directory, same user.
    """
    where = locks.stat()
    words = [socket.gethostname(), str(where.st_dev), str(where.st_ino), str(os.geteuid())]
    for file in (Path("/proc/sys/kernel/random/boot_id"), Path("/etc/machine-id")):
        with contextlib.suppress(OSError):
            words.append(file.read_text(encoding="utf-8").strip())
    digest = hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]
    return Lease(0, digest, socket.gethostname(), _user(), os.getpid())


@dataclass(slots=True)
class CellLease:
    """For the life of a process. Any thread may call."""

    store: LeaseStore
    own: Lease
    ring: Callable[[], None] = lambda: None
    """Wakes the loop when the lease is lost."""
    clock: Callable[[], float] = since_boot
    minute: Callable[[], int] = lambda: int(time.time() / 60)
    """The first number where there is none: higher than any that a process of an earlier minute still believes in."""
    _held: Lease | None = None
    _renewed_at: float = 0.0
    _seen: Lease | None = None
    """The lease of another process, and since when it has not changed."""
    _since: float = 0.0
    _impossible: bool = False
    """Whether Grid Engine refuses us a lease."""
    _lost: LockHeld | None = None
    _guard: threading.RLock = field(default_factory=threading.RLock)

    def guarded(self, decide: Callable[[Given], Done]) -> Callable[[Given], Done]:
        """The same decision, made only while the lease is held. Raises LockHeld if another process has it, and
        NotObservable if that is not known.
        """

        def decided(given: Given) -> Done:
            self.check()
            return decide(given)

        return decided

    def check(self) -> None:
        """Return only while no other autoscaler can be serving this cell."""
        with self._guard:
            if self._held is None or not self._valid():
                try:
                    self.step()
                except CommandError as error:
                    raise LeaseNotHeld(f"the cell's lease cannot be renewed: {error}") from error
            if self._impossible or (self._held is not None and self._valid()):
                return
            seen = self._seen
            if seen is not None:
                left = max(0.0, self._since + EXPIRES - self.clock())
                raise LeaseNotHeld(
                    f"{seen.who} has served this cell; unless it renews its lease, that expires in {left:.0f} s"
                )
            raise LeaseNotHeld("the cell's lease could not be renewed in time")

    def step(self) -> None:
        """Renew the lease, take it, or watch its holder. Raises LockHeld, NotObservable, CommandError."""
        with self._guard:
            if self._lost is not None:
                raise self._lost
            if self._impossible:
                return
            if self._held is not None:
                self._renew()
            if self._held is None:
                self._try()

    @contextlib.contextmanager
    def kept(self) -> Iterator[CellLease]:
        """Renew it on a thread until the end of the block, then give it back."""
        ended = threading.Event()
        thread = supervised(lambda: self._keep(ended), "lease", ended)
        try:
            yield self
        finally:
            ended.set()
            thread.join(RENEW)
            self._give_back()

    def _keep(self, ended: threading.Event) -> None:
        while not ended.wait(RENEW):
            try:
                with self._guard:
                    if self._held is not None:
                        self.step()
            except LockHeld:
                self.ring()
                return
            except AutoscalerError as error:
                log.debug("the cell's lease is not renewed: %s", error)

    def _valid(self) -> bool:
        return self.clock() - self._renewed_at < VALID

    def _renew(self) -> None:
        assert self._held is not None
        began, renewed = self.clock(), replace(self._held, beat=self._held.beat + 1)
        there = self.store.put(renewed)
        newest = max(self.store.numbers(), default=0)
        if newest > self._held.number:
            self._lose(newest)
        elif there:
            self._held, self._renewed_at = renewed, began
        else:
            self._held = None  # somebody deleted it

    def _lose(self, number: int) -> None:
        other = self.store.read(number)
        self._held = None
        if other is None or self._ended(other):
            return  # the other one is gone, too
        self._lost = LockHeld(f"another autoscaler has taken this cell over: {other.who}")
        raise self._lost

    def _try(self) -> None:
        """Take the lease if nobody has it, it is ours, or it has not changed for long enough."""
        number, now = max(self.store.numbers(), default=0), self.clock()
        found = self.store.read(number) if number else None
        if found is None or self._ended(found):
            self._take(max(number + 1, self.minute()), found)
            return
        if self._seen is None or self._seen.number != found.number:
            self._seen, self._since = found, now
        elif self._seen != found:
            raise LockHeld(f"another autoscaler serves this cell: {found.who}")
        elif now - self._since >= EXPIRES:
            log.warning("the lease of %s has expired: this autoscaler serves the cell now", found.who)
            self._take(number + 1, found)

    def _ended(self, found: Lease) -> bool:
        """Of an ended process of ours: a deleted lock keeps nobody away."""
        return found.holder == self.own.holder and (found.pid == self.own.pid or not _lives(found.pid))

    def _take(self, number: int, before: Lease | None) -> None:
        began, wanted = self.clock(), replace(self.own, number=number, beat=0)
        try:
            if not self.store.add(wanted):
                return  # another was faster: the next observation shows which
        except GridEngineRefused as error:
            self._impossible = True
            log.warning("no lease, so an autoscaler on another machine could serve this cell as well: %s", error)
            return
        still = self.store.read(before.number) if before is not None else None
        # Those below the one before were left by a process that was killed while it took the lease.
        others = {each for each in self.store.numbers() if before is None or each > before.number} - {number}
        if others or (still is not None and still != before):
            self.store.drop(number)  # the holder before is alive, or yet another takes it
            self._seen = None
            return
        self._held, self._renewed_at, self._seen = wanted, began, None
        self.store.drop_before(number)

    def _give_back(self) -> None:
        """Delete it: the next holder need not wait for it to expire, and nothing of us stays in the cell."""
        with self._guard:
            held, self._held = self._held, None
            if held is not None:
                with contextlib.suppress(AutoscalerError):
                    self.store.drop(held.number)


def _lives(pid: int) -> bool:
    try:
        # Signal 0 only checks: EPERM means that the process exists and belongs to another user.
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())
