"""What tests without `--thorough` fork is what an operator starts (tests/grid_engine/forked.py)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.process import Completed
from tests.grid_engine import forked
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown
from tests.grid_engine.waiting import Until


def shown(done: Completed) -> tuple[int, list[str], list[str]]:
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode().splitlines()


@pytest.mark.parametrize(
    "words",
    (
        pytest.param(("config", "show"), id="its environment and its files"),
        pytest.param(("buckets",), id="its provider"),
        pytest.param(("explain", "7"), id="an error of ours"),
        pytest.param(("lunch",), id="a wrong command"),
    ),
)
def test_a_forked_command_answers_as_a_started_one(words: tuple[str, ...], cell: Cell) -> None:
    env = Autoscaling(cell).environment
    started = cell.runner(("sge-autoscaler", *words), timeout=60.0, env=env)
    assert shown(forked.run(cell, words, timeout=60.0, env=env)) == shown(started)


def test_a_forked_service_runs_in_the_cell_and_ends_by_its_signal(
    cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(cell)
    show_on_failure["autoscaler"] = scaling.log_text
    for number, status in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        scaling.log.write_text("")
        service = forked.start(cell, ("run",), env=scaling.environment, output=scaling.log)
        until(lambda: "serving cell" in scaling.log_text(), 20)
        assert service.poll() is None
        mine, its = (Path(f"/proc/{pid}/ns/net").readlink() for pid in ("self", service.pid))
        assert mine != its
        service.signal(number)
        assert service.wait(30.0) == status


def test_terminating_a_forked_service_that_has_ended_is_allowed(cell: Cell, until: Until) -> None:
    """Its number stays its own until then, as that of a started one does."""
    scaling = Autoscaling(cell, {"CP_CAP_AUTOSCALE": "false"})
    service = forked.start(cell, ("run",), env=scaling.environment, output=scaling.log)
    until(lambda: "ends" in scaling.log_text(), 20)
    until(lambda: Path(f"/proc/{service.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", 20)
    assert service.terminate() == 0
