"""Workers sized by demand: the second documented example, and memory as another request of jobs."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell, ExecHost
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

HYBRID = {"CP_CAP_AUTOSCALE_HYBRID": "true", "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large"}


def make_memory_consumable(cell: Cell) -> None:
    """`h_vmem` counts for each slot, as a site that shares out memory has it."""
    lines = [line for line in cell.out("qconf", "-sc").splitlines() if line.split()[:1] != ["h_vmem"]]
    file = cell.home / "complexes"
    file.write_text("\n".join([*lines, "h_vmem h_vmem MEMORY <= YES YES 0 0"]) + "\n")
    cell.out("qconf", "-Mc", str(file))


def test_eight_tasks_beyond_the_master_get_one_m5_2xlarge_which_then_leaves(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    empty_cell.add_host(ExecHost("master", slots=2))
    autoscaling = Autoscaling(empty_cell, HYBRID)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    job = gate.submit("-t", "1:10")

    with autoscaling.running():
        until(lambda: sum(autoscaling.running_on(job).values()) == 10, 30, "the ten tasks did not run at once")
        placed = autoscaling.running_on(job)
        gate.open()
        until(lambda: autoscaling.ended_well(job, tasks=10), 30, "the ten tasks did not end well")
        until(autoscaling.all_gone, 30, "the worker did not leave")

    (worker,) = autoscaling.lifetimes()
    assert worker.instance_type == "m5.2xlarge"
    assert placed == {"master": 2, worker.name: 8}
    assert autoscaling.execution_hosts() == {"master"}


@pytest.mark.thorough
def test_a_job_gets_the_smallest_type_with_its_requested_memory(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    make_memory_consumable(empty_cell)
    autoscaling = Autoscaling(empty_cell, HYBRID)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    job = gate.submit("-l", "h_vmem=20G")

    with autoscaling.running():
        (host,) = until(lambda: autoscaling.running_on(job), 30, "the job did not start")
        left = empty_cell.out("qhost", "-F", "h_vmem", "-h", host)
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")

    (worker,) = autoscaling.lifetimes()
    assert worker.instance_type == "m5.2xlarge"
    assert "hc:h_vmem=12.000G" in left
