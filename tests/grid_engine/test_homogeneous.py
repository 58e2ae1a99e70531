"""The first of the two documented examples: ten single-core tasks, at most two workers of the master's type."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell, ExecHost
from tests.grid_engine.autoscaling import Autoscaling, most_at_once
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

EXAMPLE = {"CP_CAP_AUTOSCALE_WORKERS": "2", "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large"}


def test_ten_tasks_run_on_the_master_and_at_most_two_workers_which_then_leave(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    empty_cell.add_host(ExecHost("master", slots=2))
    autoscaling = Autoscaling(empty_cell, EXAMPLE)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    job = gate.submit("-t", "1:10")

    with autoscaling.running():
        until(lambda: len(autoscaling.running_on(job)) == 3, 30, "the two workers did not get tasks")
        gate.open()
        until(lambda: autoscaling.ended_well(job, tasks=10), 60, "the ten tasks did not end well")
        until(autoscaling.all_gone, 30, "the workers did not leave")

    workers = autoscaling.lifetimes()
    assert {one.instance_type for one in workers} == {"m5.large"}
    assert most_at_once(workers) <= 2
    assert {end.host for end in autoscaling.ends(job)} == {"master", *(one.name for one in workers)}
    assert autoscaling.execution_hosts() == {"master"}


@pytest.mark.parametrize(
    ("instance_type", "free_cores", "slots"),
    (
        pytest.param("m5.xlarge", "1", 3, id="kept back"),
        pytest.param("m5.large", "2", 2, id="all serve where none would be left", marks=pytest.mark.thorough),
    ),
)
def test_free_cores_are_not_offered_as_slots_of_a_worker(
    empty_cell: Cell, until: Until, show_on_failure: Shown, instance_type: str, free_cores: str, slots: int
) -> None:
    settings = {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": instance_type, "CP_CAP_SGE_WORKER_FREE_CORES": free_cores}
    autoscaling = Autoscaling(empty_cell, settings)
    show_on_failure["autoscaler"] = autoscaling.log_text
    job = empty_cell.submit("-b", "y", "sleep", "60")

    with autoscaling.running():
        (host,) = until(lambda: autoscaling.running_on(job), 30, "the job did not start")

    assert autoscaling.instances()[f"main.q@{host}"].slots == slots
    assert f"slots={slots}" in empty_cell.out("qconf", "-se", host)
