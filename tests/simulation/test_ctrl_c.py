"""Ctrl-C in `sge-autoscaler simulate`: what was simulated is shown, and the exit code says that it is not all."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from autoscaler.commands import simulate
from autoscaler.commands._simulated import workload_of
from autoscaler.commands.main import main
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import Workload
from tests.simulation.test_command import SETTINGS, SMALLER


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


def test_while_the_workload_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> Workload:
        signal.raise_signal(signal.SIGINT)
        return workload_of(*arguments)

    monkeypatch.setattr(simulate, "workload_of", interrupted)
    assert main(["simulate", "generated:30:2", "--compare", f"today,{SMALLER}", "--json"]) == 130
    (today,) = json.loads(capsys.readouterr().out)["policies"]
    assert (today["policy"], today["complete"]) == ("today", False)


def test_while_jobs_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    end = Simulation._end

    def interrupts(simulation: Simulation, run: Run) -> None:
        if simulation.measures.finished == 10:
            signal.raise_signal(signal.SIGINT)
        end(simulation, run)

    monkeypatch.setattr(Simulation, "_end", interrupts)
    assert main(["simulate", "generated:30:2", "--json"]) == 130
    (today,) = json.loads(capsys.readouterr().out)["policies"]
    assert 10 <= today["tasks"]["finished"] < 30
    assert not today["complete"]
