"""Nodes terminated or changed by callers: which nodes a call selects, the answer for each, and what is stored for the
loop.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import pytest
import requests

from autoscaler.api.routes import VERBS
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.store.overrides import Verb
from tests.web.served import PASSWORD, USER, Served, array, worker


def end(api: Served, verb: str = "terminate", **selectors: Any) -> list[tuple[str, str]]:
    """Name and status of each node that a call selected."""
    answer = api.client.post(f"nodes/{verb}", selectors)
    assert answer.status_code == 202, answer.text
    return [(node["name"], node["status"]) for node in answer.json()["nodes"]]


@pytest.mark.parametrize("verb", ("terminate", "remove", "shutdown"))
def test_a_node_without_a_machine_ends_at_once(api: Served, verb: str) -> None:
    api.client.create(2)
    assert (end(api, verb, names=["execute-1"]), [node["Name"] for node in api.client.nodes()]) == (
        [("execute-1", "OK")],
        ["execute-2"],
    )


def test_a_node_with_a_machine_is_drained(api: Served) -> None:
    api.client.create(1)
    api.store.nodes.bind(api.client.nodes()[0]["NodeId"], "i-1")
    api.observe(worker("i-1"))
    end(api, names=["execute-1"])
    (node,) = api.client.nodes()
    (override,) = api.store.overrides.in_force()
    assert (override.verb, override.host, override.who, api.store.nodes.live()) == (
        Verb.DRAIN,
        "i-1",
        "anna (REST)",
        (),
    )
    assert (node["Name"], node["Status"], node["TargetState"]) == ("execute-1", "Terminating", "Terminated")


def test_every_call_that_begins_an_operation_wakes_the_loop_at_once(api: Served) -> None:
    rings: list[str] = []
    api.operations.ring = lambda: rings.append("rung")
    begun = (
        api.client.create(1),
        api.client.post("scale/execute", totalNodeCount="2"),
        *(api.client.post(f"nodes/{verb}", {"names": ["execute-2"]}) for verb in sorted(VERBS)),
        api.client.ask("POST", "/cloud/actions/retry/demo"),
    )
    assert ([answer.ok for answer in begun], len(rings)) == ([True] * len(begun), len(begun))


def fail(api: Served, **asked: Any) -> None:
    """Create a node whose machine fails."""
    api.client.create(1, **asked)
    api.store.nodes.bind(api.client.nodes()[0]["NodeId"], "i-1")
    api.store.nodes.lose({"i-1": because(Code.GONE)}, at=200.0)


def test_a_failed_keepalive_node_can_be_terminated(api: Served) -> None:
    fail(api, nodeAttributes={"KeepAlive": True})
    assert (end(api, names=["execute-1"]), api.client.nodes()) == ([("execute-1", "OK")], [])


@pytest.mark.parametrize("verb", ("start", "restart", "deallocate"))
def test_a_verb_on_a_failed_node_is_refused_with_what_to_do(api: Served, verb: str) -> None:
    fail(api)
    (answer,) = api.client.post(f"nodes/{verb}", {"names": ["execute-1"]}).json()["nodes"]
    assert (answer["status"], answer["error"]) == (
        "Error",
        "this node has failed: end it, or retry all failed nodes (POST /cloud/actions/retry/demo)",
    )


def test_scaling_an_array_replaces_a_failed_node_under_another_name(api: Served) -> None:
    fail(api)
    api.client.post("scale/execute", totalNodeCount="1")
    assert [(node["Name"], node["Status"]) for node in api.client.nodes()] == [
        ("execute-1", "Failed"),
        ("execute-2", "Acquiring"),
    ]


def test_the_log_states_who_changes_which_nodes(api: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autoscaler.api")
    api.client.create(5)
    end(api, names=["execute-2"])
    end(api, names=["nobody"])
    assert caplog.messages == [
        "anna (REST) creates execute-1, execute-2, execute-3 and 2 more",
        "anna (REST) asks to terminate execute-2",
    ]


def test_a_worker_that_no_caller_created_can_be_terminated(api: Served) -> None:
    api.observe(worker("i-1"), worker("i-2"))
    meant = api.client.nodes()[0]
    end(api, ids=[meant["NodeId"]])
    assert [override.host for override in api.store.overrides.in_force()] == [meant["InstanceId"]]


def test_a_terminated_node_can_be_terminated_again(api: Served) -> None:
    api.observe(worker("i-1"))
    assert [end(api, hostnames=["host-i-1"])[0][1] for _ in range(2)] == ["OK", "OK"]


def test_several_selectors_select_their_union(api: Served) -> None:
    api.observe(worker("i-1"))
    api.client.create(4)
    first = api.client.nodes()[0]["NodeId"]
    result = end(api, ids=[first, "unknown"], names=["execute-2", "execute-2"], ip_addresses=["10.0.0.7"])
    assert [name.startswith(expected) for (name, _), expected in zip(result, ("execute-1", "execute-2", "execute-w"),
           strict=True)] == [True] * 3  # fmt: skip


def test_a_filter_selects_by_node_attributes(api: Served) -> None:
    api.observe(worker("i-1"), worker("i-2", phase=Phase.BOOTING))
    result = end(api, filter='State === "Started" && Template == "EXECUTE"')
    assert (len(result), [override.host for override in api.store.overrides.in_force()]) == (1, ["i-1"])


def test_a_malformed_filter_is_refused(api: Served) -> None:
    answer = api.client.post("nodes/terminate", {"filter": "State === "})
    assert (answer.status_code, answer.text) == (409, "filter: a name or a value is missing before the end")


def test_a_call_that_selects_no_node_is_refused(api: Served) -> None:
    assert api.client.post("nodes/terminate", {"requestId": "r"}).status_code == 409


def test_a_keepalive_node_is_not_terminated(api: Served) -> None:
    api.client.create(1, nodeAttributes={"KeepAlive": True})
    answer = api.client.post("nodes/terminate", {"names": ["execute-1"]}).json()["nodes"][0]
    assert (answer["status"], answer["error"], len(api.client.nodes())) == ("Error", "this node is marked KeepAlive", 1)


def test_a_worker_that_a_person_keeps_is_not_terminated(api: Served) -> None:
    api.observe(worker("i-1"))
    api.store.overrides.ask(Verb.KEEP, who="ben", at=1.0, host="host-i-1")
    assert [status for _, status in end(api, hostnames=["host-i-1"])] == ["Error"]


@pytest.mark.parametrize("verb", ("deallocate", "restart", "reimage"))
def test_a_verb_that_the_provider_does_not_have_is_refused_for_each_node(api: Served, verb: str) -> None:
    api.observe(worker("i-1"))
    answer = api.client.post(f"nodes/{verb}", {"hostnames": ["host-i-1"]}).json()["nodes"][0]
    assert (answer["status"], answer["error"]) == (
        "Error",
        f"fake has no {verb}: terminate the node and create another",
    )


@pytest.mark.parametrize("verb", ("restart", "reimage"))
def test_a_verb_that_the_provider_has_is_left_to_the_loop(api: Served, verb: str) -> None:
    api.observe(replace(worker("i-1", decisive=Condition.DISABLED_BY_HAND), closed=True), operates=True)
    result = end(api, verb, hostnames=["host-i-1"])
    (asked,) = api.store.node_operations.open()
    assert (result[0][1], asked.operation, asked.worker_id, asked.by) == ("OK", verb, "i-1", "anna (REST)")


def test_a_node_that_may_run_jobs_is_not_restarted(api: Served) -> None:
    api.observe(worker("i-1"), operates=True)
    answer = api.client.post("nodes/restart", {"hostnames": ["host-i-1"]}).json()["nodes"][0]
    assert (answer["status"], "qmod -d '*@host-i-1'" in answer["error"], api.store.node_operations.open()) == (
        "Error",
        True,
        (),
    )


def test_starting_a_started_node_succeeds(api: Served) -> None:
    api.observe(worker("i-1"))
    assert [status for _, status in end(api, "start", hostnames=["host-i-1"])] == ["OK"]


def test_starting_a_terminating_node_fails(api: Served) -> None:
    api.observe(worker("i-1", phase=Phase.DRAINING))
    assert [status for _, status in end(api, "start", hostnames=["host-i-1"])] == ["Error"]


def test_the_nodes_of_a_terminate_call_are_listed_by_its_operation(api: Served) -> None:
    api.observe(worker("i-1"))
    operation = api.client.post("nodes/terminate", {"hostnames": ["host-i-1"]}).json()["operationId"]
    answer = api.client.get("nodes", operation=operation).json()
    assert (answer["operation"]["action"], [node["TargetState"] for node in answer["nodes"]]) == (
        "terminate",
        ["Terminated"],
    )


def test_a_repeated_terminate_call_is_refused(api: Served) -> None:
    api.client.create(2)
    answers = [api.client.post("nodes/terminate", {"names": ["execute-1"], "requestId": "r"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 409]


def test_a_retry_call_is_stored(api: Served) -> None:
    answer = requests.post(f"{api.client.url}/cloud/actions/retry/demo", auth=(USER, PASSWORD), timeout=120)
    assert answer.status_code == 200
    assert api.store.overrides.load().retried_at == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize(("cluster", "login", "status"), (("other", (USER, PASSWORD), 404), ("demo", None, 401)))
def test_a_retry_call_for_another_cluster_or_without_login_is_refused(
    api: Served, cluster: str, login: tuple[str, str] | None, status: int
) -> None:
    answer = requests.post(f"{api.client.url}/cloud/actions/retry/{cluster}", auth=login, timeout=120)
    assert (answer.status_code, api.store.overrides.load().retried_at) == (status, None)


def test_a_node_kept_alive_by_a_request_set_is_not_terminated(api: Served) -> None:
    api.observe(worker("i-1"), arrays=(array(keep_alive=("nightly",)),))
    (node,) = api.client.nodes()
    (answer,) = api.client.post("nodes/terminate", {"ids": [node["NodeId"]]}).json()["nodes"]
    assert (node["KeepAlive"], answer["status"], answer["error"], api.store.overrides.in_force()) == (
        True,
        "Error",
        "nodes of execute are marked KeepAlive by request set nightly",
        (),
    )


def test_a_worker_that_a_person_drains_can_still_be_terminated(api: Served) -> None:
    api.store.overrides.ask(Verb.DRAIN, who="ann", at=1.0, host="i-1")
    api.observe(worker("i-1"), arrays=(array(keep_alive=("nightly",)),))
    (node,) = api.client.nodes()
    assert (node["KeepAlive"], end(api, ids=[node["NodeId"]])[0][1]) == (False, "OK")
