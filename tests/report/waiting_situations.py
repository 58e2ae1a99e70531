"""A snapshot for each cause for which a job waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoscaler.core.cost.spending import BudgetAction
from autoscaler.core.model.cluster import Access, ExecutionHost, ParallelEnvironment, Queue, QuotaRule
from autoscaler.core.model.evidence import KeptBy
from autoscaler.core.model.fleet import BucketKey, FailureKind, PriceType
from autoscaler.core.model.memory import Backoff, Memory, ProtectedArray
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, SwitchedOff
from autoscaler.core.snapshot import Snapshot
from tests.core.building import (
    MAIN,
    NOW,
    PES,
    X4LARGE,
    a_bucket,
    a_failure,
    a_host,
    a_job,
    a_machine,
    a_quota,
    a_snapshot,
    a_worker,
    an_order,
    details_of,
    jobs,
)
from tests.core.test_access import STAFF_ONLY
from tests.core.test_access import snapshot as restricted
from tests.core.test_budgets import ANN, CELL, under
from tests.core.test_closed_queues import URGENT, closing_in, limited, off_for_ever
from tests.core.test_forced import GPU, forced
from tests.core.test_groups import in_groups
from tests.core.test_reported import known
from tests.core.test_rules_in_plans import applied, ruled
from tests.core.test_unanswered import a_throttled
from tests.core.test_unstarted import stuck
from tests.properties.unhelpful_launches import Cause, UnhelpfulLaunches

HYBRID: Mapping[str, Any] = {"hybrid": True, "family": "m5"}
REFUSED = Backoff(BucketKey("m5.4xlarge"), float("inf"), 1, FailureKind.PERMANENT, "not authorised", NOW - 60)
OLD = 900.0
FULL = a_worker("w1", used=2)
NONE_LEFT = Limits(max_workers=1)
OFF = Limits(
    max_workers=0, switched_off=SwitchedOff("main.q", "autoscale", "CP_CAP_AUTOSCALE=false", "true", workers=1)
)
BACKOFF = Backoff(BucketKey("m5.large"), NOW + 600, 3, FailureKind.CAPACITY, "no m5.large left", NOW - 60)


def of_a_lost_order() -> Any:
    """A busy worker whose order no journal has."""
    found = a_worker("w1", used=2, known=False)
    return replace(found, worker=replace(found.worker, order_id="order-1"))


def with_policy(snapshot: Snapshot, **policy: Any) -> Snapshot:
    return replace(snapshot, policy=replace(snapshot.policy, **policy))


def with_cluster(snapshot: Snapshot, **cluster: Any) -> Snapshot:
    return replace(snapshot, cluster=replace(snapshot.cluster, **cluster))


def running_task_of(job: int) -> ExecutionHost:
    host = a_host(slots=1, used=1)
    (instance,) = host.instances
    running = (replace(instance.jobs[0], number=job, task="1"),)
    return replace(host, instances=(replace(instance, jobs=running),))


def a_queue(**changes: Any) -> Mapping[str, Queue]:
    return {"main.q": replace(MAIN, **changes)}


def with_pe(name: str, snapshot: Snapshot) -> Snapshot:
    """The same with a parallel environment of two slots."""
    return with_cluster(snapshot, pes={**PES, name: ParallelEnvironment(name, 2, "$fill_up")})


def with_access(access: Access, **ask: Any) -> Snapshot:
    """A job of the group `users` waits for a queue with this access."""
    return restricted(a_job(waited=OLD, **ask), details_of(1, group="users"), access=access)


def unhelpful_launches(cause: Cause, code: Code) -> Snapshot:
    """A cell after launches on which no job started, once a job waits for this cause."""
    cell = UnhelpfulLaunches(cause=cause)
    for _ in range(4 if cause is Cause.NO_SLOTS else 1):
        cell.ask(1)
    for _ in range(100):
        snapshot = cell.snapshot()
        if all(cause_of(verdict.reason).code is code for verdict in plan(snapshot).job_categories):
            return snapshot
        cell.step()
    raise AssertionError(f"no job waits for {code}")


SITUATIONS: Mapping[str, tuple[Snapshot, Code]] = {
    "cap": (a_snapshot(a_job(waited=OLD), FULL, limits=NONE_LEFT), Code.CAPPED),
    "cap of the price": (a_snapshot(a_job(waited=OLD), limits=Limits(10, max_price_per_hour=0.01)), Code.CAPPED),
    "large job at the cap": (a_snapshot(a_job(slots=2, waited=OLD), FULL, limits=NONE_LEFT), Code.CAPPED),
    "smaller jobs first": (
        a_snapshot(a_job(1, slots=2, waited=OLD), jobs(3, 2, waited=60.0), FULL, limits=NONE_LEFT),
        Code.OTHERS_FIRST,
    ),
    "switched off": (a_snapshot(a_job(waited=OLD), limits=OFF), Code.AUTOSCALING_OFF),
    "switched off beside a worker that is left": (
        a_snapshot(a_job(waited=OLD), FULL, limits=OFF),
        Code.AUTOSCALING_OFF,
    ),
    "no worker allowed": (a_snapshot(a_job(waited=OLD), limits=Limits(max_workers=0)), Code.CAPPED),
    "no capacity": (
        a_snapshot(a_job(waited=OLD), Memory(passes=7, backoffs=(BACKOFF,))),
        Code.BUCKET_BACKOFF,
    ),
    "one failed launch": (a_snapshot(a_job(waited=OLD), a_failure(age=100.0)), Code.LAUNCHES_FAILED),
    "refused for good": (
        a_snapshot(a_job(waited=OLD), a_failure(kind=FailureKind.PERMANENT), a_bucket()),
        Code.NODE_ARRAY_STOPPED,
    ),
    "not to be had": (a_snapshot(a_job(waited=OLD), a_bucket(problem="no vCPU quota")), Code.BUCKET_UNAVAILABLE),
    "price not known": (
        a_snapshot(a_job(waited=OLD), a_bucket(price=-1.0), limits=Limits(10, max_price_per_hour=9.0)),
        Code.BUCKET_NO_PRICE,
    ),
    "quota": (
        a_snapshot(a_job(waited=OLD), a_host(used=1), a_quota(QuotaRule(limits={"slots": "1"}))),
        Code.BEYOND_QUOTA,
    ),
    "quota of none": (a_snapshot(a_job(waited=OLD), a_quota(QuotaRule(limits={"slots": "0"}))), Code.QUOTA_ALLOWS_NONE),
    "licence in use": (
        a_snapshot(
            a_job(hard={"lic": "1"}, waited=OLD),
            a_host(used=1, hard={"lic": "1"}),
            global_values={"lic": "1"},
            global_consumables={"lic": "0"},
        ),
        Code.BEYOND_GLOBAL,
    ),
    "more licences than the cell has": (
        a_snapshot(a_job(hard={"lic": "5"}, waited=OLD), global_values={"lic": "1"}, global_consumables={"lic": "1"}),
        Code.TOO_MUCH_FOR_CELL,
    ),
    "no such resource": (a_snapshot(a_job(hard={"gpus": "1"}, waited=OLD)), Code.NOT_GIVEN_TO_WORKERS),
    "no such host": (a_snapshot(a_job(hard={"arch": "sol-sparc"}, waited=OLD)), Code.NO_SUCH_HOST),
    "no complex": (a_snapshot(a_job(hard={"unheard_of": "1"}, waited=OLD)), Code.UNKNOWN_RESOURCE),
    "too many slots": (a_snapshot(a_job(slots=64, pe="mpi", waited=OLD)), Code.TOO_MANY_SLOTS),
    "dependency": (a_snapshot(a_job(state="hqw", dependent=True, waited=OLD)), Code.DEPENDENT),
    "later start": (a_snapshot(a_job(waited=OLD), details_of(1, start_after=NOW + 900)), Code.FUTURE),
    "-tc": (
        a_snapshot(a_job(tasks="2-5:1", count=4, waited=OLD), running_task_of(1), details_of(1, concurrency=1)),
        Code.BEYOND_CONCURRENCY,
    ),
    "budget of the cell": (
        under(a_snapshot(a_job(waited=OLD)), BudgetAction.STOP, it=(CELL, 500.0)),
        Code.BUDGET_SPENT,
    ),
    "budget of the owner": (
        under(a_snapshot(a_job(waited=OLD, owner="ann")), BudgetAction.STOP, it=(ANN, 100.0)),
        Code.JOB_OVER_BUDGET,
    ),
    "calendar": (off_for_ever(a_snapshot(a_job(waited=OLD))), Code.QUEUE_OFF_BY_CALENDAR),
    "state lost": (a_snapshot(a_job(waited=OLD), of_a_lost_order(), Memory()), Code.STATE_LOST),
    "hold": (a_snapshot(a_job(state="hqw", waited=OLD)), Code.HELD),
    "error": (a_snapshot(a_job(state="Eqw", waited=OLD)), Code.IN_ERROR),
    "booting worker": (a_snapshot(a_job(waited=OLD), a_machine(age=30.0)), Code.WAITS_FOR_COMING),
    "ordered worker": (a_snapshot(a_job(waited=OLD), an_order()), Code.WAITS_FOR_COMING),
    "order without an answer": (
        a_snapshot(a_job(waited=OLD), an_order(message="no answer within 10 s")),
        Code.ORDER_UNANSWERED,
    ),
    "young": (a_snapshot(a_job(waited=5.0)), Code.NOT_EXPIRED),
    "free host": (a_snapshot(a_job(waited=5.0), a_host()), Code.FITS),
    "paused": (a_snapshot(a_job(waited=OLD), Overrides(paused=True)), Code.PAUSED),
    "young while paused": (a_snapshot(a_job(waited=5.0), Overrides(paused=True)), Code.PAUSED),
    "young while stopped": (a_snapshot(a_job(waited=5.0), Overrides(stop="drain")), Code.STOPPING),
    "young, and the budget of the cell": (
        under(a_snapshot(a_job(waited=5.0)), BudgetAction.STOP, it=(CELL, 500.0)),
        Code.BUDGET_SPENT,
    ),
    "stopped": (a_snapshot(a_job(waited=OLD), Overrides(stop="drain")), Code.STOPPING),
    "circuit breaker": (
        a_snapshot(
            a_job(waited=OLD),
            Memory(
                passes=7,
                circuit_breaker=because(Code.CIRCUIT_BREAKER, count=9, what="removals", window_s=3600.0, most=5),
            ),
        ),
        Code.CIRCUIT_BREAKER,
    ),
    "protected mode": (
        a_snapshot(
            a_job(waited=OLD),
            Memory(
                passes=7,
                protected={
                    "execute": ProtectedArray(
                        failures=3,
                        stopped=because(
                            Code.PROTECTED_MODE, node_array="execute", failures=3, categories=3, seen=("none joined",)
                        ),
                        stopped_at=NOW - 60,
                    )
                },
            ),
        ),
        Code.PROTECTED_MODE,
    ),
    "closed queue": (a_snapshot(a_job(waited=OLD), a_host(states="d")), Code.QUEUE_DISABLED_BY_HAND),
    "missing queue": (
        with_cluster(a_snapshot(a_job(waited=OLD)), queues={}, configuration_read=True),
        Code.QUEUE_MISSING,
    ),
    "jobs launch none": (with_policy(a_snapshot(a_job(waited=OLD)), queue_demand=False), Code.QUEUE_DEMAND_OFF),
    "worker being launched": (a_snapshot(a_job(waited=OLD)), Code.DEMAND),
    "one at a time": (a_snapshot(jobs(4, waited=OLD), scale_up_batch=1), Code.SCALE_UP_BATCH),
    "launches that did not help": (
        unhelpful_launches(Cause.NO_SLOTS, Code.LAUNCHES_DID_NOT_HELP),
        Code.LAUNCHES_DID_NOT_HELP,
    ),
    "worker that came and starts nothing": (
        unhelpful_launches(Cause.CALENDAR, Code.LAUNCH_AWAITED),
        Code.LAUNCH_AWAITED,
    ),
    "throttled": (a_snapshot(a_job(waited=OLD), *a_throttled()), Code.LAUNCH_THROTTLED),
    "fits and does not start": (stuck(a_job(waited=OLD), said=KeptBy.ALL)[0], Code.NOT_STARTED),
    "no type of that name": (a_snapshot(a_job(waited=OLD), a_bucket(X4LARGE)), Code.NO_INSTANCE_TYPE),
    "type refused for good": (
        a_snapshot(
            a_job(slots=16, waited=OLD), a_bucket(), a_bucket(X4LARGE), Memory(passes=7, backoffs=(REFUSED,)), **HYBRID
        ),
        Code.BUCKET_REFUSED,
    ),
    "spot alone is to be had": (
        a_snapshot(a_job(waited=OLD), a_bucket(price_type=PriceType.SPOT)),
        Code.BUCKET_NOT_ALLOWED,
    ),
    "hosts report less memory": (
        a_snapshot(a_job(hard={"mem_total": "7.8G"}, waited=OLD), known(mem_total="7.5G")),
        Code.BUCKET_TOO_SMALL,
    ),
    "more than the premium over spot": (
        a_snapshot(
            a_job(waited=OLD),
            a_bucket(price=0.5),
            a_bucket(price=0.01, available=0, price_type=PriceType.SPOT),
            price_types=(PriceType.SPOT, PriceType.ON_DEMAND),
            price_type_premium=1.0,
        ),
        Code.BUCKET_TOO_EXPENSIVE,
    ),
    "quota on each job's run time": (
        a_snapshot(a_job(hard={"h_rt": "61"}, waited=OLD), a_quota(QuotaRule({"h_rt": "60"}))),
        Code.TOO_MUCH_FOR_QUOTA,
    ),
    "maxujobs": (
        limited(a_snapshot(a_job(owner="ann", waited=OLD), a_host(slots=3, used=3)), max_user_jobs=3),
        Code.BEYOND_USER_LIMIT,
    ),
    "max_aj_instances": (
        limited(
            a_snapshot(a_job(tasks="2-5:1", count=4, waited=OLD), running_task_of(1), details_of(1)), max_array_tasks=1
        ),
        Code.BEYOND_ARRAY_LIMIT,
    ),
    "longer than the queue is open": (
        closing_in(3600, a_snapshot(a_job(hard={"h_rt": "7200"}, waited=OLD)), reserving=5),
        Code.RUNS_INTO_CLOSING,
    ),
    "queue that closes soon": (closing_in(900, a_snapshot(a_job(waited=OLD))), Code.QUEUE_CLOSES_SOON),
    "suspended queue": (a_snapshot(a_job(waited=OLD), a_host(states="s")), Code.QUEUE_SUSPENDED_BY_HAND),
    "subordinate queue": (
        a_snapshot(a_job(waited=OLD), a_job(7, queues=("urgent.q",)), a_worker(states="S", used=1), queues=URGENT),
        Code.QUEUE_SUBORDINATE,
    ),
    "run time beyond the queue's": (
        a_snapshot(a_job(hard={"h_rt": "7200"}, waited=OLD), queues=a_queue(limits={"h_rt": "3600"})),
        Code.RESTRICTED_QUEUE,
    ),
    "interactive queue": (a_snapshot(a_job(waited=OLD), queues=a_queue(qtype=("INTERACTIVE",))), Code.NO_BATCH_QUEUE),
    "no such ckpt": (a_snapshot(a_job(ckpt="blcr", waited=OLD)), Code.NOT_IN_CKPT_LIST),
    "not on the access list": (with_access(STAFF_ONLY, owner="bob"), Code.NO_ACCESS),
    "access list that was not read": (with_access(Access(user_lists=("unread",)), owner="ann"), Code.ACCESS_UNKNOWN),
    "no project": (with_access(Access(projects=("blue",))), Code.NO_PROJECT),
    "another project": (with_access(Access(projects=("blue",)), project="green"), Code.NO_PROJECT_ACCESS),
    "another queue": (a_snapshot(a_job(queues=("other.q",), waited=OLD)), Code.FOREIGN_QUEUE),
    "queue to be named": (a_snapshot(a_job(waited=OLD), queue={"default": False}), Code.QUEUE_NOT_NAMED),
    "another host": (a_snapshot(a_job(hard={"h": "elsewhere"}, waited=OLD)), Code.FOREIGN_HOST),
    "worker that has left": (
        a_snapshot(a_job(hard={"h": "ip-10-1-0-4"}, waited=OLD), a_worker("ip-10-1-0-2")),
        Code.HOST_LEFT,
    ),
    "forced complex": (
        forced(a_job(waited=OLD), a_bucket(GPU), instance_type=GPU.name),
        Code.MUST_BE_REQUESTED,
    ),
    "rules": (
        ruled(
            applied({"or": [{"project": "open"}, {"never": "User is denied access"}]}, user="ann"),
            a_job(owner="ann", waited=OLD),
        ),
        Code.RULES_FORBID,
    ),
    "advance reservation": (
        a_snapshot(a_job(waited=OLD), details_of(1, group="users", reservation=7), a_host(reserved=1)),
        Code.ADVANCE_RESERVATION,
    ),
    "alarm": (a_snapshot(a_job(waited=OLD), a_worker(states="a", idle=10)), Code.IN_ALARM),
    "memory that is no number": (a_snapshot(a_job(hard={"h_vmem": "much"}, waited=OLD)), Code.CANNOT_BE_READ),
    "no type for both requests": (
        a_snapshot(a_job(hard={"h_vmem": "129G", "gpu": "1"}, waited=OLD), **HYBRID),
        Code.NO_TYPE_FITS,
    ),
    "more slots than a host has": (a_snapshot(a_job(slots=64, waited=OLD), **HYBRID), Code.TOO_LARGE_FOR_ONE_HOST),
    "more hosts than are allowed": (a_snapshot(a_job(slots=44, pe="mpi4", waited=OLD), **HYBRID), Code.TOO_MANY_HOSTS),
    "more memory than a host has": (
        a_snapshot(a_job(hard={"h_vmem": "129G"}, waited=OLD), **HYBRID),
        Code.TOO_MUCH_ON_ONE_HOST,
    ),
    "more memory than all hosts have": (
        a_snapshot(a_job(slots=300, pe="mpi", hard={"h_vmem": "8G"}, waited=OLD), **HYBRID),
        Code.TOO_MUCH_TOGETHER,
    ),
    "none of the queue's own resource": (
        a_snapshot(a_job(hard={"lic": "1"}, waited=OLD), queues=a_queue(complex_values={"lic": "0"})),
        Code.NO_SUCH_RESOURCE,
    ),
    "no such pe": (a_snapshot(a_job(slots=4, pe="smp", waited=OLD)), Code.UNKNOWN_PE),
    "slots that the pe does not divide": (a_snapshot(a_job(slots=(5, 7), pe="mpi4", waited=OLD)), Code.PE_RULE),
    "more slots than the pe has": (
        with_pe("few", a_snapshot(a_job(slots=4, pe="few", waited=OLD), queues=a_queue(pe_list=("few",)), **HYBRID)),
        Code.PE_SLOTS,
    ),
    "pe of another host": (
        with_pe(
            "there",
            a_snapshot(
                a_job(slots=2, pe="there", waited=OLD),
                a_host(used=2),
                queues=a_queue(pe_list_by_host={"h1": ("there",)}),
            ),
        ),
        Code.PE_ELSEWHERE,
    ),
    "pe of groups without a wildcard": (in_groups(a_job(slots=4, pe="mpi", waited=OLD)), Code.GROUP_PE_NEEDS_WILDCARD),
}
"""By what keeps the job: a snapshot in which job 1 waits, and its innermost cause."""
