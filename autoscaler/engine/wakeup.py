"""Wakes a waiting loop from anywhere: other threads, signal handlers, a finished order.

A pipe, because a lock taken inside a signal handler may be the very one that the interrupted thread holds.
"""

from __future__ import annotations

import contextlib
import os
import select
import weakref


class Wakeup:
    """Several rings before a wait wake the loop once."""

    def __init__(self) -> None:
        self._hear, self._pull = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._heard = select.poll()  # select() itself knows no descriptor above 1023
        self._heard.register(self._hear, select.POLLIN)
        self.close = weakref.finalize(self, _close, self._hear, self._pull)

    def ring(self) -> None:
        """Safe in a signal handler; if the pipe is full, a ring is already waiting."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._pull, b".")

    def wait(self, timeout: float) -> bool:
        """Wait for a ring, at most `timeout` seconds; returns whether there was one since the last wait."""
        if not self._heard.poll(max(0.0, timeout) * 1000):
            return False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._hear, 4096):
                pass
        return True


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
