"""A cloud's control plane on loopback, beside a private Grid Engine: for the demo and the tests.

The servers belong to the tests and are not installed, so a checkout is needed. One is a child in the cell's namespace
tree and ends with it; the machines that it rents out are hosts of that tree.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import AutoscalerError
from autoscaler.lab.cell import Cell
from autoscaler.process import PythonProgram, Running

CHECKOUT = Path(__file__).parents[2]
CLOUDS = ("aws", "azure", "cloud_pipeline", "cyclecloud")
START_TIMEOUT = 120.0
"""Seconds from the start of a server until it must serve; AWS's takes 3 to import its models, idle."""
STEP = 0.05


class NoControlPlane(AutoscalerError):
    """The control plane is not here, or did not start; the message says which."""


@dataclass(frozen=True, slots=True)
class PlayedCloud:
    """A control plane that serves. `environment`: the settings with which an operator uses it."""

    environment: Mapping[str, str]
    billable: str
    """Address, in the cell, that reports what costs money now."""


@contextlib.contextmanager
def played_cloud(cell: Cell, name: str) -> Iterator[PlayedCloud]:
    """The control plane of the cloud `name` until the block ends. Raises NoControlPlane."""
    if not (CHECKOUT / "tests" / "clouds" / name / "server.py").exists():
        raise NoControlPlane(
            f"the control plane of {name} is part of the tests, which are not installed: "
            f"run `make demo PROVIDER={name}` in a checkout"
        )
    output = cell.directory / f"{name}.log"
    output.write_text("")
    server = PythonProgram.module(f"tests.clouds.{name}.server", "--tree", str(cell.tree.directory))
    running = cell.start(server.argv, env={"PYTHONPATH": str(CHECKOUT)}, output=output)
    try:
        answer = json.loads(_first_line(running, output, name))
        environment = {"CP_CAP_AUTOSCALE_PROVIDER": name, **answer["environment"]}
        yield PlayedCloud(environment, answer["billable"])
    finally:
        running.terminate(5.0)


def _first_line(running: Running, output: Path, name: str) -> str:
    deadline = time.monotonic() + START_TIMEOUT
    while "\n" not in (answer := output.read_text(errors="replace")) or running.poll() is not None:
        if running.poll() is not None or time.monotonic() > deadline:
            words = answer.strip().splitlines()[-1:] or ["it printed nothing"]
            raise NoControlPlane(f"the control plane of {name} did not start: {words[0]}")
        time.sleep(STEP)
    return answer.splitlines()[0]
