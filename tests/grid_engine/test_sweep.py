"""A sweep on a real cell: its workers are jobs, and the autoscaler rents hosts for them."""

from __future__ import annotations

import json
from pathlib import Path

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Shown, Until

SWEEP = """
seeds = [1, 2]
[settings]
CP_CAP_AUTOSCALE_IDLE_TIMEOUT = [0.5, 60, 600]
[[workload]]
source = "generated:24:5"
windows = 2
[conditions]
spread = 0.3
"""
JOBS = 6
"""More than the persistent hosts of the cell have slots."""


def test_the_cell_grows_for_its_own_search(cell: Cell, until: Until, show_on_failure: Shown) -> None:
    autoscaling = Autoscaling(cell, {"CP_CAP_AUTOSCALE_WORKERS": "40"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    file = cell.home / "sweep.toml"
    file.write_text(SWEEP)
    show_on_failure["workers"] = lambda: outputs(cell.home)
    with autoscaling.running():
        done = autoscaling.command("sweep", str(file), "--grid-engine", str(JOBS), "--json", timeout=600.0)
        assert done.returncode == 0, done.stderr.decode()
        until(autoscaling.all_gone, 120.0, "workers are still there")
    document = json.loads(done.stdout)
    played = [point["chosen_on"] for point in document["points"]]
    assert len(played) == 4
    assert all(one is not None for one in played), document["said"]
    assert not any("failed" in said for said in document["said"])
    assert autoscaling.lifetimes()
    assert cell.out("qstat", "-u", "*") == ""
    assert not list(cell.home.glob(".sweep-*"))


def outputs(folder: Path) -> str:
    return "\n".join(file.read_text(errors="replace") for file in folder.rglob("sge-autoscaler-sweep.o*"))
