"""The socket at which workers ask to stop. It serves that one path, in the clear, and nothing else of the autoscaler.

A listener of its own, because workers must reach it and should reach no more. Standard library: a thread for each
caller, bounded in all and for each address, so that no machine keeps the others from being heard.
"""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import sys
import threading
from collections import Counter
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from autoscaler.errors import SettingsError
from autoscaler.web.auto_stop import AutoStops, Endpoint, Reply, refusal

READ_WITHIN = 10.0
"""Seconds without a byte after which a caller that has not said what it wants is hung up on."""
AT_ONCE = 256
"""Callers served at the same time; further ones are told to come again."""
AT_ONCE_OF_ONE = 8
"""The same of one address."""

log = logging.getLogger(__name__)


class Listener(socketserver.ThreadingTCPServer):
    """The socket: a thread for each caller, so many and no more."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, place: Endpoint, auto_stops: AutoStops) -> None:
        """Listens from now on. Raises SettingsError where it cannot."""
        self.auto_stops = auto_stops
        self._peers: Counter[str] = Counter()
        self._counting = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
        try:
            super().__init__((place.address, place.port), _Caller)
        except OSError as error:
            raise SettingsError(
                f"cannot listen for workers that ask to stop at {place.address}:{place.port}: {error}; "
                "set CP_CAP_AUTOSCALE_AUTOSTOP to an address of this host and a free port"
            ) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="auto-stop", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Who waits is told that nothing is decided."""
        self.auto_stops.close()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Count a caller in, or send it away at once: no thread is spent on it."""
        with self._counting:
            if sum(self._peers.values()) < AT_ONCE and self._peers[client_address[0]] < AT_ONCE_OF_ONE:
                self._peers[client_address[0]] += 1
                return True
        _send_away(request)
        return False

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._counting:
                self._peers -= Counter((client_address[0],))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hung up is none of ours; everything else is a defect, and shows itself."""
        if not isinstance(error := sys.exception(), OSError):
            log.error("a caller from %s was not answered by a defect", client_address[0], exc_info=error)


def _send_away(request: Any) -> None:
    body = b'{"error": "too many callers at once: ask again"}\n'
    head = f"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: {len(body)}\r\n\r\n"
    request.settimeout(0.1)
    try:
        request.sendall(head.encode() + body)
    except OSError:
        log.debug("a caller too many was gone before it could be told")


class _Caller(BaseHTTPRequestHandler):
    """One call. HTTP/1.0: a connection for each."""

    server: Listener
    server_version = "sge-autoscaler"
    sys_version = ""
    timeout = READ_WITHIN

    def do_GET(self) -> None:
        self._reply(self.server.auto_stops.asked(self.path, self.client_address[0]))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses: a request that is none of HTTP, or another method."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        only_get = "this is asked by GET: GET URL?instance=ID"
        self._reply(refusal(status, only_get if status is HTTPStatus.METHOD_NOT_ALLOWED else status.phrase))

    def _reply(self, reply: Reply) -> None:
        body = json.dumps(reply.says, ensure_ascii=False).encode() + b"\n"
        self.close_connection = True
        self.send_response(reply.status)
        if reply.status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if reply.retry_after is not None:
            self.send_header("Retry-After", str(reply.retry_after))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Nothing: a request line holds a token."""
