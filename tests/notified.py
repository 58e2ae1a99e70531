"""Real services on loopback that get notifications: a mail server, and web servers that answer, refuse or hang."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.web.served import free_port


class Mailbox:
    """The mails that the server received."""

    def __init__(self) -> None:
        self.mails: list[Message] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content))
        return "250 OK"

    def texts(self) -> list[str]:
        return [bytes(mail.get_payload(decode=True)).decode() for mail in self.mails]


@contextlib.contextmanager
def mail_server() -> Iterator[tuple[str, Mailbox]]:
    """The URL of a mail server, and its mailbox."""
    box = Mailbox()
    port = free_port()
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield f"mailto://127.0.0.1:{port}?from=autoscaler@example.org&to=ops@example.org", box
    finally:
        controller.stop()


class Web(ThreadingHTTPServer):
    """A web hook. It answers with `status`; with None it answers only once `released` is set."""

    daemon_threads = True

    def __init__(self, status: int | None = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.status = status
        self.posts: list[dict[str, Any]] = []
        self.called, self.released = threading.Event(), threading.Event()

    def url(self, token: str) -> str:
        return f"json://127.0.0.1:{self.server_address[1]}/{token}"


class _Post(BaseHTTPRequestHandler):
    server: Web

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.called.set()
        if self.server.status is None:
            self.server.released.wait(60.0)
            return
        self.server.posts.append(json.loads(body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@contextlib.contextmanager
def web_server(status: int | None = 200) -> Iterator[Web]:
    web = Web(status)
    thread = threading.Thread(target=web.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.released.set()
        web.shutdown()
        web.server_close()
        thread.join()
