"""Workers that ask to stop: who may ask, who gets which answer, and that every answer comes from a pass."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from socket import create_connection
from typing import Any

import pytest

from autoscaler.api import deadlines
from autoscaler.api.auto_stop import BURST, AutoStops, Endpoint, same_address
from autoscaler.api.listeners import WORKERS
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory, WorkerNote
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.errors import SettingsError, StateNotKept
from autoscaler.report.wording import text
from autoscaler.store.store import Store
from autoscaler.worker_configuration import order_key, stop_token
from tests.web.served import AutoStopServer as Listener

AT_ONCE_OF_ONE = WORKERS.of_one or 0
SECRET = b"a secret of this cell"
WHY = because(Code.NEEDED_AGAIN)
TYPE = InstanceType("m5.large", "m5", 2, 8 << 30)
STOPS, STAYS = AutoStopAnswer.STOPS, AutoStopAnswer.STAYS


def worker(worker_id: str = "i-1", **given: Any) -> Worker:
    known = {"name": "w1.cluster", "address": "127.0.0.1", "order_id": "0abc"}
    return Worker(worker_id, TYPE, "execute", MachineState.RUNNING, 0.0, **{**known, **given})


def path_of(instance: str = "i-1", order: str = "0abc", secret: bytes = SECRET) -> str:
    return f"/autostop/{order}/{stop_token(order_key(secret, order), instance)}?instance={instance}"


@dataclass
class Cluster:
    """A store with its listener, and a loop that makes a pass when a test calls it, or as soon as a worker asks."""

    store: Store
    workers: list[Worker] = field(default_factory=lambda: [worker()])
    patience: float = 120.0
    decides: Callable[[str], AutoStopAnswer] | None = None
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.auto_stops = AutoStops(
            self.store.auto_stops, SECRET, ring=self._rung, clock=self._tick, patience=self.patience
        )
        self._passing = threading.Lock()

    def _tick(self) -> float:
        self.now += 0.001
        return self.now

    def _rung(self) -> None:
        if self.decides is not None:
            self.pass_once(self.decides)

    def pass_once(self, decides: Callable[[str], AutoStopAnswer] = lambda _: STAYS) -> None:
        with self._passing:
            at = self._tick()
            answers = {each: (decides(each), WHY) for each in self.store.auto_stops.open()}
            self.store.auto_stops.answer_all(answers, at)
            self.auto_stops.passed(self.workers, Memory())

    def status(self, path: str, peer: str = "127.0.0.1") -> int:
        return int(self.auto_stops.reply_to(path, peer).status)


@pytest.fixture
def cluster(empty_store: Store) -> Cluster:
    """One that has observed once, and lets no worker stop."""
    cluster = Cluster(empty_store, decides=lambda _: STAYS)
    cluster.pass_once()
    return cluster


@pytest.mark.parametrize(("decision", "stop"), ((STOPS, True), (STAYS, False)))
def test_a_worker_gets_the_decision_of_the_plan(empty_store: Store, decision: AutoStopAnswer, stop: bool) -> None:
    cluster = Cluster(empty_store, decides=lambda _: decision)
    cluster.pass_once()
    result = cluster.auto_stops.reply_to(path_of(), "127.0.0.1").says
    assert result == {"instance": "i-1", "stop": stop, "reason": text(WHY)}


@pytest.mark.parametrize(
    ("path", "peer", "status"),
    (
        (path_of(), "127.0.0.1", 200),
        (path_of(), "::ffff:127.0.0.1", 200),
        (path_of("w1"), "127.0.0.1", 200),
        (path_of("W1.elsewhere"), "127.0.0.1", 200),
        (path_of(), "10.9.9.9", 403),
        (path_of("i-1", secret=b"another"), "127.0.0.1", 403),
        (path_of("i-2").replace("=i-2", "=i-1"), "127.0.0.1", 403),
        (path_of(order="1abc").replace("1abc", "0abc"), "127.0.0.1", 403),
        (path_of("i-2"), "127.0.0.1", 404),
        (path_of(order="1abc"), "127.0.0.1", 404),
        (path_of().partition("?")[0], "127.0.0.1", 400),
        (path_of() + "&instance=i-2", "127.0.0.1", 400),
        ("http://[x/autostop", "127.0.0.1", 400),
        (path_of() + "&a" * 9, "127.0.0.1", 400),
        ("/", "127.0.0.1", 404),
        ("/autostop/0abc", "127.0.0.1", 404),
        (path_of().replace("/autostop", "/autostop/.."), "127.0.0.1", 404),
    ),
)
def test_only_the_worker_itself_may_ask(cluster: Cluster, path: str, peer: str, status: int) -> None:
    assert cluster.status(path, peer) == status


def test_a_refused_caller_leaves_no_open_question(empty_store: Store) -> None:
    cluster = Cluster(empty_store)
    cluster.pass_once()
    for path, peer in ((path_of(), "10.9.9.9"), (path_of("i-2"), "127.0.0.1"), (path_of(secret=b"x"), "127.0.0.1")):
        cluster.status(path, peer)
    assert empty_store.auto_stops.open() == frozenset()
    cluster.status(path_of(), "127.0.0.1")
    assert empty_store.auto_stops.open() == frozenset({"i-1"})


def test_a_terminated_machine_may_not_ask(cluster: Cluster) -> None:
    cluster.workers = [replace(worker(), state=MachineState.TERMINATED)]
    cluster.pass_once()
    assert cluster.status(path_of()) == 404


def test_a_worker_of_unknown_address_may_ask_from_anywhere(cluster: Cluster) -> None:
    cluster.workers = [worker(address=None)]
    cluster.pass_once()
    assert cluster.status(path_of(), "10.9.9.9") == 200


def test_before_the_first_observation_no_question_is_answered(empty_store: Store) -> None:
    assert Cluster(empty_store).status(path_of()) == 503


def test_without_a_later_pass_a_question_stays_open(empty_store: Store) -> None:
    cluster = Cluster(empty_store, patience=0.05)
    cluster.pass_once()
    reply = cluster.auto_stops.reply_to(path_of(), "127.0.0.1")
    result = int(reply.status), reply.says["error"], set(empty_store.auto_stops.open())
    assert result == (503, "not decided yet: ask again", {"i-1"})


def test_the_answer_of_a_later_pass_reaches_the_waiting_worker(empty_store: Store) -> None:
    cluster = Cluster(empty_store)
    cluster.pass_once()
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(cluster.status, path_of())
        while not empty_store.auto_stops.open():
            assert not waiting.done()
        cluster.pass_once()
        assert waiting.result(120) == 200


def test_an_answer_from_an_observation_before_the_question_is_not_given(empty_store: Store) -> None:
    cluster = Cluster(empty_store, patience=0.05)
    cluster.pass_once()
    empty_store.auto_stops.ask("i-1", 1.0)
    empty_store.auto_stops.answer("i-1", STAYS, WHY, 2.0)
    assert cluster.status(path_of()) == 503


def test_a_worker_that_may_stop_gets_the_same_answer_again(empty_store: Store) -> None:
    cluster = Cluster(empty_store, patience=0.05)
    empty_store.auto_stops.ask("i-1", 1.0)
    empty_store.auto_stops.answer("i-1", STOPS, WHY, 2.0)
    cluster.auto_stops.passed(cluster.workers, Memory())
    assert cluster.auto_stops.reply_to(path_of(), "127.0.0.1").says["stop"] is True


def test_an_unwritable_store_gives_no_answer_and_its_path_is_only_logged(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(worker_id: str, at: float) -> None:
        raise StateNotKept("/var/lib/here: no space left on device")

    monkeypatch.setattr(cluster.auto_stops.table, "ask", full)
    replies = [cluster.auto_stops.reply_to(path_of(), "127.0.0.1") for _ in range(3)]
    assert [(reply.status, "/var" in str(reply.says)) for reply in replies] == [(503, False)] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "w1.cluster asked to stop and got no answer: /var/lib/here: no space left on device"
    ]


def test_a_worker_that_asks_too_often_is_refused(cluster: Cluster) -> None:
    cluster.auto_stops.stopwatch = lambda: 0.0
    statuses = [cluster.status(path_of()) for _ in range(BURST + 1)]
    assert (set(statuses[:BURST]), statuses[BURST]) == ({200}, 429)


def test_a_worker_that_was_refused_may_ask_again_later(cluster: Cluster) -> None:
    now = 0.0
    cluster.auto_stops.stopwatch = lambda: now
    for _ in range(BURST):
        cluster.status(path_of())
    now = 1.0
    assert cluster.status(path_of()) == 200


def test_the_log_has_each_new_answer_once_and_no_token(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for _ in range(3):
        cluster.status(path_of())
    logged = [record.getMessage() for record in caplog.records]
    assert logged == [f"w1.cluster asked to stop, but stays: {text(WHY)}"]


def test_the_log_does_not_repeat_that_a_stopping_worker_asked(
    empty_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(empty_store, patience=0.05)
    empty_store.auto_stops.ask("i-1", 1.0)
    empty_store.auto_stops.answer("i-1", STOPS, because(Code.ASKED_TO_STOP), 2.0)
    cluster.auto_stops.passed(cluster.workers, Memory())
    cluster.auto_stops.reply_to(path_of(), "127.0.0.1")
    assert [record.getMessage() for record in caplog.records] == [
        "w1.cluster stops: it asked to stop, and nothing needs it"
    ]


def test_exactly_the_surplus_workers_may_stop_however_many_ask_at_once(empty_store: Store) -> None:
    """Forty workers ask at once while the loop lets three of them stop: exactly these three get that answer."""
    workers = [worker(f"i-{number}", name=f"w{number}") for number in range(40)]
    goes: set[str] = set()

    def decide(worker_id: str) -> AutoStopAnswer:
        if len(goes) < 3:
            goes.add(worker_id)
        return STOPS if worker_id in goes else STAYS

    cluster = Cluster(empty_store, workers, decides=decide)
    cluster.pass_once()
    with ThreadPoolExecutor(40) as callers:
        replies = list(callers.map(lambda each: cluster.auto_stops.reply_to(path_of(each.id), "127.0.0.1"), workers))
    results = {reply.says["instance"] for reply in replies if reply.says["stop"]}
    assert (results, len(goes), {reply.status for reply in replies}) == (goes, 3, {200})


@pytest.mark.parametrize(
    ("listed", "note", "over"),
    (
        ((worker(),), None, False),
        ((replace(worker(), state=MachineState.TERMINATED),), WorkerNote(0.0), True),
        ((), WorkerNote(0.0), False),
        ((), WorkerNote(0.0, gone=True), True),
        ((), None, True),
    ),
)
def test_a_question_is_closed_when_its_worker_is_certainly_gone(
    empty_store: Store, listed: tuple[Worker, ...], note: WorkerNote | None, over: bool
) -> None:
    empty_store.auto_stops.ask("i-1", 1.0)
    Cluster(empty_store).auto_stops.passed(listed, Memory(workers={"i-1": note} if note else {}))
    assert empty_store.auto_stops.open() == (frozenset() if over else {"i-1"})


@pytest.mark.parametrize(
    ("written", "url"),
    (
        ("10.0.0.1:8650", "http://10.0.0.1:8650/autostop"),
        ("0.0.0.0:8650", "http://master:8650/autostop"),
        ("[::]:8650", "http://master:8650/autostop"),
        ("[fd00::1]:8650", "http://[fd00::1]:8650/autostop"),
    ),
)
def test_workers_get_an_address_that_they_can_reach(written: str, url: str) -> None:
    assert Endpoint.parse(written).url("master") == url


@pytest.mark.parametrize("written", ("8650", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:65536", "master:8650", ":8650", "a:b"))
def test_an_endpoint_must_be_an_address_and_a_port(written: str) -> None:
    with pytest.raises(SettingsError, match="CP_CAP_AUTOSCALE_AUTOSTOP"):
        Endpoint.parse(written)


@pytest.mark.parametrize(
    ("known", "peer", "same"), (("fd00::1", "fd00:0::1%eth0", True), ("a", "a", True), ("10.0.0.1", "a", False))
)
def test_addresses_are_compared_by_value_not_by_spelling(known: str, peer: str, same: bool) -> None:
    assert same_address(known, peer) is same


# -- over a socket -----------------------------------------------------------------------------------------------


@pytest.fixture
def listener(cluster: Cluster) -> Iterator[Listener]:
    listener = Listener(Endpoint("127.0.0.1", 0), cluster.auto_stops)
    yield listener
    listener.end()


def address_of(listener: Listener) -> tuple[str, int]:
    return str(listener.server_address[0]), int(listener.server_address[1])


def called(listener: Listener, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = HTTPConnection(*address_of(listener), timeout=120)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_answer_is_sent_as_json(listener: Listener) -> None:
    status, body = called(listener, path_of())
    assert (status, json.loads(body)) == (200, {"instance": "i-1", "stop": False, "reason": text(WHY)})


@pytest.mark.parametrize("method", ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"))
def test_any_method_but_get_is_refused(listener: Listener, method: str) -> None:
    status, body = called(listener, path_of(), method)
    assert (status, b"use GET" in body) == (405, method != "HEAD")


def test_a_malformed_http_request_is_refused_as_json(listener: Listener) -> None:
    with create_connection(address_of(listener), timeout=120) as connection:
        connection.sendall(b"GET / and so on HTTP/1.1\r\n\r\n")
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert (head.split()[1], json.loads(body)) == (b"400", {"error": "Bad Request"})


def test_a_machine_with_too_many_open_connections_is_refused(listener: Listener) -> None:
    held = [create_connection(address_of(listener), timeout=120) for _ in range(AT_ONCE_OF_ONE)]
    try:
        sent_away = called(listener, path_of())[0]
    finally:
        for connection in held:
            connection.close()
    assert sent_away == 503


def test_closed_connections_no_longer_count(listener: Listener) -> None:
    assert [called(listener, path_of())[0] for _ in range(2 * AT_ONCE_OF_ONE)] == [200] * 2 * AT_ONCE_OF_ONE


def test_a_silent_connection_is_closed(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "HEAD", 0.05)
    with create_connection(address_of(listener), timeout=120) as connection:
        assert connection.recv(1) == b""


def test_a_port_in_use_is_reported(listener: Listener, cluster: Cluster) -> None:
    with pytest.raises(SettingsError, match="a free port"):
        Listener(Endpoint("127.0.0.1", int(listener.server_address[1])), cluster.auto_stops)


def test_a_waiting_caller_is_answered_with_503_when_the_listener_ends(empty_store: Store) -> None:
    cluster = Cluster(empty_store, patience=240.0)
    cluster.pass_once()
    listener = Listener(Endpoint("127.0.0.1", 0), cluster.auto_stops)
    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(called, listener, path_of())
        while not empty_store.auto_stops.open():
            pass
        listener.end()
        assert waiting.result(120)[0] == 503
