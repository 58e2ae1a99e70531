"""Jobs of which no submission time is told count from the pass that saw them first."""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from tests.core.building import NOW, a_job, a_snapshot, category_of, fate, jobs, launched


def undated(job: JobCategory, *, now: float = NOW) -> JobCategory:
    """As it is read in a pass at that time."""
    return replace(job, submitted=(now,) * len(job.jobs), undated=frozenset(job.jobs))


def test_such_a_job_is_young_at_first() -> None:
    made = plan(a_snapshot(undated(a_job(1))))
    assert (fate(made), made.memory.able_since, made.notes) == (Code.NOT_EXPIRED, {1: NOW}, ())


def test_it_is_remembered_and_launched_for_when_it_has_waited() -> None:
    first = plan(a_snapshot(undated(jobs(2))))
    again = plan(a_snapshot(undated(jobs(2), now=NOW + 31), first.memory, now=NOW + 31))
    assert (launched(again), category_of(again).waited, again.memory.able_since) == (
        {"m5.large": 1},
        31,
        {1: NOW, 2: NOW},
    )


def test_it_is_forgotten_when_it_waits_no_more() -> None:
    memory = Memory(able_since={1: NOW - 50})
    assert plan(a_snapshot(a_job(2), memory)).memory.able_since == {}


def test_those_beside_it_keep_their_own_time() -> None:
    both = JobCategory(a_job().ask, (1, 2), ("", ""), (NOW, NOW - 20), 2, frozenset({1}))
    made = plan(a_snapshot(both, Memory(able_since={1: NOW - 10})))
    assert (category_of(made).waited, made.memory.able_since) == (20, {1: NOW - 10})


def test_held_it_has_waited_for_nothing_and_counts_from_its_release() -> None:
    held = plan(a_snapshot(undated(a_job(1, state="hqw"))))
    free = plan(a_snapshot(undated(a_job(1), now=NOW + 60), held.memory, now=NOW + 60))
    assert (category_of(held).waited, free.memory.able_since) == (0, {1: NOW + 60})
