"""Wakes a waiting loop from anywhere: other threads, signal handlers, a finished order.

A pipe, because a lock taken inside a signal handler may be the very one that the interrupted thread holds.
"""

from __future__ import annotations

import contextlib
import os
import select


class Bell:
    """Rung any number of times, it wakes once."""

    def __init__(self) -> None:
        self._hear, self._pull = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def ring(self) -> None:
        """Safe in a signal handler; a full pipe means it rings already."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._pull, b".")

    def wait(self, timeout: float) -> bool:
        """Wait for a ring, at most so many seconds; tells whether there was one since the last wait."""
        heard, _, _ = select.select([self._hear], [], [], max(0.0, timeout))
        if not heard:
            return False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._hear, 4096):
                pass
        return True

    def close(self) -> None:
        os.close(self._hear)
        os.close(self._pull)
