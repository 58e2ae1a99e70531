"""The command lines of CycleCloud's documentation have the documented effect here."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.web.seed_lines import CREATE, CREATE_TOGETHER, NODE, NODES, REQUEST, STATUS, TERMINATE, argv
from tests.web.served import PASSWORD, USER, Served, array

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
TOGETHER = "0b1c1c52-9a3e-4a5c-8a55-0f0c6a1e9d11"


def call(api: Served, line: str, **others: str) -> tuple[int, Any]:
    """Status and document that a line returns."""
    others = {"Standard_Hc44rs": "c5.xlarge", **others}
    words = argv(line, url=api.client.url, cluster="demo", user=USER, password=PASSWORD, **others)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), json.loads(body) if body.startswith(("{", "[")) else body


def test_the_lines_of_the_documentation_work_with_placeholders_filled_in(api: Served) -> None:
    api.observe(arrays=(array("ondemand"),))
    status, answer = call(api, STATUS)
    buckets = answer["nodearrays"][0]["buckets"]
    assert (status, answer["state"], [bucket["definition"]["machineType"] for bucket in buckets]) == (
        200,
        "Started",
        ["c5.large", "c5.xlarge"],
    )
    status, answer = call(api, CREATE)
    assert (status, answer["sets"], bool(answer["operationId"])) == (202, [{"added": 1}], True)
    status, answer = call(api, NODES)
    (created,) = answer["nodes"]
    assert (status, created["Name"], answer["operation"]["action"]) == (200, "ondemand-1", "create")
    status, answer = call(api, CREATE_TOGETHER, **{REQUEST: TOGETHER})
    assert (status, answer["sets"]) == (202, [{"added": 4}])
    status, answer = call(api, NODES, **{REQUEST: TOGETHER})
    assert [(node["PlacementGroupId"], node["MachineType"]) for node in answer["nodes"]] == [("pg0", "c5.xlarge")] * 4
    status, answer = call(api, TERMINATE, **{NODE: created["NodeId"]})
    assert (status, answer["nodes"]) == (202, [{"id": created["NodeId"], "name": "ondemand-1", "status": "OK"}])


def test_the_second_create_line_of_the_documentation_repeats_the_first(api: Served) -> None:
    """Both have the same request id: the reference answers 409 to the second, and so do we."""
    api.observe(arrays=(array("ondemand"),))
    call(api, CREATE)
    status, answer = call(api, CREATE_TOGETHER)
    assert (status, "was made before" in answer, len(api.client.nodes())) == (409, True, 1)


def test_our_status_has_every_name_of_the_documented_status(api: Served) -> None:
    _, answer = call(api, STATUS)
    cluster = {"state", "targetState", "maxCount", "maxCoreCount", "nodearrays"}
    node_array = {"name", "maxCount", "maxCoreCount", "buckets"}
    bucket = {
        "bucketId", "definition", "maxCount", "maxCoreCount", "activeCount", "activeCoreCount", "availableCount",
        "availableCoreCount", "quotaCount", "quotaCoreCount", "consumedCoreCount", "maxPlacementGroupSize",
        "maxPlacementGroupCoreSize", "valid", "placementGroups", "virtualMachine",
    }  # fmt: skip
    first = answer["nodearrays"][0]
    missing = [cluster - answer.keys(), node_array - first.keys(), bucket - first["buckets"][0].keys()]
    assert (missing, {"vcpuCount", "memory", "infiniband"} - first["buckets"][0]["virtualMachine"].keys()) == (
        [set(), set(), set()],
        set(),
    )
