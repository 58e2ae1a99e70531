"""Commands of a person on a running cell: SIGTERM, stop, pause, drain, keep. No running job is ever killed."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal, machines
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until


def test_a_terminated_autoscaler_keeps_its_workers_and_logs_their_number_and_price(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit()
    with scaling.running() as running:
        (worker,) = until(lambda: scaling.running_on(job), 40)
        status = running.terminate()
    gate.open()
    until(lambda: scaling.ended_well(job))
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, {worker}, {worker})
    assert f"1 worker stays, 0.096 USD an hour: {worker}" in scaling.log_text()


@pytest.mark.thorough
def test_stop_drain_runs_waiting_jobs_and_launches_no_more_workers(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "2")
    with scaling.running() as running:
        until(lambda: scaling.running_on(job), 40)
        scaling.command("stop", "--drain", "--no-wait")
        waiting = empty_cell.submit("-b", "y", "true")
        until(lambda: "1 job waits" in scaling.log_text())
        gate.open()
        status = running.wait(180)
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, set(), set())
    assert (scaling.ended_well(job), scaling.ended_well(waiting), len(scaling.lifetimes())) == (True, True, 1)


@pytest.mark.thorough
def test_stop_now_removes_all_workers_after_their_jobs_have_ended(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "1", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "2")
    with scaling.running() as running:
        (worker,) = until(lambda: scaling.running_on(job), 40)
        scaling.command("stop", "--now", "--no-wait")
        until(lambda: scaling.instances()[f"main.q@{worker}"].states == "d")
        gate.open()
        status = running.wait(180)
    assert (status, scaling.rented(), scaling.execution_hosts()) == (0, set(), set())
    assert "all workers have been removed and terminated; no worker is left" in scaling.log_text()
    assert scaling.ended_well(job)


@pytest.mark.thorough
def test_stop_waits_for_a_worker_that_was_just_launched_and_is_in_no_listing_yet(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    lagging = {"CP_CAP_AUTOSCALE_LOCAL_LISTING_LAG": "12", "CP_CAP_AUTOSCALE_SCALE_UP_POLLING_TIMEOUT": "120"}
    scaling = Autoscaling(empty_cell, lagging)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    empty_cell.submit("-b", "y", "true")
    with scaling.running() as running:
        until(scaling.rented, 60)
        done = scaling.command("stop", "--now")
        left = scaling.rented()
        status = running.wait(60)
    assert (done.returncode, left, status) == (0, set(), 0)
    assert "the stop waits for m5.large" in scaling.log_text()


@pytest.mark.thorough
def test_stop_removes_workers_itself_if_no_autoscaler_runs(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(job), 40)
    left = scaling.rented()
    done = scaling.command("stop", "--now")
    assert (len(left), done.returncode, scaling.rented(), scaling.execution_hosts()) == (1, 0, set(), set())


@pytest.mark.thorough
def test_a_pause_stops_launches_until_resume(empty_cell: Cell, until: Until, show_on_failure: Shown) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    scaling.command("pause")
    job = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: "paused" in scaling.log_text())
        while_paused = (scaling.plan()["actions"], journal(scaling), machines(scaling))
        scaling.command("resume")
        until(lambda: scaling.ended_well(job), 40)
    assert while_paused == ([], [], [])


def test_drain_undo_enables_a_worker_keep_keeps_it_and_drain_removes_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
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
        until(lambda: "kept by command" in scaling.log_text())
        stays = scaling.instances()[f"main.q@{worker}"].states
        drained = scaling.command("drain", worker)
        until(scaling.all_gone, 40)
        unknown = scaling.command("drain", "nowhere")
    assert (undone.returncode, kept.returncode, stays, drained.returncode, unknown.returncode) == (0, 0, "", 0, 3)
