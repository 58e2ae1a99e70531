"""The whole loop with each cloud's control plane: its machines are real hosts that join a real cell."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.lab.played_cloud import PlayedCloud, played_cloud
from autoscaler.worker_configuration import INSTANCE_ID
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Shown, Until
from tests.samples import sample

ASK = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(u.Request(sys.argv[1], b'{}')).read())"
SCENARIOS: Mapping[str, Mapping[str, str]] = {
    "aws": {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "c5.large"},
    "azure": {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "Standard_D2s_v5"},
    "cloud_pipeline": {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large"},
    "cyclecloud": {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "Standard_D2s_v5"},
}
"""Provider → what an operator sets beside the address and the credentials."""
KNOW_THEMSELVES = ("aws", "azure", "cloud_pipeline")
"""Providers whose machines learn from their cloud's metadata, or environment, by which id they are listed."""


@pytest.mark.parametrize("name", sample(SCENARIOS, "azure"))
def test_a_job_runs_on_a_launched_machine_which_is_terminated_afterwards(
    empty_cell: Cell, until: Until, show_on_failure: Shown, name: str
) -> None:
    show_on_failure["control plane"] = (empty_cell.directory / f"{name}.log").read_text
    show_on_failure["machines"] = lambda: consoles(empty_cell)
    with played_cloud(empty_cell, name) as cloud:
        autoscaling = Autoscaling(empty_cell, {**cloud.environment, **SCENARIOS[name]})
        show_on_failure["autoscaler"] = autoscaling.log_text
        options = (
            "-b",
            "y",
            "-o",
            str(empty_cell.home / "told"),
            "-j",
            "y",
            "jetpack",
            "config",
            INSTANCE_ID,
            "nobody",
        )
        job = empty_cell.submit(*options)

        with autoscaling.running():
            until(lambda: autoscaling.ended_well(job), 30, "the job did not end well on a worker")
            until(autoscaling.all_gone, 30, "the worker did not leave")

        (end,) = autoscaling.ends(job)
        (worker,) = autoscaling.lifetimes()
        wanted = SCENARIOS[name]["CP_CAP_AUTOSCALE_INSTANCE_TYPE"]
        assert (end.host, worker.instance_type, billable(empty_cell, cloud)) == (worker.name, wanted, [])
        assert names_kept(cloud) == ""
        if name in KNOW_THEMSELVES:
            assert (empty_cell.home / "told").read_text() == f"{worker.worker_id}\n"


def billable(cell: Cell, cloud: PlayedCloud) -> list[str]:
    """What costs money now, according to the control plane."""
    done = cell.runner((sys.executable, "-c", ASK, cloud.billable), timeout=60.0)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return list(found["billable"])


def names_kept(cloud: PlayedCloud) -> str:
    """What the autoscaler left in the master's hosts file, where it keeps one."""
    return Path(cloud.environment.get("CP_CAP_AUTOSCALE_HOSTS_FILE", os.devnull)).read_text()


def consoles(cell: Cell) -> str:
    """What every machine printed while it booted."""
    files = sorted((cell.tree.directory / "hosts").glob("*/console.log"))
    return "\n".join(file.read_text(errors="replace") for file in files)
