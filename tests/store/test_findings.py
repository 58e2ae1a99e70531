"""Stored findings of failed jobs and health checks: bounded, durable, and in the order of events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.model.evidence import Health, JobFailure, JobSuccess
from autoscaler.store.evidence import KEPT_FOR, MOST_FAILURES
from autoscaler.store.store import Store

NOW = 10_000.0


def a_failure(job: int = 1, host: str = "w1", at: float = NOW) -> JobFailure:
    return JobFailure(host, job, at, "1 : assumedly before job", "ann")


def a_success(host: str = "w1", owner: str = "ann", at: float = NOW) -> JobSuccess:
    return JobSuccess(host, owner, at)


def test_findings_survive_a_restart(empty_store: Store, tmp_path: Path) -> None:
    empty_store.starts.add([a_failure(), a_success("w2")], 77)
    empty_store.health.note("i-1", NOW, healthy=False, message="no /data")
    again = Store.open(tmp_path / "store.sqlite")
    found, offset = again.findings(NOW), again.starts.offset
    again.close()
    assert (found.failures, found.successes, found.health, offset) == (
        (a_failure(),),
        (a_success("w2"),),
        {"i-1": Health("i-1", NOW, healthy=False, message="no /data", sick_since=NOW)},
        77,
    )


def test_a_new_store_has_no_position_in_accounting(empty_store: Store) -> None:
    assert empty_store.starts.offset is None


def test_a_success_clears_the_failures_of_its_own_host(empty_store: Store) -> None:
    empty_store.starts.add([a_failure(1), a_failure(2, "w2"), a_success("w1"), a_failure(3)], 1)
    assert [failure.job for failure in empty_store.findings(NOW).failures] == [2, 3]


def test_the_last_success_of_an_owner_on_a_host_is_kept(empty_store: Store) -> None:
    empty_store.starts.add([a_success(at=NOW - 9), a_success(owner="bob", at=NOW - 8), a_success(at=NOW)], 1)
    assert empty_store.findings(NOW).successes == (a_success(at=NOW), a_success(owner="bob", at=NOW - 8))


def test_the_newest_failures_of_a_host_are_kept(empty_store: Store) -> None:
    empty_store.starts.add([a_failure(0, "w2"), *(a_failure(job) for job in range(MOST_FAILURES + 5))], 1)
    jobs = [failure.job for failure in empty_store.findings(NOW).failures]
    assert jobs == [0, *range(5, MOST_FAILURES + 5)]


def test_the_failures_of_one_owner_push_out_none_of_another(empty_store: Store) -> None:
    """A worker on which jobs of several owners fail is quarantined for that."""
    of_eve = [replace(a_failure(job), owner="eve") for job in range(1, MOST_FAILURES + 5)]
    empty_store.starts.add([a_failure(0), *of_eve], 1)
    assert {failure.owner for failure in empty_store.findings(NOW).failures} == {"ann", "eve"}


def test_old_findings_are_ignored_and_forgotten(empty_store: Store) -> None:
    empty_store.starts.add([a_failure(), a_success("w2")], 1)
    empty_store.health.note("i-1", NOW, healthy=True)
    later = empty_store.findings(NOW + KEPT_FOR)
    empty_store.forget_old(NOW + KEPT_FOR + 1)
    kept = empty_store.findings(NOW)
    assert [(found.failures, found.successes, found.health) for found in (later, kept)] == [((), (), {})] * 2


def test_repeated_failed_checks_are_sick_since_the_first(empty_store: Store) -> None:
    empty_store.health.note("i-1", NOW, healthy=False)
    empty_store.health.note("i-1", NOW + 60, healthy=False, message="no /data")
    assert empty_store.findings(NOW).health["i-1"] == Health("i-1", NOW + 60, False, "no /data", NOW)


@pytest.mark.parametrize("between", ("healthy", "unknown"))
def test_a_healthy_or_unknown_check_restarts_the_sick_time(empty_store: Store, between: str) -> None:
    empty_store.health.note("i-1", NOW, healthy=False)
    if between == "healthy":
        empty_store.health.note("i-1", NOW + 60, healthy=True)
    else:
        empty_store.health.unknown("i-1")
    empty_store.health.note("i-1", NOW + 120, healthy=False)
    assert empty_store.findings(NOW).health["i-1"].sick_since == NOW + 120
