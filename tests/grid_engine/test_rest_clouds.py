"""The REST API over each cloud's control plane: a node that a caller creates is a real host that joins a real cell."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import PlayedCloud, played_cloud
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.test_clouds import SCENARIOS, billable
from tests.grid_engine.test_rest import document_of, serving
from tests.grid_engine.waiting import Until
from tests.samples import sample
from tests.web.seed_lines import CREATE_TOGETHER, NODE, NODES, STATUS, TERMINATE

TELL = (
    "import sys, urllib.request as u;"
    "sys.stdout.buffer.write(u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode())).read())"
)
GROUPS: Mapping[str, Mapping[str, str]] = {
    "aws": {"CP_CAP_AUTOSCALE_AWS_PLACEMENT_GROUPS": "execute=near"},
    "azure": {"CP_CAP_AUTOSCALE_AZURE_AVAILABILITY_SETS": "execute=tight"},
    "cyclecloud": {},
}
"""Provider → what an operator sets so that nodes can be asked for near each other."""
IN_GROUP = {"aws": "near", "azure": "tight", "cyclecloud": "pg0"}


def over(cell: Cell, cloud: PlayedCloud, name: str) -> Autoscaling:
    scaling = serving(cell)
    limits = {"CP_CAP_AUTOSCALE_WORKERS": "4"}
    return replace(scaling, settings={**scaling.settings, **cloud.environment, **SCENARIOS[name], **limits})


def nodes(cell: Cell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document_of(cell, NODES)["nodes"]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample(SCENARIOS, "cyclecloud"))
def test_nodes_are_created_kept_over_a_kill_and_terminated_on_every_cloud(
    empty_cell: Cell, until: Until, show_on_failure: Shown, name: str
) -> None:
    with played_cloud(empty_cell, name) as cloud:
        scaling = over(empty_cell, cloud, name)
        show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
        kind = SCENARIOS[name]["CP_CAP_AUTOSCALE_INSTANCE_TYPE"]
        with scaling.running() as running:
            until(lambda: "REST API at" in scaling.log_text(), 30)
            until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"], 30)
            added = document_of(empty_cell, CREATE_TOGETHER, Standard_Hc44rs=kind)["sets"]
            running.signal(signal.SIGKILL)
        with scaling.running():
            until(lambda: scaling.log_text().count("REST API at") == 2, 30)
            until(lambda: [node["Status"] for node in nodes(empty_cell)] == ["Ready"] * 4, 60)
            joined = {node["Hostname"] for node in nodes(empty_cell)}
            hosts = scaling.execution_hosts()
            for node in nodes(empty_cell):
                document_of(empty_cell, TERMINATE, **{NODE: node["NodeId"]})
            until(scaling.all_gone, 60)
            until(lambda: not nodes(empty_cell))
        assert (added, joined, len(scaling.lifetimes())) == ([{"added": 4}], hosts, 4)
        assert billable(empty_cell, cloud) == []


@pytest.mark.parametrize("name", sample(GROUPS))
def test_nodes_of_a_placement_group_are_requested_with_its_name(
    empty_cell: Cell, until: Until, show_on_failure: Shown, name: str
) -> None:
    with played_cloud(empty_cell, name) as cloud:
        scaling = over(empty_cell, cloud, name)
        scaling = replace(scaling, settings={**scaling.settings, **GROUPS[name]})
        show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
        kind, group = SCENARIOS[name]["CP_CAP_AUTOSCALE_INSTANCE_TYPE"], IN_GROUP[name]
        if name == "aws":
            controlled(empty_cell, cloud, "stock", groups={group: "cluster"})
        with scaling.running():
            until(lambda: "REST API at" in scaling.log_text(), 30)
            until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"], 30)
            document_of(empty_cell, CREATE_TOGETHER.replace("pg0", group), Standard_Hc44rs=kind)
            until(lambda: [node["Status"] for node in nodes(empty_cell)] == ["Ready"] * 4, 60)
            (bucket,) = document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"]
            asked = groups_asked_for(empty_cell, cloud, name)
        assert bucket["placementGroups"] == [{"name": group, "activeCount": 4, "activeCoreCount": 8}]
        assert asked == [group] * 4


def groups_asked_for(cell: Cell, cloud: PlayedCloud, name: str) -> list[str]:
    """The placement group of each machine, as the control plane was asked for it."""
    match name:
        case "aws":
            asked = controlled(cell, cloud, "machines").values()
            return [machine["launch"]["Placement"]["GroupName"] for machine in asked]
        case "azure":
            made = controlled(cell, cloud, "state")["machines"].values()
            return [machine["properties"]["availabilitySet"]["id"].rpartition("/")[2] for machine in made]
        case _:
            return [node["PlacementGroupId"] for node in controlled(cell, cloud, "")["nodes"]]


def controlled(cell: Cell, cloud: PlayedCloud, verb: str, **values: Any) -> Any:
    """The answer to a control request, which the cloud itself does not have."""
    url = cloud.billable.replace("/control/billable", f"/control/{verb}")
    done = cell.runner((sys.executable, "-c", TELL, url, json.dumps(values)), timeout=60.0)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
