"""The processes that Cloud Pipeline's launcher starts, one a queue: each registers its queue with its own settings, for
as long as it lives.

A registration is a lock of the kernel's, so a killed process leaves none behind, and a note beside it with the
settings, without secrets. Which of the processes decides for the cell is the affair of the cell's own lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from autoscaler.errors import SettingsError
from autoscaler.store.lock import CellKey, make_lock_directory, try_lock, write_note

NUMBERS = "numbers.json"
STOPPED = "stopped"
"""Name of the note that a person stopped the autoscaler of this cell."""
LEAVING = "leaving.json"
"""Name of the note that the platform's own autoscaler is back, and of the queues whose workers are given back."""

DRAIN = "drain.pid"
"""Name of the note with the process that gives their workers back."""


@dataclass(frozen=True, slots=True)
class QueueProcess:
    """One registered process."""

    queue: str
    pid: int
    since: float
    settings: Mapping[str, str]
    """By environment name, as its own environment has them; without secrets."""
    former: Mapping[str, str] | None = field(default=None, compare=False)
    """Of a process that has just registered: the settings of the last one of its queue; None: there was none."""


@dataclass(frozen=True, slots=True)
class QueueRegister:
    """The registrations of one cell on this machine. Any process of the same user may read and write."""

    directory: Path

    @classmethod
    def of(cls, cell: CellKey, locks: Path) -> QueueRegister:
        return cls(locks / f"sge-autoscaler-{cell.slug}.queues")

    def channel(self, queue: str) -> Path:
        """The socket at which the process of a queue takes lines of its log."""
        return self._lock(queue).with_suffix(".sock")

    @contextlib.contextmanager
    def registered(self, queue: str, settings: Mapping[str, str]) -> Iterator[QueueProcess | None]:
        """Be the process of this queue until the end of the block; None if another one still is."""
        make_lock_directory(self.directory)
        try:
            held = try_lock(self._lock(queue))
        except OSError as error:
            raise SettingsError(f"cannot register queue {queue} in {self.directory}: {error.strerror}") from error
        if held is None:
            yield None
            return
        try:
            own = QueueProcess(queue, os.getpid(), time.time(), settings)
            last = _read(self._note(queue))  # which stays when a process ends
            write_note(self._note(queue), json.dumps(asdict(own)), mode=0o600)
            yield replace(own, former=last.settings if last is not None else None)
        finally:
            os.close(held)

    def processes(self) -> tuple[QueueProcess, ...]:
        """All living ones, by queue."""
        found = (self._process(lock) for lock in sorted(self.directory.glob("*.lock")))
        return tuple(process for process in found if process is not None)

    def last(self) -> tuple[QueueProcess, ...]:
        """Of each queue the last process that registered, whether it lives or not."""
        found = (_read(lock.with_suffix(".json")) for lock in sorted(self.directory.glob("*.lock")))
        return tuple(process for process in found if process is not None)

    def away(self, profiles: Path) -> tuple[QueueProcess, ...]:
        """Of each queue without a process the last one, as long as the launcher has its profile in this folder."""
        there, known = {each.queue for each in self.processes()}, profiles.is_dir()
        gone = [each for each in self.last() if each.queue not in there]
        return tuple(each for each in gone if not known or (profiles / f"sge_profile_{each.queue}_queue.sh").exists())

    def numbers(self) -> dict[str, str]:
        """The suffix of each queue that was ever served here."""
        try:
            found = json.loads((self.directory / NUMBERS).read_text(encoding="utf-8"))
            return {str(queue): str(suffix) for queue, suffix in found.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def keep_numbers(self, numbers: Mapping[str, str]) -> None:
        if dict(numbers) != self.numbers():
            write_note(self.directory / NUMBERS, json.dumps(dict(numbers)), mode=0o600)

    def note_leaving(self, processes: Sequence[QueueProcess]) -> None:
        """The platform's own autoscaler comes back: workers of these queues are given back, also once the process of a
        queue has ended.
        """
        text = json.dumps([asdict(each) for each in processes])
        write_note(self.directory / LEAVING, text, mode=0o600)

    def leaving(self) -> tuple[QueueProcess, ...]:
        """The processes that were there when the platform's own autoscaler came back; () if it did not."""
        try:
            found = json.loads((self.directory / LEAVING).read_text(encoding="utf-8"))
            return tuple(QueueProcess(**each) for each in found)
        except (OSError, ValueError, TypeError):
            return ()

    def forget_leaving(self) -> None:
        (self.directory / LEAVING).unlink(missing_ok=True)

    def note_drain(self, pid: int, log: Path) -> None:
        """This process, `sge-autoscaler stop --drain`, gives the workers back, and prints into this file."""
        write_note(self.directory / DRAIN, f"{pid} {log}", mode=0o600)

    def drain(self) -> tuple[int, str] | None:
        """That process and its log; None: none was started, or `end_drain` ended it."""
        try:
            pid, _, log = (self.directory / DRAIN).read_text(encoding="utf-8").partition(" ")
            return int(pid), log
        except (OSError, ValueError):
            return None

    def end_drain(self) -> bool:
        """Have that process end after its action in hand; returns whether it was there."""
        if (noted := self.drain()) is None:
            return False
        pid, _ = noted
        try:
            (self.directory / DRAIN).unlink(missing_ok=True)
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if not {b"stop", b"--drain"} <= set(words):  # another process has its number now
                return False
            os.kill(pid, signal.SIGTERM)
        except (OSError, ValueError):
            return False
        return True

    def note_stop(self, at: float) -> None:
        """A person stopped the autoscaler: only a process that starts later serves the cell again."""
        write_note(self.directory / STOPPED, repr(at), mode=0o600)

    def stopped_at(self) -> float | None:
        """When a person stopped it, unless a process was started since."""
        try:
            at = float((self.directory / STOPPED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return None if any(process.since > at for process in self.processes()) else at

    def _process(self, lock: Path) -> QueueProcess | None:
        """The process that holds a registration; None if nobody does. Shared, so that readers do not disturb."""
        try:
            handle = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _read(lock.with_suffix(".json"))
        finally:
            os.close(handle)
        return None

    def _lock(self, queue: str) -> Path:
        return self.directory / f"{quote(queue, safe='')}.lock"

    def _note(self, queue: str) -> Path:
        return self._lock(queue).with_suffix(".json")


def _read(note: Path) -> QueueProcess | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return QueueProcess(**json.loads(note.read_text(encoding="utf-8")))
    return None
