"""The REST API served on loopback, for tests: over a store of its own, or over that of a simulated world's loop."""

from __future__ import annotations

import contextlib
import json
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.auth import HTTPBasicAuth

from autoscaler.api.app import make_app
from autoscaler.api.auto_stop import AutoStops, Endpoint
from autoscaler.api.dependencies import Api
from autoscaler.api.listeners import WORKERS
from autoscaler.api.local_socket import served_locally
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords, hashed
from autoscaler.api.request_service import RequestService
from autoscaler.api.server import Address, Server
from autoscaler.api.view import ClusterValues
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, MachineState, Worker
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.store.calls import CallLog
from autoscaler.store.observations import LastObservation, SeenArray, SeenWorker
from autoscaler.store.store import Store
from tests.deadlines import wait_for

USER, PASSWORD = "anna", "s3cret/pass:word"
GIB = 1024**3
SMALL = InstanceType("c5.large", "c5", 2, 4 * GIB)
LARGE = InstanceType("c5.xlarge", "c5", 4, 8 * GIB)


def array(name: str = "execute", *, available: int | None = None, **known: Any) -> SeenArray:
    """A node array of two instance types, at most ten workers."""
    buckets = tuple(Bucket(BucketKey(kind.name), kind, 0.1, available) for kind in (SMALL, LARGE))
    return replace(SeenArray(name, "main.q", 10, buckets=buckets), **known)


def worker(
    worker_id: str = "i-1",
    *,
    phase: Phase = Phase.READY,
    decisive: Condition | None = None,
    kind: InstanceType = SMALL,
) -> SeenWorker:
    state = MachineState.PENDING if phase is Phase.BOOTING else MachineState.RUNNING
    name = None if phase is Phase.BOOTING else f"host-{worker_id}"
    made = Worker(worker_id, kind, "execute", state, 100.0, name, "10.0.0.7")
    return SeenWorker(made, phase, name, decisive=decisive)


@dataclass
class Client:
    """Calls the API as CycleCloud's users do."""

    url: str
    cluster: str = "demo"
    user: str = USER
    password: str = PASSWORD

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        auth = HTTPBasicAuth(self.user.encode(), self.password.encode())
        return requests.request(method, f"{self.url}{path}", auth=auth, timeout=120, **more)

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
    """A server, with its store and operations."""

    client: Client
    operations: Operations
    calls: CallLog

    @property
    def store(self) -> Store:
        return self.operations.store

    def observe(self, *workers: SeenWorker, arrays: tuple[SeenArray, ...] = (), **known: Any) -> None:
        """Store an observation as a loop would: these workers and node arrays."""
        observation = LastObservation("fake", workers=workers, arrays=arrays or (array(),))
        self.store.observations.keep(replace(observation, **known), 100.0)


def password_file(path: Path) -> Path:
    """A password file with the one user; its hash is cheap to check."""
    path.touch(mode=0o600)
    path.write_text(f"{USER}:{hashed(PASSWORD, cost=2)}\n", encoding="utf-8")
    return path


@contextmanager
def served(store_file: Path, **known: Any) -> Iterator[Served]:
    """A server over the store of this file, which a loop may use at the same time."""
    passwords = Passwords(password_file(store_file.with_suffix(".passwords")))
    with behind(store_file, **known) as (operations, calls):
        server = Server(make_app(Api(operations, Logins(passwords), calls)), Address("127.0.0.1", 0))
        with server.beside():
            yield Served(Client(server.url), operations, calls)


@contextmanager
def behind(store_file: Path, **known: Any) -> Iterator[tuple[Operations, CallLog]]:
    """The application over this store, with its operations, calls and passwords."""
    store, calls = Store.open(store_file), CallLog.open(store_file.with_suffix(".calls"))
    yield Operations(store, ClusterValues("demo", "region-1", "net"), **known), calls
    calls.close()
    store.close()


def serve_requests(service: RequestService, path: Path, group: str | None = None) -> AbstractContextManager[None]:
    """Serves requests for node arrays at a Unix socket."""
    return served_locally(lambda: make_app(Api(requests=service)), path, group)


class AutoStopServer:
    """The routes of auto-stop, served at an address until `end`."""

    def __init__(self, place: Endpoint, auto_stops: AutoStops) -> None:
        self._auto_stops, self._serving = auto_stops, ExitStack()
        server = Server(make_app(Api(auto_stops=auto_stops)), Address(place.address, place.port), WORKERS)
        self._serving.enter_context(server.beside())
        where = urlsplit(server.url)
        self.server_address = where.hostname or "", where.port or 0

    def end(self) -> None:
        self._auto_stops.close()
        self._serving.close()


def free_port() -> int:
    """A port below the kernel's ephemeral range, so that no other process gets it in the meantime."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def until(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it holds within that many seconds of an idle machine."""
    return wait_for(holds, seconds)
