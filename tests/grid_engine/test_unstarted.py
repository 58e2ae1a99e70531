"""Slots that look free and are kept for another job: the scheduler is asked, and a worker comes."""

from __future__ import annotations

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until


def test_a_job_behind_a_slot_that_is_reserved_for_another_gets_a_worker(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(cell, {"CP_CAP_AUTOSCALE_WORKERS": "4", "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "4"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    cell.schedule(max_reservation="5")
    here, other = sorted(host.name for host in cell.declared)
    cell.out("qmod", "-d", f"*@{other}")
    gate = Gate(cell)
    first = gate.submit("-l", "h_rt=3600", "-q", f"*@{here}")
    until(lambda: autoscaling.running_on(first) == {here: 1}, 20, "the first job did not start")
    gate.submit("-R", "y", "-pe", "local", "2", "-l", "h_rt=3600", "-q", f"main.q@{here}")
    behind = gate.submit()

    with autoscaling.running():
        until(lambda: list(autoscaling.running_on(behind)) not in ([], [here]), 90, "no worker came for the last job")
        assert len(autoscaling.lifetimes()) == 1
        gate.open()
