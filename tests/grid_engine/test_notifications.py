"""Operators are notified of a lost worker, by a real mail server, while the autoscaler goes on."""

from __future__ import annotations

import sys

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.providers.local import failures
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.test_lost import QUICK, Witness, machine_of, runs_on
from tests.grid_engine.waiting import Until

MAILS = ("-m", "aiosmtpd", "-n", "-l", "127.0.0.1:2525", "-c", "aiosmtpd.handlers.Debugging", "stdout")
TOKEN = "pass-w0rd"


@pytest.mark.thorough
def test_a_lost_worker_is_notified_by_mail_and_its_job_runs_again(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    urls, mails = empty_cell.home / "urls", empty_cell.home / "mails"
    urls.write_text(
        f"mailto://127.0.0.1:2525?from=a@example.org&to=b@example.org\njson://anna:{TOKEN}@127.0.0.1:1/{TOKEN}\n"
    )
    urls.chmod(0o600)
    mails.touch()
    scaling = Autoscaling(
        empty_cell, {**QUICK, "CP_CAP_AUTOSCALE_NOTIFICATIONS": str(urls), "CP_CAP_AUTOSCALE_NOTIFY_INTERVAL": "1"}
    )
    witness = Witness(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    show_on_failure["mails"] = mails.read_text
    job = witness.submit("-r", "y")
    server = empty_cell.start(
        (sys.executable, *MAILS), env={**empty_cell.environment, "PYTHONUNBUFFERED": "1"}, output=mails
    )
    try:
        with scaling.running():
            lost = until(runs_on(scaling, job), 40)
            until(witness.starts)
            failures.kill(machine_of(scaling, lost), empty_cell.tree)
            until(lambda: f"lost worker: {lost}" in mails.read_text(), 60, "no mail reported it")
            until(lambda: len(witness.starts()) == 2, 40)
            until(lambda: b"refused" in scaling.command("status").stdout, 40, "status did not report the web hook")
            tried = scaling.command("notify", "--test")
            witness.open()
            until(witness.ends, 40)
    finally:
        server.terminate(20.0)
    assert (tried.returncode, tried.stdout.splitlines()[0]) == (1, b"line 1, mailto: sent")
    assert mails.read_text().count(f"lost worker: {lost} (") == 1
    assert "test" in mails.read_text()
    assert TOKEN not in scaling.log_text() + log_and_journal(scaling)
