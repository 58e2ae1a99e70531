"""The cause that is told for a job is the one that Grid Engine itself gives (`qalter -w p`)."""

from __future__ import annotations

import json

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

CALM = {"CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "1", "CP_CAP_AUTOSCALE_WORKERS": "2"}


def test_explain_and_jobs_name_the_cause_that_grid_engine_gives(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling, gate = Autoscaling(cell, CALM), Gate(cell)
    quota = cell.home / "closed"
    quota.write_text("{\n   name closed\n   enabled TRUE\n   limit pes mpi to slots=0\n}\n")
    cell.out("qconf", "-Arqs", str(quota))
    expected = {
        gate.submit("-pe", "mpi", "2"): ("QUOTA_ALLOWS_NONE", "closed"),
        gate.submit("-l", "arch=sol-sparc"): ("NO_SUCH_HOST", "arch"),
        gate.submit("-pe", "local", "2", "-l", "num_proc=64"): ("NO_SUCH_HOST", "num_proc"),
    }
    shown = json.loads(autoscaling.command("jobs", "--json").stdout)["jobs"]
    listed = {row["jobs"][0]: row["cause"] for row in shown}
    for job, (code, name) in expected.items():
        said = cell.out("sh", "-c", f"qalter -w p {job} 2>&1; true")
        show_on_failure[f"job {job}"] = lambda said=said, job=job: f"{said}\n{listed[job]}"  # type: ignore[misc]
        explained = autoscaling.explained(job)["waiting"][0]["cause"]
        assert (explained["code"], explained) == (code, listed[job])
        assert name in said
        assert name in explained["text"]

    cell.out("qmod", "-d", "main.q")
    last = gate.submit()
    said = cell.out("sh", "-c", f"qalter -w p {last} 2>&1; true")
    cause = autoscaling.explained(last)["waiting"][0]["cause"]
    show_on_failure["closed"] = lambda: f"{said}\n{cause}"
    assert cause["code"] == "QUEUE_DISABLED_BY_HAND"
    assert "main.q@" in said
    assert "not available" in said or "disabled" in said
