"""What `sge-autoscaler worker config` answers on a worker, and elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoscaler import worker_configuration
from autoscaler.commands import worker
from autoscaler.commands.main import main

VALUES = {"cyclecloud.instance.id": "i-1", "app.version": "1.2.3", "app.home": "/opt/app", "empty": ""}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this machine keeps its configuration: the second of two folders."""
    (tmp_path / worker_configuration.FILE).write_text(worker_configuration.write(VALUES))
    monkeypatch.setattr(worker._values, "__defaults__", ((tmp_path / "none", tmp_path),))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "printed"),
    (
        (("get", "cyclecloud.instance.id"), 0, "i-1\n"),
        (("get", "empty", "other"), 0, "\n"),
        (("get", "app"), 0, '{"home": "/opt/app", "version": "1.2.3"}\n'),
        (("get", "application", "1.0"), 0, "1.0\n"),
        (("get", "application"), 3, ""),
        (("list",), 0, "app.home = /opt/app\napp.version = 1.2.3\ncyclecloud.instance.id = i-1\nempty = \n"),
    ),
)
def test_a_script_reads_a_key_of_its_worker(
    words: tuple[str, ...], code: int, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (main(["worker", "config", *words]), capsys.readouterr().out) == (code, printed)


def test_list_prints_all_keys_as_nested_objects(capsys: pytest.CaptureFixture[str]) -> None:
    main(["worker", "config", "list", "--json"])
    assert json.loads(capsys.readouterr().out) == {
        "app": {"home": "/opt/app", "version": "1.2.3"},
        "cyclecloud": {"instance": {"id": "i-1"}},
        "empty": "",
    }


def test_a_machine_that_is_not_a_worker_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / worker_configuration.FILE).unlink()
    assert (main(["worker", "config", "get", "a", "b"]), "has no worker.conf" in capsys.readouterr().err) == (3, True)
