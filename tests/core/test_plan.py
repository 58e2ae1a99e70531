"""What concerns a pass as a whole: counts, circuit breaker, notes, and what is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.memory import Disabling, Event, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.plan import plan
from autoscaler.core.policy import CircuitBreaker, Limits
from autoscaler.report.wording import text
from tests.core.building import (
    NOW,
    AWorker,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    an_order,
    category_of,
    codes,
    details_of,
    jobs,
    note_codes,
    reason_code,
)


def test_a_plan_counts_waiting_counted_and_fitting_jobs() -> None:
    made = plan(a_snapshot(jobs(5), a_job(10, state="hqw"), a_host(slots=2)))
    assert (made.waiting, made.counted, made.fitting) == (6, 5, 2)


def test_a_job_that_fits_now_has_the_reason_fits() -> None:
    assert reason_code(plan(a_snapshot(a_job(), a_host()))) is Code.FITS


def test_a_job_for_a_booting_worker_waits_for_it() -> None:
    assert reason_code(plan(a_snapshot(a_job(), a_machine()))) is Code.WAITS_FOR_COMING


def test_a_reason_with_counts_of_a_category_names_its_number_of_jobs() -> None:
    alone, together = (text(category_of(plan(a_snapshot(jobs(count)))).reason) for count in (1, 5))
    assert alone.startswith("1 task can start on no host, ")
    assert together.startswith("5 tasks of 5 jobs that ask for the same can start on no host, ")


def test_a_jobs_reason_says_when_its_coming_workers_are_expected() -> None:
    """As long after their making as the longest boot of their node array that was seen."""
    booted = a_worker("w1", used=2, age=1800.0)
    assert booted.note is not None
    booted = replace(booted, note=replace(booted.note, joined_at=booted.worker.created_at + 200.0))
    made = plan(a_snapshot(jobs(4), booted, a_machine("w2", age=50.0), an_order(1, age=20.0)))

    assert dict(category_of(made).reason.facts) == {"tasks": 4, "alike": 4, "expected_at": NOW + 180.0}
    assert text(category_of(made).reason).endswith("; they are expected by 2027-01-15 08:03:00 UTC")


@pytest.mark.parametrize(
    "coming", (a_machine("w2", age=50.0), a_machine("w2", age=300.0)), ids=("no boot was observed", "it is late")
)
def test_no_arrival_time_is_given_without_a_basis_for_it(coming: AWorker) -> None:
    made = plan(a_snapshot(a_job(), coming))
    assert dict(category_of(made).reason.facts) == {"tasks": 1, "alike": None}


def test_the_oldest_jobs_are_placed_first() -> None:
    made = plan(a_snapshot(a_job(1, waited=50), a_job(2, waited=90, owner="bob"), a_host(slots=1)))
    assert (reason_code(made, 2), reason_code(made, 1)) == (Code.FITS, Code.EXPIRED)


def test_a_job_without_a_launch_names_the_cap_that_prevents_it() -> None:
    made = plan(a_snapshot(jobs(2), a_worker(used=2), limits=Limits(max_workers=1)))
    assert codes(category_of(made).reason) == [Code.EXPIRED, Code.LAUNCH_WANTED, Code.CAPPED]


def test_more_removals_than_the_circuit_breaker_allows_remove_no_worker() -> None:
    workers = [a_worker(f"w{n}", mark=Disabling.IDLE, empty=99) for n in range(3)]
    made = plan(a_snapshot(*workers, circuit_breaker=CircuitBreaker(max_removals=2)))
    assert (acts(made), note_codes(made), made.memory.circuit_breaker is not None) == ([], [Code.CIRCUIT_BREAKER], True)


def test_the_circuit_breaker_counts_only_its_window() -> None:
    old = Memory(removals=(Event(NOW - 600, 99, "execute"),))
    assert plan(a_snapshot(old, circuit_breaker=CircuitBreaker(max_removals=5))).memory.circuit_breaker is None


def test_a_tripped_circuit_breaker_stops_launches_and_removals() -> None:
    tripped = Memory(circuit_breaker=because(Code.CIRCUIT_BREAKER, what="launches", count=9, most=5, window_s=600.0))
    made = plan(a_snapshot(jobs(3), a_worker(mark=Disabling.BROKEN, empty=99), tripped))
    assert (acts(made), made.memory.circuit_breaker) == ([], tripped.circuit_breaker)


def test_removals_before_a_resume_do_not_trip_the_circuit_breaker_again() -> None:
    removed = Memory(removals=(Event(NOW - 60, 9, "execute"),))
    made = plan(a_snapshot(removed, Overrides(resumed_at=NOW - 30), circuit_breaker=CircuitBreaker(max_removals=5)))
    assert made.memory.circuit_breaker is None


def test_removals_by_stop_now_do_not_trip_the_circuit_breaker() -> None:
    workers = [a_worker(f"w{n}", mark=Disabling.STOP, empty=99) for n in range(3)]
    made = plan(a_snapshot(*workers, Overrides(stop="now"), circuit_breaker=CircuitBreaker(max_removals=2)))
    assert [kind for kind, _ in acts(made)] == ["remove"] * 3


def test_what_was_set_aside_is_in_the_notes() -> None:
    seen = a_snapshot()
    aside = because(Code.IGNORED, what="job 7", why="no number")
    assert plan(replace(seen, cluster=replace(seen.cluster, set_aside=(aside,)))).notes == (aside,)


def test_jobs_that_wait_no_longer_are_forgotten() -> None:
    old = Memory(able_since={5: NOW}, unable=(6,))
    made = plan(a_snapshot(a_job(1), old, details_of(5, 6))).memory
    assert (dict(made.able_since), made.unable, dict(made.details)) == ({}, (), {})


def test_qstat_j_details_are_remembered() -> None:
    assert 1 in plan(a_snapshot(a_job(tasks="1-2:1", count=2), details_of(1))).memory.details


def test_launches_are_forgotten_after_an_hour() -> None:
    made = plan(a_snapshot(launches=(Event(NOW - 3600, 1, "execute"), Event(NOW - 3599, 2, "execute"))))
    assert [event.count for event in made.memory.launches] == [2]


def test_a_launch_is_remembered_with_the_count_of_its_largest_candidate() -> None:
    made = plan(a_snapshot(jobs(8), hybrid=True))
    assert made.memory.launches == (Event(NOW, 4, "execute"),)


def test_the_time_of_the_newest_failure_is_remembered() -> None:
    assert plan(a_snapshot(a_failure(age=60), a_failure(age=20))).memory.failures_seen == NOW - 20


def test_quiet_time_begins_when_nothing_counted_waits_or_runs() -> None:
    made = plan(a_snapshot(a_worker(), a_job(state="hqw")))
    assert made.memory.queues_empty_since == NOW


def test_running_jobs_end_quiet_time() -> None:
    assert plan(a_snapshot(a_worker(used=1), Memory(queues_empty_since=NOW - 9))).memory.queues_empty_since is None


def test_waiting_jobs_end_quiet_time() -> None:
    assert plan(a_snapshot(a_job(waited=1), Memory(queues_empty_since=NOW - 9))).memory.queues_empty_since is None


def test_actions_that_add_capacity_come_before_those_that_remove_it() -> None:
    things = (
        a_job(slots=2),
        a_machine("w1"),
        a_worker("w2", mark=Disabling.ENROL, age=60),
        a_worker("w3", mark=Disabling.BROKEN, empty=99),
        a_worker("w4", states="E", used=1),
        jobs(9, 10),
    )
    assert [kind for kind, _ in acts(plan(a_snapshot(*things)))] == ["enable", "enrol", "launch", "remove", "disable"]
