"""From Grid Engine's accounting to evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.core.model.evidence import JobFailure, JobSuccess
from autoscaler.engine.job_failures import LONGEST_GAP, Failures
from autoscaler.store.store import Store

RECORDED = Path(__file__).parent / "sge" / "recorded" / "accounting" / "starts.txt"
NOW = 10_000.0


@pytest.fixture
def failures(tmp_path: Path) -> Failures:
    return Failures(tmp_path / "accounting", Store.open(None).starts, lambda: NOW)


def test_failed_starts_and_jobs_that_ran_are_evidence_and_what_was_ended_is_none(failures: Failures) -> None:
    failures.gather(NOW)
    failures.accounting.write_bytes(RECORDED.read_bytes())
    failures.gather(NOW + 10)
    assert (failures.table.failures(0), failures.table.successes(0)) == (
        (JobFailure("ip-10-1-0-200", 8, NOW + 10, "1 : assumedly before job", "root"),),
        (JobSuccess("ip-10-1-0-200", "root", NOW + 10),),
    )


def test_nothing_is_found_twice(failures: Failures) -> None:
    failures.gather(NOW)
    failures.accounting.write_bytes(RECORDED.read_bytes())
    failures.gather(NOW + 10)
    failures.gather(NOW + 20)
    assert [failure.at for failure in failures.table.failures(0)] == [NOW + 10]


def test_what_was_written_while_nobody_looked_for_long_is_no_news(failures: Failures) -> None:
    failures.gather(NOW)
    failures.accounting.write_bytes(RECORDED.read_bytes())
    failures.gather(NOW + LONGEST_GAP + 1)
    assert (failures.table.failures(0), failures.table.offset) == ((), RECORDED.stat().st_size)


def test_an_accounting_that_cannot_be_read_is_said_once_and_hinders_nothing(
    failures: Failures, caplog: pytest.LogCaptureFixture
) -> None:
    failures.accounting.mkdir()
    failures.gather(NOW)
    failures.gather(NOW + 10)
    assert (len(caplog.records), failures.table.offset) == (1, None)
