"""A connection that does not get on with its request is ended, so that slow strangers keep nobody else out.

uvicorn's own timeout is for silence between requests; a client that never begins, or sends letter by letter, has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 10.0
"""Seconds in which a request's head must have come, from the connection or the end of the last request on."""
BODY = 60.0
"""Seconds in which its body must have come, from its head on."""
UNREAD = 5.0
"""Seconds for which the rest of a request is taken in that is answered already, so that its client reads the answer."""
UNTAKEN = 60.0
"""Seconds in which a client must take in enough of an answer for more of it to be sent."""
WAITING = 100
"""Connections that may wait for a request at once: for one more, the one that has waited longest is ended."""
LARGEST_HEAD = 16 * 1024


class TimedProtocol(H11Protocol):
    """One connection. Times are for the whole of what is awaited: what comes of it meanwhile wins no more."""

    def __init__(self, *given: Any, greeted: Callable[[object], None] = lambda _: None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._greeted = greeted
        self._awaited: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None
        self.began = self.loop.time()

    @property
    def idle(self) -> bool:
        """Whether nobody works on a request of this connection."""
        return self._seconds() in (HEAD, UNREAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._greeted(transport.get_extra_info("peername"))
        self._watch()
        idle = [each for each in self.connections if isinstance(each, TimedProtocol) and each.idle]
        if len(idle) > WAITING:
            min(idle, key=lambda each: each.began).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watch()
        self._stop_untaken()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._untaken = self._untaken or self.loop.call_later(UNTAKEN, self.give_up)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_untaken()

    def give_up(self) -> None:
        """End it, whatever is not sent yet."""
        self._stop_watch()
        self._stop_untaken()
        self.connections.discard(self)  # at once: it takes no one's room
        self.transport.abort()

    def _seconds(self) -> float | None:
        """How long what is awaited now may take; None: nothing is."""
        if self.conn.their_state is h11.IDLE:
            return HEAD
        if self.conn.their_state is h11.SEND_BODY:
            answered = self.conn.our_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
            return UNREAD if answered else BODY
        return None

    def _watch(self) -> None:
        seconds = self._seconds()
        if seconds == self._awaited:
            return
        self._stop_watch()
        self._awaited, self.began = seconds, self.loop.time()
        if seconds is not None and not self.transport.is_closing():
            self._timer = self.loop.call_later(seconds, self.give_up)

    def _stop_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_untaken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
