"""`doctor` on a machine where a package was just installed, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from autoscaler.commands.context import Invocation
from autoscaler.commands.doctor import command
from autoscaler.errors import NotObservable
from autoscaler.settings import this_machine


def test_a_missing_cell_is_told_once(tmp_path: Path) -> None:
    environ = {
        "SGE_ROOT": str(tmp_path),
        "PATH": str(tmp_path),
        "CP_CAP_AUTOSCALE_PROVIDER": "fake",
        "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    }
    done = CliRunner().invoke(command, ["--json"], obj=Invocation(environ))
    found = json.loads(done.output)["findings"]
    of_cell = [each for each in found if str(tmp_path) in each["found"] and "cell" in each["found"]]
    assert [each["what"] for each in of_cell] == ["qmaster", "cell"], found
    assert "settings.sh" in of_cell[1]["remedy"]


def test_a_machine_without_proc_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", gone)
    with pytest.raises(NotObservable, match=r"/proc/meminfo.*: mount /proc"):
        this_machine({})
