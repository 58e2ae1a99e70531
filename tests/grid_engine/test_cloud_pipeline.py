"""The whole loop with Cloud Pipeline's control plane: its runs are real hosts that enrol themselves in a real cell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sge.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Shown, Until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def container(empty_cell: Cell, until: Until) -> Iterator[dict[str, str]]:
    """The environment of the master's container, while the platform serves it."""
    output = empty_cell.home / "platform.log"
    output.write_text("")
    machines = ("--machines", str(empty_cell.home / "machines"))
    argv = (sys.executable, "-m", "tests.clouds.cloud_pipeline.server", *machines)
    network = {"CP_CAP_AUTOSCALE_LOCAL_NETWORK": str(empty_cell.tree.directory), "PYTHONPATH": str(ROOT)}
    platform = empty_cell.start(argv, env={**empty_cell.environment, **network}, output=output)
    try:
        until(lambda: output.read_text().endswith("\n"), 15, "the platform did not start")
        environment: dict[str, str] = json.loads(output.read_text().splitlines()[0])["environment"]
        hosts = empty_cell.home / "hosts"
        hosts.write_text("")
        yield environment | {
            "CP_CAP_AUTOSCALE_PROVIDER": "cloud_pipeline",
            "CP_CAP_AUTOSCALE_HOSTS_FILE": str(hosts),
        }
    finally:
        platform.terminate(5.0)


def test_a_job_runs_on_a_worker_run_that_joined_by_itself_and_is_stopped_again(
    empty_cell: Cell, container: dict[str, str], until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, container)
    show_on_failure["autoscaler"] = autoscaling.said
    show_on_failure["platform"] = (empty_cell.home / "platform.log").read_text
    job = empty_cell.submit("-b", "y", "sleep", "1")

    with autoscaling.running():
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well on a worker")
        until(autoscaling.all_gone, 30, "the worker did not leave")

    (end,) = autoscaling.ends(job)
    (worker,) = autoscaling.lifetimes()
    assert (end.host, worker.instance_type) == (worker.name, "m5.large")
    assert (empty_cell.home / "hosts").read_text() == ""
