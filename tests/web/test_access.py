"""Access: passwords, TLS, the address, and the journal of calls."""

from __future__ import annotations

import base64
import os
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from autoscaler.api.passwords import Passwords, hashed, proves, set_password
from autoscaler.api.server import Address, Server, address
from autoscaler.caller_address import on_loopback
from autoscaler.errors import SettingsError
from autoscaler.store.store import Store
from tests.web.served import PASSWORD, USER, Served, until
from tests.web.test_serve import make_certificate

WRONG_HEADERS = ("", "Basic", "Basic !!", "Bearer x", "Basic " + base64.b64encode(b"anna").decode(), "Basic \xff")


@pytest.mark.parametrize("path", ("/clusters/demo/status", "/clusters/demo/nodes/create", "/operations/"))
def test_a_call_without_user_and_password_is_refused_with_401(api: Served, path: str) -> None:
    answer = requests.request("POST" if "create" in path else "GET", api.client.url + path, timeout=120)
    assert (answer.status_code, "Basic" in answer.headers["WWW-Authenticate"]) == (401, True)


@pytest.mark.parametrize(("user", "password"), ((USER, "wrong"), ("ben", PASSWORD), (USER, ""), ("", PASSWORD)))
def test_a_wrong_user_or_password_is_refused(api: Served, user: str, password: str) -> None:
    api.client.user, api.client.password = user, password
    assert api.client.get("status").status_code == 401


@pytest.mark.parametrize("header", WRONG_HEADERS)
def test_a_malformed_authorization_header_is_refused(api: Served, header: str) -> None:
    answer = requests.get(
        f"{api.client.url}/operations/", headers={"Authorization": header.encode("latin-1")}, timeout=120
    )
    assert answer.status_code == 401


def test_a_refused_caller_changes_nothing(api: Served) -> None:
    body = '{"sets": [{"count": 1, "nodearray": "execute"}]}'
    refused = requests.post(f"{api.client.url}/clusters/demo/nodes/create", data=body, timeout=120)
    assert (refused.status_code, api.store.nodes.live()) == (401, ())
    api.client.create(1)
    assert len(api.store.nodes.live()) == 1


def test_every_call_is_journalled_with_its_caller(api: Served) -> None:
    operation = api.client.create(request_id="r").json()["operationId"]
    assert until(lambda: len(api.calls.newest()) == 1)  # each is written once it is answered
    api.client.get("nodes", request_id="none")
    assert until(lambda: len(api.calls.newest()) == 2)
    requests.get(f"{api.client.url}/operations/", timeout=120)
    assert until(lambda: len(api.calls.newest()) == 3)
    results = [(call.who, call.method, call.target, call.status, call.operation) for call in api.calls.newest()]
    assert results == [
        ("", "GET", "/operations/", 401, ""),
        (USER, "GET", "/clusters/demo/nodes?request_id=none", 404, ""),
        (USER, "POST", "/clusters/demo/nodes/create", 202, operation),
    ]


def test_only_a_call_that_changes_something_wakes_the_loop(api: Served, tmp_path: Path) -> None:
    loop = Store.open(tmp_path / "store.sqlite")
    before = loop.database.changes_by_others
    api.client.get("status", nodes="true")
    asked = loop.database.changes_by_others
    api.client.post("nodes/terminate", {"names": ["x"]})
    assert (asked, loop.database.changes_by_others > before) == (before, True)


# -- the password file ---------------------------------------------------------------------------------------------


def test_a_password_matches_only_its_own_entry() -> None:
    assert (proves("right", hashed("right", cost=2)), proves("wrong", hashed("right", cost=2))) == (True, False)


def test_equal_passwords_have_different_entries() -> None:
    assert hashed("same", cost=2) != hashed("same", cost=2)


@pytest.mark.parametrize(
    "entry", ("", "scrypt$", "plain", "scrypt$999999999$8$1$aa$aa", "scrypt$a$b$c$d$e", "md5$1$2$3$4$5")
)
def test_a_malformed_password_entry_matches_no_password(entry: str) -> None:
    assert not proves("", entry)


def test_a_user_logs_in_with_a_written_password_that_the_file_does_not_contain(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "passwords"
    results = [set_password(path, "anna", "one"), set_password(path, "ben", "two"), set_password(path, "anna", "three")]
    passwords = Passwords(path)
    rights = [passwords.right(*pair) for pair in (("anna", "one"), ("anna", "three"), ("ben", "two"))]
    assert (results, rights, "three" in path.read_text(), path.stat().st_mode & 0o777) == (
        [True, True, False],
        [False, True, True],
        False,
        0o600,
    )


def test_a_changed_password_takes_effect_at_once(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    set_password(path, "anna", "one")
    passwords = Passwords(path)
    before = passwords.right("anna", "one")
    set_password(path, "anna", "two")
    assert (before, passwords.right("anna", "one"), passwords.right("anna", "two")) == (True, False, True)


def test_while_the_password_file_is_missing_every_login_fails(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    set_password(path, "anna", "one")
    passwords = Passwords(path)
    path.rename(tmp_path / "away")
    away = passwords.right("anna", "one")
    (tmp_path / "away").rename(path)
    assert (away, passwords.right("anna", "one")) == (False, True)


def test_a_password_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    set_password(path, "anna", "one")
    path.chmod(0o646)
    with pytest.raises(SettingsError, match=f"chmod o= {path}"):
        Passwords(path)


@pytest.mark.parametrize("text", ("", "# nobody\n", "anna\n", "anna:plain\n"))
def test_a_password_file_without_a_valid_user_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "passwords"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(SettingsError):
        Passwords(path)


@pytest.mark.parametrize(("user", "password"), (("", "x"), ("a:b", "x"), ("a\nb", "x"), ("anna", "")))
def test_an_invalid_user_or_empty_password_is_not_written(tmp_path: Path, user: str, password: str) -> None:
    with pytest.raises(SettingsError):
        set_password(tmp_path / "passwords", user, password)


# -- the address ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "host", "port"),
    (("127.0.0.1:8080", "127.0.0.1", 8080), (":8080", "127.0.0.1", 8080), ("8080", "127.0.0.1", 8080),
     ("[::1]:8443", "::1", 8443), ("0.0.0.0:1", "0.0.0.0", 1)),
)  # fmt: skip
def test_an_address_without_a_host_means_loopback(text: str, host: str, port: int) -> None:
    assert address(text, plain=True) == Address(host, port, plain=True)


@pytest.mark.parametrize("text", ("0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080", "head:8080"))
def test_plain_http_beyond_loopback_needs_a_setting(text: str) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_HTTP_PLAIN"):
        address(text)


@pytest.mark.parametrize("text", ("", "host", "host:port", "host:99999"))
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_HTTP"):
        address(text)


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(SettingsError, match="both or neither"):
        address("8080", certificate=Path("cert.pem"))


def test_loopback_hosts_are_recognised() -> None:
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "head")
    assert [on_loopback(host) for host in hosts] == [True, True, True, False, False, False]


def test_a_request_that_is_not_http_gets_400_and_no_log_line(api: Served, caplog: pytest.LogCaptureFixture) -> None:
    where = urlsplit(api.client.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=120) as stranger:
        stranger.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        answered = stranger.recv(1024)
    assert (b" 400 " in answered, caplog.records) == (True, [])


def test_a_port_in_use_is_reported_before_serving() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match="cannot listen"):
        Server(None, Address("127.0.0.1", taken.getsockname()[1]))


def test_an_invalid_certificate_is_reported(tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("nothing")
    with pytest.raises(SettingsError, match="TLS") as raised:
        Server(None, address("127.0.0.1:0", tmp_path / "cert.pem", tmp_path / "key.pem"))
    assert isinstance(raised.value.__cause__, ssl.SSLError | OSError)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pipe", ("cert.pem", "key.pem"))
def test_a_certificate_that_is_a_pipe_is_refused_at_once(tmp_path: Path, pipe: str) -> None:
    make_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    (tmp_path / pipe).unlink()
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(SettingsError, match=r"TLS.*no regular file"):
        Server(None, address("127.0.0.1:0", tmp_path / "cert.pem", tmp_path / "key.pem"))


@pytest.mark.parametrize("name", ("", "a:b", "a\nb", "v\x0bt", "#hash", " lead", "trail "))
def test_a_user_name_that_would_break_the_password_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not a user name"):
        set_password(tmp_path / "passwords", name, "one")
    assert not (tmp_path / "passwords").exists()
