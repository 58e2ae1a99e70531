"""Reading `qstat -u '*' -s a -r -f -xml`: who occupies what, and what waits."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from autoscaler.core.model.cluster import JobCategory, JobRequest, QueueInstance
from autoscaler.sge.qstat import Listing, read_qstat
from tests.sge.printed import qstat, queue_list, running_job, waiting_job

RECORDED = Path(__file__).parent / "recorded" / "mixed" / "qstat.xml"


def listing(*waiting: str, queues: tuple[str, ...] = ()) -> Listing:
    return read_qstat(qstat(waiting, queues), UTC)


def ask(*waiting: str) -> JobRequest:
    (category,) = listing(*waiting).job_categories
    return category.ask


def instance(*jobs: str, **values: object) -> QueueInstance:
    (only,) = listing(queues=(queue_list("main.q@w1", *jobs, **values),)).instances  # type: ignore[arg-type]
    return only


def recorded() -> Listing:
    return read_qstat(RECORDED.read_bytes(), UTC)


def test_jobs_with_the_same_requests_are_one_job_category() -> None:
    job_categories = listing(
        *(waiting_job(number, name=f"run_{number}", prio=f"0.5{number}") for number in (7, 8, 9))
    ).job_categories
    assert [(category.jobs, category.count) for category in job_categories] == [((7, 8, 9), 3)]


@pytest.mark.parametrize(
    "other",
    (
        waiting_job(8, owner="bob"),
        waiting_job(8, state="hqw"),
        waiting_job(8, prio="0.00000"),
        waiting_job(8, tasks="1-4:1"),
        waiting_job(8, slots=2),
        waiting_job(8, more='<hard_request name="mem_free" resource_contribution="0.0">4G</hard_request>'),
        waiting_job(8, more="<hard_req_queue>long.q</hard_req_queue>"),
        waiting_job(8, more="<master_hard_req_queue>long.q</master_hard_req_queue>"),
        waiting_job(8, more="<predecessor_jobs>3</predecessor_jobs>"),
        waiting_job(8, more='<requested_pe name="mpi">1</requested_pe>'),
    ),
)
def test_a_difference_that_affects_scheduling_makes_another_job_category(other: str) -> None:
    assert len(listing(waiting_job(7), other).job_categories) == 2


def test_jobs_of_a_category_are_sorted_by_number_with_their_times_and_tasks() -> None:
    later = "<JB_submission_time>2026-11-21T09:05:00</JB_submission_time>"
    (category,) = listing(waiting_job(9, tasks="5-19:2", time=later), waiting_job(7, tasks="1-3:1")).job_categories
    assert category == JobCategory(category.ask, (7, 9), ("1-3:1", "5-19:2"), (1795251863.0, 1795251900.0), 11)


def test_an_array_is_counted_and_never_expanded() -> None:
    (category,) = listing(waiting_job(7, tasks="1-100000000:1")).job_categories
    assert category.count == 100_000_000


@pytest.mark.parametrize(
    ("text", "ends"), (("8", (8, 8)), ("4-12", (4, 12)), ("4,5", (4, 5)), ("4-9999999", (4, 9_999_999)))
)
def test_the_slots_of_a_job_with_a_pe_are_its_range(text: str, ends: tuple[int, int]) -> None:
    found = ask(waiting_job(7, slots=ends[0], more=f'<requested_pe name="m*">{text}</requested_pe>'))
    assert (found.pe, found.slots_min, found.slots_max) == ("m*", *ends)


def test_hard_requests_keep_their_texts_and_soft_ones_do_not_count() -> None:
    requests = (
        '<hard_request name="mem_free" resource_contribution="0.000000">1.5g</hard_request>'
        '<hard_request name="h_vmem" resource_contribution="7.000000">4G</hard_request>'
        '<soft_request name="arch">lx-x86</soft_request><soft_req_queue>fast.q</soft_req_queue>'
    )
    found = ask(waiting_job(7, more=requests))
    assert (found.hard, found.queues) == ((("h_vmem", "4G"), ("mem_free", "1.5g")), ())


def test_the_urgency_contribution_of_a_request_makes_no_other_category() -> None:
    rich, poor = (
        waiting_job(n, more=f'<hard_request name="h_vmem" resource_contribution="{n}.0">4G</hard_request>')
        for n in (7, 8)
    )
    assert len(listing(rich, poor).job_categories) == 1


def test_several_queue_requests_are_all_kept() -> None:
    requests = "<hard_req_queue>main.q@w1</hard_req_queue>\n<hard_req_queue>l*</hard_req_queue>"
    assert ask(waiting_job(7, more=requests)).queues == ("main.q@w1", "l*")


@pytest.mark.parametrize("tag", ("predecessor_jobs", "ad_predecessor_jobs"))
def test_jobs_that_wait_for_different_jobs_are_one_dependent_category(tag: str) -> None:
    (category,) = listing(
        *(waiting_job(n, state="hqw", more=f"<{tag}>{n - 5}</{tag}>") for n in (7, 8, 9))
    ).job_categories
    assert (category.ask.dependent, category.count) == (True, 3)


def test_dependent_jobs_with_different_requests_are_different_categories() -> None:
    requests = ("", "<hard_request name='h_vmem' resource_contribution='0.0'>8G</hard_request>\n")
    more = (f"<predecessor_jobs>3</predecessor_jobs>\n{request}" for request in requests)
    found = listing(*(waiting_job(n, state="hqw", more=text) for n, text in enumerate(more, 7)))
    assert [category.ask.hard for category in found.job_categories] == [(), (("h_vmem", "8G"),)]


def test_a_job_whose_predecessors_have_ended_is_not_dependent() -> None:
    assert not ask(waiting_job(7, more="<predecessor_jobs_req>align</predecessor_jobs_req>")).dependent


@pytest.mark.parametrize(
    ("prio", "unscheduled"), (("0.00000", True), ("0", True), ("0.00001", False), ("0.5", False), ("1.00000", False))
)
def test_priority_zero_means_not_seen_by_the_scheduler(prio: str, unscheduled: bool) -> None:
    assert ask(waiting_job(7, prio=prio)).unscheduled is unscheduled


def test_a_rescheduled_job_waits_since_its_last_start() -> None:
    (category,) = listing(
        waiting_job(7, state="Rq", time="<JAT_start_time>2026-11-21T09:04:23</JAT_start_time>")
    ).job_categories
    assert (category.ask.state, category.submitted) == ("Rq", (1795251863.0,))


@pytest.mark.parametrize("state", ("Eqw", "hRq", "ahqw", "zzz"))
def test_an_unusual_state_of_a_waiting_job_is_kept_as_printed(state: str) -> None:
    assert ask(waiting_job(7, state=state)).state == state


def test_the_project_of_a_job_is_part_of_its_request() -> None:
    with_project = waiting_job(7).replace("<state>", "<JB_project>blue</JB_project>\n      <state>")
    assert ask(with_project).project == "blue"


@pytest.mark.parametrize("state", ("r", "t", "s", "S", "T", "Rr", "hr", "dr", "dt", "?"))
def test_a_job_in_any_state_occupies_its_queue_instance(state: str) -> None:
    assert [job.state for job in instance(running_job(3, state=state), used=1).jobs] == [state]


def test_a_parallel_job_has_its_share_in_every_queue_instance() -> None:
    mpi = '<requested_pe name="mpi">8</requested_pe><granted_pe name="mpi">8</granted_pe>'
    queues = (
        queue_list("main.q@w1", running_job(3, slots=2, more=mpi), used=2),
        queue_list("main.q@w3", running_job(3, slots=6, more=mpi), used=6, total=8),
    )
    assert [(i.host, job.slots) for i in listing(queues=queues).instances for job in i.jobs] == [("w1", 2), ("w3", 6)]


def test_tasks_of_an_array_on_one_host_are_separate_jobs() -> None:
    jobs = instance(running_job(3, tasks="1"), running_job(3, tasks="75"), used=2).jobs
    assert [(job.number, job.task) for job in jobs] == [(3, "1"), (3, "75")]


def test_a_queue_instance_keeps_states_and_all_its_slot_counts() -> None:
    found = instance(used=1, reserved=2, total=8, state="dAu")
    assert (found.slots, found.used, found.reserved, found.states) == (8, 1, 2, "dAu")


def test_host_names_are_lower_case() -> None:
    (found,) = listing(queues=(queue_list("main.q@Node-7.Example.ORG"),)).instances
    assert (found.queue, found.host) == ("main.q", "node-7.example.org")


def test_a_recorded_listing_is_understood_whole() -> None:
    found = recorded()
    assert (len(found.instances), sum(category.count for category in found.job_categories), found.set_aside) == (
        2,
        121,
        (),
    )


def test_a_recorded_suspended_job_occupies_both_its_hosts() -> None:
    jobs = [(i.host, job.state, job.slots) for i in recorded().instances for job in i.jobs if job.number == 1]
    assert jobs == [("w1", "s", 1), ("w2", "s", 4)]
