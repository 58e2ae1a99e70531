"""A full disk is reported in one line without a traceback: state, log, tokens, records."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autoscaler.commands.main import cli, main
from autoscaler.report.log import LogFile
from tests.commands.test_commands import environ

__all__ = ("environ",)
ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.cell
def test_on_a_full_disk_no_command_shows_a_traceback(environ: dict[str, str], tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    lines = [
        ["serve", "token", "create", "first", "--role", "reader"],
        ["serve", "token", "create", "second", "--role", "reader"],
        ["pause"],
        ["status"],
        ["history"],
        ["autoscale", "--name", "execute", "--count", "2"],
        ["record", str(full / "record")],
        ["once"],
        ["run"],
        ["doctor"],
    ]
    settings = {"CP_CAP_AUTOSCALE_WORKDIR": str(full), "CP_CAP_AUTOSCALE_LOGDIR": str(full), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        (
            *("unshare", "--mount", "--propagation", "private", sys.executable),
            *(str(ROOT / "tests" / "commands" / "full_disk.py"), str(full), json.dumps(lines)),
        ),
        env={**os.environ, **environ, **settings},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    first, *others = json.loads(done.stdout)
    assert first[0] == 0
    for words, (code, result) in zip(lines[1:], others, strict=True):
        assert (code in (1, 4, 7), "Traceback" in result) == (True, False), (words, result)
        assert "room" in result or words[0] == "record", (words, result)
        assert code == 7 or words[0] not in ("once", "run"), (words, code, result)


def test_a_log_on_a_full_disk_is_reported_once_and_continues_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogFile(tmp_path / "log", encoding="utf-8")
    record = logging.LogRecord("x", logging.INFO, "f", 1, "a line", (), None)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as changing:
        changing.setattr(handler.stream, "flush", full, raising=False)
        stream = handler.stream
        handler.stream = _Refusing()  # type: ignore[assignment]
        handler.emit(record)
        handler.emit(record)
        handler.stream = stream
    printed = capsys.readouterr().err
    assert (printed.count("\n"), "No space left on device; make room there" in printed) == (1, True)
    handler.emit(record)
    handler.close()
    assert "a line" in (tmp_path / "log").read_text()


class _Refusing:
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        return None


@pytest.mark.usefixtures("environ")
@pytest.mark.parametrize(("number", "lines"), ((errno.ENOSPC, 1), (errno.EDQUOT, 1), (errno.EROFS, 1)))
def test_a_failed_write_is_one_line(
    number: int, lines: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "/somewhere/file")

    monkeypatch.setattr(cli, "main", full)
    assert main(["status"]) == 7
    printed = capsys.readouterr().err
    remedy = "read-only" if number == errno.EROFS else "make room there"
    assert (printed.count("\n"), "/somewhere/file" in printed, remedy in printed) == (lines, True, True)


@pytest.mark.usefixtures("environ")
def test_another_system_error_still_shows_as_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "too many files")

    monkeypatch.setattr(cli, "main", broken)
    with pytest.raises(OSError, match="too many files"):
        main(["status"])
