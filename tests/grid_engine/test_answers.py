"""A job's owner asks the running autoscaler of a real cell; a manager of Grid Engine may do more."""

from __future__ import annotations

import json

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, told
from tests.grid_engine.waiting import Until
from tests.web.asked_as import PROGRAM

USER = "daemon"


@pytest.mark.thorough
def test_a_user_is_told_why_a_job_waits_and_a_manager_may_act(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    place = empty_cell.home / "answers.sock"
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_SOCKET": str(place), "CP_CAP_AUTOSCALE_WORKERS": "0"})
    show_on_failure["autoscaler"] = lambda: told(scaling)

    def asked(method: str, target: str, body: str = "") -> tuple[int, dict[str, object]]:
        drop = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        argv = (*drop, "/usr/bin/python3", "-I", "-S", "-c", PROGRAM, str(place), method, target, "", body)
        done = empty_cell.runner(argv, timeout=120.0)
        assert done.returncode == 0, done.stderr.decode()
        head, _, said = done.stdout.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), json.loads(said)

    for folder in (place.parent, *place.parent.parents):
        folder.chmod(folder.stat().st_mode | 0o011)
    with scaling.running():
        job = empty_cell.submit("-b", "y", "-h", "sleep", "1").partition(".")[0]
        until(lambda: place.exists() and asked("GET", f"/answers/v1/explain?subject={job}")[0] == 200)
        status, said = asked("GET", f"/answers/v1/explain?subject={job}&form=text")
        assert (status, "HELD" in json.dumps(said)) == (200, True)
        act = '{"arrays": [{"Name": "execute", "TargetCount": 0}]}'
        assert asked("POST", "/autoscale", act)[0] == 403
        empty_cell.out("qconf", "-am", USER)
        until(lambda: asked("POST", "/autoscale", act)[0] == 200, 90)
