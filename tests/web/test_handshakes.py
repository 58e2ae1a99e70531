"""Clients that connect to a TLS server and finish no handshake do not lock out others."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from fastapi import FastAPI

from autoscaler.api import handshakes
from autoscaler.api.server import Address, Server
from tests.web.served import until
from tests.web.test_deadlines import ended

CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303")
"""The beginning of one."""


@pytest.fixture(autouse=True)
def _no_handshake_is_late_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No handshake times out in these tests, on a busy machine either; the tests of that limit set it themselves."""
    monkeypatch.setattr(handshakes, "HANDSHAKE", 600.0)


@pytest.fixture
def url(served_app: tuple[FastAPI, str], certificate: tuple[Path, Path]) -> Iterator[str]:
    """An address that serves TLS only."""
    with Server(served_app[0], Address("127.0.0.1", 0, *certificate)).beside() as server:
        yield server.url


@pytest.fixture
def strangers() -> Iterator[ExitStack]:
    with ExitStack() as open_ones:
        yield open_ones


def connected(url: str, strangers: ExitStack, sent: bytes = b"") -> socket.socket:
    at = urlsplit(url)
    made = strangers.enter_context(socket.create_connection((at.hostname, at.port), timeout=120))
    made.sendall(sent)
    return made


def answered(url: str, certificate: tuple[Path, Path]) -> int:
    return requests.get(f"{url}/operations/", verify=str(certificate[0]), timeout=120).status_code


@pytest.mark.parametrize("sent", (b"", CLIENT_HELLO), ids=["nothing", "half a handshake"])
def test_beyond_the_limit_the_oldest_unfinished_handshakes_are_ended(
    url: str, certificate: tuple[Path, Path], strangers: ExitStack, sent: bytes
) -> None:
    waiting = [connected(url, strangers, sent) for _ in range(handshakes.UNDER_WAY + 30)]
    assert until(lambda: [ended(each) for each in waiting[:30]] == [True] * 30)
    assert [ended(each) for each in waiting[31:]] == [False] * (handshakes.UNDER_WAY - 1)
    assert answered(url, certificate) == 401


def test_a_handshake_that_takes_too_long_is_ended(
    url: str, certificate: tuple[Path, Path], strangers: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKE", 0.3)
    slow = connected(url, strangers, CLIENT_HELLO)
    assert until(lambda: ended(slow), 5.0)
    assert answered(url, certificate) == 401


def left_alone_after(limit: float, url: str, certificate: tuple[Path, Path]) -> bool:
    """Whether a connection whose handshake is done is still answered after this limit has passed."""
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with ExitStack() as strangers:
        try:
            greeted = trusting.wrap_socket(connected(url, strangers), server_hostname="127.0.0.1")
            strangers.enter_context(greeted)
            for _ in range(handshakes.UNDER_WAY + 1):
                connected(url, strangers)
            time.sleep(2 * limit)
            greeted.sendall(b"GET /operations/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return greeted.recv(65536).startswith(b"HTTP/1.1 401")
        except OSError:
            return False


def test_a_connection_whose_handshake_is_done_is_left_open(
    url: str, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the smallest of these limits in which this machine can complete a handshake."""

    def left_alone(limit: float) -> bool:
        monkeypatch.setattr(handshakes, "HANDSHAKE", limit)
        return left_alone_after(limit, url, certificate)

    assert any(left_alone(limit) for limit in (0.3, 3.0, 15.0))


def test_failed_handshakes_take_no_place(url: str, certificate: tuple[Path, Path], strangers: ExitStack) -> None:
    first = connected(url, strangers)
    for _ in range(handshakes.UNDER_WAY * 2):
        connected(url, strangers, b"GET / HTTP/1.1\r\n\r\n").recv(65536)
    assert (ended(first), answered(url, certificate)) == (False, 401)
