"""One request and its answer, over TCP or a Unix socket: damaged requests and allowed answers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.deadlines import stretched
from tests.fuzz.mutation import Mutator

SILENCE = 0.3
"""Seconds without an answer after which a client closes its side."""
ENDS = 30.0
"""Seconds after which, on an idle machine, it must have an answer or the end."""
LARGEST = 64 << 20
"""Bytes of an answer."""
METHODS = (
    "GET",
    "POST",
    "DELETE",
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "get",
    "PRI",
    "\x00",
    "A" * 300,
)
HEADERS = (
    *(
        "Content-Length: 5",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Content-Length: 1\r\nContent-Length: 2",
    ),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked\r\nContent-Length: 4"),
    *(
        "Host: evil.example",
        "Host:",
        "Host: a\r\nHost: b",
        "Origin: http://evil.example",
        "Origin: null",
        "Referer: ://[",
    ),
    *("Content-Type: text/html", "Content-Type: application/json; charset=utf-7", "Content-Type: multipart/form-data"),
    *("Authorization: Basic !!!", "Authorization: Basic /////w==", "Authorization: Bearer x.y", "Authorization:"),
    *("Expect: 100-continue", "Upgrade: websocket", "Connection: upgrade, http2-settings", "Connection: close"),
    *("X-Forwarded-For: 1.2.3.4, [::1", "X-Forwarded-Proto: \xff", "X-Asked-By: \x1b[31m", "X-Asked-By: " + "a" * 9000),
    *("A" * 20_000 + ": b", "bad header", ": empty", "Range: bytes=0-", "Accept: \x7f", "Sec-Fetch-Site: cross-site"),
    *("\r\n".join(f"X-{number}: {number}" for number in range(500)), "Cookie: " + "a=b; " * 1000),
)


def exchanged(connect: Callable[[], socket.socket], sent: bytes) -> bytes:
    """All that is answered to these bytes. Raises AssertionError where there is neither answer nor end."""
    with connect() as connection:
        connection.settimeout(SILENCE)
        with suppress(ConnectionError, TimeoutError):  # refused before all was sent: what was answered is still read
            connection.sendall(sent)
        found = bytearray()
        waits_for_end = False
        while True:
            try:
                piece = connection.recv(1 << 16)
            except TimeoutError:
                if found and _complete(bytes(found)):
                    return bytes(found)
                assert not waits_for_end, f"hangs: neither answer nor end after {ENDS:.0f} s"
                waits_for_end = True
                connection.settimeout(stretched(ENDS))
                try:
                    connection.shutdown(socket.SHUT_WR)
                except OSError:
                    return bytes(found)
                continue
            except ConnectionError:
                return bytes(found)
            if not piece:
                return bytes(found)
            found += piece
            assert len(found) <= LARGEST, "an answer without end"
            if _complete(bytes(found)):
                return bytes(found)


def _complete(answer: bytes) -> bool:
    """Whether this is a whole answer; one to HEAD counts as one without its body, and ends by silence."""
    head, separator, body = answer.partition(b"\r\n\r\n")
    if not separator or head.startswith(b"HTTP/1.1 100"):
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(body) >= int(value)
        if name.lower() == b"transfer-encoding":
            return body.endswith(b"0\r\n\r\n")
    return False


def judge_answer(sent: bytes, answer: bytes) -> str:
    """The status, or that the connection ended. Raises AssertionError for 5xx, except 505 for another version than
    HTTP/1.
    """
    if not answer:
        return "ended"
    status = int(answer.split(b" ", 2)[1][:3])
    version = sent.split(b"\r\n", 1)[0].rpartition(b" ")[2]
    if status == 505 and version not in (b"HTTP/1.0", b"HTTP/1.1"):
        return str(status)
    assert status < 500, f"answers {status}: {answer[-300:]!r} to {sent[:500]!r}"
    assert b"Traceback (most recent call last)" not in answer, f"answers a traceback to {sent[:500]!r}"
    return str(status)


def request(mutator: Mutator, method: str, target: str, body: bytes, headers: list[str]) -> bytes:
    """A request, as a rule whole, else with odd headers or damaged as a whole."""
    if mutator.often(0.25):
        headers = [*headers, mutator.pick(HEADERS)]
    if mutator.often(0.05):
        method = mutator.pick(METHODS)
    if not any(header.lower().startswith("content-length") for header in headers):
        headers = [*headers, f"Content-Length: {len(body)}"]
    version = "HTTP/1.1" if mutator.often(0.97) else mutator.pick(("HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "HTTP/99.1", ""))
    head = "\r\n".join((f"{method} {target} {version}", *headers, "", ""))
    whole = head.encode("utf-8", "surrogatepass") + body
    return mutator.damaged(whole, 2) if mutator.often(0.08) else whole


def maybe_odd(mutator: Mutator, part: str) -> str:
    return quote(mutator.text()[:2000].encode("utf-8", "surrogatepass"), safe="") if mutator.often(0.15) else part


def over_tcp(url: str) -> Callable[[], socket.socket]:
    at = urlsplit(url)
    return lambda: socket.create_connection((at.hostname or "", at.port or 0), timeout=stretched(ENDS))


def over_unix(path: Path) -> Callable[[], socket.socket]:
    def connect() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(stretched(ENDS))
        made.connect(str(path))
        return made

    return connect
