"""`orphans` as text and JSON; tests/act and the real cell show how one is terminated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from autoscaler.commands.main import main
from autoscaler.commands.orphans import exit_at_signals
from tests.cases.whole import whole

USAGE = 2


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A cell with one worker in service, of which the store knows nothing."""
    folder = tmp_path / "record"
    shutil.copytree(whole("quarantine/a-black-hole-is-disabled"), folder)
    (folder / "memory.json").unlink()
    return folder


def test_each_orphan_is_listed_with_its_machine_and_reason(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["orphans", "--from", str(record), "--json"])
    printed = json.loads(capsys.readouterr().out)
    (row,) = printed["orphans"]
    shown = {name: row[name] for name in ("id", "host", "busy", "instance_type", "node_array", "age_s")}
    assert (code, row["reason"]["code"], shown) == (
        0,
        "UNKNOWN_WORKER",
        {
            "id": "i-1",
            "host": "w1",
            "busy": True,
            "instance_type": "m5.large",
            "node_array": "execute",
            "age_s": 2400.0,
        },
    )


def test_orphans_are_shown_as_a_table(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["orphans", "--from", str(record)])
    head, line = capsys.readouterr().out.splitlines()[:2]
    assert head.split() == ["id", "name", "type", "node", "array", "state", "age", "price/h", "jobs", "why"]
    assert line.split()[:9] == ["i-1", "w1", "m5.large", "execute", "running", "40m", "0.096", "USD", "yes"]


def test_without_orphans_the_command_says_so(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (record / "provider.json").unlink()
    main(["orphans", "--from", str(record)])
    assert capsys.readouterr().out == "no orphans\n"


def test_no_orphan_is_terminated_from_a_record(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["orphans", "--from", str(record), "--end", "i-1", "--yes"])
    assert (code, "only shows" in capsys.readouterr().err) == (USAGE, True)


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGHUP))
def test_a_signal_lets_a_command_undo_what_it_has_disabled(number: signal.Signals) -> None:
    before, undone = signal.getsignal(number), []

    def disabling() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except BaseException:
            undone.append(True)
            raise

    with pytest.raises(SystemExit) as ended, exit_at_signals():
        disabling()
    assert (ended.value.code, undone, signal.getsignal(number)) == (128 + number, [True], before)
