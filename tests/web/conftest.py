"""One server for a whole test run; each test gets a cluster of its own behind it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords
from autoscaler.api.server import Address, Server
from autoscaler.api.view import ClusterValues
from autoscaler.store.calls import CallLog
from autoscaler.store.store import Store
from tests.web.served import Client, Served, behind, password_file


@pytest.fixture(scope="session")
def served_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FastAPI, str]]:
    """An application and the address at which it is served."""
    folder = tmp_path_factory.mktemp("web")
    nothing = Operations(Store.open(None), ClusterValues("nothing"))
    app = make_app(Api(nothing, Logins(Passwords(password_file(folder / "passwords"))), CallLog.open(None)))
    with Server(app, Address("127.0.0.1", 0)).beside() as server:
        yield app, server.url


@pytest.fixture
def api(served_app: tuple[FastAPI, str], tmp_path: Path) -> Iterator[Served]:
    """A server whose loop has observed an empty cluster once."""
    app, url = served_app
    with behind(tmp_path / "store.sqlite") as (operations, calls):
        app.state.api = Api(operations, Logins(app.state.api.logins.passwords), calls)
        made = Served(Client(url), operations, calls)
        made.observe()
        yield made


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    made, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", made),
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return made, key
