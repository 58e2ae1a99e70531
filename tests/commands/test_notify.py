"""`notify` tests the services and shows current causes; `doctor` and `status` report problems with the services."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.doctor import notification_findings
from autoscaler.commands.main import main
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.notifications.causes import NotificationContext, Observed
from autoscaler.core.notifications.due import KnownCauses, notifications_due
from autoscaler.core.snapshot import Plan
from autoscaler.sge.checks import Level
from autoscaler.store.store import Store
from tests.commands.test_commands import environ
from tests.core.building import NOW, a_snapshot
from tests.notified import mail_server, web_server

__all__ = ["environ"]
TOKEN = "s3cret-t0ken"


@pytest.fixture
def urls(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "urls"
    file.touch(mode=0o600)
    environ["CP_CAP_AUTOSCALE_NOTIFICATIONS"] = str(file)
    monkeypatch.setenv("CP_CAP_AUTOSCALE_NOTIFICATIONS", str(file))
    return file


def tripped(environ: dict[str, str], *, failing: str = "") -> None:
    """A store with a notification of the circuit breaker, sent or failing."""
    circuit_breaker = because(Code.CIRCUIT_BREAKER, what="removals", count=300, most=200, window_s=600.0)
    due = notifications_due(
        KnownCauses(),
        NotificationContext(NOW, Observed(a_snapshot(), Plan((), Memory(circuit_breaker=circuit_breaker)))),
    )
    store = Store.open(Invocation(environ).store_file)
    store.notifications.keep(due)
    (upto, _) = store.notifications.waiting()[-1]
    if failing:
        store.notifications.failed(upto, (), failing, NOW, NOW + 30)
    else:
        store.notifications.sent(upto, NOW, NOW)
    store.close()


def test_a_test_message_goes_to_each_service_and_its_result_is_shown(
    urls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mail_server() as (mail, box), web_server(500) as web:
        urls.write_text(f"{mail}\n{web.url(TOKEN)}\n")
        code = main(["notify", "--test"])
    printed = capsys.readouterr()
    assert (code, len(box.mails), len(web.posts)) == (1, 1, 1)
    assert printed.out.splitlines()[0] == "line 1, mailto: sent"
    assert "500" in printed.out.splitlines()[1]
    assert TOKEN not in printed.out + printed.err


@pytest.mark.usefixtures("environ")
def test_a_test_without_a_file_names_the_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["notify", "--test"]) == 2
    assert "CP_CAP_AUTOSCALE_NOTIFICATIONS" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    (
        ("", 0o600, "has no URL"),
        ("json://h/x\n", 0o644, "chmod"),
        (f"nonsense://{TOKEN}\njson://h/x\n", 0o600, "line 1"),
        ("json://h/x\n", 0o600, ""),
    ),
    ids=("empty", "others may read it", "no service", "sound"),
)
def test_doctor_checks_the_notification_file_and_calls_nobody(
    urls: Path, environ: dict[str, str], text: str, mode: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *of, **_: called.append(of))
    monkeypatch.setattr("socket.socket.connect", lambda *of: called.append(of))
    urls.write_text(text)
    urls.chmod(mode)
    (found,) = notification_findings(Invocation(environ))
    assert found.level is (Level.FAIL if words else Level.OK)
    assert words in found.found + found.remedy
    assert TOKEN not in found.found
    assert called == []


def test_doctor_and_status_report_that_nothing_can_be_sent(
    urls: Path, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    urls.write_text("json://h/x\n")
    tripped(environ, failing="json (line 1): connection refused")
    (found,) = notification_findings(Invocation(environ))
    main(["status"])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("notified"))
    assert (found.level, "connection refused" in found.found, "connection refused" in line) == (Level.FAIL, True, True)


def test_without_a_notification_file_doctor_has_no_finding(environ: dict[str, str]) -> None:
    assert notification_findings(Invocation(environ)) == ()


@pytest.mark.usefixtures("urls")
def test_current_causes_are_shown_with_what_to_do(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    tripped(environ)
    assert main(["notify"]) == 0
    assert "circuit breaker since" in (printed := capsys.readouterr().out)
    assert "→ Find the cause" in printed
    assert main(["notify", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(each["kind"], each["reason"]["code"]) for each in document["causes"]] == [
        ("circuit_breaker", "CIRCUIT_BREAKER")
    ]
