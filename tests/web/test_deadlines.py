"""Clients that connect and send nothing, or little, do not lock out others."""

from __future__ import annotations

import base64
import logging
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from autoscaler.api import deadlines
from autoscaler.api.listeners import TCP
from tests.web.served import PASSWORD, USER, Served, until

AT_ONCE = TCP.at_once
HEAD = b"POST /clusters/demo/nodes/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
LOGIN = f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"


@pytest.fixture
def connections(api: Served) -> Iterator[Connections]:
    with ExitStack() as open_ones:
        yield Connections(api, open_ones)


class Connections:
    """Connections to the server, open to the end of the test."""

    def __init__(self, api: Served, open_ones: ExitStack) -> None:
        self._at = urlsplit(api.client.url)
        self._open_ones = open_ones

    def open(self, sent: bytes = b"", *, receives: int | None = None, source: str = "") -> socket.socket:
        """`receives`: the size of the receive buffer in bytes; `source`: our address."""
        made = self._open_ones.enter_context(socket.socket())
        if source:
            made.bind((source, 0))
        made.settimeout(120.0)
        if receives is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        made.connect((self._at.hostname, self._at.port))
        made.sendall(sent)
        return made


def ended(connection: socket.socket) -> bool:
    """Whether the server has closed it; data that it sent before is skipped."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.mark.parametrize("sent", (b"", b"GET / HT"), ids=["nothing", "half a head"])
def test_idle_connections_beyond_the_limit_do_not_lock_out_callers(
    api: Served, connections: Connections, sent: bytes
) -> None:
    for _ in range(AT_ONCE + 50):
        connections.open(sent)
    assert api.client.get("status").status_code == 200


def test_refused_calls_beyond_the_limit_whose_bodies_never_come_do_not_lock_out_callers(
    api: Served, connections: Connections
) -> None:
    for _ in range(AT_ONCE + 10):
        connections.open(HEAD + b"\r\n").recv(65536)
    assert api.client.get("status").status_code == 200


def test_calls_under_way_of_one_address_leave_places_for_others(api: Served, connections: Connections) -> None:
    """Callers that log in and never send their bodies."""
    slow = HEAD + f"Authorization: {LOGIN}\r\n\r\n".encode()
    for _ in range(AT_ONCE + 50):
        connections.open(slow)
    asked = f"GET /clusters/demo/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: {LOGIN}\r\n\r\n".encode()

    def status(source: str) -> bytes:
        return connections.open(asked, source=source).recv(65536).split(b" ")[1]

    assert until(lambda: status("127.0.0.1") == b"503")
    assert status("127.0.0.2") == b"200"


def test_fifty_idle_connections_are_left_open(
    api: Served, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "HEAD", 600.0)
    idle = [connections.open() for _ in range(50)]
    assert (api.client.get("status").status_code, [one for one in idle if ended(one)]) == (200, [])


def test_a_request_head_sent_byte_by_byte_is_cut_off_at_its_time_limit(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "HEAD", 0.3)
    slow = connections.open(b"GET /clusters/demo/status HTTP/1.1\r\nX: ")

    def sends_on_in_vain() -> bool:
        try:
            slow.sendall(b"x")
        except ConnectionError:
            return True
        return ended(slow)

    assert until(sends_on_in_vain, 5.0)


def test_a_body_that_does_not_arrive_ends_the_call(
    api: Served, connections: Connections, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deadlines, "BODY", 0.3)
    with caplog.at_level(logging.ERROR):
        slow = connections.open(HEAD + f"Authorization: {LOGIN}\r\n\r\n{{".encode())
        assert until(lambda: ended(slow), 5.0)
        assert until(lambda: [call.status for call in api.calls.newest(1)] == [408], 5.0)
    assert caplog.records == []


def test_a_client_that_does_not_read_its_answers_is_disconnected(
    api: Served, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "UNTAKEN", 0.3)
    calls = 200
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode())
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + login + b"\r\n\r\n"
    deaf = connections.open(asked * calls, receives=4096)

    def answered() -> int:
        return len(api.calls.newest(calls))

    assert until(lambda: answered() > 0)
    assert not until(lambda: answered() == calls, 1.5)
    assert until(lambda: ended(deaf), 5.0)
    assert answered() < calls


def test_where_all_places_are_taken_a_client_that_does_not_read_gives_way(
    api: Served, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "UNTAKEN_IF_FULL", 0.1)
    monkeypatch.setattr(deadlines, "_NEARLY", AT_ONCE - 2, raising=False)
    asked = f"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: {LOGIN}\r\n\r\n".encode()
    calls = 200
    deaf = connections.open(asked * calls, receives=4096)
    reads = connections.open()

    def answered() -> int:
        return len(api.calls.newest(calls))

    assert until(lambda: answered() > 0)
    assert not until(lambda: answered() == calls, 1.5)
    late = connections.open(asked)
    # Whoever looks whether a connection was ended reads from it: only once that is decided.
    assert late.recv(8) == b"HTTP/1.1"
    assert until(lambda: ended(deaf), 5.0)
    assert answered() < calls
    assert not ended(reads)


def test_a_caller_refused_before_its_body_arrives_reads_the_refusal(connections: Connections) -> None:
    refused = connections.open(HEAD + b"\r\n{")
    assert refused.recv(65536).startswith(b"HTTP/1.1 401")


def test_a_connection_serves_several_calls(api: Served) -> None:
    at = urlsplit(api.client.url)
    kept = HTTPConnection(at.hostname or "", at.port, timeout=120.0)
    kept.connect()
    first, answers = kept.sock, []
    for _ in range(3):
        kept.request("GET", "/clusters/demo/status", headers={"Authorization": LOGIN})
        with kept.getresponse() as answer:
            answers.append((answer.status, bool(answer.read()), kept.sock is first))
    kept.close()
    assert answers == [(200, True, True)] * 3
