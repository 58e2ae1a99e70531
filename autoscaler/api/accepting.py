"""Takes connections of local users no faster than a rate, so that one who connects without a pause leaves the processor
to passes, and to the calls that were taken.

Whoever is not taken yet waits in the kernel's queue, as `unix_connection` does. All of it runs in the server's thread.
"""

from __future__ import annotations

import socket
import time
from typing import Any

QUEUE = 128
"""Connections that wait to be taken. asyncio takes as many in one go before it does anything else."""
BURST, A_SECOND = 400.0, 200.0
"""Connections that are taken at once, and further ones a second. One costs about half a millisecond of a processor,
whatever becomes of it.
"""
PAUSE = 0.02
"""Seconds that the server's thread sleeps before it looks again, for other threads and processes."""


class PacedSocket(socket.socket):
    """A listening socket."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._left, self._since = BURST, time.monotonic()

    def accept(self) -> tuple[socket.socket, Any]:
        """As asyncio calls it, which comes again while somebody waits."""
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._since) * A_SECOND)
        self._since = now
        if self._left < 1:
            # asyncio has no way to stop listening for a moment; other calls go on after the pause.
            time.sleep(PAUSE)
            raise BlockingIOError
        self._left -= 1
        return super().accept()
