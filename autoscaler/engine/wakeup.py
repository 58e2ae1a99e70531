"""Wakes a waiting loop from anywhere: other threads, signal handlers, a finished order.

A pipe, because a lock taken inside a signal handler may be the very one that the interrupted thread holds.
"""

from __future__ import annotations

import contextlib
import os
import select
import weakref
from pathlib import Path

from autoscaler.file_watch import FileWatch

CHECK_EVERY = 1.0
"""Seconds between two checks for commits of other processes, if nothing notifies of their writes."""


class Wakeup:
    """Several rings before a wait wake the loop once."""

    def __init__(self, check_every: float = CHECK_EVERY) -> None:
        self._hear, self._pull = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._heard = select.poll()  # select() itself knows no descriptor above 1023
        self._heard.register(self._hear, select.POLLIN)
        self._check_every = check_every
        self._watch: FileWatch | None = None
        self._check_soon = False
        self.close = weakref.finalize(self, _close, self._hear, self._pull)

    def ring(self) -> None:
        """Safe in a signal handler; if the pipe is full, a ring is already waiting."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._pull, b".")

    def watch(self, path: Path | None) -> None:
        """From now on a wait also ends, without a ring, when this file is written to. None: there is no such file."""
        if path is None:
            return
        if self._watch is not None:  # of a file that is gone
            self._heard.unregister(self._watch)
            self._watch.close()
            self._watch = None
        try:
            self._watch = FileWatch(path)
        except OSError:
            self._check_soon = True  # and it stays so: every wait is short
        else:
            self._heard.register(self._watch, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        """Wait for a ring, at most `timeout` seconds; returns whether there was one since the last wait.

        It ends earlier, and returns False, when it is time to check for commits of others: their write can be noticed
        before their commit is visible.
        """
        if self._check_soon:
            timeout = min(timeout, self._check_every)
        ready = {descriptor for descriptor, _ in self._heard.poll(max(0.0, timeout) * 1000)}
        if self._watch is not None:
            self._check_soon = self._watch.fileno() in ready
            self._watch.clear()
        if self._hear not in ready:
            return False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._hear, 4096):
                pass
        return True


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
