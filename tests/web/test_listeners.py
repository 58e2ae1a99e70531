"""One application at three listeners: which routes each has, and which caller each believes."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from autoscaler.api.answers import Answers
from autoscaler.api.app import make_app
from autoscaler.api.auto_stop import AutoStops, Endpoint
from autoscaler.api.dependencies import Api
from autoscaler.api.listeners import SOCKET, TCP, WORKERS, Listener
from autoscaler.api.local_socket import served_locally
from autoscaler.api.logins import Logins
from autoscaler.api.passwords import Passwords
from autoscaler.api.request_service import RequestService
from autoscaler.api.server import Address, Server
from autoscaler.core.model.memory import Memory
from autoscaler.store.calls import CallLog
from autoscaler.store.store import Store
from tests.web.served import PASSWORD, USER, AutoStopServer, behind, password_file, until
from tests.web.test_auto_stop import SECRET, STAYS, WHY, path_of, worker
from tests.web.test_local_socket import _Connection

AT_BOTH = ("/autoscale", "/requests", "/clusters/{cluster}/status", "/clusters/{cluster}/nodes", "/metrics")
AT_TCP_ONLY = ("/clusters/", "/operations", "/cloud/", "/openapi.json")


@pytest.fixture
def auto_stops(empty_store: Store) -> AutoStops:
    return AutoStops(empty_store.auto_stops, SECRET, ring=lambda: None)


@pytest.fixture
def application(empty_store: Store, auto_stops: AutoStops, tmp_path: Path) -> Iterator[FastAPI]:
    """Everything at once, as `run` serves it."""
    with behind(tmp_path / "store.sqlite") as (operations, calls):
        passwords = Passwords(password_file(tmp_path / "passwords"))
        requests = RequestService(empty_store, lambda: ("execute",))
        with answering(tmp_path) as answers:
            yield make_app(Api(operations, Logins(passwords), calls, requests, auto_stops, answers=answers))


@contextmanager
def answering(folder: Path) -> Iterator[Answers]:
    """Answers about the last pass, before there is one."""

    class Loop:
        seen = None
        unobserved = ""
        quiet_s = 0.0

    store = Store.open(folder / "cell.sqlite")
    yield Answers(Loop(), store, dict)
    store.close()


@pytest.fixture
def connections(application: FastAPI, tmp_path: Path) -> Iterator[dict[Listener, HTTPConnection]]:
    """A connection to each listener."""
    path, loopback = tmp_path / "a.sock", Address("127.0.0.1", 0)
    with (
        Server(application, loopback).beside() as rest,
        Server(application, loopback, WORKERS).beside() as server,
        served_locally(lambda: application, path),
    ):
        made: dict[Listener, HTTPConnection] = {SOCKET: _Connection(path)}
        for listener, at in ((TCP, rest), (WORKERS, server)):
            made[listener] = HTTPConnection(at.url.removeprefix("http://"), timeout=120)
        yield made
        for each in made.values():
            each.close()


def places() -> list[tuple[str, str]]:
    """Method and path of every route of the application."""
    routes = [each for each in iter_route_contexts(make_app(Api()).routes) if isinstance(each.original_route, APIRoute)]
    return sorted((method, str(each.path)) for each in routes for method in each.methods or ())


def status(connection: HTTPConnection, method: str, path: str) -> int:
    connection.request(method, path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def both(path: str) -> bool:
    return path.partition("/{request_set")[0] in AT_BOTH or path.startswith(("/answers/", "/overrides/"))


def test_every_route_exists_at_its_listeners_and_at_no_other(
    connections: dict[Listener, HTTPConnection],
) -> None:
    """A route that exists answers 401 or 400; one that does not exist answers 404, whatever the method."""
    found = {}
    for method, path in places():
        if path != "/{path:path}":
            called = path.replace("{cluster}", "demo").replace("{request_set:path}", "a")
            found[method, path] = {
                each for each in connections if status(connections[each], method, called) not in (404, 405)
            }
    expected = {
        (method, path): {SOCKET}
        if path == "/settings"
        else {TCP, SOCKET}
        if both(path)
        else {TCP}
        if path.startswith(AT_TCP_ONLY)
        else set()
        for method, path in found
    }
    assert (found, len(found) >= 18) == (expected, True)


def test_local_callers_see_the_same_status_as_callers_with_a_password(
    connections: dict[Listener, HTTPConnection],
) -> None:
    results, login = [], {"Authorization": "Basic " + b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
    for listener, headers in ((SOCKET, {}), (TCP, login)):
        connections[listener].request("GET", "/clusters/demo/status?nodes=true", headers=headers)
        results.append(json.loads(connections[listener].getresponse().read()))
    assert (results[0], "nodearrays" in results[0]) == (results[1], True)


def test_a_call_for_another_cluster_is_refused_by_name(connections: dict[Listener, HTTPConnection]) -> None:
    connections[SOCKET].request("GET", "/clusters/other/status")
    answer = connections[SOCKET].getresponse()
    assert (answer.status, json.loads(answer.read())) == (404, {"error": "there is no cluster other; this is demo"})


def test_the_route_of_auto_stop_exists_at_its_listener_only(connections: dict[Listener, HTTPConnection]) -> None:
    assert {each.name: status(connections[each], "GET", path_of()) for each in connections} == {
        "http": 404,
        "requests": 404,
        "auto-stop": 503,  # no pass yet
    }


def test_a_call_that_came_through_no_listener_matches_no_route() -> None:
    routes = [each.original_route for each in iter_route_contexts(make_app(Api()).routes)]
    scope = {"type": "http", "method": "GET", "path": "/requests", "root_path": "", "headers": []}
    assert {str(route.matches(scope)[0]) for route in routes} == {"Match.NONE"}


def test_calls_of_workers_are_not_journalled(application: FastAPI, connections: dict[Listener, HTTPConnection]) -> None:
    calls: CallLog = application.state.api.calls
    status(connections[WORKERS], "GET", path_of())
    status(connections[TCP], "GET", "/operations/")
    assert until(lambda: len(calls.newest()) > 0)
    assert [call.target for call in calls.newest()] == ["/operations/"]


def test_a_worker_cannot_claim_another_address(auto_stops: AutoStops) -> None:
    """uvicorn trusts a proxy on loopback unless that is switched off."""
    auto_stops.passed([worker(address="10.9.9.9")], Memory())
    server = AutoStopServer(Endpoint("127.0.0.1", 0), auto_stops)
    try:
        connection = HTTPConnection(*server.server_address, timeout=120)
        connection.request("GET", path_of(), headers={"X-Forwarded-For": "10.9.9.9"})
        answer = connection.getresponse()
        reply = answer.status, json.loads(answer.read())["error"]
        connection.close()
    finally:
        server.end()
    assert reply == (403, "i-1 asks from 10.9.9.9, not from 127.0.0.1")


def test_a_hundred_workers_wait_for_one_pass(empty_store: Store, auto_stops: AutoStops) -> None:
    """Each waits on a thread: the default limit of anyio is 40."""
    workers = [worker(f"i-{number}", address=f"127.0.1.{number}") for number in range(100)]
    auto_stops.passed(workers, Memory())
    server = AutoStopServer(Endpoint("127.0.0.1", 0), auto_stops)

    def ask(number: int) -> int:
        connection = HTTPConnection(*server.server_address, timeout=120, source_address=(f"127.0.1.{number}", 0))
        try:
            return status(connection, "GET", path_of(f"i-{number}"))
        finally:
            connection.close()

    try:
        with ThreadPoolExecutor(100) as callers:
            waiting = [callers.submit(ask, number) for number in range(100)]
            assert until(lambda: len(empty_store.auto_stops.open()) == 100, 20)
            empty_store.auto_stops.answer_all({each.id: (STAYS, WHY) for each in workers}, auto_stops.clock() + 60)
            auto_stops.passed(workers, Memory())
            results = {each.result(120) for each in waiting}
    finally:
        server.end()
    assert results == {200}


def test_callers_whose_bodies_arrive_slowly_take_no_places_of_the_socket(
    application: FastAPI, connections: dict[Listener, HTTPConnection], tmp_path: Path
) -> None:
    trickling = [socket.socket(socket.AF_UNIX) for _ in range(2 * SOCKET.places)]
    try:
        for each in trickling:
            each.connect(str(tmp_path / "a.sock"))
            each.sendall(b"POST /autoscale HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n{")
        assert status(connections[SOCKET], "GET", "/requests") == 200
    finally:
        for each in trickling:
            each.close()


@pytest.mark.parametrize("method", ("PUT", "PATCH"))
def test_a_refusal_is_json_where_answers_are_json(connections: dict[Listener, HTTPConnection], method: str) -> None:
    kinds = {}
    for listener, connection in connections.items():
        connection.request(method, "/requests")
        answer = connection.getresponse()
        answer.read()
        kinds[listener.name] = answer.status, (answer.getheader("Content-Type") or "").partition(";")[0]
    assert kinds == {
        "http": (405, "text/plain"),
        "requests": (405, "application/json"),
        "auto-stop": (405, "application/json"),
    }
