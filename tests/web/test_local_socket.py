"""The request service on a Unix socket: who may call, what the answers are, and that no update is lost or torn."""

from __future__ import annotations

import grp
import http.client
import json
import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import deadlines, local_socket
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.listeners import SOCKET
from autoscaler.api.local_socket import served_locally
from autoscaler.api.request_service import NO_LOOP, STOPPING, RequestService
from autoscaler.api.server import _Uvicorn
from autoscaler.core.model.request_sets import Target
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.deadlines import wait_for
from tests.web.served import serve_requests

ARRAYS = ("execute",)


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "a.sock"


class Rings:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def rings() -> Rings:
    return Rings()


@pytest.fixture
def served(empty_store: Store, socket_path: Path, rings: Rings) -> Iterator[Store]:
    with serve_requests(RequestService(empty_store, lambda: ARRAYS, lambda: 1000.0, rings), socket_path):
        yield empty_store


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=120)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(120)
        self.sock.connect(self._path)


def call(
    path: Path, method: str, place: str, body: str | bytes | None = None, **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = _Connection(path)
    connection.request(method, place, body, headers)
    answer = connection.getresponse()
    status, document = answer.status, json.loads(answer.read())
    connection.close()
    return status, document


def update(path: Path, *arrays: Any, **more: Any) -> tuple[int, dict[str, Any]]:
    return call(path, "POST", "/autoscale", json.dumps({"arrays": arrays, **more}))


def test_an_update_is_stored_and_wakes_the_loop(served: Store, socket_path: Path, rings: Rings) -> None:
    status, result = update(
        socket_path, {"Name": "execute", "TargetCount": 2}, request_set="mine", expiration_interval=60
    )
    (mine,) = served.requests.load(1001.0).sets
    assert (status, result, mine.targets, rings.count) == (
        200,
        {"request_set": "mine", "expires_at": 1060.0, "arrays": ["execute"], "note": ""},
        (Target("execute", count=2),),
        1,
    )


def test_a_repeated_update_does_not_wake_the_loop(served: Store, socket_path: Path, rings: Rings) -> None:
    for _ in range(3):
        update(socket_path, {"Name": "execute", "TargetCount": 2})
    assert rings.count == 1


def test_a_null_expiration_does_not_mean_forever(served: Store, socket_path: Path) -> None:
    _, result = update(socket_path, {"Name": "execute"}, request_set=None, expiration_interval=None)
    assert (result["request_set"], result["expires_at"]) == ("standard", 1300.0)


def test_the_requester_is_the_user_that_the_kernel_reports(served: Store, socket_path: Path) -> None:
    update(socket_path, {"Name": "execute", "TargetCount": 2})
    assert served.requests.load(1001.0).sets[0].by == pwd.getpwuid(os.geteuid()).pw_name


def test_our_own_user_may_request_for_another_and_this_is_recorded(served: Store, socket_path: Path) -> None:
    body = json.dumps({"arrays": []})
    call(socket_path, "POST", "/autoscale", body, **{"X-Asked-By": "alice"})
    assert served.requests.load(1001.0).sets[0].by.startswith("alice (as ")


def test_a_wrong_update_is_refused_with_its_place_and_wakes_no_loop(
    served: Store, socket_path: Path, rings: Rings
) -> None:
    status, result = update(socket_path, {"Name": "execute"}, {"Name": "execute", "TargetCount": -1})
    assert (status, result["error"].partition(":")[0], rings.count) == (400, "[1].TargetCount", 0)


@pytest.mark.parametrize(
    ("body", "error"),
    (
        ("", "the document: the text ends inside this"),
        ('{"arrays": [{"Name": "execute", "TargetCoreCount": 128}', "arrays[0]: the text ends inside this"),
        (b"\xff", "the request: it is not UTF-8 text, because of byte 0"),
        ("[]", "the request: an object is expected, not a list"),
        ("{}", 'the request: "arrays" is missing'),
        ('{"arays": []}', "the request: arays is not known; did you mean arrays?"),
        ('{"arrays": [], "expiration_interval": -5}', "expiration_interval: seconds above 0"),
        ('{"arrays": [], "request_set": "queue"}', "request_set: 'queue' is the set of the queues' own demand"),
        ('{"arrays": [], "request_set": 5}', "request_set: text is expected, not 5"),
        ("[" * 100_000, "the document: it is nested too deeply"),
    ),
)
def test_a_malformed_update_is_refused(served: Store, socket_path: Path, body: str | bytes, error: str) -> None:
    status, answer = call(socket_path, "POST", "/autoscale", body)
    assert (status, answer["error"][: len(error)]) == (400, error)


@pytest.mark.parametrize(("method", "place"), (("GET", "/"), ("POST", "/requests"), ("DELETE", "/requests/")))
def test_unknown_paths_are_not_found(served: Store, socket_path: Path, method: str, place: str) -> None:
    assert call(socket_path, method, place, "")[0] == 404


def test_an_unsupported_method_is_refused(served: Store, socket_path: Path) -> None:
    assert call(socket_path, "PUT", "/requests", "")[0] == 405


def test_a_malformed_http_version_is_refused_as_json(served: Store, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(socket_path))
        caller.sendall(b"GET /requests HTTP/7.0\r\n\r\n")
        answer = caller.makefile("rb").read()
    assert b'{"error": "Invalid HTTP version (7.0)"}' in answer


def test_an_update_that_is_too_long_is_not_read(served: Store, socket_path: Path) -> None:
    assert call(socket_path, "POST", "/autoscale", b"", **{"Content-Length": str(1 << 30)})[0] == 413


def test_a_caller_that_disconnects_within_its_body_changes_nothing(served: Store, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(socket_path))
        caller.sendall(b'POST /autoscale HTTP/1.0\r\nContent-Length: 99\r\n\r\n{"arrays": []}')
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(100) == b""
    assert served.requests.load(1001.0).sets == ()


def test_every_live_request_is_shown_with_the_sum_for_each_array(served: Store, socket_path: Path) -> None:
    update(socket_path, {"Name": "execute", "TargetCount": 2}, request_set="a")
    update(socket_path, {"Name": "execute", "TargetCoreCount": 8, "MachineType": "m5.large"}, request_set="b")
    _, answer = call(socket_path, "GET", "/requests")
    assert ([one["name"] for one in answer["request_sets"]], answer["node_arrays"]) == (
        ["a", "b"],
        [
            {
                "name": "execute",
                "count": 2,
                "cores": 8,
                "workers": 0,
                "dynamic": False,
                "extends": None,
                "machine_types": ["m5.large"],
                "unknown_types": [],
                "requested": True,
                "max_count": None,
                "max_core_count": None,
                "keep_alive": [],
                "defined_by": {
                    "machine_types": {
                        "request_set": "b",
                        "by": "root",
                        "expires_at": answer["request_sets"][1]["expires_at"],
                    }
                },
            }
        ],
    )


def test_a_request_set_is_ended_by_name_which_wakes_the_loop_once(
    served: Store, socket_path: Path, rings: Rings
) -> None:
    update(socket_path, {"Name": "execute", "TargetCount": 2}, request_set="a b")
    ended = [call(socket_path, "DELETE", "/requests/a%20b")[1]["ended"] for _ in range(2)]
    assert (ended, served.requests.load(1001.0).sets, rings.count) == ([True, False], (), 2)


def test_an_update_that_cannot_be_stored_is_reported_as_failure(
    served: Store, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StateNotKept("the disk is full")

    monkeypatch.setattr(served.requests, "update", full)
    assert update(socket_path, {"Name": "execute"}) == (503, {"error": "the disk is full"})


def test_a_request_during_a_stop_gets_a_note(socket_path: Path, empty_store: Store) -> None:
    empty_store.overrides.ask(Verb.STOP_NOW, who="ann", at=1.0)
    with serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path):
        assert update(socket_path, {"Name": "execute"})[1]["note"] == STOPPING


def test_without_a_loop_a_request_gets_a_note(empty_store: Store, socket_path: Path) -> None:
    with serve_requests(RequestService(empty_store, lambda: ARRAYS, loop_runs=lambda: False), socket_path):
        assert update(socket_path, {"Name": "execute"})[1]["note"] == NO_LOOP


def test_everybody_may_connect_to_the_socket_with_or_without_a_group(empty_store: Store, socket_path: Path) -> None:
    service = RequestService(empty_store, lambda: ARRAYS)
    modes = []
    for group in (None, grp.getgrgid(os.getegid()).gr_name):
        with serve_requests(service, socket_path, group):
            modes.append(stat.S_IMODE(socket_path.stat().st_mode))
    assert modes == [0o666, 0o666]


@pytest.mark.parametrize(("mode", "closed"), ((0o711, False), (0o700, True)))
def test_a_group_that_cannot_reach_the_socket_is_logged(
    empty_store: Store, caplog: pytest.LogCaptureFixture, mode: int, closed: bool
) -> None:
    group = grp.getgrgid(os.getegid()).gr_name
    with tempfile.TemporaryDirectory(dir="/tmp") as made:  # the temporary folders of pytest are not readable by others
        Path(made).chmod(mode)
        with serve_requests(RequestService(empty_store, lambda: ARRAYS), Path(made, "a.sock"), group):
            assert (f"cannot reach {made}/a.sock: {made} is closed to it" in caplog.text) is closed


def test_an_unknown_group_is_reported(empty_store: Store, socket_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match="there is no group 'nobodys-group'"),
        serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path, "nobodys-group"),
    ):
        pass


def test_a_socket_left_by_a_crash_is_replaced(empty_store: Store, socket_path: Path) -> None:
    socket_path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_path))
    with serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path):
        assert update(socket_path)[0] == 200


def test_a_socket_on_which_another_process_listens_is_refused(served: Store, socket_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match="another process listens on"),
        serve_requests(RequestService(served, lambda: ARRAYS), socket_path),
    ):
        pass
    assert update(socket_path)[0] == 200


def test_a_file_that_is_not_a_socket_is_left_alone(empty_store: Store, socket_path: Path) -> None:
    socket_path.parent.mkdir()
    socket_path.write_text("precious")
    with (
        pytest.raises(SettingsError, match="exists and is not a socket"),
        serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path),
    ):
        pass
    assert socket_path.read_text() == "precious"


def test_a_path_too_long_for_a_socket_is_reported(empty_store: Store, tmp_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match="is too long for a socket"),
        serve_requests(RequestService(empty_store, lambda: ARRAYS), tmp_path / ("x" * 120)),
    ):
        pass


def test_updates_of_twenty_concurrent_callers_are_all_stored(served: Store, socket_path: Path, rings: Rings) -> None:
    """Each caller has a set of its own, and all share one; the shared one ends as the caller that was answered last
    wrote it.
    """

    def one(caller: int) -> list[tuple[int, dict[str, Any]]]:
        answers = []
        for number in range(10):
            answers.append(update(socket_path, {"Name": "execute", "TargetCount": number}, request_set=f"own {caller}"))
            answers.append(update(socket_path, {"Name": "execute", "TargetCount": caller}, request_set="shared"))
        return answers

    with ThreadPoolExecutor(20) as callers:
        answers = [answer for result in callers.map(one, range(20)) for answer in result]
    sets = {each.name: each.targets[0].count for each in served.requests.load(1001.0).sets}
    shared = sets.pop("shared")
    assert ({status for status, _ in answers}, rings.count >= 200, sets, shared in range(20)) == (
        {200},
        True,
        {f"own {caller}": 9 for caller in range(20)},
        True,
    )


def test_silent_callers_do_not_block_others_forever(
    served: Store, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "HEAD", 0.3)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(SOCKET.places)]
    for caller in silent:
        caller.connect(str(socket_path))
    try:
        assert update(socket_path)[0] == 200
    finally:
        for caller in silent:
            caller.close()


def test_the_socket_and_its_threads_end_with_the_service(empty_store: Store, socket_path: Path) -> None:
    with serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path):
        assert update(socket_path)[0] == 200
    assert (socket_path.exists(), [thread for thread in threading.enumerate() if thread.name == "requests"]) == (
        False,
        [],
    )


@pytest.mark.parametrize(
    ("asked", "note"),
    (
        (
            ["Standard_D4v3"],
            "the provider does not offer Standard_D4v3 (did you mean Standard_D4_v3?): requests get no ",
        ),
        (["Standard_D4_v3"], ""),
        (["x9.large"], "the provider does not offer x9.large: requests get no worker of that type"),
    ),
)
def test_a_machine_type_that_the_provider_does_not_offer_is_reported(
    empty_store: Store, socket_path: Path, asked: list[str], note: str
) -> None:
    offered = frozenset({"Standard_D4_v3", "m5.large"})
    with serve_requests(RequestService(empty_store, lambda: ARRAYS, offered=lambda: offered), socket_path):
        answer = update(socket_path, {"Name": "execute", "TargetCoreCount": 8, "MachineType": asked})[1]["note"]
        (shown,) = call(socket_path, "GET", "/requests")[1]["node_arrays"]
    assert (answer.startswith(note), bool(answer)) == (True, bool(note))
    assert shown["unknown_types"] == ([] if not note else asked)


def test_the_settings_of_the_service_are_readable(empty_store: Store, socket_path: Path) -> None:
    empty_store.service_settings.keep({"CP_CAP_AUTOSCALE_WORKERS": "3"}, 1.0)
    with serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path):
        assert call(socket_path, "GET", "/settings") == (200, {"CP_CAP_AUTOSCALE_WORKERS": "3"})


def test_the_application_is_built_at_the_first_call(empty_store: Store, socket_path: Path) -> None:
    made: list[Any] = []

    def application() -> Any:
        made.append(make_app(Api(requests=RequestService(empty_store, lambda: ARRAYS, lambda: 1000.0, lambda: None))))
        return made[-1]

    with served_locally(application, socket_path):
        before = len(made)
        first, second = (call(socket_path, "GET", "/requests")[0] for _ in range(2))
    assert (before, first, second, len(made)) == (0, 200, 200, 1)


def test_after_a_defect_the_next_caller_is_served(
    empty_store: Store, socket_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("autoscaler.supervised.FIRST_WAIT", 0.01)
    monkeypatch.setattr("autoscaler.supervised._failures", {})
    defects = iter((OSError(24, "Too many open files"), RuntimeError("a defect")))

    def application() -> Any:
        if (defect := next(defects, None)) is not None:
            raise defect
        return make_app(Api(requests=RequestService(empty_store, lambda: ARRAYS, lambda: 1000.0, lambda: None)))

    with served_locally(application, socket_path):
        assert call(socket_path, "GET", "/requests")[0] == 200
    assert sum("the thread requests failed and begins again" in message for message in caplog.messages) == 2


def test_a_server_that_fails_serves_again(
    empty_store: Store, socket_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that had served before; the socket goes on listening meanwhile."""
    monkeypatch.setattr("autoscaler.supervised.FIRST_WAIT", 0.01)
    monkeypatch.setattr("autoscaler.supervised._failures", {})
    served: list[Any] = []
    answered = threading.Event()
    tick = _Uvicorn.on_tick
    app = make_app(Api(requests=RequestService(empty_store, lambda: ARRAYS, lambda: 1000.0, lambda: None)))

    async def ticked(server: _Uvicorn, counter: int) -> bool:
        if server.config.app is not app:  # that of a session's fixture runs beside
            return await tick(server, counter)
        if server not in served:
            served.append(server)
        if len(served) == 1 and answered.is_set():
            raise OSError(5, "Input/output error")
        return await tick(server, counter)

    monkeypatch.setattr(_Uvicorn, "on_tick", ticked)
    with served_locally(lambda: app, socket_path):
        assert call(socket_path, "GET", "/requests")[0] == 200
        answered.set()
        assert wait_for(lambda: any("failed and begins again" in message for message in caplog.messages), 60)
        assert call(socket_path, "GET", "/requests")[0] == 200
    assert len(served) == 2


def test_a_socket_without_callers_closes_at_once_with_the_service(socket_path: Path) -> None:
    began = time.monotonic()
    with served_locally(lambda: pytest.fail("nobody called"), socket_path):
        pass
    assert (socket_path.exists(), time.monotonic() - began < local_socket._END) == (False, True)


def test_the_server_libraries_are_not_imported_before_the_first_call() -> None:
    """Nor the libraries that only a launch or a table needs: the process would keep their memory for as long as it
    lives.
    """
    modules = ("autoscaler.commands.run", "autoscaler.commands.serving", "autoscaler.commands._http")
    listed = "import sys; print([name for name in ('fastapi', 'uvicorn', 'jinja2', 'rich') if name in sys.modules])"
    code = "; ".join((*(f"import {module}" for module in modules), listed))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.thorough
def test_a_call_that_breaks_off_while_it_is_carried_out_leaves_no_traceback(
    empty_store: Store, socket_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is sent after the body proves malformed, and before the server learns that the connection ended."""
    begun, goes_on, lost = threading.Event(), threading.Event(), threading.Event()
    load = empty_store.requests.load

    def slowly(at: float) -> Any:
        begun.set()
        goes_on.wait(120)
        return load(at)

    monkeypatch.setattr(empty_store.requests, "load", slowly)
    monkeypatch.setattr(deadlines.TimedProtocol, "connection_lost", lambda *_: lost.set())
    with (
        serve_requests(RequestService(empty_store, lambda: ARRAYS), socket_path),
        socket.socket(socket.AF_UNIX) as caller,
    ):
        caller.connect(str(socket_path))
        caller.sendall(b"GET /requests HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert begun.wait(120)
        caller.sendall(b"no number\r\n")
        assert caller.makefile("rb").read().startswith(b"HTTP/1.1 400")
        assert lost.wait(120)
        goes_on.set()
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
