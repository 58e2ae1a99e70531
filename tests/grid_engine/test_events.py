"""A real qmaster's events wake the loop, and listening leaves no process behind."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from autoscaler.sge.events import Events, Starter
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Until


def starting(cell: Cell, host: str | None = None) -> Starter:
    def start(argv: Sequence[str], *, cwd: Path | None = None) -> Running:
        return cell.start(argv, host=host, cwd=cwd)

    return start


def test_a_submitted_job_wakes_the_loop(cell: Cell, until: Until) -> None:
    news = threading.Event()
    with Events(news.set, starting(cell)) as events:
        until(lambda: events.alive, message="qevent printed nothing")
        cell.submit("-b", "y", "-h", "sleep", "1")
        assert news.wait(120.0)


LISTEN_AND_CLOSE = """
import time
from autoscaler.sge.events import Events
with Events(lambda: None) as events:
    while not events.alive:
        time.sleep(0.01)
"""


def test_closing_leaves_no_process(cell: Cell) -> None:
    completed = cell.runner((sys.executable, "-c", LISTEN_AND_CLOSE), timeout=60.0)
    left = cell.runner(("pgrep", "-x", "qevent"), timeout=60.0)
    assert (completed.returncode, left.stdout) == (0, b"")


def test_a_refused_qevent_is_reported(cell: Cell, until: Until) -> None:
    worker = cell.declared[0].name
    for kind in ("-ds", "-dh"):
        cell.runner(("qconf", kind, worker), timeout=60.0)
    with Events(lambda: None, starting(cell, worker)) as events:
        until(lambda: "denied" in (events.reason or ""), message="the refusal was not reported")


@pytest.mark.thorough
def test_a_qmaster_without_a_free_event_client_is_reported_and_polled(empty_cell: Cell, until: Until) -> None:
    file = empty_cell.home / "global"
    shown = empty_cell.out("qconf", "-sconf", "global")
    file.write_text(re.sub(r"(?m)^qmaster_params .*$", "qmaster_params MAX_DYN_EC=1", shown))
    empty_cell.out("qconf", "-Mconf", str(file))
    autoscaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_POLLING_DELAY": "1"})
    with Events(lambda: None, starting(empty_cell)) as other:
        until(lambda: other.alive or "MAX_DYN_EC" in other.trouble, 30, "all event clients are taken")
        with autoscaling.running():
            _polls_and_reports_it(autoscaling, until)


def _polls_and_reports_it(autoscaling: Autoscaling, until: Until) -> None:
    until(lambda: "MAX_DYN_EC in its qmaster_params is reached" in autoscaling.log_text(), 60, "it is not logged")
    job = autoscaling.cell.submit("-b", "y", "sleep", "0")
    assert "MAX_DYN_EC" in autoscaling.command("status").stdout.decode()
    until(lambda: autoscaling.ended_well(job), 90, "the job ran all the same")
