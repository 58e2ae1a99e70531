"""Another shell, with other settings or none: its commands reach the running autoscaler, and decide as it does."""

from __future__ import annotations

import json
from dataclasses import replace

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until


def test_commands_of_another_shell_agree_with_the_running_autoscaler_and_reach_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_WORKERS": "1"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    strange = {"CP_CAP_AUTOSCALE_WORKDIR": str(empty_cell.home / "elsewhere"), "CP_CAP_AUTOSCALE_WORKERS": "50"}
    other = replace(scaling, settings={**strange, "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.24xlarge"})
    gate = Gate(empty_cell)
    with scaling.running():
        job = gate.submit("-pe", "mpi", "8")
        until(lambda: "pass 1" in scaling.log_text())
        answers = [one.command("explain", job, "--json") for one in (scaling, other)]
        reasons = [json.loads(answer.stdout)["waiting"][0]["reason"]["text"] for answer in answers]
        assert (reasons[0].partition(";")[0], "50" in answers[0].stderr.decode()) == (
            reasons[1].partition(";")[0],
            False,
        )
        plan = other.command("plan")
        assert "CP_CAP_AUTOSCALE_WORKERS (50 here, 1 there)" in plan.stderr.decode()
        paused = other.command("pause")
        until(lambda: "paused" in scaling.log_text())
    assert (paused.returncode, (empty_cell.home / "elsewhere").exists()) == (0, False)
