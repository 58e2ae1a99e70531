"""A renewed certificate is used without a restart; one that cannot be used changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI

from autoscaler.api.certificate import Certificate, load
from autoscaler.api.server import Server, address
from tests.web.test_serve import make_certificate


def shown_by(server: Server) -> bytes:
    """The certificate that the server shows to a new client."""
    where = urlsplit(server.url)
    return ssl.get_server_certificate((where.hostname or "", where.port or 0), timeout=120).encode()


def until_shown(server: Server, wanted: Path) -> None:
    while shown_by(server).strip() != wanted.read_bytes().strip():
        time.sleep(0.05)


@pytest.mark.timeout(120)
def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.api.server.LOOK_EVERY", 0)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    with Server(FastAPI(), address("127.0.0.1:0", certificate, key)).beside() as server:
        until_shown(server, certificate)
        make_certificate(tmp_path / "new.pem", tmp_path / "new-key.pem")
        (tmp_path / "new-key.pem").replace(key)  # as a client of ACME does it, one after the other
        (tmp_path / "new.pem").replace(certificate)
        until_shown(server, certificate)


def swapped_key(certificate: Path, key: Path) -> None:
    make_certificate(certificate.with_name("other.pem"), key)


def readable_key(certificate: Path, key: Path) -> None:
    make_certificate(certificate, key)
    key.chmod(0o644)


def no_key(_certificate: Path, key: Path) -> None:
    key.unlink()


def text_for_certificate(certificate: Path, _key: Path) -> None:
    certificate.write_text("nothing")


def pipe_for_certificate(certificate: Path, _key: Path) -> None:
    certificate.unlink()
    os.mkfifo(certificate)


def encrypted_key(certificate: Path, key: Path) -> None:
    make_certificate(certificate, key)
    locked = ("openssl", "ec", "-aes256", "-passout", "pass:none", "-in", key, "-out", key)
    subprocess.run(locked, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize(
    "spoil", (swapped_key, readable_key, no_key, text_for_certificate, pipe_for_certificate, encrypted_key)
)
@pytest.mark.timeout(120)
def test_where_a_new_certificate_cannot_be_used_the_old_one_stays_and_the_log_says_why_once(
    spoil: Callable[[Path, Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    load(context, certificate, key)
    followed = Certificate(context, certificate, key)
    old = certificate.read_bytes()
    spoil(certificate, key)
    for _ in range(4):
        asyncio.run(followed.look())
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert (len(warnings), "the certificate in use stays" in warnings[0]) == (1, True), warnings
    with socket.create_server(("127.0.0.1", 0)) as listening, Greeter(listening, context):
        assert ssl.get_server_certificate(listening.getsockname(), timeout=120).encode().strip() == old.strip()


class Greeter:
    """Does one handshake with whoever comes."""

    def __init__(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        self._listening, self._context = listening, context
        self._thread = threading.Thread(target=self._greet, daemon=True)

    def _greet(self) -> None:
        made, _ = self._listening.accept()
        with made, contextlib.suppress(OSError), self._context.wrap_socket(made, server_side=True):
            pass

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join(120)
