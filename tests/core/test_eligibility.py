"""Which waiting jobs count, and why the others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.model.cluster import (
    Access,
    Complex,
    Consumable,
    ExecutionHost,
    HostJob,
    JobDetail,
    ParallelEnvironment,
    Queue,
    QueueInstance,
    QuotaRule,
)
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.report.wording import text
from tests.core.building import (
    COMPLEXES,
    MAIN,
    NOW,
    PES,
    a_host,
    a_job,
    a_quota,
    a_snapshot,
    a_worker,
    category_of,
    details_of,
    jobs,
    launched,
    reason_code,
)


@pytest.mark.parametrize(
    ("job", "code"),
    (
        ({"hard": {"h": "ip-10-1-0-4"}}, Code.HOST_LEFT),
        ({"queues": ("main.q@ip-10-1-0-4",)}, Code.HOST_LEFT),
        ({"hard": {"h": "ip-10-1-0-4|ip-10-1-0-5"}}, Code.HOST_LEFT),
        ({"hard": {"h": "ip-10-1-0-4|elsewhere"}}, Code.FOREIGN_HOST),
        ({"hard": {"h": "elsewhere-7"}}, Code.FOREIGN_HOST),
        ({"hard": {"h": "ip-10-1-0-9"}}, Code.FOREIGN_HOST),
        ({"hard": {"h": "ip-10-1-0-2"}}, None),
    ),
    ids=str,
)
def test_a_job_pinned_to_a_worker_that_has_left_is_told_so(job: dict[str, Any], code: Code | None) -> None:
    """A host of such a name that is no worker is there, or that a worker has, has not left."""
    cell = a_snapshot(a_job(**job), a_worker("ip-10-1-0-2"), a_host("ip-10-1-0-9"))
    (category,) = plan(cell).job_categories
    assert (None if category.counted else category.reason.code) is code


@pytest.mark.parametrize(
    ("job", "code"),
    (
        (a_job(state="hqw"), Code.HELD),
        (a_job(state="hRq"), Code.HELD),
        (a_job(state="hqw", dependent=True), Code.DEPENDENT),
        (a_job(state="Eqw"), Code.IN_ERROR),
        (a_job(state="??"), Code.UNKNOWN_STATE),
        (a_job(queues=("other.q",)), Code.FOREIGN_QUEUE),
        (a_job(hard={"q": "other.q"}), Code.FOREIGN_QUEUE),
        (a_job(queues=("main.q@elsewhere",)), Code.FOREIGN_HOST),
        (a_job(hard={"h": "elsewhere"}), Code.FOREIGN_HOST),
        (a_job(master_queues=("other.q",)), Code.FOREIGN_QUEUE),
        (a_job(hard={"fpga": "1"}), Code.UNKNOWN_RESOURCE),
        (a_job(hard={"h_vmem": "much"}), Code.CANNOT_BE_READ),
        (a_job(hard={"h_vmem": "1e400"}), Code.CANNOT_BE_READ),
        (a_job(hard={"h_vmem": "INFINITY"}), Code.CANNOT_BE_READ),
        (a_job(hard={"h_vmem": "-1G"}), Code.CANNOT_BE_READ),
        (a_job(hard={"mem_free": "1e400"}), Code.CANNOT_BE_READ),
        (a_job(hard={"h_rt": "1e400"}), Code.CANNOT_BE_READ),
        (a_job(slots=4, pe="smp"), Code.UNKNOWN_PE),
        (a_job(slots=(5, 7), pe="mpi4"), Code.PE_RULE),
        (a_job(tasks="1-9:1", count=9), Code.NOT_READ_YET),
        (a_job(unscheduled=True), Code.NOT_READ_YET),
    ),
)
def test_a_job_that_could_not_start_does_not_count_and_has_a_reason(job: object, code: Code) -> None:
    assert reason_code(plan(a_snapshot(job))) is code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "job",
    (
        a_job(state="Rq"),
        a_job(queues=("main.q",)),
        a_job(queues=("ma*",)),
        a_job(queues=("main.q@*",)),
        a_job(queues=("main.q@@allhosts",)),
        a_job(queues=("other.q", "main.q")),
        a_job(hard={"h": "!elsewhere"}),
        a_job(hard={"q": "main*"}),
        a_job(hard={"a": "lx-*"}),
        a_job(hard={"arch": "sol-*|lx-amd64"}),
        a_job(hard={"num_proc": "2"}),
        a_job(hard={"mt": "8G"}),
        a_job(hard={"h_rt": "3600"}),
        a_job(hard={"h_vmem": "8G"}),
        a_job(slots=2, pe="lo*"),
        a_job(slots=(1, 64), pe="mpi"),
    ),
)
def test_a_worker_is_launched_for_a_job_that_it_could_run(job: object) -> None:
    assert launched(plan(a_snapshot(job))) == {"m5.large": 1}  # type: ignore[arg-type]


def test_a_job_with_a_future_start_time_does_not_count() -> None:
    assert reason_code(
        plan(a_snapshot(a_job(unscheduled=True), details_of(1, start_after=NOW + 5, unscheduled=True)))
    ) is (Code.FUTURE)


def test_a_jobs_waiting_time_begins_at_its_start_time() -> None:
    made = a_snapshot(a_job(waited=900), details_of(1, start_after=NOW - 40))
    assert category_of(plan(made)).waited == 40


def test_a_released_job_is_not_expired_at_first() -> None:
    assert reason_code(plan(a_snapshot(a_job(waited=900), Memory(unable=(1,))))) is Code.NOT_EXPIRED


def test_a_released_job_expires_the_timeout_after_its_release() -> None:
    assert reason_code(plan(a_snapshot(a_job(waited=900), Memory(able_since={1: NOW - 30})))) is Code.EXPIRED


def test_a_held_job_is_remembered_as_unable_to_run() -> None:
    assert plan(a_snapshot(a_job(state="hqw"))).memory.unable == (1,)


def test_tasks_beyond_tc_do_not_count_and_are_listed() -> None:
    made = plan(a_snapshot(a_job(tasks="1-10:1", count=10), details_of(1, concurrency=4)))
    assert [(v.tasks, v.count, v.reason.code) for v in made.job_categories] == [
        (("1-4:1",), 4, Code.EXPIRED),
        (("5-10:1",), 6, Code.BEYOND_CONCURRENCY),
    ]


def test_tasks_of_a_job_are_reported_in_their_order_whether_they_count_or_not() -> None:
    tasks = {"5-9:1": "qw", "1-2:1": "hqw", "3-4:1": "qw"}
    parts = [a_job(tasks=some, count=2, state=state) for some, state in tasks.items()]
    made = plan(a_snapshot(*parts, details_of(1)))
    assert [verdict.tasks for verdict in made.job_categories] == [(some,) for some in sorted(tasks)]


def test_a_parallel_task_on_two_hosts_counts_once_for_tc() -> None:
    one, two = a_host("h1", used=1), a_host("h2", used=1)
    running = replace(one.instances[0].jobs[0], number=1, task="1")
    one, two = (replace(host, instances=(replace(host.instances[0], jobs=(running,), used=2),)) for host in (one, two))
    made = plan(a_snapshot(one, two, a_job(tasks="2-10:1", count=9), details_of(1, concurrency=3)))
    assert [verdict.count for verdict in made.job_categories] == [2, 7]


def test_a_job_of_priority_zero_counts_once_qstat_j_was_read() -> None:
    assert reason_code(plan(a_snapshot(a_job(unscheduled=True), details_of(1, unscheduled=True)))) is Code.EXPIRED


def test_qstat_j_details_from_before_a_job_lost_its_priority_are_not_used() -> None:
    assert reason_code(plan(a_snapshot(a_job(unscheduled=True), details_of(1, unscheduled=False)))) is Code.NOT_READ_YET


def test_licences_go_to_the_oldest_job() -> None:
    made = plan(
        a_snapshot(
            a_job(1, waited=50, hard={"lic": "2"}),
            a_job(2, waited=90, hard={"lic": "2"}),
            global_consumables={"lic": "3"},
        )
    )
    assert (reason_code(made, 2), reason_code(made, 1)) == (Code.EXPIRED, Code.BEYOND_GLOBAL)


def test_a_licence_counts_per_slot() -> None:
    made = plan(a_snapshot(jobs(5, slots=2, hard={"lic": "1"}), global_consumables={"lic": "5"}))
    assert sorted(verdict.count for verdict in made.job_categories if verdict.counted) == [2]


def test_a_quota_holds_for_each_user_alone() -> None:
    rule = QuotaRule({"slots": "3"}, users=("*",), each=frozenset({"users"}))
    made = plan(a_snapshot(jobs(5, owner="ann"), jobs(2, 100, owner="bob"), a_quota(rule)))
    assert sum(verdict.count for verdict in made.job_categories if verdict.counted) == 5


def test_a_quota_counts_slots_of_running_jobs() -> None:
    made = plan(a_snapshot(jobs(5, owner="ann"), a_host(slots=2, used=2), a_quota(QuotaRule({"slots": "3"}))))
    assert sum(verdict.count for verdict in made.job_categories if verdict.counted) == 1


@pytest.mark.parametrize(
    "quota",
    (
        a_quota(QuotaRule({"slots": "0"}), enabled=False),
        a_quota(QuotaRule({"slots": "0"}, users=("bob",))),
        a_quota(QuotaRule({"slots": "0"}, users=("!ann",))),
        a_quota(QuotaRule({"slots": "0"}, queues=("other.q",))),
        a_quota(QuotaRule({"slots": "0"}, hosts=("h7",))),
        a_quota(QuotaRule({"slots": "1"}, hosts=("*",), each=frozenset({"hosts"}))),
        a_quota(QuotaRule({"slots": "9"}, users=("ann",)), QuotaRule({"slots": "0"})),
        a_quota(QuotaRule({"slots": "$num_proc*0"})),
    ),
)
def test_a_quota_that_does_not_apply_holds_back_no_job(quota: object) -> None:
    assert reason_code(plan(a_snapshot(a_job(owner="ann"), quota))) is Code.EXPIRED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit", "asked", "code"),
    (
        ({"h_rt": "0:1:0"}, {"h_rt": "61"}, Code.TOO_MUCH_FOR_QUOTA),
        ({"h_rt": "0:1:0"}, {"h_rt": "60"}, Code.EXPIRED),
        ({"h_rt": "0:1:0"}, {}, Code.EXPIRED),
        ({"slots": "9", "h_rt": "60"}, {"h_rt": "61"}, Code.TOO_MUCH_FOR_QUOTA),
        ({"arch": "lx-amd64"}, {"arch": "lx-*"}, Code.EXPIRED),
        ({"arch": "sol-amd64"}, {"arch": "lx-amd64"}, Code.TOO_MUCH_FOR_QUOTA),
    ),
)
def test_a_quota_on_a_non_consumable_is_compared_with_each_request(
    limit: dict[str, str], asked: dict[str, str], code: Code
) -> None:
    """Son of Grid Engine 8.1.9: `limit to h_rt=60` starts no job that requests more, and all that request none."""
    made = plan(a_snapshot(a_job(hard=asked), a_quota(QuotaRule(limit))))
    assert (reason_code(made), bool(made.actions)) == (code, code is Code.EXPIRED)


def test_jobs_with_different_run_times_are_checked_separately_against_a_quota() -> None:
    short, long = a_job(hard={"h_rt": "60"}), a_job(2, hard={"h_rt": "61"})
    made = plan(a_snapshot(short, long, a_quota(QuotaRule({"h_rt": "60"}))))
    assert {one.jobs: one.reason.code for one in made.job_categories} == {
        (1,): Code.EXPIRED,
        (2,): Code.TOO_MUCH_FOR_QUOTA,
    }


def test_a_job_whose_access_list_could_not_be_read_has_that_reason() -> None:
    closed = {"main.q": replace(MAIN, access=Access(user_lists=("staff",)))}
    assert reason_code(plan(a_snapshot(a_job(), queues=closed))) is Code.ACCESS_UNKNOWN


def test_a_job_that_runs_longer_than_the_queue_allows_does_not_count() -> None:
    short = {"main.q": replace(MAIN, limits={"h_rt": "1:0:0"})}
    assert reason_code(plan(a_snapshot(a_job(hard={"h_rt": "3601"}), queues=short))) is Code.RESTRICTED_QUEUE


FORCED = {
    **COMPLEXES,
    "must": Complex("must", "mu", "BOOL", "==", "FORCED", Consumable.NO, "0"),
    "toll": Complex("toll", "to", "INT", "<=", "FORCED", Consumable.PER_SLOT, "0"),
}


@pytest.mark.parametrize("value", ("must=TRUE", "must=FALSE", "toll=2", "toll=0"))
@pytest.mark.parametrize("where", ("queue", "workers", "global host"))
def test_a_job_that_does_not_request_a_forced_complex_does_not_count(value: str, where: str) -> None:
    values = dict([value.split("=")])
    here: dict[str, Any] = {"queue": {"complex_values": values}}
    here["workers"] = {"complex_values_by_host": {"@allhosts": values}}
    queues = {"main.q": replace(MAIN, **here.get(where, {}))}
    shared = values if where == "global host" else {}
    made = plan(a_snapshot(a_job(), queues=queues, complexes=FORCED, global_consumables=shared))
    asking = plan(a_snapshot(a_job(hard={"mu": values.get("must", "1"), "to": "0"}), queues=queues, complexes=FORCED))
    assert (reason_code(made), made.actions) == (Code.RESTRICTED_QUEUE, ())
    assert "is FORCED" in text(made.job_categories[0].reason)
    assert reason_code(asking) is not Code.RESTRICTED_QUEUE


def test_with_a_forced_h_rt_only_jobs_that_request_it_count() -> None:
    forced = {**COMPLEXES, "h_rt": replace(COMPLEXES["h_rt"], requestable="FORCED")}
    asking, other = a_job(1, hard={"h_rt": "600"}), a_job(2)
    made = plan(a_snapshot(asking, other, complexes=forced, global_consumables={"h_rt": "1:0:0"}))
    assert {category.jobs: category.reason.code for category in made.job_categories} == {
        (1,): Code.EXPIRED,
        (2,): Code.RESTRICTED_QUEUE,
    }


def test_a_forced_complex_only_on_other_hosts_than_workers_excludes_no_job() -> None:
    queues = {"main.q": replace(MAIN, complex_values_by_host={"@big": {"must": "TRUE"}})}
    assert reason_code(plan(a_snapshot(a_job(), queues=queues, complexes=FORCED))) is Code.EXPIRED


@pytest.mark.parametrize(
    ("elsewhere", "on_workers", "counts"),
    (
        ("1:0:0", "100:0:0", True),
        ("1:0:0", "INFINITY", True),
        ("INFINITY", "1:0:0", False),
        ("100:0:0", "2:0:0", False),
    ),
)
def test_the_queue_limit_for_the_workers_host_group_decides(elsewhere: str, on_workers: str, counts: bool) -> None:
    limits = {} if elsewhere == "INFINITY" else {"h_rt": elsewhere}
    queues = {"main.q": replace(MAIN, limits=limits, limits_by_host={"@allhosts": {"h_rt": on_workers}})}
    made = plan(a_snapshot(a_job(hard={"h_rt": "10:0:0"}), queues=queues))
    assert (reason_code(made) is not Code.RESTRICTED_QUEUE, bool(made.actions)) == (counts, counts)


def test_a_job_pinned_to_our_worker_counts_but_launches_nothing() -> None:
    made = plan(a_snapshot(a_job(hard={"h": "w1"}), a_worker("w1", used=2)))
    assert (reason_code(made), made.actions) == (Code.COUNTED, ())


def test_a_job_without_a_queue_does_not_count_for_a_non_default_queue() -> None:
    reason = category_of(plan(a_snapshot(a_job(), queue={"default": False}))).reason
    assert (reason.code, reason["queues"]) == (Code.QUEUE_NOT_NAMED, ("main.q",))


@pytest.mark.parametrize(("group", "on_workers"), (("@allhosts", ("other.q",)), ("@others", None)))
def test_the_reason_names_queues_of_workers_that_are_not_autoscaled(
    group: str, on_workers: tuple[str, ...] | None
) -> None:
    queues = {"main.q": MAIN, "other.q": Queue("other.q", (group,), 2, pe_list=("only",))}
    pes = {**PES, "only": ParallelEnvironment("only", 99, "$fill_up")}
    for job, code in (
        (a_job(queues=("other.q",)), Code.FOREIGN_QUEUE),
        (a_job(master_queues=("other.q",)), Code.FOREIGN_QUEUE),
        (a_job(slots=2, pe="only"), Code.PE_ELSEWHERE),
    ):
        world = a_snapshot(job, queues=queues)
        reason = category_of(plan(replace(world, cluster=replace(world.cluster, pes=pes)))).reason
        assert (reason.code, reason["on_workers"]) == (code, on_workers)


def test_one_expired_job_makes_all_jobs_of_its_queue_expired() -> None:
    made = plan(a_snapshot(jobs(7, waited=5), a_job(50, waited=30)))
    assert launched(made) == {"m5.large": 4}


def test_nothing_is_launched_before_any_job_is_expired() -> None:
    assert plan(a_snapshot(jobs(7, waited=29.9))).actions == ()


# -- which jobs qstat -j is run for -----------------------------------------------------------------------------------


def looked_up(*job_categories: object, details: tuple[JobDetail, ...] = (), lookups: int = 200) -> tuple[int, ...]:
    made = a_snapshot(*job_categories)  # type: ignore[arg-type]
    policy = replace(made.policy, detail_lookups=lookups)
    return details_wanted(made.cluster.job_categories, Memory(details={d.job: d for d in details}), policy, NOW)


def test_qstat_j_is_run_for_arrays_and_unscheduled_jobs_oldest_first() -> None:
    job_categories = (a_job(1), a_job(2, tasks="1-2:1", waited=5), a_job(3, unscheduled=True, waited=9))
    assert looked_up(*job_categories) == (3, 2)


def test_qstat_j_is_run_for_no_more_jobs_than_allowed() -> None:
    assert looked_up(a_job(2, tasks="1-2:1", waited=5), a_job(3, unscheduled=True, waited=9), lookups=1) == (3,)


def test_qstat_j_is_not_run_for_held_jobs() -> None:
    assert looked_up(a_job(2, tasks="1-2:1", state="hqw")) == ()


@pytest.mark.parametrize(
    ("detail", "again"),
    (
        (JobDetail(2, NOW - 9), False),
        (JobDetail(2, NOW - 9999), False),
        (JobDetail(2, NOW - 599, concurrency=2), False),
        (JobDetail(2, NOW - 600, concurrency=2), True),
        (JobDetail(2, NOW - 600, start_after=NOW + 9), True),
        (JobDetail(2, NOW - 600, start_after=NOW - 9), False),
    ),
)
def test_qstat_j_is_run_again_only_if_an_old_answer_holds_the_job_back(detail: JobDetail, again: bool) -> None:
    assert looked_up(a_job(2, tasks="1-2:1"), details=(detail,)) == ((2,) if again else ())


def test_qstat_j_is_run_again_for_a_job_that_lost_its_priority() -> None:
    assert looked_up(a_job(2, unscheduled=True), details=(JobDetail(2, NOW - 9),)) == (2,)


def test_a_job_beyond_a_quota_for_each_host_does_not_count() -> None:
    each = a_quota(QuotaRule({"slots": "2"}, hosts=("*",), each=frozenset({"hosts"})))
    assert reason_code(plan(a_snapshot(a_job(slots=3), each, instance_type="m5.4xlarge"))) is Code.TOO_MUCH_FOR_QUOTA
    assert reason_code(plan(a_snapshot(a_job(slots=2), each))) is Code.EXPIRED
    assert reason_code(plan(a_snapshot(a_job(slots=3, pe="mpi"), each))) is Code.EXPIRED


WORKERS_ONLY = ("!h*",)
"""A host filter for workers to come."""


@pytest.mark.parametrize(
    ("hosts", "rules", "ordered"),
    (
        pytest.param(
            (a_host("h1"), a_host("h2", used=2)),
            (QuotaRule({"slots": "0"}, hosts=("h1",)), QuotaRule({"slots": "20"}, hosts=WORKERS_ONLY)),
            3,
            id="one host closed by a quota, one full host under none",
        ),
        pytest.param(
            (a_host("h1"), a_host("h2", used=2)),
            (
                QuotaRule({"slots": "0"}, hosts=("h1",)),
                QuotaRule({"slots": "90"}, hosts=("h2",)),
                QuotaRule({"slots": "20"}, hosts=WORKERS_ONLY),
            ),
            3,
            id="one host closed by a quota, one full host under a wide one",
        ),
        pytest.param(
            (a_host("h1", used=2),),
            (QuotaRule({"slots": "90"}, hosts=("h1",)), QuotaRule({"slots": "4"}, hosts=WORKERS_ONLY)),
            2,
            id="more jobs than the workers' quota has room for, a full host under a wide one",
        ),
    ),
)
def test_jobs_do_not_wait_for_full_hosts_where_quotas_leave_room_on_workers(
    hosts: tuple[ExecutionHost, ...], rules: tuple[QuotaRule, ...], ordered: int
) -> None:
    assert launched(plan(a_snapshot(jobs(5), *hosts, a_quota(*rules)))) == {"m5.large": ordered}


def test_a_full_queue_does_not_take_jobs_from_one_with_free_slots_where_a_third_has_used_its_quota() -> None:
    """Rules by host and by queue in one set: Son of Grid Engine 8.1.9 starts the job on main.q@h2."""
    full, free = QueueInstance("b.q", "h1", 2, 2, 0, "", ()), QueueInstance("main.q", "h2", 4, 0, 0, "", ())
    used = QueueInstance("b.q", "h2", 2, 2, 0, "", tuple(HostJob(9000 + n, "", "r", 1, "bob") for n in (1, 2)))
    rules = (
        QuotaRule({"slots": "4"}, users=("ann",), hosts=("h1",)),
        QuotaRule({"slots": "2"}, queues=("*",), each=frozenset({"queues"})),
    )
    seen = a_snapshot(
        a_job(owner="ann"),
        ExecutionHost("h1", (full,)),
        ExecutionHost("h2", (used, free)),
        a_quota(*rules),
        queues={"main.q": MAIN, "b.q": Queue("b.q", ("h1", "h2"), 1)},
    )
    policy = replace(seen.policy, queues=(*seen.policy.queues, QueuePolicy("b.q", "b")))
    made = plan(replace(seen, policy=policy))
    assert (reason_code(made), made.actions) == (Code.FITS, ())


def test_a_job_takes_of_quotas_only_on_hosts_that_it_names() -> None:
    rules = (QuotaRule({"slots": "9"}, hosts=("h1",)), QuotaRule({"slots": "1"}, hosts=("h2",)))
    named = jobs(2, hard={"hostname": "h2"})
    made = plan(a_snapshot(named, a_host("h1"), a_worker("h2"), a_quota(*rules)))
    assert [(one.count, one.reason.code) for one in made.job_categories] == [(1, Code.FITS), (1, Code.BEYOND_QUOTA)]


def test_a_pes_slots_used_by_running_jobs_are_not_available() -> None:
    small = {**PES, "mpi": replace(PES["mpi"], slots=6)}
    running = HostJob(9001, "", "r", 4, "ann", pe="mpi")
    host = replace(a_host("h1"), instances=(QueueInstance("main.q", "h1", 9, 4, 0, "", (running,)),))
    seen = a_snapshot(a_job(slots=2, pe="mpi"), a_job(2, slots=3, pe="mpi"), host)
    made = plan(replace(seen, cluster=replace(seen.cluster, pes=small)))
    assert (reason_code(made, 1), reason_code(made, 2)) == (Code.FITS, Code.BEYOND_QUOTA)


def test_jobs_beyond_the_quotas_of_all_their_queues_are_told_the_one_with_most_room() -> None:
    quotas = a_quota(QuotaRule({"slots": "1"}, queues=("main.q",)), QuotaRule({"slots": "3"}, queues=("night.q",)))
    night = replace(MAIN, name="night.q")
    queues = (QueuePolicy("main.q", "execute"), QueuePolicy("night.q", "night"))
    arrays = [NodeArrayPolicy(each.node_array, each.name, "@allhosts", "m5.large") for each in queues]
    policy = Policy(queues, tuple(arrays), "master")
    made = plan(a_snapshot(jobs(9), quotas, queues={"main.q": MAIN, "night.q": night}, policy=policy))
    (beyond,) = (category for category in made.job_categories if not category.counted)
    assert (beyond.count, dict(beyond.reason.facts)["limit"]) == (5, "slots=3")
