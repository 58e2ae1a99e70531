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


def test_failed_starts_and_successes_are_evidence_and_deleted_jobs_are_not(failures: Failures) -> None:
    failures.gather(NOW)
    failures.accounting.write_bytes(RECORDED.read_bytes())
    failures.gather(NOW + 10)
    assert (failures.table.failures(0), failures.table.successes(0)) == (
        (JobFailure("ip-10-1-0-200", 8, NOW + 10, "1 : assumedly before job", "root"),),
        (JobSuccess("ip-10-1-0-200", "root", NOW + 10),),
    )


def test_no_failure_is_found_twice(failures: Failures) -> None:
    failures.gather(NOW)
    failures.accounting.write_bytes(RECORDED.read_bytes())
    failures.gather(NOW + 10)
    failures.gather(NOW + 20)
    assert [failure.at for failure in failures.table.failures(0)] == [NOW + 10]


def test_records_written_during_a_long_gap_are_skipped(failures: Failures) -> None:
    failures.gather(NOW)
    failures.accounting.write_bytes(RECORDED.read_bytes())
    failures.gather(NOW + LONGEST_GAP + 1)
    assert (failures.table.failures(0), failures.table.offset) == ((), RECORDED.stat().st_size)


def test_unreadable_accounting_is_logged_once_and_stops_nothing(
    failures: Failures, caplog: pytest.LogCaptureFixture
) -> None:
    failures.accounting.mkdir()
    failures.gather(NOW)
    failures.gather(NOW + 10)
    assert (len(caplog.records), failures.table.offset) == (1, None)
