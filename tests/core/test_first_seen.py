"""Jobs without a submission time count from the pass that first observed them."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from tests.core.building import NOW, a_job, a_snapshot, category_of, jobs, launched, reason_code


def undated(job: JobCategory, *, now: float = NOW) -> JobCategory:
    """As it is read in a pass at that time."""
    return replace(job, submitted=(now,) * len(job.jobs), undated=frozenset(job.jobs))


def test_an_undated_job_is_not_expired_when_first_observed() -> None:
    made = plan(a_snapshot(undated(a_job(1))))
    assert (reason_code(made), made.memory.able_since, made.notes) == (Code.NOT_EXPIRED, {1: NOW}, ())


def test_an_undated_job_is_remembered_and_launched_for_after_the_timeout() -> None:
    first = plan(a_snapshot(undated(jobs(2))))
    again = plan(a_snapshot(undated(jobs(2), now=NOW + 31), first.memory, now=NOW + 31))
    assert (launched(again), category_of(again).waited, again.memory.able_since) == (
        {"m5.large": 1},
        31,
        {1: NOW, 2: NOW},
    )


def test_an_undated_job_is_forgotten_when_it_no_longer_waits() -> None:
    memory = Memory(able_since={1: NOW - 50})
    assert plan(a_snapshot(a_job(2), memory)).memory.able_since == {}


def test_other_jobs_of_the_category_keep_their_own_times() -> None:
    both = JobCategory(a_job().ask, (1, 2), ("", ""), (NOW, NOW - 20), 2, frozenset({1}))
    made = plan(a_snapshot(both, Memory(able_since={1: NOW - 10})))
    assert (category_of(made).waited, made.memory.able_since) == (20, {1: NOW - 10})


def test_an_undated_held_job_starts_waiting_when_it_is_released() -> None:
    held = plan(a_snapshot(undated(a_job(1, state="hqw"))))
    free = plan(a_snapshot(undated(a_job(1), now=NOW + 60), held.memory, now=NOW + 60))
    assert (category_of(held).waited, free.memory.able_since) == (0, {1: NOW + 60})
