"""Every call to a REST server ends, verifies the certificate, and raises the contract's errors without secrets."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import requests
import tenacity
from requests.auth import HTTPBasicAuth

from autoscaler.errors import SettingsError
from autoscaler.providers.interface import NotAuthenticated, ProviderError, Refused, Throttled, Unreachable
from autoscaler.providers.rate_limiter import RateLimiter
from autoscaler.providers.rest import (
    Answer,
    Deadline,
    Limits,
    Rest,
    _innermost,
    _pause,
    _retry_after,
    checked_url,
    reading,
    segment,
)

SECRET = "hush-hush"
Reply = tuple[int, str, dict[str, str]]


class Script:
    """A server that answers calls in the order of a script; the last answer is repeated."""

    def __init__(self, *answers: Reply | Callable[[http.server.BaseHTTPRequestHandler], None]) -> None:
        self.answers, self.calls = list(answers), list[tuple[str, str, bytes]]()
        self.accepted = list[str | None]()
        script = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                script.calls.append((self.command, self.path, sent))
                script.accepted.append(self.headers["Accept"])
                answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
                if callable(answer):
                    answer(self)
                    return
                status, text, headers = answer
                self.send_response(status)
                for name, value in {"Content-Length": str(len(text.encode())), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


Serve = Callable[..., Script]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a scripted server; `tls` wraps its socket."""
    started: list[Script] = []

    def start(*answers: Any, tls: ssl.SSLContext | None = None) -> Script:
        script = Script(*answers)
        if tls is not None:
            script.server.socket = tls.wrap_socket(script.server.socket, server_side=True)
        threading.Thread(target=script.server.serve_forever, args=(0.01,), daemon=True).start()
        started.append(script)
        return script

    yield start
    for script in started:
        script.server.shutdown()
        script.server.server_close()


def rest(url: str, **given: Any) -> Rest:
    limits = given.pop("limits", Limits(connect=30, read=30, total=60, tries=3, pause=0.01))
    return Rest(
        url,
        **{
            "limits": limits,
            "rate_limiter": RateLimiter(rate=1000, patience=0.2),
            "hidden": lambda: (SECRET,),
            **given,
        },
    )


def ok(body: Any = None) -> Reply:
    return 200, json.dumps(body), {}


def drop(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def break_tls(handler: http.server.BaseHTTPRequestHandler) -> None:
    """The request was read; then the TLS connection breaks by a record that is none of its."""
    handler.close_connection = True
    os.write(handler.connection.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))


def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
    """Sends a byte every 20 ms, for a minute."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    try:
        for _ in range(3000):
            handler.wfile.write(b" ")
            time.sleep(0.02)
    except OSError:
        pass


def drip_headers(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        for number in range(95):  # a client takes no more than 100
            handler.wfile.write(f"X-{number}: y\r\n".encode())
            time.sleep(0.6)
    except OSError:
        pass


def test_a_request_is_sent_with_its_path_parameters_and_body(serve: Serve) -> None:
    script = serve(ok())
    rest(script.url).ask("POST", f"runs/{segment('a/b c')}", params={"nodes": "true"}, body={"count": 1})
    assert script.calls == [("POST", "/runs/a%2Fb%20c?nodes=true", b'{"count": 1}')]
    assert script.accepted == ["application/json"]


def test_an_answer_is_decoded_whatever_its_content_type(serve: Serve) -> None:
    script = serve((200, '{"nodes": ["ä"]}', {"Content-Type": "text/plain"}))
    assert rest(script.url).ask("GET", "nodes").record() == {"nodes": ["ä"]}


@pytest.mark.parametrize("text", ("", "<html>", '{"nodes": ['))
def test_an_answer_that_is_not_json_raises_unreachable(text: str) -> None:
    with pytest.raises(Unreachable, match="not JSON"):
        Answer("GET /x", 200, text).json()


def test_a_list_instead_of_an_object_raises_unreachable() -> None:
    with pytest.raises(Unreachable, match="a JSON list instead of an object"):
        Answer("GET /x", 200, "[]").record()


@pytest.mark.parametrize(
    ("status", "error"),
    (
        (400, Refused),
        (401, NotAuthenticated),
        (407, NotAuthenticated),
        (404, Refused),
        (409, Refused),
        (429, Throttled),
        (500, Unreachable),
        (503, Unreachable),
        (302, Unreachable),
    ),
)
def test_a_status_is_one_of_the_contracts_errors(serve: Serve, status: int, error: type[ProviderError]) -> None:
    script = serve((status, "<html><style>p {}</style><p>not\n now</p></html>", {}))
    with pytest.raises(error, match=rf"answered {status}: not now$"):
        rest(script.url).ask("GET", "nodes")


def test_a_status_that_was_expected_is_an_answer(serve: Serve) -> None:
    assert rest(serve((409, "made before", {})).url).ask("POST", "create", accept=(202, 409)).words == "made before"


def test_a_redirect_is_not_followed_so_credentials_stay_here(serve: Serve) -> None:
    other = serve(ok())
    script = serve((302, "", {"Location": other.url}))
    with pytest.raises(Unreachable):
        rest(script.url, auth=HTTPBasicAuth("u", SECRET)).ask("GET", "nodes")
    assert other.calls == []


def test_a_read_is_repeated_after_a_server_error_and_a_lost_answer(serve: Serve) -> None:
    script = serve((500, "", {}), drop, ok([1]))
    assert rest(script.url).ask("GET", "nodes").json() == [1]


@pytest.mark.parametrize("lost", (drop, (500, "", {})))
def test_a_change_that_may_have_happened_is_not_repeated(serve: Serve, lost: Any) -> None:
    script = serve(lost, ok())
    with pytest.raises(Unreachable):
        rest(script.url).ask("POST", "create")
    assert len(script.calls) == 1


def test_a_repeatable_change_is_repeated_after_a_lost_answer(serve: Serve) -> None:
    script = serve(drop, ok())
    assert rest(script.url).ask("POST", "create", repeat=True).status == 200


@pytest.mark.parametrize("first", (drop, (502, "", {})))
@pytest.mark.parametrize("later", ((429, "", {}), (403, "no", {}), (409, "no", {})))
def test_a_refusal_after_a_try_that_may_have_arrived_does_not_show_that_nothing_happened(
    serve: Serve, first: Any, later: Reply
) -> None:
    with pytest.raises(Unreachable, match="may have arrived"):
        rest(serve(first, later).url).ask("POST", "create", repeat=True)


def test_a_refusal_after_tries_that_never_arrived_stands(serve: Serve) -> None:
    script = serve((429, "", {}))
    with pytest.raises(Throttled):
        rest(script.url, rate_limiter=RateLimiter(rate=1000, patience=0)).ask("POST", "create", repeat=True)


def test_a_throttled_change_is_repeated(serve: Serve) -> None:
    script = serve((429, "", {"Retry-After": "0"}), ok())
    assert rest(script.url, rate_limiter=RateLimiter(patience=60)).ask("POST", "create").status == 200


def test_the_pause_between_two_tries_is_at_most_eight_seconds() -> None:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = 50
    pauses = [_pause(1.0)(state) for _ in range(400)]
    assert 7 < max(pauses) <= 8


def test_the_number_of_tries_is_bounded(serve: Serve) -> None:
    script = serve((500, "", {}))
    with pytest.raises(Unreachable):
        rest(script.url).ask("GET", "nodes")
    assert len(script.calls) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    (("7", 7.0), ("0.5", 0.5), ("soon", None), ("", None), (formatdate(0, usegmt=True), 0.0), (formatdate(0), 0.0)),
)
def test_throttling_has_the_retry_time_of_the_server(serve: Serve, text: str, seconds: float | None) -> None:
    script = serve((429, "", {"Retry-After": text} if text else {}))
    with pytest.raises(Throttled) as raised:
        rest(script.url, rate_limiter=RateLimiter(patience=0)).ask("GET", "nodes")
    assert raised.value.retry_after == seconds


@pytest.mark.parametrize("behind", (3600, -3600), ids=("behind ours", "ahead of ours"))
def test_a_retry_time_that_is_a_date_is_one_by_the_servers_clock(behind: float) -> None:
    there = time.time() - behind
    said = {"retry-after": formatdate(there + 90, usegmt=True), "Date": formatdate(there, usegmt=True)}
    assert _retry_after(said) == 90.0


@pytest.mark.parametrize("slow", (drip, drip_headers))
def test_a_very_slow_answer_ends_with_the_deadline(serve: Serve, slow: Any) -> None:
    script, began = serve(slow), time.monotonic()
    # On a busy machine the server may not get to its first byte in time.
    with pytest.raises(Unreachable, match=r"not answered in time|silence longer than the time limit"):
        rest(script.url, limits=Limits(connect=30, read=30, total=0.2, tries=1)).ask("GET", "nodes")
    assert time.monotonic() - began < 50, "each drips for a minute"


def test_a_silent_server_ends_with_the_read_timeout(serve: Serve) -> None:
    asked = threading.Event()
    script = serve(lambda _: asked.wait(60))
    try:
        with pytest.raises(Unreachable, match="silence longer than the time limit"):
            rest(script.url, limits=Limits(connect=30, read=0.1, total=60, tries=1)).ask("GET", "nodes")
    finally:
        asked.set()


def test_several_calls_share_one_deadline(serve: Serve) -> None:
    script, now = serve(ok()), 0.0
    deadline = Deadline(5, clock=lambda: now)
    client = rest(script.url)
    client.ask("GET", "nodes", deadline=deadline)
    now = 5.0
    with pytest.raises(Unreachable, match="there is no time left"):
        client.ask("GET", "nodes", deadline=deadline)
    assert len(script.calls) == 1


def test_an_answer_that_breaks_off_raises_unreachable(serve: Serve) -> None:
    def half(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"nodes": []}')

    with pytest.raises(Unreachable, match="got no answer"):
        rest(serve(half).url, limits=Limits(tries=1)).ask("GET", "nodes")


def test_a_refused_connection_has_the_message_of_the_system() -> None:
    with pytest.raises(Unreachable, match=r"GET http://127.0.0.1:9/nodes got no answer: .*Connection refused"):
        rest("http://127.0.0.1:9").ask("GET", "nodes")


def test_the_innermost_cause_of_an_error_is_found() -> None:
    class Named(requests.exceptions.ConnectionError):
        """As those of urllib3."""

        reason = OSError("no route")

    argument = requests.exceptions.ConnectionError(ValueError("nothing to it", OSError("no route")))
    assert {_innermost(error) for error in (argument, Named("nothing to it"))} == {"no route"}


@pytest.mark.parametrize("echo", ((401, f"no user u with password {SECRET}", {}), (500, SECRET, {})))
def test_a_secret_that_a_server_echoes_is_in_no_message(serve: Serve, echo: Reply) -> None:
    with pytest.raises(ProviderError) as raised:
        rest(serve(echo).url, auth=HTTPBasicAuth("u", SECRET)).ask("GET", "nodes")
    assert SECRET not in str(raised.value)
    assert "(secret)" in str(raised.value)


def test_threads_share_a_client(serve: Serve) -> None:
    client, answers = rest(serve(ok(1)).url), list[Any]()
    threads = [threading.Thread(target=lambda: answers.append(client.ask("GET", "n").json())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 8


@pytest.mark.parametrize(
    "url", ("", "cc.example", "ftp://cc.example", "https://", "https://u:hush-hush@cc.example", "https://cc/?token=hush-hush")
)  # fmt: skip
def test_an_invalid_address_or_one_with_secrets_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(SettingsError) as raised:
        checked_url(url)
    assert SECRET not in str(raised.value)


def test_an_address_is_used_without_its_last_slash() -> None:
    assert checked_url("https://cc.example/api/") == "https://cc.example/api"


@pytest.mark.parametrize("error", (Throttled("t"), Refused("r"), Unreachable("u")))
def test_any_error_of_a_listing_is_raised_as_unreachable(error: ProviderError) -> None:
    with pytest.raises(Unreachable), reading("the runs"):
        raise error


# -- certificates ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that signs itself, for 127.0.0.1, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "server.pem", folder / "server.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*argv, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True, timeout=120)
    return certificate, key


@pytest.fixture
def tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def trusted(serve: Serve, tls: ssl.SSLContext, certificate: tuple[Path, Path]) -> tuple[str, Path]:
    script = serve(ok("hello"), tls=tls)
    return script.url.replace("http://", "https://"), certificate[0]


def test_an_untrusted_certificate_is_refused(trusted: tuple[str, Path]) -> None:
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        rest(trusted[0], limits=Limits(tries=1)).ask("GET", "nodes")


def test_a_self_signed_certificate_is_trusted_if_it_was_given(trusted: tuple[str, Path]) -> None:
    assert rest(trusted[0], verify=trusted[1]).ask("GET", "nodes").json() == "hello"


def test_a_tls_connection_that_breaks_after_the_request_was_sent_repeats_no_change(
    serve: Serve, tls: ssl.SSLContext, certificate: tuple[Path, Path]
) -> None:
    script = serve(break_tls, tls=tls)
    with pytest.raises(Unreachable, match="broke after the request was sent"):
        rest(script.url.replace("http://", "https://"), verify=certificate[0]).ask("POST", "run")
    assert len(script.calls) == 1


def test_a_change_is_repeated_if_the_handshake_failed(serve: Serve, tls: ssl.SSLContext) -> None:
    """It was not sent: the server sees no call at all."""
    script, pauses = serve(ok(), tls=tls), list[float]()
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        rest(script.url.replace("http://", "https://"), sleep=pauses.append).ask("POST", "run")
    assert (script.calls, len(pauses)) == ([], 2)
