"""The REST API beside a loop that serves a real cell: the documentation's lines, and our own client of that API."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.api.passwords import set_password
from autoscaler.lab.cell import Cell
from autoscaler.providers.local import failures
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal, machines
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.test_lost import machine_of
from tests.grid_engine.test_sigkill import STARTED_AGAIN
from tests.grid_engine.waiting import Until
from tests.web.seed_lines import CREATE, CREATE_TOGETHER, NODE, NODES, STATUS, TERMINATE, argv

URL, USER, PASSWORD = "http://127.0.0.1:8651", "anna", "s3cret/pass:word"
SERVED = {"CP_CAP_AUTOSCALE_HTTP": "127.0.0.1:8651", "CP_CAP_AUTOSCALE_HTTP_CLUSTER": "demo"}
CLIENT = {"URL": URL, "USERNAME": USER, "PASSWORD": PASSWORD, "CLUSTER": "demo", "BOOT": "none"}
RETRY = "curl --location --request POST '${CC-URL}/cloud/actions/retry/${CLUSTER}'"
STATUS_WITH_NODES = STATUS.replace("/status", "/status?nodes=true")
ROOT = Path(__file__).parents[2]


def serving(cell: Cell) -> Autoscaling:
    scaling = Autoscaling(cell, SERVED)
    set_password(scaling.state / "http-passwords", USER, PASSWORD)
    return scaling


def status_of(cell: Cell, line: str) -> str:
    """The HTTP status of a line of the documentation."""
    words = argv(line, url=URL, cluster="demo", user=USER, password=PASSWORD, ondemand="execute")
    return cell.runner(words, timeout=60.0).stdout.decode().rpartition("\n")[2]


def document_of(cell: Cell, line: str, **others: str) -> dict[str, Any]:
    """The answer to a line of the documentation, run on the master."""
    words = argv(line, url=URL, cluster="demo", user=USER, password=PASSWORD, **{"ondemand": "execute", **others})
    body, _, status = cell.runner(words, timeout=60.0).stdout.decode().rpartition("\n")
    assert status in ("200", "202"), (status, body)
    document: dict[str, Any] = json.loads(body)
    return document


def asked(cell: Cell, *words: str) -> Any:
    """The answer to our client of CycleCloud on the master."""
    settings = {f"CP_CAP_AUTOSCALE_CYCLECLOUD_{name}": value for name, value in CLIENT.items()}
    environment = {**cell.environment, **settings, "PYTHONPATH": str(ROOT)}
    done = cell.runner((sys.executable, "-m", "tests.grid_engine.rest_client", *words), timeout=300.0, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def metrics(cell: Cell) -> dict[str, float]:
    """What Prometheus would read on the master."""
    argv = ("curl", "--silent", "--user", f"{USER}:{PASSWORD}", f"{URL}/metrics")
    text = cell.runner(argv, timeout=60.0).stdout.decode()
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_documentations_lines_create_a_node_that_runs_a_job_and_drain_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = serving(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    with scaling.running():
        until(lambda: "REST API at" in scaling.log_text())
        until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"])
        added = document_of(empty_cell, CREATE)["sets"]
        until(lambda: document_of(empty_cell, NODES)["nodes"][0]["Status"] == "Ready", 30)
        (node,) = document_of(empty_cell, NODES)["nodes"]
        job = gate.submit()
        until(lambda: node["Hostname"] in scaling.running_on(job))
        ended = document_of(empty_cell, TERMINATE, **{NODE: node["NodeId"]})["nodes"]
        (leaving,) = document_of(empty_cell, NODES)["nodes"]
        until(lambda: "d" in scaling.instances()[f"main.q@{node['Hostname']}"].states)
        still_running = scaling.running_on(job)
        gate.open()
        until(scaling.all_gone, 30)
        until(lambda: not document_of(empty_cell, NODES)["nodes"])
        until(lambda: "sge_autoscaler_actions_total terminate REMOVED_FROM_GRID_ENGINE done" in metrics(empty_cell))
        measured = metrics(empty_cell)
    lives = ("started_tasks_total", "worker_boot_seconds_count", "worker_join_seconds_count")
    assert [measured[f"sge_autoscaler_{name}"] for name in lives] == [1, 1, 1]
    assert measured["sge_autoscaler_grid_engine_command_duration_seconds_count qstat"] > 1
    assert (added, ended[0]["status"], leaving["TargetState"]) == ([{"added": 1}], "OK", "Terminated")
    assert (list(still_running), scaling.ended_well(job), len(machines(scaling))) == ([node["Hostname"]], True, 1)


def running_by_rest(cell: Cell, query: str = "?running=true") -> list[dict[str, Any]] | None:
    """The running jobs that REST lists; None: it lists none at all, or no pass has been made yet."""
    argv = ("curl", "--silent", "--user", f"{USER}:{PASSWORD}", f"{URL}/answers/v1/jobs{query}")
    answer = json.loads(cell.runner(argv, timeout=60.0).stdout)
    rows: list[dict[str, Any]] | None = answer.get("document", {}).get("running")
    return rows


def test_running_jobs_are_listed_with_their_hosts(empty_cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling, gate = serving(empty_cell), Gate(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    array, parallel = gate.submit("-t", "1-2"), gate.submit("-pe", "local", "2")
    with scaling.running():
        until(lambda: [row["state"] for row in running_by_rest(empty_cell) or []] == ["r"] * 3, 60)
        rows = running_by_rest(empty_cell) or []
        by_command = json.loads(scaling.command("jobs", "--running", "--json").stdout)["running"]
        gate.open()
        until(lambda: running_by_rest(empty_cell) == [])
        assert running_by_rest(empty_cell, "") is None
    (of_parallel,) = scaling.ends(parallel)
    assert [(row["job"], row["slots"]) for row in rows] == [(f"{array}.1", 1), (f"{array}.2", 1), (parallel, 2)]
    assert rows[2]["hosts"] == [of_parallel.host]
    assert [{**row, "runs_s": 0} for row in by_command] == [{**row, "runs_s": 0} for row in rows]


@pytest.mark.thorough
def test_the_documentations_four_nodes_join_though_the_provider_has_no_placement_groups(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = serving(empty_cell)
    scaling = replace(scaling, settings={**scaling.settings, "CP_CAP_AUTOSCALE_WORKERS": "4"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    with scaling.running():
        until(lambda: "REST API at" in scaling.log_text())
        until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"])
        added = document_of(empty_cell, CREATE_TOGETHER, Standard_Hc44rs="m5.large")["sets"]
        until(lambda: [node["Status"] for node in document_of(empty_cell, NODES)["nodes"]] == ["Ready"] * 4, 60)
        hosts = {node["Hostname"] for node in document_of(empty_cell, NODES)["nodes"]}
        (bucket,) = document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"]
    assert (added, hosts <= scaling.execution_hosts()) == ([{"added": 4}], True)
    assert bucket["placementGroups"] == [{"name": "pg0", "activeCount": 4, "activeCoreCount": 8}]


@pytest.mark.thorough
def test_our_cyclecloud_client_launches_and_terminates_a_worker_of_our_server(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = serving(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    with scaling.running():
        until(lambda: "REST API at" in scaling.log_text())
        until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"])
        ((worker, (_, host)),) = asked(empty_cell, "rent").items()
        job = gate.submit()
        until(lambda: host in scaling.running_on(job))
        while_busy = asked(empty_cell, "end", worker)
        gate.open()
        until(scaling.all_gone, 30)
        until(lambda: not document_of(empty_cell, STATUS_WITH_NODES)["nodes"])
    assert (while_busy, scaling.ended_well(job)) == ({worker: ["stopping", host]}, True)


@pytest.mark.thorough
def test_a_repeated_request_makes_no_second_machine_after_the_autoscaler_was_killed(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    before = StandIn(empty_cell, "nsenter")
    scaling = serving(empty_cell)
    scaling = replace(scaling, settings={**scaling.settings, "PATH": before.path})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    before.kill_caller_around("*hostname ip-*")
    with scaling.serving(), empty_cell.start(STARTED_AGAIN, env=scaling.environment, output=scaling.log):
        until(lambda: "REST API at" in scaling.log_text())
        until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"])
        document_of(empty_cell, CREATE)
        until(lambda: before.killed() == {"before", "after"}, 30)
        until(lambda: scaling.log_text().count("serving cell") == 3, 30)
        repeated = status_of(empty_cell, CREATE)
        until(lambda: document_of(empty_cell, NODES)["nodes"][0]["Status"] == "Ready", 30)
        (node,) = document_of(empty_cell, NODES)["nodes"]
        rented = scaling.rented()
    assert (repeated, rented, len(machines(scaling))) == ("409", {node["Hostname"]}, 1)


@pytest.mark.thorough
def test_a_node_whose_machine_is_lost_has_failed_until_its_caller_retries_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = serving(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)

    def node() -> dict[str, Any]:
        (found,) = document_of(empty_cell, NODES)["nodes"]
        return dict(found)

    with scaling.running():
        until(lambda: "REST API at" in scaling.log_text())
        until(lambda: document_of(empty_cell, STATUS)["nodearrays"][0]["buckets"])
        document_of(empty_cell, CREATE)
        until(lambda: node()["Status"] == "Ready", 30)
        first = node()
        failures.kill(machine_of(scaling, first["Hostname"]), empty_cell.tree)
        until(lambda: node()["Status"] == "Failed", 30)
        failed = node()
        until(lambda: scaling.execution_hosts() == set(), 30)
        document_of(empty_cell, RETRY)
        until(lambda: node()["Status"] == "Ready", 30)
        again = node()
        hosts = scaling.execution_hosts()
    assert (failed["NodeId"], again["NodeId"], again["Name"]) == (first["NodeId"], first["NodeId"], first["Name"])
    assert (failed["StatusMessage"], failed["TargetState"]) == ("its provider reports that it is gone", "Started")
    assert (hosts, len(machines(scaling))) == ({again["Hostname"]}, 2)
