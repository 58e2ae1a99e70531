"""Ends connections that take too long or are too many, so that slow clients do not keep others out.

uvicorn's own timeout is for silence between requests. It does not end a client that never begins or sends byte by byte.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from autoscaler.api.listeners import GROUPS, LISTENER, PEER, TCP, THROUGH, Listener
from autoscaler.api.local_users import person_of

HEAD = 10.0
"""Seconds for a request's head to arrive, from the connection or the end of the last request on."""
BODY = 60.0
"""Seconds for its body to arrive, from its head on."""
UNREAD = 5.0
"""Seconds for which the rest of an answered request is read, so that its client reads the answer."""
UNTAKEN = 60.0
"""Seconds for a client to read enough of an answer for more of it to be sent."""
UNTAKEN_IF_FULL = 5.0
"""The same if others wait for a connection."""
_NEARLY = 5
"""Connections that are kept free of clients that do not read their answers, where none are reserved."""
LARGEST_HEAD = 16 * 1024
_SO_PEERGROUPS, _MOST_GROUPS = 59, 256
_LINGER = 0.1
"""Seconds for a refused client to read why: data that still arrives would reset a connection closed at once."""


class TimedProtocol(H11Protocol):
    """One connection. The limits for head and body are for the whole: a part that arrives does not extend them. That
    for an answer begins anew whenever the client reads.
    """

    def __init__(
        self,
        *given: Any,
        listener: Listener = TCP,
        greeted: Callable[[object], None] = lambda _: None,
        by_proxy: bool = False,
        **named: Any,
    ) -> None:
        """`by_proxy`: connections of one address may be of many callers."""
        super().__init__(*given, **named)
        self._listener, self._greeted, self._by_proxy = listener, greeted, by_proxy
        self._sent_away = False
        self.uid: int | None = None
        self._awaited: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None
        self.untaken_since: float | None = None
        """Since when its client has not read its answer; None: it reads."""
        self.began = self.loop.time()

    @property
    def idle(self) -> bool:
        """Whether no request of this connection is being carried out."""
        return self._seconds() in (HEAD, UNREAD)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._greeted(transport.get_extra_info("peername"))
        self.uid, groups = _process(transport)
        self.user = self.uid if self.uid is None else person_of(self.uid)
        through = self.client[0] if self.client else ""
        # Each call's scope has a copy.
        self.app_state = {LISTENER: self._listener, PEER: self.uid, GROUPS: groups, THROUGH: through}
        if self._too_many_of_one() or (self._full_for_others() and not self._ends_one_that_does_not_read()):
            self._send_away()
            return
        if not self._listener.reserved and len(self._together()) > self._listener.at_once - _NEARLY:
            self._ends_one_that_does_not_read()
        self._watch()
        idle = [each for each in self.connections if isinstance(each, TimedProtocol) and each.idle]
        if len(idle) > self._listener.waiting:
            min(idle, key=lambda each: each.began).give_up()

    def data_received(self, data: bytes) -> None:
        if not self._sent_away:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """The base class writes text; listeners other than TCP answer in JSON. A call under way gets no answer."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self._listener is TCP:
            super().send_400_response(msg)
            return
        status = HTTPStatus.BAD_REQUEST
        body = _document(status.phrase)
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

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
        self.untaken_since = self.loop.time() if self.untaken_since is None else self.untaken_since

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_untaken()

    def give_up(self) -> None:
        """End the connection, also if an answer is not sent completely."""
        self._stop_watch()
        self._stop_untaken()
        self.connections.discard(self)  # at once, so that it does not count any more
        self.transport.abort()

    def _too_many_of_one(self) -> bool:
        if self._listener.of_user is not None and not self.has_reserved_places:
            return sum(each.user == self.user for each in self._together()) > self._listener.of_user
        most, busy, own = self._listener.of_one, self._listener.under_way_of_one, self.client
        if own is None:
            return False
        same = [each for each in self._together() if each.client and each.client[0] == own[0]]
        if busy is not None and not self._by_proxy and sum(not each.idle for each in same) >= busy:
            return True
        return most is not None and len(same) > most

    @property
    def has_reserved_places(self) -> bool:
        """Whether it is a process of root or of the user of the service, or no local one."""
        return self.uid in (None, 0, os.geteuid())

    def _together(self) -> list[TimedProtocol]:
        return [each for each in self.connections if isinstance(each, TimedProtocol)]

    def _full_for_others(self) -> bool:
        """Whether only the reserved places are left, and it is none of those for whom they are."""
        if not self._listener.reserved or self.has_reserved_places:
            return False
        others = sum(not each.has_reserved_places for each in self._together())
        return others > self._listener.at_once - self._listener.reserved

    def _ends_one_that_does_not_read(self) -> bool:
        """End the connection whose client has not read its answer for longest, if that is long enough."""
        since = [(each.untaken_since, id(each), each) for each in self._together() if each.untaken_since is not None]
        if not since or self.loop.time() - min(since)[0] < UNTAKEN_IF_FULL:
            return False
        min(since)[2].give_up()
        return True

    def _send_away(self) -> None:
        self._sent_away = True
        self.connections.discard(self)  # so that it does not count
        body = _document("too many callers at once: try again")
        head = f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: {len(body)}\r\n"
        self.transport.write(f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n".encode() + body)
        self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER, self.give_up)

    def _seconds(self) -> float | None:
        """The limit of what the client has to send now; None: nothing."""
        if self.conn.their_state is h11.IDLE:
            return HEAD
        if self.conn.their_state is h11.SEND_BODY:
            answered = self.conn.our_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
            return UNREAD if answered else min(BODY, self._listener.body)
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
            self._untaken = self.untaken_since = None


def _process(transport: asyncio.Transport) -> tuple[int | None, frozenset[int]]:
    """Uid and groups of the process at the other end of a Unix socket, as the kernel has them."""
    own: socket.socket | None = transport.get_extra_info("socket")
    if own is None or own.family != socket.AF_UNIX:
        return None, frozenset()
    credentials = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    _, uid, gid = struct.unpack("iII", credentials)
    try:
        groups = own.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _MOST_GROUPS)
    except OSError:  # a kernel before 4.13, or more groups than that: the first group still counts
        groups = b""
    return uid, frozenset((gid, *struct.unpack(f"{len(groups) // 4}I", groups)))


def _document(error: str) -> bytes:
    return json.dumps({"error": error}).encode() + b"\n"
