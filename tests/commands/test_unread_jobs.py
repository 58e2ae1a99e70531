"""Every command that would otherwise report that no job waits reports jobs that could not be read. On records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import cli
from autoscaler.errors import NotFound
from tests.sge.printed import qstat, waiting_job

UNREAD = "2 jobs could not be read: it has no state (jobs 8, 9)"


@pytest.fixture
def record(tmp_path: Path) -> Path:
    (tmp_path / "qstat.xml").write_bytes(qstat([waiting_job(8, state=""), waiting_job(9, state="")]))
    return tmp_path


def printed(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words), obj=Invocation({}), catch_exceptions=False)
    return done.output


def test_the_sentence_reports_jobs_that_could_not_be_read(record: Path) -> None:
    assert printed("plan", "--from", str(record)).startswith(f"plan: {UNREAD}; nothing to do\n")


def test_the_job_list_reports_jobs_that_could_not_be_read(record: Path) -> None:
    assert printed("jobs", "--from", str(record)) == f"{UNREAD}\n"
    (note,) = json.loads(printed("jobs", "--json", "--from", str(record)))["notes"]
    assert (note["code"], note["facts"]["count"]) == ("JOBS_NOT_READ", 2)


def test_a_job_not_found_may_be_one_that_could_not_be_read(record: Path) -> None:
    with pytest.raises(NotFound, match=r"neither waits nor runs in .*; 2 jobs could not be read: "):
        printed("explain", "8", "--from", str(record))
