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

from autoscaler.api.certificate import Certificate
from autoscaler.api.server import Server, address
from autoscaler.errors import SettingsError
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
    monkeypatch.setattr("autoscaler.api.server.CHECK_EVERY", 0)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    with Server(FastAPI(), address("127.0.0.1:0", certificate, key)).beside() as server:
        until_shown(server, certificate)
        make_certificate(tmp_path / "new.pem", tmp_path / "new-key.pem")
        (tmp_path / "new-key.pem").replace(key)  # as a client of ACME does it, one after the other
        (tmp_path / "new.pem").replace(certificate)
        until_shown(server, certificate)


OF_RSA = ("-newkey", "rsa:2048")


@pytest.mark.parametrize("version", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3))
@pytest.mark.parametrize("name", (None, "localhost"))
@pytest.mark.timeout(120)
def test_a_renewed_certificate_may_be_of_another_type(
    tmp_path: Path, version: ssl.TLSVersion, name: str | None
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    followed = Certificate(certificate, key)
    caller = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    caller.check_hostname, caller.verify_mode, caller.maximum_version = False, ssl.CERT_NONE, version
    before = handshake(followed.context, caller, name)
    make_certificate(certificate, key, *OF_RSA)
    asyncio.run(followed.check())
    after = handshake(followed.context, caller, name)
    assert [ssl.DER_cert_to_PEM_cert(shown).strip() for shown in (before, after)][1] == certificate.read_text().strip()
    assert before != after


def handshake(server: ssl.SSLContext, caller: ssl.SSLContext, name: str | None) -> bytes:
    """The certificate that the caller is shown, in DER."""
    to_caller, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = caller.wrap_bio(to_caller, to_server, server_hostname=name)
    serving = server.wrap_bio(to_server, to_caller, server_side=True)
    for side in (calling, serving) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    shown = calling.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def swapped_key(certificate: Path, key: Path) -> None:
    make_certificate(certificate.with_name("other.pem"), key)


def readable_key(certificate: Path, key: Path) -> None:
    make_certificate(certificate, key)
    key.chmod(0o644)


def writable_certificate(certificate: Path, key: Path) -> None:
    make_certificate(certificate, key)
    certificate.chmod(0o666)


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


SPOILED = (
    swapped_key, readable_key, writable_certificate, no_key, text_for_certificate, pipe_for_certificate, encrypted_key
)  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED)
@pytest.mark.timeout(120)
def test_a_certificate_that_cannot_be_used_is_logged_once_and_the_old_one_stays(
    spoil: Callable[[Path, Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    followed = Certificate(certificate, key)
    old = certificate.read_bytes()
    spoil(certificate, key)
    for _ in range(4):
        asyncio.run(followed.check())
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert (len(warnings), "the certificate in use stays" in warnings[0]) == (1, True), warnings
    assert spoil is not swapped_key or "is not the key of that certificate" in warnings[0]
    with socket.create_server(("127.0.0.1", 0)) as listening, Greeter(listening, followed.context):
        assert ssl.get_server_certificate(listening.getsockname(), timeout=120).encode().strip() == old.strip()


def test_corrected_permissions_take_effect_without_a_new_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    directory = tmp_path / "tls"
    directory.mkdir()
    certificate, key = directory / "cert.pem", directory / "key.pem"
    make_certificate(certificate, key)
    followed = Certificate(certificate, key)
    make_certificate(certificate, key)
    key.chmod(0o644)
    looked_at(followed, 4)
    key.chmod(0o600)
    directory.chmod(0o777)
    looked_at(followed, 4)
    directory.chmod(0o755)
    looked_at(followed, 1)
    logged = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert [level for level, _ in logged] == ["WARNING", "WARNING", "INFO"]
    assert (f"chmod o= {key}" in logged[0][1], f"chmod o-w {directory}" in logged[1][1]) == (True, True), logged


def test_a_changed_file_of_the_same_time_and_length_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(certificate, key)
    followed, times = Certificate(certificate, key), certificate.stat()
    certificate.write_bytes(certificate.read_bytes()[::-1])
    os.utime(certificate, ns=(times.st_atime_ns, times.st_mtime_ns))
    looked_at(followed, 2)
    assert "cannot be used" in caplog.text


def looked_at(followed: Certificate, times: int) -> None:
    for _ in range(times):
        asyncio.run(followed.check())


def test_an_encrypted_key_is_refused_at_start_without_a_prompt(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    encrypted_key(certificate, key)
    with pytest.raises(SettingsError, match=f"cannot serve TLS with {certificate} and {key}: .* without a password"):
        Server(FastAPI(), address("127.0.0.1:0", certificate, key))


@pytest.mark.parametrize(
    ("host", "encrypted", "warned"), (("0.0.0.0", False, True), ("0.0.0.0", True, False), ("127.0.0.1", False, False))
)
def test_a_listener_that_sends_passwords_in_the_clear_beyond_this_machine_is_warned_of(
    host: str, encrypted: bool, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate, key = (tmp_path / "cert.pem", tmp_path / "key.pem") if encrypted else (None, None)
    if certificate is not None and key is not None:
        make_certificate(certificate, key)
    Server(FastAPI(), address(f"{host}:0", certificate, key, plain=True)).close()
    assert (f"HTTP at {host} is not encrypted" in caplog.text) is warned


class Greeter:
    """Does one handshake with each client."""

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
