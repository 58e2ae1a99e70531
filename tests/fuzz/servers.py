"""Targets that answer: the REST API, the Unix socket for requests, and the endpoint where workers ask to stop.

Each is served as in the service. The client of a broken request closes its side, and must then get an answer or
the connection's end. A store keeps all requests of a target, so that a plan of all of them can be judged.
"""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from autoscaler.api.app import make_app
from autoscaler.api.auto_stop import AutoStops, Endpoint
from autoscaler.api.dependencies import Api
from autoscaler.api.listeners import WORKERS
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords
from autoscaler.api.request_service import RequestService
from autoscaler.api.server import Address, Server
from autoscaler.api.view import ClusterValues
from autoscaler.core.model.fleet import Fleet, InstanceType, MachineState, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Snapshot
from autoscaler.store.calls import CallLog
from autoscaler.store.observations import LastObservation
from autoscaler.store.store import Store
from autoscaler.worker_configuration import order_key, stop_token
from tests.core.building import a_bucket, a_snapshot
from tests.fuzz.exchange import exchanged, judge_answer, maybe_odd, over_tcp, over_unix, request
from tests.fuzz.judges import beyond_limits
from tests.fuzz.mutation import Mutator
from tests.web.served import LARGE, PASSWORD, SMALL, USER, array, password_file, serve_requests, worker

MOST_WORKERS = 10
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


# -- the plan of all requests ----------------------------------------------------------------------------------------


def judge_requests(store: Store, now: float) -> None:
    """A plan of all requests stays within limits, and there are no more nodes than allowed."""
    requests, base = store.requests.load(now), a_snapshot()
    (one,) = base.policy.node_arrays
    limits = Limits(max_workers=MOST_WORKERS, max_cores=24, max_price_per_hour=5.0, total_workers=MOST_WORKERS)
    policy = replace(base.policy, node_arrays=(replace(one, hybrid=True, limits=limits, scale_up_batch=1000),))
    fleet = Fleet((), tuple(a_bucket(kind) for kind in (SMALL, LARGE)))
    policy = in_force(policy, requests, arrays_present(fleet, Memory()), fleet.buckets)
    seen = Snapshot(base.cluster, fleet, base.overrides, base.memory, policy, base.now, requests=requests)
    assert not (wrong := beyond_limits(seen, plan(seen))), wrong
    nodes = [node for node in store.nodes.live() if node.node_array in ("execute", "")]
    assert len(nodes) <= MOST_WORKERS, f"{len(nodes)} nodes are there where {MOST_WORKERS} may be"


# -- the REST API ------------------------------------------------------------------------------------------------------

CREATE: dict[str, Any] = {
    "requestId": "00000000-0000-4000-8000-000000000001",
    "sets": [{"count": 4, "nodearray": "execute", "definition": {"machineType": "c5.large"}, "nameFormat": "n-%d"}],
}
MANAGE: dict[str, Any] = {"ids": ["i-1"], "names": ["n-1"], "filter": 'State === "Started" && CoreCount > 1'}
UPDATE: dict[str, Any] = {
    "arrays": [{"Name": "execute", "TargetCount": 1, "MachineType": ["c5.large"], "MaxCount": 3, "KeepAlive": False}],
    "request_set": "a",
    "expiration_interval": 300,
}
VERBS = ("terminate", "remove", "shutdown", "deallocate", "start", "restart", "reimage")


LISTS = ("/operations/", "/requests", "/openapi.json")
QUERIES = ("nodes", "operation", "request_id", "timeframe", "from", "to", "granularity")


def _state(cluster: str) -> tuple[str, ...]:
    return tuple(f"{cluster}/{what}" for what in ("status", "nodes", "usage"))


class Rest:
    """Mutated requests of our own, mixed with what schemathesis makes of the OpenAPI document."""

    GENERATED_AT_ONCE = 12
    """Of one operation."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.store = Store.open(directory / "store.sqlite")
        stack.callback(self.store.close)
        calls = CallLog.open(directory / "calls")
        stack.callback(calls.close)
        operations = Operations(self.store, ClusterValues("demo", "region-1"))
        service = RequestService(self.store, ["execute"].copy)
        app = make_app(Api(operations, Logins(Passwords(password_file(directory / "passwords"))), calls, service))
        self.store.observations.keep(LastObservation("fake", workers=(worker(),), arrays=(array(),)), 100.0)
        self._url = stack.enter_context(Server(app, Address("127.0.0.1", 0)).beside()).url
        self._connect = over_tcp(self._url)
        self._host = urlsplit(self._url).netloc
        found = schemathesis.openapi.from_dict(app.openapi()).get_all_operations()
        self._operations = [cast("Any", result).ok() for result in found]
        self._cases: list[Any] = []

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        sent = self._generated(mutator) if mutator.often(0.15) else self._own(mutator)
        return judge_answer(sent, exchanged(self._connect, sent))

    def _own(self, mutator: Mutator) -> bytes:
        body, method = b"", "POST"
        cluster = f"/clusters/{maybe_odd(mutator, 'demo')}"
        which = mutator.chance.randrange(8)
        if which < 2:
            target, body = f"{cluster}/nodes/create", self._body(mutator, CREATE)
        elif which < 4:
            target, body = f"{cluster}/nodes/{maybe_odd(mutator, mutator.pick(VERBS))}", self._body(mutator, MANAGE)
        elif which == 4:
            target, body = "/autoscale", self._body(mutator, UPDATE)
        elif which == 5:
            target, method = f"/requests/{maybe_odd(mutator, 'a')}", "DELETE"
        elif which == 6:
            query = _query(mutator, ("totalCoreCount", "totalNodeCount"))
            target = f"{cluster}/scale/{maybe_odd(mutator, 'execute')}?{query}"
        else:
            target, method = f"{mutator.pick((*_state(cluster), *LISTS))}?{_query(mutator, QUERIES)}", "GET"
        return request(mutator, method, target, body, self._head(mutator))

    def _body(self, mutator: Mutator, good: dict[str, Any]) -> bytes:
        value: Any = good if mutator.often(0.15) else mutator.changed(good)
        if isinstance(value, dict) and "requestId" in value and mutator.often(0.9):
            value = {**value, "requestId": f"00000000-0000-4000-8000-{mutator.chance.getrandbits(48):012x}"}
        return mutator.json(value)

    def _head(self, mutator: Mutator) -> list[str]:
        """Of a logged-in caller, nearly always, so that requests get past the login."""
        login = [f"Authorization: {BASIC}"] if mutator.often(0.98) else []
        return [f"Host: {self._host}", "Content-Type: application/json", *login]

    def _generated(self, mutator: Mutator) -> bytes:
        if not self._cases:
            self._cases = _cases(mutator.pick(self._operations), mutator.chance.getrandbits(32), self.GENERATED_AT_ONCE)
        case = self._cases.pop()
        for known, value in (("cluster", "demo"), ("nodearray", "execute")):
            if known in case.path_parameters and mutator.often(0.8):
                case.path_parameters[known] = value
        made = case.as_transport_kwargs(base_url=self._url)
        prepared = requests.Request(**{key: value for key, value in made.items() if key in _REQUESTS}).prepare()
        body = prepared.body or b""
        body = body.encode() if isinstance(body, str) else bytes(body)
        target = (prepared.url or "").removeprefix(self._url) or "/"
        return request(mutator, prepared.method or "GET", target, body, self._head(mutator))

    def settle(self) -> None:
        judge_requests(self.store, 1e9)
        sent = f"GET /clusters/demo/status HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: {BASIC}\r\n\r\n".encode()
        status = judge_answer(sent, exchanged(self._connect, sent))
        assert status == "200", f"a good call is answered {status} after all that was fed"


_REQUESTS = frozenset(("method", "url", "params", "data", "json", "headers", "cookies"))


def _cases(operation: Any, seed: int, count: int) -> list[Any]:
    """What schemathesis makes for one operation, of this seed."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode)))
    def collect(case: Any) -> None:
        found.append(case)

    collect()
    return found


def _query(mutator: Mutator, names: tuple[str, ...]) -> str:
    pairs = []
    for _ in range(mutator.chance.randint(0, 3)):
        value = str(mutator.pick((1, "true", "2026-01-01", "daily", "a" * 36, mutator.text())))[:2000]
        pairs.append(
            f"{maybe_odd(mutator, mutator.pick(names))}={quote(value.encode('utf-8', 'surrogatepass'), safe='')}"
        )
    return "&".join(pairs)


# -- the Unix socket ---------------------------------------------------------------------------------------------------


class Requests:
    """Requests for node arrays at the Unix socket."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.store = Store.open(directory / "store.sqlite")
        stack.callback(self.store.close)
        path = directory / "a.sock"
        stack.enter_context(serve_requests(RequestService(self.store, lambda: ("execute",), lambda: 1e9), path))
        self._connect = over_unix(path)

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        method, target, body = "POST", "/autoscale", b""
        which = mutator.chance.randrange(5)
        if which < 3:
            value = UPDATE if mutator.often(0.15) else mutator.changed(UPDATE)
            body = mutator.json(value)
        elif which == 3:
            method, target = "DELETE", f"/requests/{maybe_odd(mutator, 'a')}"
        else:
            method, target = (
                "GET",
                mutator.pick(("/requests", "/settings", "/clusters/demo/status", "/", "*", "http://[")),
            )
        sent = request(mutator, method, target, body, ["Host: localhost"])
        return judge_answer(sent, exchanged(self._connect, sent))

    def settle(self) -> None:
        judge_requests(self.store, 1e9)
        sent = b"GET /requests HTTP/1.1\r\nHost: localhost\r\n\r\n"
        status = judge_answer(sent, exchanged(self._connect, sent))
        assert status == "200", f"a good call is answered {status} after all that was fed"


# -- the endpoint for workers ------------------------------------------------------------------------------------------

SECRET = b"a secret of this cell"
TYPE = InstanceType("m5.large", "m5", 2, 8 << 30)
MINE, THEIRS = (
    Worker(f"i-{n}", TYPE, "execute", MachineState.RUNNING, 0.0, f"w{n}.cluster", address, order_id=f"{n}abc")
    for n, address in ((1, "127.0.0.1"), (2, "10.9.9.9"))
)


def stop_path(of: Worker, secret: bytes = SECRET) -> str:
    order = of.order_id or ""
    return f"/autostop/{order}/{stop_token(order_key(secret, order), of.id)}?instance={of.id}"


class Stops:
    """Workers, and jobs on them, that ask to stop. Each may ask for itself; asking for another worker is a finding."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.store = Store.open(directory / "store.sqlite")
        stack.callback(self.store.close)
        self._now, self._passing = 1000.0, threading.Lock()
        self.auto_stops = AutoStops(self.store.auto_stops, SECRET, ring=self._pass, clock=self._tick, patience=120.0)
        self._pass()
        app = make_app(Api(auto_stops=self.auto_stops))
        stack.callback(self.auto_stops.close)
        place = Endpoint("127.0.0.1", 0)
        url = stack.enter_context(Server(app, Address(place.address, place.port), WORKERS).beside()).url
        self._connect = over_tcp(url)
        self.asked: set[str] = set()

    def _tick(self) -> float:
        self._now += 0.001
        return self._now

    def _pass(self) -> None:
        with self._passing:
            at, open_questions = self._tick(), self.store.auto_stops.open()
            if hasattr(self, "asked"):
                self.asked |= open_questions
            self.store.auto_stops.answer_all(
                {each: (AutoStopAnswer.STAYS, because(Code.NEEDED_AGAIN)) for each in open_questions}, at
            )
            self.auto_stops.passed((MINE, THEIRS), Memory())

    def feed(self, seed: str) -> str:
        mutator = Mutator(seed)
        good, theirs = stop_path(MINE), stop_path(THEIRS)
        target = mutator.pick(
            (good, theirs, good.replace("i-1", "i-2"), theirs.replace("2abc", "1abc"), stop_path(MINE, b"x"))
        )
        if mutator.often(0.6):
            at, end = sorted((mutator.chance.randint(0, len(target)), mutator.chance.randint(0, len(target))))
            odd = mutator.pick(
                (
                    "",
                    "/",
                    "//",
                    "..",
                    "%2e%2e",
                    "%00",
                    "%",
                    "&instance=i-2",
                    "?",
                    "#",
                    ";",
                    "\u00e9",
                    mutator.text()[:500],
                )
            )
            target = target[:at] + odd.replace("\r", "").replace("\n", "") + target[min(end, at + 3) :]
        sent = request(mutator, "GET", target, b"", ["Host: master"])
        outcome = judge_answer(sent, exchanged(self._connect, sent))
        self.auto_stops._allowance.clear()  # how often one may ask is tested elsewhere
        assert THEIRS.id not in self.asked, f"{MINE.id} made {THEIRS.id} ask to stop by {sent[:500]!r}"
        return outcome

    def settle(self) -> None:
        sent = f"GET {stop_path(MINE)} HTTP/1.1\r\nHost: master\r\n\r\n".encode()
        answer = exchanged(self._connect, sent)
        assert judge_answer(sent, answer) == "200", f"a good question is answered {answer[:200]!r}"
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["instance"] == MINE.id, "another worker is answered"


@contextmanager
def opened(kind: Callable[[Path, ExitStack], Any]) -> Iterator[Any]:
    """The target, served in a folder of its own until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="sge-autoscaler-fuzz-") as directory, ExitStack() as stack:
        yield kind(Path(directory), stack)
