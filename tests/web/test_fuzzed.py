"""The server fuzzed from its own OpenAPI document: it answers every call as documented, and no node is lost or doubled.
Calls change the cluster and the changes stay: an operation meets the state that earlier operations of this process
left.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from autoscaler.api.app import make_app
from autoscaler.api.dependencies import Api
from autoscaler.api.logins import Logins
from autoscaler.api.operations import Operations
from autoscaler.api.passwords import Passwords
from autoscaler.api.request_service import RequestService
from autoscaler.api.server import Address, Server
from autoscaler.api.view import ClusterValues
from autoscaler.core.model.fleet import InstanceType
from autoscaler.store.calls import CallLog
from autoscaler.store.store import Store
from tests.web.served import LARGE, PASSWORD, SMALL, USER, Client, Served, array, password_file, worker

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
"""Of each operation and kind; more of them: FUZZ_EXAMPLES."""
ROOM = 200
"""Nodes that a test may create."""


def _operations() -> dict[str, Any]:
    """Every operation of the document, by method and path."""
    nobody: Any = None  # this builds the document without serving it
    found = schemathesis.openapi.from_dict(make_app(Api(nobody, Logins(nobody), nobody)).openapi()).get_all_operations()
    operations = [cast("Any", result).ok() for result in found]
    return {f"{each.method.upper()} {each.path}": each for each in operations}


OPERATIONS = _operations()


@pytest.fixture(scope="module")
def added() -> list[int]:
    """How many nodes each accepted call reported as added."""
    return []


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose store has what earlier operations left."""
    folder = tmp_path_factory.mktemp("fuzzed")
    store, calls = Store.open(folder / "store.sqlite"), CallLog.open(None)
    operations = Operations(store, ClusterValues("demo", "region-1"))
    app = make_app(
        Api(
            operations,
            Logins(Passwords(password_file(folder / "passwords"))),
            calls,
            RequestService(store, ["execute"].copy),
        )
    )
    with Server(app, Address("127.0.0.1", 0)).beside() as server:
        yield Served(Client(server.url), operations, calls)
    calls.close()
    store.close()


@pytest.fixture(autouse=True)
def _room(fuzzed: Served) -> None:
    _make_room(fuzzed)


def _make_room(fuzzed: Served) -> None:
    """Make room for new nodes, whatever was requested before: else an operation that stops everything, or uses up all
    capacity, would leave nothing for the following ones.
    """
    fuzzed.store.overrides.resume(who="the test", at=fuzzed.operations.clock())
    fuzzed.observe(worker("i-1"), arrays=(array(max_workers=len(fuzzed.store.nodes.live()) + ROOM),))


def _meaning_us(case: Any) -> None:
    """Make a generated call name this cluster and its nodes: nearly all would be about unknown ones otherwise."""
    for known, value in (("cluster", "demo"), ("nodearray", "execute")):
        if known in case.path_parameters:
            case.path_parameters[known] = value
    sets = case.body.get("sets") if isinstance(case.body, dict) else None
    for each in sets if isinstance(sets, list) else ():
        if isinstance(each, dict) and isinstance(each.get("nodearray"), str):
            each |= {"nodearray": "execute"} | (
                {"definition": {"machineType": "c5.large"}} if "definition" in each else {}
            )


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_matches_the_openapi_document(
    fuzzed: Served, added: list[int], name: str, mode: GenerationMode
) -> None:
    @given(case=OPERATIONS[name].as_strategy(generation_mode=mode), ours=st.sampled_from((True, True, True, False)))
    @settings(
        max_examples=EXAMPLES if "{" in name or "POST" in name else 3,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def fuzz(case: Any, ours: bool) -> None:
        if ours:
            _meaning_us(case)
        answer = case.call(base_url=fuzzed.client.url, auth=(USER, PASSWORD))
        if answer.status_code == 202 and "sets" in answer.json():
            added.append(sum(each["added"] for each in answer.json()["sets"]))
        case.validate_response(answer, checks=CHECKS)

    fuzz()
    _every_node_is_there_once_or_ended(fuzzed, added)


def test_every_created_node_exists_once_or_has_ended(fuzzed: Served, added: list[int]) -> None:
    """Also after an operation that used up all room, and one that stopped the autoscaler."""
    added.append(_created(fuzzed, SMALL, ROOM + 1))
    assert fuzzed.client.ask("POST", "/overrides/v1/stop-drain").status_code == 200
    _make_room(fuzzed)
    made = [_created(fuzzed, kind, 3) for kind in (SMALL, LARGE)]
    added += made
    fuzzed.client.post("nodes/terminate", {"filter": "CoreCount > 2"})
    assert made == [3, 3]
    _every_node_is_there_once_or_ended(fuzzed, added)


def _created(fuzzed: Served, kind: InstanceType, count: int) -> int:
    (made,) = fuzzed.client.create(count, definition={"machineType": kind.name}).json()["sets"]
    return int(made["added"])


def _every_node_is_there_once_or_ended(fuzzed: Served, added: list[int]) -> None:
    listed, live = fuzzed.client.nodes(), fuzzed.store.nodes.live()
    rows = fuzzed.store.database.rows("SELECT id, ended_at FROM nodes")
    assert sum(added) == len(rows)
    assert len(live) == sum(row["ended_at"] is None for row in rows)
    assert sorted(node["NodeId"] for node in listed if node.get("InstanceId") != "i-1") == sorted(
        node.id for node in live
    )
    assert max(Counter(node["Name"] for node in listed).values()) == 1
