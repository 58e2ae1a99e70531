"""Operator overrides at the listeners: who may act, what is stored and journalled, and what is refused."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autoscaler.answer_client import OVERRIDES
from autoscaler.api.answers import BURST
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.local_roles import FRESH, LocalRoles
from autoscaler.api.local_socket import served_locally
from autoscaler.api.operations import Operations
from autoscaler.api.view import ClusterValues
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.errors import GridEngineNotObservable
from autoscaler.store.calls import CallLog
from autoscaler.store.overrides import LevelInForce, LogLevel, Verb
from autoscaler.store.store import Store
from tests.web.as_user import call_as
from tests.web.served import until

MANAGER, OTHER = "daemon", "nobody"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")


@dataclass
class Site:
    path: Path
    folder: Path
    store: Store
    calls: CallLog
    managers: list[str]
    app_api: Api
    rings: list[int]

    def act(self, user: str, command: str, method: str = "POST", **headers: str) -> tuple[int, dict[str, Any]]:
        target = f"{OVERRIDES}{command}"
        return call_as(user, self.path, target, method=method, **headers)  # type: ignore[arg-type]

    def in_force(self) -> list[tuple[Verb, str, str]]:
        return [(one.verb, one.host, one.who) for one in self.store.overrides.in_force()]


@contextmanager
def a_site(state: str = "state") -> Iterator[Site]:
    """An autoscaler with one worker, `fake-1`, a socket that every user can reach, and a state that others cannot
    write.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        (folder / state).mkdir(mode=0o700)
        with (
            closing(Store.open(folder / state / "cell.sqlite")) as store,
            closing(CallLog.open(folder / state / "cell.calls")) as calls,
        ):
            kind = InstanceType("m5.large", "m5", 2, 8 << 30)
            worker = Worker("i-1", kind, "execute", MachineState.RUNNING, 1.0, "fake-1")
            store.history.note_workers([worker], [], 1.0)
            managers, rings = list[str](), list[int]()
            operations = Operations(store, ClusterValues("default", "fake", "fake"), ring=lambda: rings.append(1))
            api = Api(operations, calls=calls, local=LocalRoles(None, lambda: list(managers)))
            with served_locally(lambda: make_app(api), folder / "a.sock"):
                yield Site(folder / "a.sock", folder, store, calls, managers, api, rings)


@pytest.fixture
def site() -> Iterator[Site]:
    with a_site() as made:
        yield made


@as_root
def test_a_grid_engine_manager_who_is_not_root_acts_under_their_own_name(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.managers.append(MANAGER)
    with caplog.at_level(logging.INFO, logger="autoscaler.api"):
        answers = [site.act(MANAGER, command) for command in ("/pause", "/drain?host=FAKE-1.example.org")]
    assert [(status, result["done"]) for status, result in answers] == [(200, True), (200, True)]
    assert answers[1][1]["message"] == "fake-1 will be drained"
    assert site.in_force() == [(Verb.PAUSE, "", MANAGER), (Verb.DRAIN, "fake-1", MANAGER)]
    assert len(site.rings) == 2
    written = [(call.who, call.method, call.target, call.status) for call in site.calls.newest()]
    assert written == [
        (MANAGER, "POST", f"{OVERRIDES}/drain?host=FAKE-1.example.org", 200),
        (MANAGER, "POST", f"{OVERRIDES}/pause", 200),
    ]
    assert "daemon: drain FAKE-1.example.org: fake-1 will be drained" in caplog.text


@as_root
@pytest.mark.parametrize("verb", list(Verb))
def test_a_reader_is_refused_every_command_with_who_may_act(site: Site, verb: Verb) -> None:
    site.managers.append(MANAGER)
    status, result = site.act(OTHER, f"/{verb}?host=fake-1")
    assert status == 403
    assert result["error"] == (
        "nobody may read, but not act on the autoscaler: only root, the user who runs the autoscaler, the group of its "
        "socket and Grid Engine's managers may"
    )
    assert (site.in_force(), site.store.overrides.resumed_at, site.store.overrides.retried_at) == ([], None, None)
    assert (site.calls.newest(), site.rings) == ((), [])


def test_a_command_of_a_disconnected_caller_is_not_carried_out(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """So a service that hung does not carry out, hours later, a command whose caller got no answer."""
    call = f"POST {OVERRIDES}/{{}} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    for verb, stays in (("stop-drain", False), ("pause", True)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            made.settimeout(30)
            made.connect(str(site.path))
            made.sendall(call.format(verb).encode())
            if stays:
                assert made.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert [verb for verb, _, _ in site.in_force()] == [Verb.PAUSE]
    # The two calls are answered on threads of their own.
    assert until(lambda: "/stop-drain: not carried out: the caller has disconnected" in caplog.text)


@as_root
def test_a_manager_sets_the_log_level_of_the_running_service(site: Site) -> None:
    site.managers.append(MANAGER)
    levels = site.store.overrides
    assert site.act(MANAGER, "/log-level?level=verbose")[1]["done"] is True
    assert levels.log_level() == LevelInForce(LogLevel.VERBOSE, MANAGER)
    assert [site.act(MANAGER, f"/log-level?level={level}")[1]["done"] for level in ("verbose", "warning")] == [
        False,
        True,
    ]
    assert levels.log_level() == LevelInForce(LogLevel.WARNING, MANAGER)
    assert [one.host for one in levels.in_force()] == ["warning"]
    assert site.act(MANAGER, "/log-level?level=settings")[1]["facts"] == {"level": "settings"}
    assert levels.log_level() is None
    assert [site.act(MANAGER, wrong)[0] for wrong in ("/log-level", "/log-level?level=loud", "/pause?level=info")] == [
        400,
        400,
        400,
    ]
    assert [call.target for call in site.calls.newest()][-1] == f"{OVERRIDES}/log-level?level=verbose"


@as_root
def test_a_header_does_not_make_a_user_a_manager(site: Site) -> None:
    site.managers.append(MANAGER)
    assert site.act(OTHER, "/pause", X_Asked_By=MANAGER, X_Asked_Role="admin")[0] == 403
    assert site.act(MANAGER, "/pause", X_Asked_By="root")[0] == 200
    assert site.in_force() == [(Verb.PAUSE, "", MANAGER)]


@as_root
def test_while_managers_cannot_be_read_the_refusal_says_so(site: Site) -> None:
    now = 0.0

    def managers() -> list[str]:
        if now < FRESH:
            raise GridEngineNotObservable("qconf -sm did not end within 60 s")
        return [MANAGER]

    site.app_api.local.managers, site.app_api.local.stopwatch = managers, lambda: now
    status, result = site.act(MANAGER, "/pause")
    end = "Grid Engine's managers cannot be read now: qconf -sm did not end within 60 s"
    assert (status, result["error"].endswith(end)) == (403, True)
    now = FRESH
    assert site.act(MANAGER, "/pause")[0] == 200
    assert site.act(OTHER, "/resume")[1]["error"].endswith("Grid Engine's managers may")


@as_root
def test_every_user_can_ask_whether_they_may_act(site: Site) -> None:
    site.managers.append(MANAGER)
    assert [site.act(user, "", "GET")[1]["may"] for user in (MANAGER, OTHER, "root")] == [True, False, True]


@as_root
def test_a_manager_who_acts_too_often_is_refused_whatever_name_they_give(site: Site) -> None:
    site.managers.append(MANAGER)
    now = 0.0
    site.app_api.acts._stopwatch = lambda: now
    for _ in range(BURST):
        assert site.app_api.acts.take(MANAGER)
    assert site.act(MANAGER, "/pause", X_Asked_Role="admin", X_Asked_By="somebody")[0] == 429
    assert (site.in_force(), site.calls.newest()) == ([], ())
    assert site.act("root", "/pause")[0] == 200


@as_root
@pytest.mark.parametrize(
    ("command", "status", "error"),
    (
        ("/drain?host=fake-2", 404, "this autoscaler has no worker fake-2; its workers: fake-1"),
        ("/drain", 400, "drain: only keep and drain take a host and --undo, and need a host"),
        ("/pause?host=fake-1", 400, "pause: only keep and drain take a host"),
        ("/pause?undo=true", 400, "pause: only keep and drain take a host"),
        ("/resume?hosts=x", 400, "the query has no hosts"),
        ("/reboot", 400, "verb: Input should be"),
    ),
)
def test_an_invalid_command_is_refused_and_changes_nothing(site: Site, command: str, status: int, error: str) -> None:
    answered, result = site.act("root", command)
    assert (answered, result["error"][: len(error)], site.in_force()) == (status, error, [])


@as_root
def test_each_command_acts_as_on_the_command_line(site: Site) -> None:
    results = [
        site.act("root", command)[1]["message"]
        for command in (
            "/keep?host=fake-1", "/drain?host=fake-1", "/drain?host=fake-1&undo=true", "/keep?host=fake-1",
            "/stop-now", "/resume", "/retry",
        )
    ]  # fmt: skip
    assert results == [
        "fake-1 will be kept",
        "fake-1 will be drained; it is no longer kept",
        "the drain of fake-1 is cancelled",
        "fake-1 will be kept",
        "the stop is stored; `sge-autoscaler status` shows which workers are left; no longer kept: fake-1",
        "ended: the stop at once",
        "no bucket is in backoff, and no node has failed",
    ]
    assert (site.in_force(), site.store.overrides.retried_at is not None) == ([], True)
