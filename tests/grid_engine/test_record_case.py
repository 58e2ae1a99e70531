"""A case recorded from a running cell has no names of it, and its plan is the same."""

from __future__ import annotations

import json
from pathlib import Path

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling

PROJECT = "name {name}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"


def texts(folder: Path) -> str:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return "\n".join([*(file.name for file in files), *(file.read_text(errors="replace") for file in files)])


def test_a_running_cell_is_recorded_as_a_case_without_its_names(cell: Cell) -> None:
    file = cell.home / "project"
    file.write_text(PROJECT.format(name="takeover"))
    cell.out("qconf", "-Aprj", str(file))
    cell.out("qconf", "-au", "beatrix", "bankers")
    cell.out("qconf", "-mattr", "queue", "xuser_lists", "bankers", "main.q")
    environment = {**cell.environment, "TOKEN": "hunter22"}
    argv = (
        "qsub",
        "-V",
        "-P",
        "takeover",
        "-N",
        "merger",
        "-pe",
        "local",
        "2",
        "-b",
        "y",
        "-h",
        "sleep",
        "--password=hunter22",
    )
    assert cell.runner(argv, timeout=60.0, env=environment).returncode == 0
    for _ in range(3):
        cell.submit("-V", "-P", "takeover", "-N", "merger", "-pe", "local", "2", "-b", "y", "sleep", "600")
    scaling = Autoscaling(cell)
    found = scaling.plan()

    done = scaling.command("record", "--case", "growth/three-jobs", str(cell.home / "cases"))
    assert done.returncode == 0, done.stderr.decode()

    case = cell.home / "cases" / "growth" / "three-jobs"
    names = (
        "takeover",
        "beatrix",
        "bankers",
        "merger",
        "hunter22",
        str(cell.home),
        *(host.name for host in cell.declared),
    )
    assert [name for name in names if name in texts(case)] == []
    again = json.loads(cell.out("sge-autoscaler", "plan", "--json", "--from", str(case)))
    assert (again["waiting"], again["counted"]) == (found["waiting"], found["counted"])
    assert [row["reason"]["code"] for row in again["job_categories"]] == [
        row["reason"]["code"] for row in found["job_categories"]
    ]
