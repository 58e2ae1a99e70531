"""Live requests as text and JSON."""

from __future__ import annotations

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Requests, RequestSet, Target
from autoscaler.report.requests import requests_document, requests_text

NODE = CreatedNode("n-1", "node-1", "execute", 1.0, worker_id="i-1")


def test_created_nodes_count_in_the_sum_and_show_their_machine() -> None:
    requests = Requests(nodes=(NODE, CreatedNode("n-2", "node-2", "execute", 2.0)))
    result = requests_text(requests_document(requests, 0.0)).splitlines()
    assert result == [
        "nodes created one by one:",
        "  node-1 of execute: i-1",
        "  node-2 of execute: no machine yet",
        "in sum:",
        "  execute: 2 nodes",
    ]


def test_requested_instance_types_are_shown_with_the_target() -> None:
    request_set = RequestSet("a", "ann", 0.0, None, (Target("execute", count=2),))
    chosen = ArrayDefinition("execute", machine_types=("m5.lage", "m5.large"))
    result = requests_document(Requests(sets=(request_set,), arrays=(chosen,)), 0.0)
    assert requests_text(result).splitlines()[-1] == "  execute: 2 workers of m5.lage, m5.large"


def test_existing_workers_are_shown_with_the_target() -> None:
    requests = Requests(sets=(RequestSet("a", "ann", 0.0, None, (Target("execute", count=5),)),))
    result = requests_text(requests_document(requests, 0.0, {"execute": 2, "other": 1}))
    assert result.splitlines()[-1] == "  execute: 5 workers; 2 workers there"


def test_an_array_that_no_set_names_is_shown_until_it_is_gone() -> None:
    requests = Requests(
        sets=(RequestSet("a", "ann", 0.0, 60.0, (Target("execute", cores=1),)),),
        arrays=(ArrayDefinition("big", dynamic=True, requested=False),),
    )
    result = requests_text(requests_document(requests, 30.0)).splitlines()
    assert result == [
        "a: requested by ann, until 1970-01-01 00:01:00 (30 s left)",
        "  execute: 1 vCPU",
        "in sum:",
        "  big: nothing; no set names it: the autoscaler removes it with its last worker",
        "  execute: 1 vCPU",
    ]


def test_a_set_without_targets_names_its_arrays() -> None:
    named = RequestSet("a", "ann", 0.0, None, (), ("execute",))
    groups = RequestSet("b", "ann", 0.0, None, (Target("big:4", groups=1, group_cores=4),), ("big", "big:4"))
    result = requests_text(requests_document(Requests(sets=(named, groups)), 0.0)).splitlines()
    assert result[:4] == [
        "a: requested by ann, until it is ended",
        "  execute: named without a target",
        "b: requested by ann, until it is ended",
        "  big:4: 1 group of 4 vCPUs",
    ]


def test_without_targets_the_sum_is_nothing() -> None:
    nothing = Requests(sets=(RequestSet("a", "ann", 0.0, None, ()),))
    assert requests_text(requests_document(nothing, 0.0)).splitlines()[-1] == "in sum: nothing"


def test_arrays_with_keepalive_workers_show_it() -> None:
    arrays = (
        ArrayDefinition("execute", keep_alive=(("a", True), ("b", False))),
        ArrayDefinition("child", dynamic=True, extends="execute"),
        ArrayDefinition("free", dynamic=True, extends="execute", keep_alive=(("a", False),)),
        ArrayDefinition("left", dynamic=True, extends="execute", requested=False),
    )
    result = requests_document(Requests(arrays=arrays), 0.0, {"execute": 2})
    kept = {array["name"]: array["keep_alive"] for array in result["node_arrays"]}
    assert kept == {"execute": ["a"], "child": ["a"], "free": [], "left": []}
    assert (
        "  execute: nothing; 2 workers there; its workers stay (KeepAlive of a)" in requests_text(result).splitlines()
    )


def test_groups_of_two_sets_add_up_and_keep_their_size() -> None:
    targets = [RequestSet(name, "ann", 0.0, None, (Target("e:2", groups=2, group_count=2),)) for name in "ab"]
    (array,) = requests_document(Requests(sets=tuple(targets)), 0.0)["node_arrays"]
    assert (array["groups"], array["group_count"]) == (4, 2)


def test_groups_sized_in_vcpus_and_in_workers_are_separate() -> None:
    targets = (Target("e:2", groups=3, group_cores=2), Target("e:2", groups=1, group_count=2))
    result = requests_document(Requests(sets=(RequestSet("a", "ann", 0.0, None, targets),)), 0.0)
    assert (result["node_arrays"][0]["groups"], result["node_arrays"][0]["groups_of_workers"]) == (4, 1)
    assert requests_text(result).splitlines()[-1] == "  e:2: 3 groups of 2 vCPUs + 1 group of 2 workers"


def test_arrays_that_no_set_names_are_shown_without_any_set() -> None:
    requests = Requests(arrays=(ArrayDefinition("big", dynamic=True, requested=False),))
    assert "big: nothing" in requests_text(requests_document(requests, 0.0))
