"""What people change is told to the system's log, one line each: who and what."""

from __future__ import annotations

import syslog
from pathlib import Path

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.commands.serving import _keep_settings
from autoscaler.store.store import Store
from tests.commands.test_commands import environ, worker_store

__all__ = ("environ", "worker_store")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(syslog, "syslog", lambda _, line: found.append(line))
    return found


@pytest.mark.usefixtures("worker_store")
def test_each_command_that_changes_something_is_a_line(environ: dict[str, str], lines: list[str]) -> None:
    who = Invocation(environ).who
    for words in (
        ["pause"],
        ["pause"],
        ["drain", "fake-1"],
        ["drain", "fake-9"],
        ["resume"],
        ["stop", "--drain", "--no-wait"],
    ):
        main(words)
    assert [line.partition(":")[0] for line in lines] == [who] * 4
    assert [line.split(": ")[1] for line in lines] == ["pause", "drain fake-1", "resume", "stop-drain"]


def test_new_settings_are_a_line_with_their_names(
    environ: dict[str, str], lines: list[str], worker_store: Store, tmp_path: Path
) -> None:
    _keep_settings(worker_store, Invocation(environ))
    _keep_settings(worker_store, Invocation(environ))
    assert lines == [], "the first start changes nothing"
    _keep_settings(
        worker_store, Invocation({**environ, "CP_CAP_AUTOSCALE_WORKERS": "7", "CP_CAP_AUTOSCALE_TOKEN": "s3cret"})
    )
    (line,) = lines
    assert ("CP_CAP_AUTOSCALE_WORKERS" in line, "7" in line, "s3cret" in line) == (True, False, False)


def test_a_user_and_a_token_are_lines_without_their_secrets(
    environ: dict[str, str], lines: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "token", "create", "ci", "--role", "reader"]) == 0
    secret = capsys.readouterr().out.split()[-1]
    assert main(["serve", "token", "revoke", "ci"]) == 0
    assert [line.split(": ", 1)[1] for line in lines] == ["token ci is made, role reader", "token ci is revoked"]
    assert secret not in "".join(lines)


def test_a_name_makes_no_second_line(lines: list[str]) -> None:
    from autoscaler import audit

    audit.changed("eve\nroot", "pause\x1b[2J" + "x" * 5000)
    (line,) = lines
    assert ("\n" in line, "\x1b" in line, len(line)) == (False, False, audit.LONGEST)
