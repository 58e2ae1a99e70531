"""Who may run where is decided as Grid Engine's scheduler decides it: lists, projects, quotas, reservations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.model.cluster import OPEN, Access, AccessList, ExecutionHost, JobRequest, QuotaRule
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.rights.rights import Rights
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    MAIN,
    NOW,
    PES,
    Thing,
    a_host,
    a_job,
    a_quota,
    a_snapshot,
    a_worker,
    category_of,
    codes,
    details_of,
    launched,
    reason_code,
)

LISTS = {
    "staff": AccessList("staff", ("ann", "@physics")),
    "guests": AccessList("guests", ("bob",)),
    "dept": AccessList("dept", ("ann",), grants=False),
}
STAFF_ONLY = Access(user_lists=("staff",))


def snapshot(*things: Thing, access: Access = OPEN, **changes: Any) -> Snapshot:
    """A cell whose main.q has this access."""
    queue = replace(MAIN, access=access, access_by_host=changes.pop("by_host", {}))
    made = a_snapshot(*things, queues={"main.q": queue})
    return replace(made, cluster=replace(made.cluster, access_lists=LISTS, **changes))


def judged(job: dict[str, Any], detail: dict[str, Any], **cell: Any) -> Plan:
    return plan(snapshot(a_job(**job), details_of(1, **{"group": "users", **detail}), **cell))


@pytest.mark.parametrize(
    ("access", "owner", "group", "expected"),
    (
        (Access(user_lists=("staff",)), "ann", "users", None),
        (Access(user_lists=("staff",)), "bob", "users", Code.NO_ACCESS),
        (Access(user_lists=("staff",)), "bob", "physics", None),
        (Access(user_lists=("staff", "guests")), "bob", "users", None),
        (Access(xuser_lists=("staff",)), "ann", "users", Code.NO_ACCESS),
        (Access(xuser_lists=("staff",)), "bob", "users", None),
        (Access(xuser_lists=("staff",)), "bob", "physics", Code.NO_ACCESS),
        (Access(user_lists=("staff",), xuser_lists=("staff",)), "ann", "users", Code.NO_ACCESS),
        (Access(user_lists=("dept",)), "ann", "users", Code.NO_ACCESS),
        (Access(user_lists=("dept", "staff")), "ann", "users", None),
        (Access(xuser_lists=("dept",)), "bob", "users", Code.NO_ACCESS),
        (Access(user_lists=("unread",)), "ann", "users", Code.ACCESS_UNKNOWN),
        (Access(user_lists=("unread", "staff")), "ann", "users", None),
        (Access(xuser_lists=("unread",)), "ann", "users", Code.ACCESS_UNKNOWN),
    ),
)
def test_access_lists_apply_as_in_the_scheduler(access: Access, owner: str, group: str, expected: Code | None) -> None:
    found = reason_code(judged({"owner": owner}, {"group": group}, access=access))
    assert found is (expected or Code.EXPIRED)


@pytest.mark.parametrize(
    ("access", "project", "expected"),
    (
        (Access(projects=("blue",)), "blue", None),
        (Access(projects=("blue",)), "green", Code.NO_PROJECT_ACCESS),
        (Access(projects=("blue",)), "", Code.NO_PROJECT),
        (Access(xprojects=("blue",)), "blue", Code.NO_PROJECT_ACCESS),
        (Access(xprojects=("blue",)), "green", None),
        (Access(xprojects=("blue",)), "", None),
    ),
)
def test_projects_apply_as_in_the_scheduler(access: Access, project: str, expected: Code | None) -> None:
    assert reason_code(judged({}, {"project": project}, access=access)) is (expected or Code.EXPIRED)


def test_a_department_denies_access_to_a_queue_but_not_to_a_host() -> None:
    rights = Rights(LISTS, restricts=True)
    access = Access(xuser_lists=("dept",))
    assert rights.refusal("host h1", access, JobRequest("qw", owner="ann")) is None
    assert rights.refusal("main.q", access, JobRequest("qw", owner="ann"), is_queue=True) is not None


def test_equal_jobs_of_owners_with_different_rights_are_separate_categories() -> None:
    things = (a_job(1, owner="ann"), a_job(2, owner="bob"), details_of(1, 2, group="users"))
    made = plan(snapshot(*things, access=Access(user_lists=("staff",))))
    assert [(verdict.counted, verdict.count) for verdict in sorted(made.job_categories, key=lambda one: one.jobs)] == [
        (True, 1),
        (False, 1),
    ]


def test_a_job_without_qstat_j_details_does_not_count_if_a_list_names_groups() -> None:
    made = plan(snapshot(a_job(owner="ann"), access=Access(user_lists=("staff",))))
    assert reason_code(made) is Code.NOT_READ_YET


def test_a_job_without_qstat_j_details_counts_if_lists_name_only_users() -> None:
    made = plan(snapshot(a_job(owner="bob"), access=Access(user_lists=("guests",))))
    assert reason_code(made) is Code.EXPIRED


def test_access_lists_of_the_workers_host_group_apply_to_workers() -> None:
    by_host = {"@allhosts": {"user_lists": ("guests",)}}
    made = [reason_code(judged({"owner": owner}, {}, by_host=by_host)) for owner in ("ann", "bob")]
    assert made == [Code.NO_ACCESS, Code.EXPIRED]


def test_access_lists_of_the_global_host_apply_to_workers() -> None:
    made = judged({"owner": "bob"}, {}, global_access=Access(user_lists=("staff",)))
    assert reason_code(made) is Code.NO_ACCESS


def test_a_free_host_that_denies_access_to_the_job_is_not_supply() -> None:
    def beside(host: ExecutionHost, owner: str) -> dict[str, int]:
        return launched(plan(snapshot(a_job(owner=owner), details_of(1, group="users"), host)))

    restricted = replace(a_host("h1"), access=Access(user_lists=("staff",)))
    assert [beside(restricted, owner) for owner in ("ann", "bob")] == [{}, {"m5.large": 1}]


def test_a_queues_access_list_for_a_host_overrides_the_one_for_its_host_group() -> None:
    """Main.q is open to guests on workers, and on h1 to staff alone: only ann's job finds h1 free."""
    by_host = {"h1": {"user_lists": ("staff",)}, "@others": {"user_lists": ("guests",)}}
    lists = Rights(LISTS, restricts=True)
    queues = {"main.q": replace(MAIN, access_by_host=by_host)}
    groups = {"@others": ("h1", "h2")}
    barred = [
        lists.barred_hosts(JobRequest("qw", owner=owner, group="users"), queues, groups) for owner in ("ann", "bob")
    ]
    assert barred == [["h2"], ["h1"]]


def test_a_pe_wildcard_uses_a_pe_that_grants_access() -> None:
    pes = {**PES, "mpi": replace(PES["mpi"], user_lists=("guests",))}
    made = judged({"slots": 4, "pe": "m*", "owner": "ann"}, {}, pes=pes)
    assert reason_code(made) in (Code.EXPIRED, Code.CAPPED, Code.NO_TYPE_FITS, Code.TOO_MANY_HOSTS)
    alone = judged({"slots": 2, "pe": "mpi", "owner": "ann"}, {}, pes=pes)
    assert reason_code(alone) is Code.NO_ACCESS


@pytest.mark.parametrize(
    ("rule", "detail", "expected"),
    (
        (QuotaRule({"slots": "0"}, users=("@staff",)), {}, Code.QUOTA_ALLOWS_NONE),
        (QuotaRule({"slots": "0"}, users=("@guests",)), {}, Code.EXPIRED),
        (QuotaRule({"slots": "0"}, users=("@dept",)), {}, Code.EXPIRED),
        (QuotaRule({"slots": "0"}, users=("!@staff",)), {}, Code.EXPIRED),
        (QuotaRule({"slots": "0"}, users=("!@guests",)), {}, Code.QUOTA_ALLOWS_NONE),
        (QuotaRule({"slots": "0"}, users=("@unread",)), {}, Code.QUOTA_ALLOWS_NONE),
        (QuotaRule({"slots": "0"}, projects=("blue",)), {"project": "blue"}, Code.QUOTA_ALLOWS_NONE),
        (QuotaRule({"slots": "0"}, projects=("blue",)), {"project": ""}, Code.EXPIRED),
        (QuotaRule({"slots": "0"}, projects=("*",)), {"project": ""}, Code.EXPIRED),
        (QuotaRule({"slots": "0"}, projects=("!blue",)), {"project": ""}, Code.QUOTA_ALLOWS_NONE),
        (QuotaRule({"slots": "0"}, projects=("!*",)), {"project": ""}, Code.QUOTA_ALLOWS_NONE),
        (QuotaRule({"slots": "0"}, projects=("!*",)), {"project": "blue"}, Code.EXPIRED),
        (QuotaRule({"slots": "0"}, pes=("!*",)), {"project": ""}, Code.QUOTA_ALLOWS_NONE),
    ),
)
def test_quotas_of_lists_and_projects_apply_as_in_the_scheduler(
    rule: QuotaRule, detail: dict[str, Any], expected: Code
) -> None:
    things = (a_job(owner="ann"), details_of(1, **{"group": "users", **detail}), a_quota(rule))
    assert reason_code(plan(snapshot(*things))) is expected


@pytest.mark.parametrize(
    ("running", "expected"),
    (("blue", Code.BEYOND_QUOTA), ("green", Code.EXPIRED), (None, Code.BEYOND_QUOTA)),
)
@pytest.mark.parametrize("each", (frozenset(), frozenset({"projects"})))
def test_a_quota_counts_slots_of_the_projects_running_jobs(
    running: str | None, expected: Code, each: frozenset[str]
) -> None:
    """A running job whose project is not known yet is taken to be of any."""
    rule = QuotaRule({"slots": "1"}, projects=("*",) if each else ("blue",), each=each)
    known = (details_of(9000, group="users", project=running),) if running is not None else ()
    things = (a_job(), details_of(1, group="users", project="blue"), a_worker("w1", used=1), a_quota(rule), *known)
    made = plan(snapshot(*things))
    assert (reason_code(made) is Code.BEYOND_QUOTA) is (expected is Code.BEYOND_QUOTA)


@pytest.mark.parametrize(("project", "fitting"), (("green", 1), ("blue", 0)))
def test_a_quota_for_each_project_on_each_host_counts_projects_apart(project: str, fitting: int) -> None:
    rule = QuotaRule({"slots": "1"}, projects=("*",), hosts=("*",), each=frozenset({"projects", "hosts"}))
    running = a_host("h1", slots=2, used=1), details_of(9000, group="users", project="blue")
    things = (a_job(), details_of(1, group="users", project=project), *running, a_quota(rule))
    assert plan(snapshot(*things)).fitting == fitting


def test_nothing_is_launched_for_a_job_of_an_advance_reservation() -> None:
    things = (a_job(), details_of(1, group="users", reservation=7), a_host(reserved=1))
    made = plan(snapshot(*things))
    assert (reason_code(made), launched(made)) == (Code.ADVANCE_RESERVATION, {})


def test_a_job_with_access_may_be_found_unsatisfiable() -> None:
    allowed = judged({"owner": "ann", "slots": 500}, {}, access=Access(user_lists=("staff",)))
    assert set(allowed.memory.unsatisfiable_jobs) == {1}


def test_a_job_is_not_proven_unsatisfiable_if_a_restricted_queue_could_run_it() -> None:
    """What stands on that queue's lists may change; until then nothing is proven against the job."""
    things = (a_job(owner="bob", slots=64), details_of(1, group="users"), a_host("fat", slots=64, queue="big.q"))
    made = a_snapshot(*things, queues={"main.q": MAIN, "big.q": replace(MAIN, name="big.q", access=STAFF_ONLY)})
    verdict = category_of(plan(replace(made, cluster=replace(made.cluster, access_lists=LISTS))))
    assert {Code.UNPROVEN, Code.RESTRICTED_QUEUE} <= set(codes(verdict.reason))


def test_a_job_without_access_is_never_suspected_to_be_unsatisfiable() -> None:
    """500 slots on workers of 2 could never run; but its only reason is the access list."""
    made = judged({"owner": "bob", "slots": 500}, {}, access=Access(user_lists=("staff",)))
    assert (reason_code(made), made.actions, dict(made.memory.unsatisfiable_jobs)) == (Code.NO_ACCESS, (), {})


@pytest.mark.parametrize(
    ("group", "expected"), (("physics", Code.BEYOND_QUOTA), ("users", None), (None, Code.BEYOND_QUOTA))
)
def test_a_quota_counts_slots_of_running_jobs_of_a_listed_group(group: str | None, expected: Code | None) -> None:
    worker = a_worker("w1", host=replace_owner(a_host("w1", used=1), "eve"))
    things = (
        a_job(owner="ann"),
        details_of(1, group="users"),
        worker,
        a_quota(QuotaRule({"slots": "1"}, users=("@staff",))),
    )
    known = () if group is None else (details_of(9000, group=group),)
    assert (reason_code(plan(snapshot(*things, *known))) is Code.BEYOND_QUOTA) is (expected is Code.BEYOND_QUOTA)


def replace_owner(host: ExecutionHost, owner: str) -> ExecutionHost:
    """The same host, whose jobs are that user's."""
    instances = (replace(one, jobs=tuple(replace(job, owner=owner) for job in one.jobs)) for one in host.instances)
    return replace(host, instances=tuple(instances))


# -- which jobs qstat -j is run for -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "known", "expected"),
    (
        (Needs(), {}, ()),
        (Needs(group=True), {}, (1,)),
        (Needs(project=True), {}, (1,)),
        (Needs(reservation=True), {}, (1,)),
        (Needs(project=True), {"group": "users"}, ()),
        (Needs(project=True), {"group": None}, (1,)),
        (Needs(project=True), {"group": "users", "age": 3600.0}, (1,)),
        (Needs(group=True), {"group": "users", "age": 3600.0}, ()),
        (Needs(project=True, of_running=True, running=(7, 8)), {"group": "users"}, (7, 8)),
        (Needs(ckpt=True), {}, (1,)),
        (Needs(ckpt=True), {"group": "users"}, (1,)),
        (Needs(ckpt=True), {"group": "users", "ckpt": ""}, ()),
        (Needs(ckpt=True), {"group": "users", "ckpt": "", "age": 3600.0}, (1,)),
    ),
)
def test_qstat_j_is_run_for_jobs_whose_details_matter(
    needs: Needs, known: dict[str, Any], expected: tuple[int, ...]
) -> None:
    made = a_snapshot(a_job())
    details = {}
    if known:
        read_at = NOW - known.get("age", 10.0)
        details = {1: replace(details_of(1, group=known["group"], ckpt=known.get("ckpt")).details[0], read_at=read_at)}
    memory = Memory(details=details)
    assert details_wanted(made.cluster.job_categories, memory, made.policy, NOW, needs) == expected


def test_qstat_j_details_of_running_jobs_are_remembered_if_a_quota_counts_them() -> None:
    rule = a_quota(QuotaRule({"slots": "9"}, projects=("blue",)))
    made = plan(snapshot(a_worker("w1", used=1), details_of(9000, group="users", project="blue"), rule))
    assert set(made.memory.details) == {9000}
