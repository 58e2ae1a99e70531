"""A job's owner asks the running autoscaler of a real cell; a manager of Grid Engine may do more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoscaler.answer_client import OVERRIDES
from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, told
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until
from tests.web.as_user import PROGRAM

USER, STRANGER = "daemon", "backup"


def call_as(
    cell: Cell, place: Path, method: str, target: str, body: str = "", *, user: str = USER
) -> tuple[int, dict[str, object]]:
    """As another user of the master, at the autoscaler's socket."""
    drop = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
    argv = (*drop, "/usr/bin/python3", "-I", "-S", "-c", PROGRAM, str(place), method, target, "", body)
    done = cell.runner(argv, timeout=120.0)
    assert done.returncode == 0, done.stderr.decode()
    head, _, said = done.stdout.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(said)


def open_the_way_to(place: Path) -> None:
    for folder in (place.parent, *place.parent.parents):
        folder.chmod(folder.stat().st_mode | 0o011)


@pytest.mark.thorough
def test_a_user_is_told_why_a_job_waits_and_a_manager_may_act(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    place = empty_cell.home / "answers.sock"
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_SOCKET": str(place), "CP_CAP_AUTOSCALE_WORKERS": "0"})
    show_on_failure["autoscaler"] = lambda: told(scaling)

    def asked(method: str, target: str, body: str = "") -> tuple[int, dict[str, object]]:
        return call_as(empty_cell, place, method, target, body)

    open_the_way_to(place)
    with scaling.running():
        job = empty_cell.submit("-b", "y", "-h", "sleep", "1").partition(".")[0]
        until(lambda: place.exists() and asked("GET", f"/answers/v1/explain?subject={job}")[0] == 200)
        status, said = asked("GET", f"/answers/v1/explain?subject={job}&form=text")
        assert (status, "HELD" in json.dumps(said)) == (200, True)
        act = '{"arrays": [{"Name": "execute", "TargetCount": 0}]}'
        assert asked("POST", "/autoscale", act)[0] == 403
        empty_cell.out("qconf", "-am", USER)
        until(lambda: asked("POST", "/autoscale", act)[0] == 200, 90)


def test_a_manager_who_is_not_root_drains_and_pauses_and_a_stranger_does_neither(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    place = empty_cell.home / "answers.sock"
    settings = {"CP_CAP_AUTOSCALE_SOCKET": str(place), "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600"}
    scaling = Autoscaling(empty_cell, settings)
    show_on_failure["autoscaler"] = lambda: told(scaling)
    gate = Gate(empty_cell)
    job = gate.submit()
    empty_cell.out("qconf", "-am", USER)
    open_the_way_to(place)
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 40)

        def tell(user: str, command: str) -> int:
            return call_as(empty_cell, place, "POST", f"{OVERRIDES}/{command}", user=user)[0]

        assert [tell(STRANGER, command) for command in (f"drain?host={worker}", "pause")] == [403, 403]
        assert tell(USER, f"drain?host={worker}") == 200
        until(lambda: scaling.instances()[f"main.q@{worker}"].states == "d")
        gate.open()
        until(lambda: scaling.ended_well(job))
        until(scaling.all_gone, 40)
        assert tell(USER, "pause") == 200
        waiting = empty_cell.submit("-b", "y", "true")
        until(lambda: f"paused by {USER}" in scaling.said(), 40)
        assert (scaling.rented(), scaling.ends(waiting)) == (set(), ())
        assert tell(USER, "resume") == 200
        until(lambda: scaling.ended_well(waiting), 60)
    calls = json.loads(scaling.command("serve", "calls", "--json").stdout)["calls"]
    assert [(call["who"], call["status"]) for call in calls] == [(USER, 200)] * 3
