"""`/metrics`: who may read it, where it is served, and that it needs no loop in its process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families as families

from autoscaler.api import tokens
from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.listeners import WORKERS
from autoscaler.api.local_socket import served_locally
from autoscaler.api.logins import Logins
from autoscaler.api.passwords import Passwords
from autoscaler.api.principal import Role
from autoscaler.api.server import Address, Server
from autoscaler.api.tokens import Tokens
from autoscaler.report.metrics import exposition
from autoscaler.store.calls import CallLog
from autoscaler.store.measures import Measures
from autoscaler.store.store import Store
from tests.web.served import PASSWORD, USER, behind, password_file
from tests.web.test_local_socket import _Connection

NAME = "sge_autoscaler_longest_wait_seconds"


@pytest.fixture
def measured_store(tmp_path: Path) -> Iterator[Store]:
    """The store of another process, in which a pass has left measures."""
    opened = Store.open(tmp_path / "cell.sqlite")
    measures = opened.measures.load()
    measures.set("longest_wait_seconds", 12.0)
    opened.measures.keep(measures, 100.0)
    yield opened
    opened.close()


@contextmanager
def application(tmp_path: Path) -> Iterator[tuple[FastAPI, CallLog]]:
    with behind(tmp_path / "cell.sqlite") as (operations, calls):
        passwords = Passwords(password_file(tmp_path / "passwords"))
        yield make_app(Api(operations, Logins(passwords, Tokens(tmp_path / "tokens")), calls)), calls


def read(text: str) -> dict[str, float]:
    return {family.name: family.samples[0].value for family in families(text) if family.samples}


def test_a_type_name_with_control_characters_breaks_no_line(tmp_path: Path) -> None:
    measures = Measures()
    for number, name in enumerate(('a"} 1\n# HELP x', "\x1b]0;x", "a\rb", "\ud800")):
        measures.values["workers"] = {**measures.values.get("workers", {}), ("ready", name): float(number)}
    text = exposition(measures).decode()
    results = [line for line in text.splitlines() if line.startswith("sge_autoscaler_workers{")]
    assert (len(results), text.isprintable() or all(each in "\n" or each.isprintable() for each in text)) == (4, True)
    assert "sge_autoscaler_workers" in read(text)


def test_metrics_need_a_token_or_a_password(measured_store: Store, tmp_path: Path) -> None:
    token = tokens.create(tmp_path / "tokens", "prometheus", Role.READER, time.time() + 3600)
    with application(tmp_path) as (app, calls), Server(app, Address("127.0.0.1", 0)).beside() as server:
        url = f"{server.url}/metrics"
        stranger = requests.get(url, timeout=120)
        by_token = requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=120)
        by_password = requests.get(url, auth=(USER, PASSWORD), timeout=120)
        recorded = [(call.status, call.target) for call in calls.newest(10)]
    assert (stranger.status_code, NAME in stranger.text) == (401, False)
    assert (by_token.status_code, by_password.status_code) == (200, 200)
    assert by_token.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert read(by_token.text)[NAME] == 12.0
    assert recorded == [(401, "/metrics")]  # calls of Prometheus would push out all others


def test_metrics_are_those_of_the_newest_pass(measured_store: Store, tmp_path: Path) -> None:
    with application(tmp_path) as (app, _), Server(app, Address("127.0.0.1", 0)).beside() as server:
        found = []
        for wait in (20.0, 30.0):
            measures = measured_store.measures.load()
            measures.set("longest_wait_seconds", wait)
            measured_store.measures.keep(measures, 100.0)
            found.append(read(requests.get(f"{server.url}/metrics", auth=(USER, PASSWORD), timeout=120).text)[NAME])
    assert found == [20.0, 30.0]


def test_the_unix_socket_serves_metrics_too(measured_store: Store, tmp_path: Path) -> None:
    with application(tmp_path) as (app, _), served_locally(lambda: app, tmp_path / "a.sock"):
        connection = _Connection(tmp_path / "a.sock")
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
    assert (answer.status, read(text)[NAME]) == (200, 12.0)


def test_the_listener_for_workers_does_not_serve_metrics(measured_store: Store, tmp_path: Path) -> None:
    with application(tmp_path) as (app, _), Server(app, Address("127.0.0.1", 0), WORKERS).beside() as server:
        answer = requests.get(f"{server.url}/metrics", auth=(USER, PASSWORD), timeout=120)
    assert (answer.status_code, NAME in json.dumps(answer.text)) == (404, False)


def test_before_the_first_pass_there_are_no_metrics(tmp_path: Path) -> None:
    with application(tmp_path) as (app, _), Server(app, Address("127.0.0.1", 0)).beside() as server:
        answer = requests.get(f"{server.url}/metrics", auth=(USER, PASSWORD), timeout=120)
    assert (answer.status_code, read(answer.text)) == (200, {})
