"""Everybody is told the same innermost cause for which a job waits: by `explain`, `jobs`, `top`, the answers over HTTP,
the job's context and notifications.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.events.known import KnownEvents
from autoscaler.core.events.projects import Projects
from autoscaler.core.events.waiting import countings
from autoscaler.core.model.fleet import BucketKey, InstanceType
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.notifications.causes import NotificationContext, Observed, _limited
from autoscaler.core.outcome.innermost import cause_code, cause_of
from autoscaler.core.outcome.waiting_notes import TEXT_FACTS, stable
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
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
    XLARGE,
    a_bucket,
    a_job,
    a_snapshot,
)
from tests.report.waiting_situations import BACKOFF, FULL, NONE_LEFT, OLD, SITUATIONS

NEVER_ALONE = {Code.NOTHING_TO_LAUNCH}
"""What no snapshot that we know shows without a cause added to it. Its text is for one that lacks it."""
CASES = Path(__file__).parents[1] / "cases"


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


def named_in(ranges: str) -> set[int]:
    """The numbers of `4-7,9`."""
    ends = (each.partition("-") for each in ranges.split(","))
    return {number for low, _, high in ends for number in range(int(low), int(high or low) + 1)}


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
    _, events = countings(KnownEvents(), made.job_categories, Projects((), ()), NOW)
    yield "events", next(event.code for event in events if job in named_in(event.jobs))
    metrics = next(cause_code(verdict.reason) for verdict in made.job_categories if job in verdict.jobs)
    yield "metrics", metrics.value
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


@pytest.mark.parametrize("code", TEXT_FACTS)
def test_there_is_a_snapshot_for_every_cause_that_has_a_text(code: Code) -> None:
    """`test_all_readers_name_the_same_cause_for_a_job` then shows that it is found, and its text with all its facts."""
    assert code in {each for _, each in SITUATIONS.values()} | NEVER_ALONE


@pytest.mark.parametrize("name", SITUATIONS)
def test_all_readers_name_the_same_cause_for_a_job(name: str) -> None:
    snapshot, code = SITUATIONS[name]
    made = plan(snapshot)
    found = dict(told(snapshot, made, 1))
    assert found == dict.fromkeys(found, code.value)
    assert ("qstat -j" in found) is (code in TEXT_FACTS)


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


@pytest.mark.parametrize("other", ("Standard_F4s_v2", "n1-standard-4"))
def test_a_type_of_another_cloud_is_no_remedy_and_a_remedy_is_told_once(other: str) -> None:
    cheaper = a_bucket(InstanceType(other, "other", 4, 16 << 30), price=0.01)
    snapshot = a_snapshot(a_job(1, slots=4, waited=OLD), a_bucket(), cheaper, a_bucket(XLARGE))
    explained = explain_job(snapshot, plan(snapshot), 1)
    assert explained is not None
    told = "\n".join(job_lines(explained))
    assert re.findall(r"[Ss]et CP_CAP_AUTOSCALE_INSTANCE_TYPE to (\S+?)\.? ", told) == ["m5.xlarge"], told


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
