"""An autoscaler in a private cell needs no setting but the instance type: docs/tutorials/first-worker.md."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from autoscaler.lab.cell import Cell

COMMAND = (sys.executable, "-m", "autoscaler.commands.main")


def entered(cell: Cell, *argv: str) -> subprocess.CompletedProcess[bytes]:
    """Run by `cell exec` on the master of a cell."""
    call = (*COMMAND, "cell", "exec", cell.directory.name, "--", *argv)
    return subprocess.run(call, capture_output=True, timeout=180, check=False)


@pytest.mark.thorough
def test_cell_exec_finds_the_local_provider_of_the_cell() -> None:
    with Cell.up(directory=None) as cell:
        found = json.loads(entered(cell, *COMMAND, "doctor", "--json").stdout)["findings"]
    assert [finding["level"] for finding in found if finding["what"] == "provider local"] == ["ok"]


def test_cell_exec_keeps_state_in_the_cell() -> None:
    with Cell.up(directory=None) as cell:
        entered(cell, *COMMAND, "pause")
        kept = [file.suffix for file in (cell.directory / "state").glob("*.sqlite")]
    assert kept == [".sqlite"]
