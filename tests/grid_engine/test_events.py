"""A real qmaster's events wake, and listening leaves no process behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from autoscaler.lab.cell import Cell
from autoscaler.process import Running
from sge.events import Events, Starter
from tests.grid_engine.waiting import Until


def starting(cell: Cell, host: str | None = None) -> Starter:
    def start(argv: Sequence[str], *, cwd: Path | None = None) -> Running:
        return cell.start(argv, host=host, cwd=cwd)

    return start


def test_a_submitted_job_wakes(cell: Cell, until: Until) -> None:
    with Events(starting(cell)) as events:
        until(lambda: events.alive, message="qevent said nothing")
        threading.Timer(0.1, cell.submit, ("-b", "y", "-h", "sleep", "1")).start()
        assert events.wait(120.0)


LISTEN_AND_CLOSE = """
import time
from sge.events import Events
with Events() as events:
    while not events.alive:
        time.sleep(0.01)
"""


def test_closing_leaves_no_process(cell: Cell) -> None:
    completed = cell.runner((sys.executable, "-c", LISTEN_AND_CLOSE), timeout=60.0)
    left = cell.runner(("pgrep", "-x", "qevent"), timeout=60.0)
    assert (completed.returncode, left.stdout) == (0, b"")


def test_a_host_that_may_not_listen_is_said(cell: Cell, until: Until) -> None:
    worker = cell.declared[0].name
    for kind in ("-ds", "-dh"):
        cell.runner(("qconf", kind, worker), timeout=60.0)
    with Events(starting(cell, worker)) as events:
        until(lambda: "denied" in (events.reason or ""), message="the refusal was not told")
