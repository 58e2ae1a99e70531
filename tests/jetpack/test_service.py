"""Which service is used, and which error a caller gets if it does not answer or refuses."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from autoscaler import jetpack, worker_configuration
from autoscaler.jetpack import config, service
from autoscaler.jetpack.autoscale import Rejected, Unreachable
from autoscaler.jetpack.service import Service
from autoscaler.store.store import Store


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mapping[str, str]:
    """An environment without a service."""
    monkeypatch.setattr(service, "OF_ROOT", tmp_path / "root")
    return {"XDG_STATE_HOME": str(tmp_path)}


Listen = Callable[..., None]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Makes services listen in a folder, by the names of their sockets."""
    with contextlib.ExitStack() as stack:

        def begin(directory: Path, *names: str) -> None:
            directory.mkdir(parents=True, exist_ok=True)
            for name in names:
                listener = stack.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX)))
                listener.bind(str(directory / name))
                listener.listen()

        yield begin


def leave_behind(directory: Path, name: str) -> None:
    """The socket that a killed service leaves."""
    directory.mkdir(parents=True)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(directory / name))


def test_a_url_overrides_a_socket() -> None:
    environ = {service.URL_ENV: "https://master:9000", service.SOCKET_ENV: "/x.sock", service.LOGIN_ENV: "/login"}
    assert Service.find(environ) == Service(url="https://master:9000", login="/login")


def test_a_named_socket_overrides_existing_sockets(nowhere: Mapping[str, str], tmp_path: Path, listen: Listen) -> None:
    listen(tmp_path / "root", "a.sock")
    assert Service.find({**nowhere, service.SOCKET_ENV: "/x.sock"}) == Service("/x.sock")


@pytest.mark.parametrize("directory", ("root", "sge-autoscaler", "work"))
def test_the_only_local_service_is_used(
    nowhere: Mapping[str, str], tmp_path: Path, listen: Listen, directory: str
) -> None:
    listen(tmp_path / directory, "a.sock", "a.sqlite")
    environ = {**nowhere, "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "work")}
    assert Service.find(environ) == Service(str(tmp_path / directory / "a.sock"))


def test_the_socket_of_a_killed_service_does_not_hide_a_running_one(
    nowhere: Mapping[str, str], tmp_path: Path, listen: Listen
) -> None:
    leave_behind(tmp_path / "work", "a.sock")
    listen(tmp_path / "root", "a.sock")
    environ = {**nowhere, "CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "work")}
    assert Service.find(environ) == Service(str(tmp_path / "root" / "a.sock"))


def test_an_accessible_socket_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listens(path: str) -> bool:
        if path.endswith("closed"):
            raise PermissionError(path)
        return True

    monkeypatch.setattr(service, "listens", listens)
    both, closed = (str(tmp_path / "closed"), str(tmp_path / "open")), (str(tmp_path / "closed"),)
    assert (service.first_listening(both), service.first_listening(closed)) == (both[1], closed[0])


def test_several_services_are_an_error_that_names_the_setting(
    nowhere: Mapping[str, str], tmp_path: Path, listen: Listen
) -> None:
    listen(tmp_path / "root", "a.sock", "b.sock")
    with pytest.raises(Unreachable, match=r"a\.sock, .*b\.sock\): set CP_CAP_AUTOSCALE_SOCKET to one of them"):
        Service.find(nowhere)


def test_without_a_service_the_error_names_the_command_to_start(nowhere: Mapping[str, str]) -> None:
    with pytest.raises(Unreachable, match="start `sge-autoscaler run`, or set"):
        Service.find(nowhere)


def test_a_socket_without_a_service_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"does not answer: .*is it running"):
        Service(str(tmp_path / "none.sock")).call("GET", "/requests")


@pytest.mark.parametrize("url", ("master:9000", "ftp://master", "http://"))
def test_an_address_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(Unreachable, match="is not an address: write https://HOST:PORT"):
        Service(url=url).call("GET", "/requests")


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(Unreachable, match="put USER:PASSWORD into a file") as raised:
        Service(url="https://me:secret@master").call("GET", "/requests")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ("https://master:sgea_SECRET", "sgea_SECRET", "https://[sgea_SECRET"))
def test_a_wrong_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(Unreachable, match="is not an address") as raised:
        Service(url=url).call("GET", "/requests")
    assert "SECRET" not in str(raised.value)


def test_a_password_is_sent_unencrypted_only_if_a_setting_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(service.URL_ENV, "http://192.0.2.1:9")
    monkeypatch.setenv(service.LOGIN_ENV, str(tmp_path / "none"))
    with pytest.raises(Unreachable, match="in the clear"):
        Service.find().call("GET", "/requests")
    monkeypatch.setenv("CP_CAP_AUTOSCALE_HTTP_PLAIN", "true")
    with pytest.raises(Unreachable, match="cannot read"):
        Service.find().call("GET", "/requests")


def test_a_password_that_others_may_read_or_change_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "login").write_text("ann:word")
    for mode in (0o604, 0o620, 0o602):
        (tmp_path / "login").chmod(mode)
        with pytest.raises(Unreachable, match="is not used, since others could"):
            Service(url="http://127.0.0.1:1", login=str(tmp_path / "login")).call("GET", "/requests")


class Answering(HTTPServer):
    answer: tuple[int, bytes] = (200, b"{}")
    seen: list[tuple[str, str | None, bytes]]


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Authorization"], body))
        status, text = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering(("127.0.0.1", 0), _Handler) as listening:
        listening.seen = []
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


@pytest.fixture
def at_url(server: Answering, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answering:
    (tmp_path / "login").write_text("alice:s3:cret\n", encoding="utf-8")
    (tmp_path / "login").chmod(0o600)
    monkeypatch.setenv(service.URL_ENV, f"http://127.0.0.1:{server.server_port}/base/")
    monkeypatch.setenv(service.LOGIN_ENV, str(tmp_path / "login"))
    return server


def test_over_http_the_document_is_sent_with_the_login(at_url: Answering) -> None:
    jetpack.autoscale.set(name="execute", corecount=128)
    (path, authorization, body) = at_url.seen[0]
    assert (path, authorization, json.loads(body)) == (
        "/base/autoscale",
        "Basic " + base64.b64encode(b"alice:s3:cret").decode(),
        {
            "arrays": [{"Name": "execute", "TargetCoreCount": 128}],
            "request_set": "standard",
            "expiration_interval": 300,
        },
    )


@pytest.mark.parametrize(
    ("status", "text", "error", "words"),
    (
        (400, b'{"error": "[0]: no"}', Rejected, r"^\[0\]: no$"),
        (
            401,
            b"user and password are required",
            Rejected,
            "refuses this user and password, or this token; CP_CAP_AUTOSCALE_LOGIN names",
        ),
        (403, b"", Rejected, "refuses: Forbidden"),
        (503, b'{"error": "the disk is full"}', Unreachable, "cannot answer now: the disk is full"),
        (502, b"<html>", Unreachable, "cannot answer now: Bad Gateway"),
        (200, b"<html>", Unreachable, "cannot answer now: OK"),
    ),
)
def test_an_answer_that_is_not_a_success_is_an_error(
    at_url: Answering, status: int, text: bytes, error: type[Exception], words: str
) -> None:
    at_url.answer = (status, text)
    with pytest.raises(error, match=words):
        jetpack.autoscale.set(name="execute", corecount=128)


@pytest.mark.parametrize("text", (None, "no colon"))
def test_a_missing_or_malformed_login_file_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "login").write_text(text, encoding="utf-8")
    with pytest.raises(Unreachable, match="CP_CAP_AUTOSCALE_LOGIN"):
        Service(url="http://127.0.0.1:1", login=str(tmp_path / "login")).call("GET", "/requests")


def test_a_configuration_value_is_read_from_the_file_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = worker_configuration.write({"cyclecloud.instance.id": "i-1"})
    (tmp_path / worker_configuration.FILE).write_text(text, encoding="utf-8")
    monkeypatch.setattr(config, "FOLDERS", (tmp_path / "none", tmp_path))
    assert (config.get("cyclecloud.instance.id"), config.get("x"), config.get("x", 1)) == ("i-1", None, 1)


def test_without_the_file_of_a_worker_the_default_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "FOLDERS", (tmp_path,))
    assert config.get("cyclecloud.instance.id", "none") == "none"


def test_the_client_imports_only_the_standard_library() -> None:
    script = "import sys; from autoscaler import jetpack; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    foreign = set(done.stdout.split()) - sys.stdlib_module_names - {"autoscaler", "__main__"}
    assert {name for name in foreign if not name.startswith(("_", "distutils"))} == set()


def test_the_user_behind_sudo_is_recorded(service: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    jetpack.autoscale.update([])
    assert service.requests.load(1001.0).sets[0].by.startswith("alice (as ")


def test_no_change_is_sent_to_a_service_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def hangs(self: Service, method: str, place: str, body: bytes | None) -> tuple[int, bytes]:
        sent.append(method)
        raise service.Silent(self.name)

    monkeypatch.setattr(Service, "_sent", hangs)
    with pytest.raises(Unreachable, match="it hangs, or was stopped; nothing was requested"):
        Service("/a.sock").call("POST", "/autoscale", {})
    assert sent == ["GET"]
