"""A job that fits on free hosts and does not start: the scheduler is asked, and only a cause of these hosts brings a
worker.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.categories import category_key
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.demand_vector import ELSEWHERE, Demand, Property
from autoscaler.core.model.evidence import Evidence, KeptBy, SchedulerSays
from autoscaler.core.model.memory import Memory, UnstartedJob
from autoscaler.core.model.reasons import Code
from autoscaler.core.outcome.unstarted_jobs import jobs_to_ask
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    NOW,
    AWorker,
    a_host,
    a_job,
    a_snapshot,
    a_worker,
    category_of,
    jobs,
    launched,
    reason_code,
)

PATIENCE = 60.0
"""Four scheduler intervals as shipped."""


def later(made: Plan, snapshot: Snapshot, seconds: float, said: KeptBy | None = None) -> Snapshot:
    """The same cell after a pass; `said`: the answer about the jobs that are to be asked about then."""
    now = snapshot.now + seconds
    asked = jobs_to_ask(made.memory.unstarted, now)
    answers = {job: SchedulerSays(job, now, said, "because") for job in asked} if said is not None else {}
    return replace(snapshot, memory=made.memory, now=now, evidence=Evidence(scheduler=answers))


def stuck(*things: JobCategory | AWorker, said: KeptBy) -> tuple[Snapshot, Plan]:
    """A cell in which the first job has fitted for long, when the scheduler has just been asked."""
    snapshot = a_snapshot(a_host("p1"), *things)
    snapshot = later(plan(snapshot), snapshot, PATIENCE, said)
    return snapshot, plan(snapshot)


def codes(made: Plan, job: int = 1) -> set[Code]:
    reason = category_of(made, job).reason
    return {reason.code, *(link.code for link in reason.trail)}


def test_the_scheduler_is_asked_about_a_job_that_has_fitted_for_several_intervals() -> None:
    snapshot = a_snapshot(a_host("p1"), jobs(2, first=5))
    made = plan(snapshot)
    assert (reason_code(made, 5), made.due) == (Code.FITS, NOW + PATIENCE)
    assert jobs_to_ask(made.memory.unstarted, NOW + PATIENCE - 1) == ()
    assert jobs_to_ask(made.memory.unstarted, NOW + PATIENCE) == (5,)


def test_a_job_of_which_tasks_start_begins_anew() -> None:
    snapshot = a_snapshot(a_host("p1"), a_job(5, tasks="1-2:1", count=2))
    started = a_snapshot(a_host("p1", used=1), a_job(5, tasks="2-2:1", count=1))
    made = plan(snapshot)
    assert jobs_to_ask(plan(later(made, started, PATIENCE)).memory.unstarted, NOW + PATIENCE) == ()


def test_a_job_that_fits_nowhere_is_not_asked_about() -> None:
    assert plan(a_snapshot(a_host("p1", used=2), a_job())).memory.unstarted == {}


def test_few_questions_are_asked_at_a_time() -> None:
    notes = {job: UnstartedJob(job, "", NOW - job, NOW - 1) for job in range(1, 9)}
    assert jobs_to_ask(notes, NOW) == (8, 7)
    asked = {**notes, 8: replace(notes[8], asked_at=NOW - 10, ask_at=NOW + 290)}
    assert jobs_to_ask(asked, NOW) == ()
    assert jobs_to_ask(asked, NOW + 10) == (7, 6)


def test_the_jobs_of_one_owner_keep_no_job_of_another_from_being_asked_about() -> None:
    """Not even if the scheduler has no answer about any of them, and they have fitted longer."""
    notes = {job: UnstartedJob(job, "", NOW - 900 + job, NOW - 1, owner="eve") for job in range(1, 50)}
    notes[99] = UnstartedJob(99, "", NOW - 30, NOW - 1, owner="ann")
    asked, now = list[int](), NOW
    while 99 not in asked:
        asked += jobs_to_ask(notes, now)
        notes |= {job: replace(notes[job], asked_at=now, ask_at=now + 60) for job in asked}
        now += 20
        assert len(asked) <= 4


def test_more_unstarted_jobs_of_one_owner_than_are_remembered_leave_room_for_another() -> None:
    eve = [a_job(number, slots=number, waited=900.0, owner="eve") for number in range(2, 80)]
    made = plan(a_snapshot(a_host("p1", slots=4000), *eve, a_job(999, owner="ann")))
    assert 999 in made.memory.unstarted


def test_a_job_that_only_these_hosts_keep_from_starting_brings_a_worker() -> None:
    snapshot, made = stuck(a_job(), said=KeptBy.HOSTS)
    assert codes(made) == {Code.FITS, Code.KEPT_FROM_HOSTS}
    again = plan(later(made, snapshot, 5))
    assert launched(again) == {"m5.large": 1}
    assert Code.KEPT_FROM_HOSTS in codes(again)


def test_the_worker_that_comes_for_it_is_room_for_it() -> None:
    snapshot, made = stuck(a_job(), said=KeptBy.HOSTS)
    joined = a_snapshot(a_host("p1"), a_job(), a_worker("w1", idle=5))
    with_worker = replace(joined, memory=replace(made.memory, workers=joined.memory.workers), now=snapshot.now + 5)
    after = plan(with_worker)
    assert (launched(after), reason_code(after)) == ({}, Code.FITS)


@pytest.mark.parametrize("said", (KeptBy.ALL, KeptBy.NOTHING, KeptBy.UNKNOWN))
def test_a_cause_that_no_worker_lifts_is_reported_and_brings_none(said: KeptBy) -> None:
    snapshot, made = stuck(a_job(), said=said)
    assert codes(made) == {Code.FITS, Code.NOT_STARTED}
    for _ in range(20):
        snapshot = later(made, snapshot, 60, said)
        made = plan(snapshot)
        assert launched(made) == {}
    assert codes(made) == {Code.FITS, Code.NOT_STARTED}


def test_an_answer_that_no_longer_holds_makes_the_hosts_room_again() -> None:
    snapshot, made = stuck(a_job(), said=KeptBy.HOSTS)
    snapshot = later(made, snapshot, 300, KeptBy.NOTHING)
    made = plan(snapshot)
    assert (launched(plan(later(made, snapshot, 5)))) == {}


def test_other_jobs_still_fit_on_these_hosts() -> None:
    snapshot, made = stuck(a_job(1), a_job(9, hard={"h_vmem": "1"}), said=KeptBy.HOSTS)
    first = replace(made.memory, unstarted={1: made.memory.unstarted[1]})
    again = plan(replace(later(made, snapshot, 5), memory=first))
    assert (reason_code(again, 1), reason_code(again, 9)) == (Code.EXPIRED, Code.EXPIRED)
    host = a_snapshot(a_host("p1"), a_job(1), a_job(9, slots=2, pe="mpi"))
    again = plan(replace(host, memory=first, now=snapshot.now + 5))
    assert (reason_code(again, 1), reason_code(again, 9)) == (Code.EXPIRED, Code.FITS)


def test_the_hosts_are_no_part_of_the_category() -> None:
    demand = Demand(frozenset({"main.q"}))
    kept = replace(demand, properties=(Property("hostname", "==", f"{ELSEWHERE}p1)"),))
    assert category_key(kept) == category_key(demand)
    asked = replace(demand, properties=(Property("hostname", "==", "!(p1)"),))
    assert category_key(asked) != category_key(demand)


def test_a_job_that_ends_is_forgotten() -> None:
    snapshot, made = stuck(a_job(), said=KeptBy.HOSTS)
    nothing = replace(snapshot.cluster, job_categories=())
    assert plan(replace(later(made, snapshot, 5), cluster=nothing)).memory.unstarted == {}
    assert Memory().unstarted == {}
