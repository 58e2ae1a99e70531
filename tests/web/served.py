"""The REST API served on loopback, for tests: over a store of its own, or over that of a simulated world's loop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import requests
from requests.auth import HTTPBasicAuth

from autoscaler.core.fleet import Bucket, BucketKey, InstanceType, MachineState, Worker
from autoscaler.core.life import Life
from autoscaler.store.calls import CallLog
from autoscaler.store.looks import LastLook, SeenArray, SeenWorker
from autoscaler.store.store import Store
from autoscaler.web.app import make_app
from autoscaler.web.operations import Operations
from autoscaler.web.passwords import Passwords, hashed
from autoscaler.web.server import Address, Server
from autoscaler.web.view import Place

USER, PASSWORD = "anna", "s3cret/pass:word"
GIB = 1024**3
SMALL = InstanceType("c5.large", "c5", 2, 4 * GIB)
LARGE = InstanceType("c5.xlarge", "c5", 4, 8 * GIB)


def array(name: str = "execute", *, available: int | None = None, **known: Any) -> SeenArray:
    """A node array of two instance types, at most ten workers."""
    buckets = tuple(Bucket(BucketKey(kind.name), kind, 0.1, available) for kind in (SMALL, LARGE))
    return replace(SeenArray(name, "main.q", 10, buckets=buckets), **known)


def worker(worker_id: str = "i-1", *, life: Life = Life.IN_SERVICE, kind: InstanceType = SMALL) -> SeenWorker:
    state = MachineState.PENDING if life is Life.BOOTING else MachineState.RUNNING
    name = None if life is Life.BOOTING else f"host-{worker_id}"
    return SeenWorker(Worker(worker_id, kind, "execute", state, 100.0, name, "10.0.0.7"), life, name)


@dataclass
class Client:
    """Asks as CycleCloud's users do."""

    url: str
    cluster: str = "demo"
    user: str = USER
    password: str = PASSWORD

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        auth = HTTPBasicAuth(self.user.encode(), self.password.encode())
        return requests.request(method, f"{self.url}{path}", auth=auth, timeout=20, **more)

    def get(self, path: str, **query: str) -> requests.Response:
        return self.ask("GET", f"/clusters/{self.cluster}/{path}", params=query)

    def post(self, path: str, body: Any = None, **query: str) -> requests.Response:
        return self.ask("POST", f"/clusters/{self.cluster}/{path}", data=json.dumps(body), params=query)

    def create(self, count: int = 1, *, request_id: str | None = None, **asked: Any) -> requests.Response:
        named = {"requestId": request_id} if request_id is not None else {}
        return self.post("nodes/create", {**named, "sets": [{"count": count, "nodearray": "execute", **asked}]})

    def nodes(self, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("nodes", **query).json()["nodes"]
        return found


@dataclass
class Served:
    """A server with what is behind it."""

    client: Client
    operations: Operations
    calls: CallLog

    @property
    def store(self) -> Store:
        return self.operations.store

    def see(self, *workers: SeenWorker, arrays: tuple[SeenArray, ...] = (), **known: Any) -> None:
        """Let a loop have looked: these workers and node arrays."""
        look = LastLook("fake", workers=workers, arrays=arrays or (array(),))
        self.store.looks.keep(replace(look, **known), 100.0)


def password_file(path: Path) -> Path:
    """A file that lets the one user in; cheap to check."""
    path.touch(mode=0o600)
    path.write_text(f"{USER}:{hashed(PASSWORD, cost=2)}\n", encoding="utf-8")
    return path


@contextmanager
def served(store_file: Path, **known: Any) -> Iterator[Served]:
    """A server over the store of this file, which a loop may use at the same time."""
    passwords = Passwords(password_file(store_file.with_suffix(".passwords")))
    with behind(store_file, **known) as (operations, calls):
        server = Server(make_app(operations, passwords, calls), Address("127.0.0.1", 0))
        with server.beside():
            yield Served(Client(server.url), operations, calls)


@contextmanager
def behind(store_file: Path, **known: Any) -> Iterator[tuple[Operations, CallLog]]:
    """What a server works with."""
    store, calls = Store.open(store_file), CallLog.open(store_file.with_suffix(".calls"))
    yield Operations(store, Place("demo", "region-1", "net"), **known), calls
    calls.close()
    store.close()


def until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it holds before that time is over."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
