"""Ends TLS handshakes that take too long, and limits how many are under way at once.

asyncio reports a connection to its protocol only after the handshake, so pending handshakes are counted at the
listening socket. All of it runs in the server's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

HANDSHAKE = 10.0
"""Time limit of a handshake, in seconds."""
UNDER_WAY = 100
"""Handshakes at once. One more ends the oldest of them."""


class Doorway(socket.socket):
    """A listening socket that knows which of its connections are still in their handshake."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._waiting: dict[object, tuple[socket.socket, asyncio.TimerHandle]] = {}

    def accept(self) -> tuple[socket.socket, Any]:
        """As asyncio calls it."""
        made, peer = super().accept()
        self.greeted(peer)  # an earlier connection of that address is gone
        # Of a handshake that failed, asyncio only closes the socket.
        for closed in [key for key, (each, _) in self._waiting.items() if each.fileno() < 0]:
            self.greeted(closed)
        if len(self._waiting) >= UNDER_WAY:
            self._end(next(iter(self._waiting)))
        timer = asyncio.get_running_loop().call_later(HANDSHAKE, self._end, peer)
        self._waiting[peer] = made, timer
        return made, peer

    def greeted(self, peer: object) -> None:
        """The handshake with this address is done."""
        if (found := self._waiting.pop(peer, None)) is not None:
            found[1].cancel()

    def _end(self, peer: object) -> None:
        made, _ = self._waiting[peer]
        self.greeted(peer)
        with contextlib.suppress(OSError):  # it has ended by itself
            made.shutdown(socket.SHUT_RDWR)  # its transport sees the end, and closes
