"""Nodes created by callers: what is added, under which names, once for each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoscaler.core.model.fleet import PriceType
from autoscaler.store.overrides import Verb
from tests.web.served import LARGE, Served, array, worker


def names(api: Served) -> list[str]:
    return [node["Name"] for node in api.client.nodes()]


@pytest.mark.parametrize(
    ("path", "body", "query", "action"),
    (
        ("nodes/create", {"sets": [{"count": 2, "nodearray": "execute"}]}, {}, "create"),
        ("scale/execute", None, {"totalNodeCount": "2"}, "create"),
        ("nodes/terminate", {"names": ["execute-1"]}, {}, "terminate"),
    ),
)
def test_a_call_that_begins_an_operation_gets_202_and_its_address(
    api: Served, path: str, body: object, query: dict[str, str], action: str
) -> None:
    if action != "create":
        api.client.create(1)
    answer = api.client.post(path, body, **query)
    asked = api.client.ask("GET", f"/operations/{answer.json()['operationId']}")
    assert answer.json().get("sets", [{"added": 2}]) == [{"added": 2}]
    assert (answer.status_code, asked.json()["action"], answer.headers["Location"]) == (202, action, asked.url)


def test_created_nodes_are_listed_at_once_with_the_requested_attributes(api: Served) -> None:
    attributes = {"Tags": {"team": "a"}, "KeepAlive": True}
    kind = {"machineType": LARGE.name}
    api.client.create(1, placementGroupId="pg0", request_id="r", definition=kind, nodeAttributes=attributes)
    (node,) = api.client.nodes(request_id="r")
    result = {name: node[name] for name in ("Name", "Template", "MachineType", "CoreCount", "Memory", "Status")}
    asked_for = {name: node[name] for name in ("TargetState", "KeepAlive", "Tags", "PlacementGroupId", "RequestId")}
    assert result | asked_for == {
        "Name": "execute-1",
        "Template": "execute",
        "MachineType": LARGE.name,
        "CoreCount": 4,
        "Memory": 8.0,
        "Status": "Acquiring",
        "TargetState": "Started",
        "KeepAlive": True,
        "Tags": {"team": "a"},
        "PlacementGroupId": "pg0",
        "RequestId": "r",
    }


def test_a_repeated_request_is_refused_and_adds_nothing(api: Served) -> None:
    first, second = api.client.create(2, request_id="r"), api.client.create(2, request_id="r")
    assert (first.status_code, second.status_code, names(api)) == (202, 409, ["execute-1", "execute-2"])


def test_the_request_id_of_a_terminate_call_is_used_up_too(api: Served) -> None:
    api.client.post("nodes/terminate", {"names": ["x"], "requestId": "r"})
    assert api.client.create(request_id="r").status_code == 409


def test_sets_are_created_in_the_order_sent(api: Served) -> None:
    sets = [{"count": 1, "nodearray": "execute", "definition": {"machineType": kind}} for kind in ("c5.xlarge",)]
    sets += [{"count": 2, "nodearray": "execute", "definition": {"machineType": "c5.large"}}]
    api.client.post("nodes/create", {"sets": sets})
    assert [(node["Name"], node["MachineType"]) for node in api.client.nodes()] == [
        ("execute-1", "c5.xlarge"),
        ("execute-2", "c5.large"),
        ("execute-3", "c5.large"),
    ]


def test_names_fill_gaps_from_the_lowest_number(api: Served) -> None:
    api.client.create(3)
    api.client.post("nodes/terminate", {"names": ["execute-2"]})
    api.client.create(2)
    assert sorted(names(api)) == ["execute-1", "execute-2", "execute-3", "execute-4"]


def test_a_name_format_starts_at_its_offset(api: Served) -> None:
    api.client.create(2, nameFormat="mpi-%d-x", nameOffset=7)
    assert names(api) == ["mpi-7-x", "mpi-8-x"]


def test_an_offset_applies_to_default_names_too(api: Served) -> None:
    api.client.create(2, nameOffset=5)
    assert names(api) == ["execute-5", "execute-6"]


def test_rented_workers_never_take_a_name_that_a_caller_predicts(api: Served) -> None:
    api.observe(worker("i-1"), worker("i-2"))
    api.client.create(1)
    assert next(name for name in names(api) if name.startswith("execute-")) == "execute-1"
    assert len(set(names(api))) == 3


def test_no_more_nodes_are_added_than_limits_allow(api: Served) -> None:
    api.observe(worker("i-1"), arrays=(array(max_workers=4),))
    answer = api.client.create(5).json()["sets"][0]
    assert (answer["added"], "only 3 more" in answer["message"]) == (3, True)


def test_no_more_nodes_are_added_than_the_provider_has(api: Served) -> None:
    api.observe(arrays=(array(available=2),))
    answers = [api.client.create(2, definition={"machineType": "c5.large"}) for _ in range(2)]
    assert [answer.json()["sets"][0]["added"] for answer in answers] == [2, 0]


def test_a_limit_of_cores_holds_for_created_nodes(api: Served) -> None:
    api.observe(worker("i-1"), arrays=(array(max_cores=11),))
    assert api.client.create(9, definition={"machineType": "c5.xlarge"}).json()["sets"][0]["added"] == 2


def test_during_a_stop_no_node_is_created(api: Served) -> None:
    api.store.overrides.ask(Verb.STOP_DRAIN, who="ann", at=1.0)
    created = api.client.create(2).json()["sets"][0]
    scaled = api.client.ask("POST", "/clusters/demo/scale/execute?totalNodeCount=2").json()["sets"][0]
    message = (
        "the autoscaler is giving all workers back (`sge-autoscaler stop`) and launches nothing before the next `run`"
    )
    assert (created, scaled, names(api)) == ({"added": 0, "message": message}, {"added": 0, "message": message}, [])


def test_arrays_that_share_limits_are_counted_together(api: Served) -> None:
    api.observe(arrays=(array(max_workers=3), array("batch", max_workers=3, extends="execute")))
    api.client.create(2)
    answer = api.client.post("nodes/create", {"sets": [{"count": 2, "nodearray": "batch"}]})
    assert answer.json()["sets"][0]["added"] == 1


def test_a_request_with_one_wrong_set_creates_nothing(api: Served) -> None:
    sets = [{"count": 1, "nodearray": "execute"}, {"count": 1, "nodearray": "nope"}]
    answer = api.client.post("nodes/create", {"requestId": "r", "sets": sets})
    assert (answer.status_code, names(api), api.client.get("nodes", request_id="r").status_code) == (409, [], 404)


WRONG: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sets[0].nodearray: there is no node array gpu": lambda one: one | {"nodearray": "gpu"},
    "sets[0].definition.machineType: execute has no p3": lambda one: one | {"definition": {"machineType": "p3"}},
    "sets[0].count": lambda one: one | {"count": 0},
    "sets[0].nameFormat": lambda one: one | {"nameFormat": "worker"},
    "sets[0].placementGroupId": lambda one: one | {"placementGroupId": "a b"},
    "sets[0].machineType": lambda one: one | {"machineType": "c5.large"},
    "sets[0].nodeAttributes.CloudInit": lambda one: one | {"nodeAttributes": {"CloudInit": "#!/bin/sh"}},
    "sets[0].nodeAttributes.Interruptible": lambda one: one | {"nodeAttributes": {"Interruptible": True}},
    "sets[0].nodeAttributes.MachineType: use definition": lambda one: one | {"nodeAttributes": {"MachineType": "p3"}},
    "sets[0].nodeAttributes.ClusterName: this is cluster demo": lambda one: (
        one | {"nodeAttributes": {"ClusterName": "other"}}
    ),
    "sets[0].nodeAttributes.Status": lambda one: one | {"nodeAttributes": {"Status": "Ready"}},
    "sets[0].nodeAttributes.KeepAlive": lambda one: one | {"nodeAttributes": {"KeepAlive": "yes"}},
    "sets[0].nodeAttributes": lambda one: one | {"nodeAttributes": {"Huge": 10**40}},
}


@pytest.mark.parametrize("path", WRONG)
def test_a_refusal_names_the_path_of_the_error(api: Served, path: str) -> None:
    answer = api.client.post("nodes/create", {"sets": [WRONG[path]({"count": 1, "nodearray": "execute"})]})
    assert (answer.status_code, path in answer.text, names(api)) == (409, True, [])


@pytest.mark.parametrize("body", ("", "{", "[]", '{"sets": []}', '{"sets": 1e999}', '"' + "\\ud800" + '"', "[" * 5000))
def test_a_malformed_request_is_refused(api: Served, body: str) -> None:
    assert api.client.ask("POST", "/clusters/demo/nodes/create", data=body).status_code == 409


def test_a_body_of_any_content_type_is_read_as_json(api: Served) -> None:
    body = '{"sets": [{"count": 1, "nodearray": "execute"}]}'
    kinds = ("text/plain", "application/json", "application/x-www-form-urlencoded")
    answers = [
        api.client.ask("POST", "/clusters/demo/nodes/create", data=body, headers={"Content-Type": kind})
        for kind in kinds
    ]
    assert [answer.status_code for answer in answers] == [202] * 3


def test_a_price_type_that_the_array_does_not_guarantee_is_refused(api: Served) -> None:
    api.observe(
        arrays=(array(price_types=(PriceType.SPOT, PriceType.ON_DEMAND)), array("spot", price_types=(PriceType.SPOT,)))
    )
    sets = [{"count": 1, "nodearray": name, "nodeAttributes": {"Interruptible": True}} for name in ("execute", "spot")]
    assert [api.client.post("nodes/create", {"sets": [one]}).status_code for one in sets] == [409, 202]


def test_scaling_adds_the_nodes_missing_from_a_total(api: Served) -> None:
    api.observe(worker("i-1"))
    added = [api.client.post("scale/execute", None, **query).json()["sets"][0]["added"] for query in (
        {"totalNodeCount": "3"},
        {"totalNodeCount": "3"},
        {"totalCoreCount": "9"},
        {"totalNodeCount": "1"},
    )]  # fmt: skip
    assert (added, len(api.client.nodes())) == ([2, 0, 2, 0], 5)


def test_scaling_reports_what_it_could_not_add(api: Served) -> None:
    answer = api.client.post("scale/execute", None, totalNodeCount="99").json()
    assert answer["sets"] == [{"added": 10, "message": "only 10 more are available in execute now"}]


@pytest.mark.parametrize("query", ({}, {"totalNodeCount": "1", "totalCoreCount": "1"}))
def test_scaling_takes_exactly_one_total(api: Served, query: dict[str, str]) -> None:
    assert api.client.post("scale/execute", None, **query).status_code == 409


def test_a_count_with_a_zero_fraction_is_accepted(api: Served) -> None:
    answer = api.client.post("nodes/create", {"sets": [{"count": 2.0, "nodearray": "execute", "nameOffset": 5.0}]})
    assert (answer.status_code, [node["Name"] for node in api.client.nodes()]) == (202, ["execute-5", "execute-6"])


def test_a_fractional_count_is_refused(api: Served) -> None:
    answer = api.client.post("nodes/create", {"sets": [{"count": 1.5, "nodearray": "execute"}]})
    assert (answer.status_code, "sets[0].count" in answer.text) == (409, True)
