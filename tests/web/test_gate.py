"""Calls that a page in a browser or a misled proxy could have sent are refused; calls of programs are not."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords
from autoscaler.api.server import Address, Server
from autoscaler.api.view import ClusterValues
from autoscaler.store.calls import CallLog
from autoscaler.store.store import Store
from tests.web.served import Served, password_file, until

BODY = '{"sets": [{"count": 1, "nodearray": "execute"}]}'
CREATE = "/clusters/demo/nodes/create"


def created(api: Served, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return api.client.ask("POST", CREATE, data=BODY, headers={"Content-Type": "text/plain", **named}).status_code


@pytest.mark.parametrize(
    "headers",
    (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Referer": "https://evil.example/page"},
    ),
)
def test_a_call_from_a_page_of_another_site_is_refused(api: Served, headers: dict[str, str]) -> None:
    assert (created(api, **headers), api.store.nodes.live()) == (403, ())


def test_a_call_from_our_own_page_is_accepted(api: Served) -> None:
    assert created(api, Origin=api.client.url, Sec_Fetch_Site="same-origin") == 202


@pytest.mark.parametrize("kind", ("multipart/form-data; boundary=x", "application/xml", "text/html"))
def test_a_body_of_an_unsupported_content_type_is_refused(api: Served, kind: str) -> None:
    assert (created(api, Content_Type=kind), api.store.nodes.live()) == (415, ())


@pytest.mark.parametrize(
    "host",
    (
        *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "[", "a b"),
        *(
            "localhost/evil",
            "localhost?evil",
            "localhost#evil",
            "evil@localhost",
            "localhost:80/evil",
            "localhost:",
            "",
        ),
        *("2130706433", "0x7f000001", "127.1", "017700000001"),
    ),
)
def test_a_host_name_that_is_not_ours_is_refused(api: Served, host: str) -> None:
    assert created(api, Host=host) in (400, 421)
    assert api.store.nodes.live() == ()


@pytest.mark.parametrize("host", ("localhost", "LOCALHOST:8651", "10.1.2.3:8651", "[::1]:8651", socket.gethostname()))
def test_host_names_of_this_machine_and_addresses_are_accepted(api: Served, host: str) -> None:
    assert created(api, Host=host) == 202


def test_a_configured_host_name_is_accepted(tmp_path: object) -> None:
    from pathlib import Path

    passwords = Passwords(password_file(Path(str(tmp_path)) / "passwords"))
    app = make_app(
        Api(Operations(Store.open(None), ClusterValues("demo")), Logins(passwords), CallLog.open(None)),
        hosts=("sge.example",),
    )
    with Server(app, Address("127.0.0.1", 0)).beside() as server:
        results = [
            requests.get(f"{server.url}/operations/", headers={"Host": host}, timeout=120).status_code
            for host in ("sge.example", "SGE.example.:8651", "other.example")
        ]
    assert results == [401, 401, 421]


def raw(api: Served, request: bytes) -> bytes:
    where = urlsplit(api.client.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=120) as stranger:
        stranger.sendall(request)
        return b"".join(iter(lambda: stranger.recv(65536), b""))


def test_a_body_with_two_lengths_is_refused_and_ends_the_connection(api: Served) -> None:
    """A proxy that uses the other length would take the rest for the call of another caller."""
    head = b"POST /operations/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = raw(api, head + b"0\r\n\r\nGET /operations/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (answer.startswith(b"HTTP/1.1 400"), answer.count(b"HTTP/1.1")) == (True, 1)


@pytest.mark.parametrize("name", ("Host", "Authorization"))
def test_a_repeated_host_or_authorization_header_is_refused(api: Served, name: str) -> None:
    """A proxy might check the other one of two logins."""
    values = {"Host": "localhost", "Authorization": "Basic YTpi"}
    head = "".join(f"{each}: {value}\r\n" for each, value in values.items())
    answer = raw(api, f"GET /operations/ HTTP/1.1\r\n{head}{name}: {values[name]}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_call_refused_for_its_origin_is_journalled(api: Served) -> None:
    created(api, Origin="https://evil.example")
    assert until(lambda: [call.status for call in api.calls.newest()] == [403])


@pytest.mark.parametrize(
    "body",
    (
        '{"sets": [{"count": 1, "count": 500, "nodearray": "execute"}]}',
        '{"sets": [], "sets": [{"count": 1, "nodearray": "execute"}]}',
    ),
)
def test_a_repeated_json_key_is_refused_and_named(api: Served, body: str) -> None:
    answer = api.client.ask("POST", CREATE, data=body)
    assert (answer.status_code, "twice" in answer.text, api.store.nodes.live()) == (409, True, ())


def test_the_openapi_document_needs_a_login(api: Served) -> None:
    without = requests.get(f"{api.client.url}/openapi.json", timeout=120).status_code
    assert (without, api.client.ask("GET", "/openapi.json").status_code) == (401, 200)


@pytest.mark.parametrize("header", ("Basic !!", "Basic /w==", "Basic gA==", "Bearer", "Digest x", "Basic"))
def test_a_login_that_cannot_be_decoded_gets_our_own_answer(api: Served, header: str) -> None:
    answer = requests.get(f"{api.client.url}/operations/", headers={"Authorization": header}, timeout=120)
    reply = answer.status_code, answer.headers["WWW-Authenticate"], answer.text
    assert reply[:2] == (401, 'Basic realm="sge-autoscaler", charset="UTF-8"')
    assert "Invalid authentication" not in answer.text


@pytest.mark.parametrize("path", ("/clusters/x%1b]0;owned%07y/status", "/clusters/demo/nodes?%1b[2J=1"))
def test_answers_repeat_the_text_of_a_caller_without_control_characters(api: Served, path: str) -> None:
    answer = api.client.ask("GET", path)
    assert (answer.status_code in (400, 404), "\x1b" in answer.text, "\\x1b" in answer.text) == (True, False, True)


@pytest.mark.parametrize(
    ("proxies", "given", "peer"),
    (
        ((), "10.9.9.9", "127.0.0.1"),
        (("10.0.0.1",), "10.9.9.9", "127.0.0.1"),
        (("127.0.0.1",), "10.9.9.9", "10.9.9.9"),
        (("127.0.0.0/8",), "10.9.9.9, 127.0.0.5", "10.9.9.9"),
        (("127.0.0.1",), "x" * 5000, ""),
        (("127.0.0.1",), "10.9.9.9\x1b]0;owned", ""),
    ),
)
def test_a_forwarded_address_is_believed_only_from_a_named_proxy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, proxies: tuple[str, ...], given: str, peer: str
) -> None:
    passwords = Passwords(password_file(tmp_path / "pw"))
    app = make_app(Api(Operations(Store.open(None), ClusterValues("demo")), Logins(passwords), CallLog.open(None)))
    with Server(app, Address("127.0.0.1", 0, proxies=proxies)).beside() as server:
        requests.get(f"{server.url}/operations/", auth=("anna", "no"), headers={"X-Forwarded-For": given}, timeout=120)
    assert f"wrong login from {peer or 'an unknown address'} as anna" in caplog.text


@pytest.mark.parametrize("name", ("Origin", "Referer", "Sec-Fetch-Site", "Content-Type"))
def test_of_two_cross_site_headers_neither_is_believed(api: Served, name: str) -> None:
    where = urlsplit(api.client.url).netloc
    own = {"Origin": f"http://{where}", "Referer": f"http://{where}", "Sec-Fetch-Site": "same-origin"}.get(
        name, "text/plain"
    )
    head = f"POST {CREATE} HTTP/1.1\r\nHost: {where}\r\n{name}: {own}\r\n{name}: https://evil.example\r\n"
    answer = raw(api, f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
    assert (answer.startswith(b"HTTP/1.1 400"), f"{name} is given more than once".encode() in answer) == (True, True)


@pytest.mark.parametrize(
    ("host", "absolute"), (("10.66.66.66", False), ("[2001:db8::66]:80", False), ("localhost", True))
)
def test_a_foreign_address_in_host_is_not_in_location(api: Served, host: str, absolute: bool) -> None:
    headers = {"Content-Type": "text/plain", "Host": host}
    answer = api.client.ask("POST", CREATE, data=BODY, headers=headers)
    place = answer.headers["Location"]
    assert (answer.status_code, place.startswith("/operations/"), "66" in place.split("/operations")[0]) == (
        202,
        not absolute,
        False,
    )
