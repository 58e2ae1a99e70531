"""Broken workers that report: jobs fail on them one after another, or the health check fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.process import Runner
from autoscaler.sge.accounting import read_starts
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until

QUICK = {"CP_CAP_AUTOSCALE_POLLING_DELAY": "0.3", "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"}
SHEPHERD = "/usr/lib/gridengine/sge_shepherd"


def break_shepherd(host: Runner) -> None:
    """No job can be started on this host any more: each goes back into the queue, and comes here again."""
    done = host(("mount", "--bind", "/bin/false", SHEPHERD), timeout=60.0)
    assert done.returncode == 0, done.stderr.decode()


def ran_elsewhere(cell: Cell, broken: str) -> set[str]:
    """Jobs that Grid Engine ran on another host."""
    written = (cell.root / "default" / "common" / "accounting").read_bytes()
    return {str(start.job) for start in read_starts(written) if start.failed == 0 and start.host != broken}


def kinds(scaling: Autoscaling, host: str) -> list[str]:
    done = (entry.kind for entry in journal(scaling) if entry.host == host and entry.result == "done")
    return list(dict.fromkeys(done))


@pytest.mark.thorough
def test_a_worker_on_which_no_job_can_start_is_replaced_and_the_jobs_run_elsewhere(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {**QUICK, "CP_CAP_AUTOSCALE_BLACK_HOLE_FAILURES": "2"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    with scaling.running():
        first = empty_cell.submit("-b", "y", "true")
        until(lambda: scaling.ended_well(first), 40)
        (broken,) = scaling.living()
        break_shepherd(empty_cell.host_runner(broken))
        jobs = [empty_cell.submit("-b", "y", "true") for _ in range(2)]
        until(lambda: set(jobs) <= ran_elsewhere(empty_cell, broken), 40)
        until(lambda: broken not in scaling.rented(), 20)
    assert kinds(scaling, broken)[-3:] == ["disable", "remove", "terminate"]
    assert "1 : assumedly before job" in scaling.log_text()


@pytest.mark.thorough
def test_a_worker_that_fails_its_health_check_is_removed_after_its_job_has_ended(
    empty_cell: Cell, until: Until, tmp_path: Path, show_on_failure: Shown
) -> None:
    check = tmp_path / "check"
    check.write_text('#!/bin/sh\n[ -e "$0.sick" ] || exit 0\necho "no /data on $1"\nexit 1\n')
    check.chmod(0o755)
    settings = {"CP_CAP_AUTOSCALE_HEALTH_CHECK": str(check), "CP_CAP_AUTOSCALE_HEALTH_CHECK_INTERVAL": "0.5"}
    scaling = Autoscaling(empty_cell, {**QUICK, **settings})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit()
    with scaling.running():
        until(lambda: scaling.running_on(job), 40)
        (sick,) = scaling.living()
        check.with_suffix(".sick").touch()
        until(lambda: "d" in scaling.instances()[f"main.q@{sick}"].states, 20)
        ran_on = scaling.running_on(job)
        gate.open()
        until(lambda: sick not in scaling.rented(), 20)
    assert (list(ran_on), scaling.ended_well(job)) == ([sick], True)
    assert f"no /data on {sick}" in scaling.log_text()
