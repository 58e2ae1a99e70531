"""Jobs over several hosts: they get the requested slots of a parallel environment, and their tasks reach each other."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

ALL_AT_ONCE = {
    "CP_CAP_AUTOSCALE_WORKERS": "4",
    "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "4",
    "CP_CAP_AUTOSCALE_SCALE_DOWN_BATCH_SIZE": "4",
}
# Without -nostdin, qrsh eats the loop's input.
REACH = """#!/bin/bash
set -e
while read host slots rest; do
    qrsh -inherit -nostdin $host hostname
done < $PE_HOSTFILE
"""


@pytest.mark.parametrize(
    ("asked", "least"),
    (pytest.param("mpi 4-12", 4, id="range", marks=pytest.mark.thorough), pytest.param("m* 6", 6, id="wildcard")),
)
def test_a_job_gets_its_requested_slots_of_a_parallel_environment(
    empty_cell: Cell, until: Until, show_on_failure: Shown, asked: str, least: int
) -> None:
    autoscaling = Autoscaling(empty_cell, ALL_AT_ONCE)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    job = gate.submit("-pe", *asked.split())

    with autoscaling.running():
        placed = until(lambda: autoscaling.running_on(job), 30, "the job did not start")
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")

    assert sum(placed.values()) >= least
    assert set(placed) <= {one.name for one in autoscaling.lifetimes()}


@pytest.mark.thorough
def test_the_master_task_of_an_mpi_job_reaches_every_host_of_its_pe_hostfile(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, ALL_AT_ONCE)
    show_on_failure["autoscaler"] = autoscaling.log_text
    script, reached = empty_cell.home / "reach", empty_cell.output / "reached"
    script.write_text(REACH)
    script.chmod(0o755)
    job = empty_cell.submit("-b", "y", "-pe", "mpi", "4", "-o", str(reached), "-j", "y", str(script))

    with autoscaling.running():
        until(lambda: len(autoscaling.ends(job)) == 3, 40, "master task and two others did not end")

    assert sorted(reached.read_text().split()) == sorted(str(one.name) for one in autoscaling.lifetimes())
    assert len(autoscaling.lifetimes()) == 2
    assert autoscaling.ended_well(job, tasks=3)
