"""Wakes the loop when the qmaster has news: a job was submitted, started, ended or was deleted.

Only a wake-up: no fact is taken from an event, the next observation shows what happened, and polling goes on whether
events come or not. Grid Engine's `qevent` is watched, restarted with growing pauses when its heartbeat stops, and ended
by SIGTERM: one that is killed stays registered with the qmaster for ten minutes (after SIGTERM 8.1.9 usually, not
always, deregisters; a client left behind does no more harm than to be listed by `qconf -secl`).
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autoscaler import process
from autoscaler.errors import CommandError, CommandNotFound
from autoscaler.process import Running
from autoscaler.supervised import supervised

HEARTBEAT = 15.0
"""Seconds of silence after which qevent counts as stuck: it says ECL_STATE about every 5."""
PAUSES = (1.0, 5.0, 30.0, 60.0)
"""Seconds before the first, second, … restart in a row; the last for all further ones."""
DENIED_PAUSE = 600.0
"""Seconds until another try if the qmaster does not let this host listen."""
EXHAUSTED_PAUSE = 60.0
"""Seconds until another try if it has as many event clients as it accepts."""
EXHAUSTED = "qmaster takes no further event client: MAX_DYN_EC in its qmaster_params is reached"
END_GRACE = 5.0
CLOSED = 0
"""Replaces the number of a qevent in our own request to stop."""
PLACES = (Path("/usr/lib/gridengine"),)
"""Where Debian keeps qevent: it is not on PATH there."""


class Starter(Protocol):
    """Starts a long-lived command, as `autoscaler.process.start` does."""

    def __call__(self, argv: Sequence[str], *, cwd: Path | None = None) -> Running: ...


def find_qevent(places: Sequence[Path] = PLACES) -> str:
    """The program to start: on PATH, or where Debian keeps it; the bare name if it is nowhere."""
    candidates = [shutil.which("qevent"), *(str(place / "qevent") for place in places if (place / "qevent").is_file())]
    return next((found for found in candidates if found), "qevent")


@dataclass(slots=True)
class _Qevent:
    """One qevent from start to end."""

    number: int
    beats: int = 0
    denied: bool = False
    exhausted: bool = False
    last_words: str = ""

    @property
    def refused(self) -> bool:
        """Whether waiting for its output is of no use: it would go on asking."""
        return self.denied or self.exhausted


class Events:
    """Listens from the moment it is made until `close`. Never raises: without events, there is merely no news."""

    def __init__(
        self,
        on_news: Callable[[], None],
        start: Starter = process.start,
        *,
        program: str | None = None,
        heartbeat: float = HEARTBEAT,
        pauses: Sequence[float] = PAUSES,
        directory: Path | None = None,
    ) -> None:
        """`on_news`: called on threads of ours, when something happened and when events stop. `directory`: one of this
        cell's own; the next process uses it again, so that killed ones leave no pile of them.
        """
        self._on_news = on_news
        self._start = start
        # `qevent -trigger` reports ends of jobs and tasks only; -ts reports submissions, too.
        self._argv = (program or find_qevent(), "-ts")
        self._heartbeat = heartbeat
        self._pauses = pauses
        self._closed = threading.Event()
        self._reason: str | None = "it has not answered yet"
        self._silent_since = time.monotonic()
        self._refused = False
        self._listened_before = False
        self._lines: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()
        # qevent writes a file into the directory it runs in.
        self._own = directory is None
        self._directory = directory or Path(tempfile.mkdtemp(prefix="sge-autoscaler-qevent-"))
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread = supervised(self._listen, "qevent", self._closed)

    @property
    def alive(self) -> bool:
        """Whether news would arrive now."""
        return self._reason is None

    @property
    def reason(self) -> str | None:
        """Why no news arrives; None while it does."""
        return self._reason

    @property
    def trouble(self) -> str:
        """The reason if it is more than a short silence; '' otherwise."""
        lasting = self._refused or time.monotonic() - self._silent_since >= 2 * self._heartbeat
        return (self._reason or "") if lasting else ""

    def close(self) -> None:
        """End qevent and the thread. Again: nothing."""
        self._closed.set()
        self._lines.put((CLOSED, None))
        self._thread.join(2 * END_GRACE)
        if self._own:
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- on the thread --------------------------------------------------------------------------------------

    def _listen(self) -> None:
        failures = 0
        for number in itertools.count(1):
            qevent = _Qevent(number)
            try:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                child = self._start(self._argv, cwd=self._directory)
            except CommandError as error:
                qevent.last_words, qevent.denied = str(error), isinstance(error, CommandNotFound)
            except OSError as error:
                qevent.last_words = f"{self._directory}: {error.strerror}"
            else:
                try:
                    self._follow(child, qevent)
                except BaseException as error:
                    self._report_loss(f"qevent: {error}")
                    raise
            self._report_loss(EXHAUSTED if qevent.exhausted else f"qevent: {qevent.last_words or 'it fell silent'}")
            self._refused = qevent.refused
            failures = 1 if qevent.beats else failures + 1
            pause = self._pauses[min(failures, len(self._pauses)) - 1]
            if qevent.refused:
                pause = DENIED_PAUSE if qevent.denied else EXHAUSTED_PAUSE
            if self._closed.wait(pause):
                return

    def _follow(self, child: Running, qevent: _Qevent) -> None:
        """Follow it until it ends, falls silent, is denied, or we close; then end it properly."""
        reader = threading.Thread(target=self._read, args=(child, qevent.number), name="qevent-lines", daemon=True)
        try:
            reader.start()
            self._await_end(qevent)
        finally:
            child.terminate(END_GRACE)
        reader.join(END_GRACE)

    def _await_end(self, qevent: _Qevent) -> None:
        silent_at = time.monotonic() + self._heartbeat
        while not self._closed.is_set() and not qevent.refused:
            try:
                number, line = self._lines.get(timeout=max(0.0, silent_at - time.monotonic()))
            except queue.Empty:
                break
            if number != qevent.number:
                continue
            if line is None:
                break
            if self._process(line, qevent):
                silent_at = time.monotonic() + self._heartbeat

    def _read(self, child: Running, number: int) -> None:
        try:
            with contextlib.suppress(ValueError, OSError):  # the stream was closed under us: it ended
                for line in child.lines:
                    self._lines.put((number, line))
        finally:
            self._lines.put((number, None))

    def _process(self, line: str, qevent: _Qevent) -> bool:
        """Process one line; returns whether it is a sign of life."""
        event = line.partition(" ")[0]
        if event == "ECL_STATE" or event.startswith("JOB_"):
            # What happened while no qevent listened is news, too.
            if event != "ECL_STATE" or (not qevent.beats and self._listened_before):
                self._on_news()
            qevent.beats += 1
            self._listened_before = True
            self._reason, self._refused, self._silent_since = None, False, time.monotonic()
            return True
        if line.strip():
            qevent.last_words = line.strip()
        # On a host that is neither submit nor admin host, qevent prints this and hangs.
        if "denied" in line:
            qevent.denied = True
        elif "event clients are allowed" in line:
            qevent.exhausted = True
        elif "alive timeout" in line:
            self._report_loss(f"qevent: {qevent.last_words}")
        return False

    def _report_loss(self, reason: str) -> None:
        """Report no news from now on, and wake the loop so that it observes."""
        was_alive, self._reason = self.alive, reason
        if was_alive and not self._closed.is_set():
            self._on_news()
