"""What a person tells it on a running cell: end, stop, pause, drain, keep. No running job is ever cut off."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, machines, told
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until


def test_terminated_it_leaves_workers_and_says_how_many_and_what_they_cost(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: told(scaling)
    gate = Gate(empty_cell)
    job = gate.submit()
    with scaling.running() as running:
        (worker,) = until(lambda: scaling.running_on(job), 40)
        status = running.terminate()
    gate.open()
    until(lambda: scaling.ended_well(job))
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, {worker}, {worker})
    assert f"1 worker stays, 0.096 USD an hour: {worker}" in scaling.said()


@pytest.mark.thorough
def test_stop_drain_serves_what_waits_and_launches_no_more(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: told(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "2")
    with scaling.running() as running:
        until(lambda: scaling.running_on(job), 40)
        scaling.command("stop", "--drain", "--no-wait")
        waiting = empty_cell.submit("-b", "y", "true")
        until(lambda: "1 job waits" in scaling.said())
        gate.open()
        status = running.wait(180)
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, set(), set())
    assert (scaling.ended_well(job), scaling.ended_well(waiting), len(scaling.lifetimes())) == (True, True, 1)


@pytest.mark.thorough
def test_stop_now_gives_all_workers_back_and_cuts_no_job_off(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "1", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: told(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "2")
    with scaling.running() as running:
        (worker,) = until(lambda: scaling.running_on(job), 40)
        scaling.command("stop", "--now", "--no-wait")
        until(lambda: scaling.instances()[f"main.q@{worker}"].states == "d")
        gate.open()
        status = running.wait(180)
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, set(), set())
    assert "all workers have been removed and terminated; no worker is left" in scaling.said()
    assert scaling.ended_well(job)


@pytest.mark.thorough
def test_stop_does_the_work_itself_where_no_autoscaler_runs(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: told(scaling)
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40)
    left = scaling.rented()
    done = scaling.command("stop", "--now")
    assert (len(left), done.returncode, scaling.rented(), scaling.execution_hosts()) == (1, 0, set(), set())


@pytest.mark.thorough
def test_paused_it_launches_nothing_until_it_is_resumed(empty_cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: told(scaling)
    scaling.command("pause")
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: "paused" in scaling.said())
        while_paused = (scaling.plan()["actions"], journal(scaling), machines(scaling))
        scaling.command("resume")
        until(lambda: scaling.ended_well(job), 40)
    assert while_paused == ([], [], [])


def test_a_drain_that_is_undone_enables_and_a_kept_worker_stays_and_a_drained_one_leaves(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: told(scaling)
    gate = Gate(empty_cell)
    job = gate.submit()
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 40)
        scaling.command("drain", worker)
        until(lambda: scaling.instances()[f"main.q@{worker}"].states == "d", 20)
        undone = scaling.command("drain", "--undo", worker)
        until(lambda: scaling.instances()[f"main.q@{worker}"].states == "", 20)
        kept = scaling.command("keep", worker)
        gate.open()
        until(lambda: scaling.ended_well(job))
        until(lambda: "kept by command" in scaling.said())
        stays = scaling.instances()[f"main.q@{worker}"].states
        drained = scaling.command("drain", worker)
        until(scaling.all_gone, 40)
        unknown = scaling.command("drain", "nowhere")
    assert (undone.returncode, kept.returncode, stays, drained.returncode, unknown.returncode) == (0, 0, "", 0, 3)
