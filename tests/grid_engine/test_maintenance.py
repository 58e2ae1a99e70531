"""Maintenance as docs/operate/automate.md has it, tried on a cell: what workers and jobs notice of it."""

from __future__ import annotations

import json

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.waiting import Until

SETTINGS = {"CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600", "CP_CAP_SGE_MASTER_CORES": "0"}


def end_qmaster(cell: Cell, until: Until) -> None:
    """As an administrator does: a qmaster that is killed may forget the number of its last job."""
    pid = (cell.root / "default/spool/qmaster/qmaster.pid").read_text().strip()
    cell.out("qconf", "-km")
    until(lambda: cell.runner(("kill", "-0", pid), timeout=60.0).returncode != 0, 60)


def doctored(scaling: Autoscaling) -> set[str]:
    """What `doctor` finds to fail."""
    findings = json.loads(scaling.command("doctor", "--json").stdout)["findings"]
    return {finding["what"] for finding in findings if finding["level"] == "fail"}


def test_a_cell_that_is_restored_from_a_copy_gets_its_workers_back(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    cell = empty_cell
    scaling = Autoscaling(cell, SETTINGS)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    assert scaling.command("init", "--yes").returncode == 0
    assert scaling.command("once").returncode == 0  # the copy has the cell's tag
    end_qmaster(cell, until)
    cell.out("cp", "-a", str(cell.root / "default"), str(cell.root / "copy"))
    cell.start_qmaster()
    first = cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(first), 60)
    (worker,) = scaling.living()
    # The service is stopped, and the cell is as it was before it had a worker.
    end_qmaster(cell, until)
    cell.out("rm", "-rf", str(cell.root / "default"))
    cell.out("mv", str(cell.root / "copy"), str(cell.root / "default"))
    cell.start_qmaster()
    assert worker not in scaling.execution_hosts()
    assert doctored(scaling) == set()
    machine = {one.worker_id for one in scaling.lifetimes()}
    assert json.loads(scaling.command("orphans", "--json").stdout)["orphans"] == []
    assert (scaling.plan()["workers"][0]["name"], worker in scaling.execution_hosts()) == (worker, False)
    second = cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(second), 120)
    assert {one.worker_id for one in scaling.lifetimes()} == machine, "no other machine was rented"


def test_hosts_of_workers_that_have_left_are_recognised_when_the_cell_is_restored_with_them(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    cell = empty_cell
    scaling = Autoscaling(cell, SETTINGS)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    assert scaling.command("init", "--yes").returncode == 0
    first = cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(first), 60)
    (worker,) = scaling.living()
    end_qmaster(cell, until)
    cell.out("cp", "-a", str(cell.root / "default"), str(cell.root / "copy"))
    cell.start_qmaster()
    with scaling.running(CP_CAP_AUTOSCALE_IDLE_TIMEOUT="0.5"):
        until(lambda: not scaling.living(), 60)
    end_qmaster(cell, until)
    cell.out("rm", "-rf", str(cell.root / "default"))
    cell.out("mv", str(cell.root / "copy"), str(cell.root / "default"))
    cell.start_qmaster()
    assert worker in scaling.execution_hosts()
    verdicts = {each["name"]: each["reason"]["code"] for each in scaling.plan()["workers"] if each["id"] is None}
    assert verdicts == {worker: "HOST_OF_LEFT_WORKER", "master": "QMASTER_HOST"}
    said = scaling.command("explain", worker).stdout.decode()
    assert "it has the name of a worker that has left" in said
    assert "qconf -de" in said
    second = cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(second), 120)
    assert worker in scaling.execution_hosts(), "a person decides on it"


def test_a_qmaster_that_is_restarted_while_the_service_runs_on_needs_nothing(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, SETTINGS)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    assert scaling.command("init", "--yes").returncode == 0
    first = empty_cell.submit("-b", "y", "true")
    with scaling.running():
        until(lambda: scaling.ended_well(first), 60)
        end_qmaster(empty_cell, until)
        empty_cell.start_qmaster()
        second = empty_cell.submit("-b", "y", "true")
        until(lambda: scaling.ended_well(second), 60)
        assert scaling.command("init", "--json").returncode == 0, "nothing is missing"
        assert doctored(scaling) == set()
    assert len(scaling.lifetimes()) == 1
