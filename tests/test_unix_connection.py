"""Who asks at a Unix socket is heard, whoever fills its queue."""

from __future__ import annotations

import ast
import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import autoscaler
from autoscaler.answer_client import ServiceAddress, send
from autoscaler.api import accepting
from autoscaler.api.accepting import A_SECOND, BURST, PacedSocket
from autoscaler.api.local_socket import served_locally
from autoscaler.jetpack.service import Service, first_listening
from autoscaler.unix_connection import OWN, connect
from tests.deadlines import wait_for
from tests.web.as_user import python_as

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="starts processes of other users")
ANSWER = b'HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n{"answers":1}'
FILL = """
import socket, sys, time
held = []
while True:
    made = socket.socket(socket.AF_UNIX)
    made.setblocking(False)
    try:
        made.connect(sys.argv[1])
    except BlockingIOError:
        break
    held.append(made)
print(len(held), flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def public_socket() -> Iterator[Path]:
    """A path that every user can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made) / "a.sock"


@pytest.fixture
def full(public_socket: Path) -> Iterator[socket.socket]:
    """A listening socket whose queue is full."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(public_socket))
        listening.listen(1)
        listening.settimeout(60)
        with contextlib.ExitStack() as held:
            while (made := at_once(public_socket)) is not None:
                held.enter_context(made)
            yield listening


def at_once(place: Path) -> socket.socket | None:
    """A connection; None: the queue is full."""
    made = socket.socket(socket.AF_UNIX)
    made.setblocking(False)
    try:
        made.connect(str(place))
    except BlockingIOError:
        made.close()
        return None
    return made


def empty(listening: socket.socket) -> None:
    """Answer all who call, a moment later."""
    time.sleep(0.3)
    listening.settimeout(1)
    try:
        while True:
            made, _ = listening.accept()
            with made:
                made.settimeout(0.5)
                try:
                    if made.recv(1 << 16):
                        made.sendall(ANSWER)
                except OSError:
                    continue
    except TimeoutError:
        return


@pytest.mark.parametrize("client", ("answer", "request"))
def test_a_caller_waits_for_a_place_in_a_full_queue(full: socket.socket, public_socket: Path, client: str) -> None:
    answering = threading.Thread(target=empty, args=(full,))
    answering.start()
    try:
        if client == "answer":
            assert send(ServiceAddress(str(public_socket)), "/answers/v1/status", {}).status == 200
        else:
            assert Service(str(public_socket)).call("GET", "/requests") == {"answers": 1}
    finally:
        answering.join()


def test_the_wait_for_a_place_has_an_end(full: socket.socket, public_socket: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, pytest.raises(TimeoutError):
        connect(made, public_socket, 1.0, patience=0.2)


def test_a_service_with_a_full_queue_listens(
    full: socket.socket, public_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.unix_connection.connect.__defaults__", (0.2,))
    assert first_listening([public_socket]) == str(public_socket)


def test_after_the_connection_the_given_time_limit_holds(public_socket: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as made:
        listening.bind(str(public_socket))
        listening.listen(1)
        connect(made, public_socket, 0.2)
        assert made.gettimeout() == 0.2


def test_every_client_of_ours_connects_in_one_place() -> None:
    folder = Path(autoscaler.__file__).parent
    found = []
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if "AF_UNIX" in names and names & {"connect", "connect_ex"}:
            found.append(path.relative_to(folder).as_posix())
    assert found == []  # `unix_connection` is given its sockets


@as_root
def test_root_is_heard_while_another_user_fills_the_queue(public_socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "BURST", 0.0)  # nobody is taken from the queue of all
    monkeypatch.setattr(accepting, "A_SECOND", 0.0)

    async def app(_: object, __: object, reply: object) -> None:
        assert callable(reply)
        await reply({"type": "http.response.start", "status": 200, "headers": []})
        await reply({"type": "http.response.body", "body": b"{}"})

    with served_locally(lambda: app, public_socket):
        filling = threading.Thread(target=python_as, args=("daemon", FILL, str(public_socket), "3"))
        filling.start()
        assert wait_for(lambda: is_full(public_socket), 30)
        assert send(ServiceAddress(str(public_socket)), "/answers/v1/status", {}).status == 200
        filling.join()
        refused = python_as("daemon", FILL, f"{public_socket}{OWN}", "0")
        assert b"PermissionError" in refused.stderr
    assert sorted(public_socket.parent.iterdir()) == []


@as_root
def test_root_does_not_ask_at_a_second_socket_of_another_user(public_socket: Path) -> None:
    """Where everybody may make files, as in /tmp."""
    with contextlib.ExitStack() as opened:
        listening, theirs = (opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        for made, path in ((listening, str(public_socket)), (theirs, f"{public_socket}{OWN}")):
            made.bind(path)
            made.listen(1)
        os.chown(f"{public_socket}{OWN}", 1, -1)
        connect(opened.enter_context(socket.socket(socket.AF_UNIX)), public_socket, 1.0)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.accept()
        listening.setblocking(False)
        listening.accept()[0].close()


def is_full(place: Path) -> bool:
    if (made := at_once(place)) is not None:
        made.close()
    return made is None


def test_connections_are_taken_no_faster_than_a_rate(public_socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(accepting, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None))

    def taken(listening: PacedSocket) -> int:
        count = 0
        while True:
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(str(public_socket))
                try:
                    listening.accept()[0].close()
                except BlockingIOError:
                    drain(listening)
                    return count
            count += 1

    with PacedSocket(socket.AF_UNIX) as listening:
        listening.bind(str(public_socket))
        listening.listen(8)
        assert taken(listening) == BURST
        now[0] += 0.25
        assert taken(listening) == 0.25 * A_SECOND


def drain(listening: socket.socket) -> None:
    socket.socket.accept(listening)[0].close()
