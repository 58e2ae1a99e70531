"""Everybody is told the same innermost cause for which a job waits: by `explain`, `jobs`, `top`, the answers over HTTP,
the job's context and notifications.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.cost.spending import BudgetAction
from autoscaler.core.model.cluster import ExecutionHost, QuotaRule
from autoscaler.core.model.fleet import BucketKey, FailureKind
from autoscaler.core.model.memory import Backoff, Memory, ProtectedArray
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.notifications.causes import NotificationContext, Observed, _limited
from autoscaler.core.outcome.innermost import cause_of
from autoscaler.core.outcome.waiting_notes import TEXT_FACTS, stable
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, SwitchedOff
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.record import read_record
from autoscaler.report.document import document
from autoscaler.report.explain import explain_job
from autoscaler.report.explain_lines import job_lines
from autoscaler.report.queue import queue_rows
from autoscaler.report.reasons.table import REASONS
from autoscaler.report.tables import jobs_blocks, queue_blocks
from autoscaler.report.waiting_cause import waiting_cause
from autoscaler.report.waiting_list import WaitingQuery, waiting_rows
from autoscaler.terminal.readings import Readings
from autoscaler.terminal.rows import Chosen
from autoscaler.terminal.rows import queue_rows as top_rows
from tests.cases.whole import whole
from tests.core.building import (
    NOW,
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
from tests.core.test_budgets import ANN, CELL, under
from tests.core.test_closed_queues import off_for_ever

CASES = Path(__file__).parents[1] / "cases"
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
}


def test_a_job_is_told_of_the_types_that_could_run_it_and_not_of_those_of_other_jobs() -> None:
    """The small job gets an m5.large; the large one needs an m5.4xlarge, of which there is none now."""
    none_left = replace(BACKOFF, bucket=BucketKey("m5.4xlarge"), message="no m5.4xlarge left")
    small, large = a_job(1, waited=OLD), a_job(2, slots=16, waited=OLD)
    offers = a_bucket(), a_bucket(X4LARGE)
    snapshot = a_snapshot(small, large, *offers, Memory(passes=7, backoffs=(none_left,)), hybrid=True, family="m5")
    made = plan(snapshot)
    causes = {verdict.jobs[0]: waiting_cause(verdict.reason) for verdict in made.job_categories}
    assert (causes[1].cause.code, causes[2].cause.code) == (Code.DEMAND, Code.BUCKET_BACKOFF)
    assert causes[1].sentence == "workers are launched now for jobs such as it"
    assert "m5.4xlarge is in backoff" in causes[2].sentence


def test_a_job_is_told_why_its_own_type_is_refused_where_nothing_can_be_launched() -> None:
    refused = replace(BACKOFF, bucket=BucketKey("m5.large"), message="no m5.large left")
    large = a_job(2, slots=16, waited=OLD)
    offers = a_bucket(), a_bucket(X4LARGE, problem="no vCPU quota")
    snapshot = a_snapshot(
        a_job(1, waited=OLD), large, *offers, Memory(passes=7, backoffs=(refused,)), hybrid=True, family="m5"
    )
    causes = {verdict.jobs[0]: cause_of(verdict.reason) for verdict in plan(snapshot).job_categories}
    assert dict(causes[1].facts)["type"] == "m5.large"
    assert dict(causes[2].facts).get("type", "m5.4xlarge") == "m5.4xlarge"


def told(snapshot: Snapshot, made: Plan, job: int) -> Iterator[tuple[str, str]]:
    """What each reader is told of a waiting job: the reader, and the code; those with sentences alone give these."""
    explained = explain_job(snapshot, made, job)
    assert explained is not None
    yield "explain", explained["waiting"][0]["cause"]["code"]
    shown = document(snapshot, made, {}, by_job=True)["job_categories"]
    row = next(row for row in shown if row["jobs"][0].partition(".")[0] == str(job))
    yield "jobs", row["cause"]["code"]
    rows, _ = queue_rows(snapshot, made)
    of_queue = next(row for row in rows if str(job) in {one["job"] for one in row["first"]})
    yield "queue", of_queue["cause"]["code"]
    top = top_rows(Readings(queue={"reasons": rows}), Chosen(wide=True))
    yield "top", next(line.cells[4] for line in top if line.key == of_queue["key"])
    listed = waiting_rows(snapshot, made, WaitingQuery(search=str(job)), asker="", only=None)["categories"]
    yield "page", listed[0]["cause"]["code"]
    sentence = row["cause"]["text"]
    lines = list(job_lines(explained))
    assert any(sentence in line for line in lines), lines
    assert any(sentence in block_row[-1] for block in jobs_blocks([row]) for block_row in block.rows)
    assert any(sentence in one["cause"] for one in of_queue["first"])
    assert queue_blocks({"reasons": rows, "not_shown": 0})[0].rows
    verdict = next(verdict for verdict in made.job_categories if job in verdict.jobs)
    if (context := stable(verdict.reason)) is not None:
        yield "qstat -j", context.code.value
    limits = {str(cause.subject) for cause in _limited(Observed(snapshot, made), NotificationContext(NOW))}
    if row["cause"]["code"] == Code.CAPPED and verdict.counted:
        yield "notification", Code.CAPPED if str(cause_of(verdict.reason)["cap"]) in limits else "none"


@pytest.mark.parametrize("name", SITUATIONS)
def test_all_readers_name_the_same_cause_for_a_job(name: str) -> None:
    snapshot, code = SITUATIONS[name]
    made = plan(snapshot)
    assert dict(told(snapshot, made, 1)) == dict.fromkeys(dict(told(snapshot, made, 1)), code.value)


@pytest.mark.parametrize(
    "case", sorted(path.parent for path in CASES.glob("*/*/expect.toml")), ids=lambda case: case.name
)
def test_all_readers_agree_on_every_job_of_the_recorded_cells(case: Path) -> None:
    snapshot = read_record(whole(str(case.relative_to(CASES))))
    made = plan(snapshot)
    first = {verdict.jobs[0] for verdict in made.job_categories if verdict.jobs}
    alone = [job for job in sorted(first) if sum(job in verdict.jobs for verdict in made.job_categories) == 1]
    for job in alone[:20]:
        assert len(set(dict(told(snapshot, made, job)).values())) == 1, dict(told(snapshot, made, job))


JOB_CAUSES = sorted({code for _, code in SITUATIONS.values()} | TEXT_FACTS.keys())
_OF_ADMINISTRATORS = re.compile(
    r"CP_CAP|\bqconf -[amdr]|qmod -[ed]\b|sge-autoscaler (resume|retry|init|drain|keep|pause|stop)"
)


@pytest.mark.parametrize("code", JOB_CAUSES)
def test_every_cause_has_a_remedy_for_the_owner_that_needs_no_rights_of_an_administrator(code: Code) -> None:
    row = REASONS[code]
    assert row.owner_remedy
    assert not _OF_ADMINISTRATORS.search(row.owner_remedy)
    assert not _OF_ADMINISTRATORS.search(row.sentence)


def test_a_request_that_would_fit_is_told_to_the_owner_and_a_setting_to_administrators() -> None:
    reason = (
        because(Code.TOO_MANY_SLOTS, slots=64, most=20, workers=10, largest="m5.large")
        .then(
            because(
                Code.WOULD_FIT_WITH_SETTING, request="-pe mpi 20", limit_setting=("max_workers", "execute"), to="32"
            )
        )
        .then(because(Code.SETTING_NEEDED_TOO, limit_setting=("max_cores", "execute"), to="64"))
    )
    found = waiting_cause(reason)
    assert found.owner_remedy.startswith("Request `-pe mpi 20`. ")
    assert found.remedy.startswith("Set CP_CAP_AUTOSCALE_WORKERS to 32 and CP_CAP_AUTOSCALE_MAX_CORES to 64 as well. ")
    assert "CP_CAP" not in found.owner_remedy


@pytest.mark.parametrize(
    ("limits", "setting"),
    (
        (NONE_LEFT, "CP_CAP_AUTOSCALE_WORKERS"),
        (Limits(10, max_cores=1), "CP_CAP_AUTOSCALE_MAX_CORES"),
        (Limits(10, max_price_per_hour=0.01), "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR"),
        (Limits(10, total_workers=0), "CP_CAP_AUTOSCALE_TOTAL_WORKERS"),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_remedy_of_a_cap_names_the_one_setting_that_it_is(limits: Limits, setting: str) -> None:
    snapshot = a_snapshot(a_job(waited=OLD), FULL, limits=limits)
    (verdict,) = plan(snapshot).job_categories
    assert waiting_cause(verdict.reason).remedy == f"Raise `{setting}`."
