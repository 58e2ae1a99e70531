"""The JSON of a plan matches its declaration and the shipped schema, and is complete."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from autoscaler.core.actions import Hold, subject_of
from autoscaler.core.model.cluster import JobCategory, JobRequest
from autoscaler.core.model.fleet import BucketKey
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import Assigned, BucketVerdict, JobCategoryVerdict
from autoscaler.report.document import action_part, assignment_part, document, reason_part
from autoscaler.report.explain import explain_job
from autoscaler.report.explain_lines import job_lines
from autoscaler.report.queue import queue_rows
from autoscaler.report.schema import PlanDocument, json_schema
from tests.report.one_of_each import ONE_OF_EACH
from tests.report.plans import NOW, disable, kept, launch, plan, snapshot, waiting

ROOT = Path(__file__).parents[2]
WHY = because(Code.IDLE, idle_s=660.0, limit_s=600.0)
ARRAY = JobCategory(JobRequest("qw", array=True), (13, 14), ("1-100:3", "1-3:1,7"), (NOW - 60, NOW - 20), 38)


def full() -> dict[str, Any]:
    """A document with every field, read back from JSON."""
    planned = plan(
        *ONE_OF_EACH,
        job_categories=(waiting(2), waiting(1, first=50, reason=because(Code.HELD, state="hqw"), counted=False)),
        workers=(kept("w2"), replace(kept("p1", because(Code.PERSISTENT)), id=None)),
        notes=(because(Code.IGNORED, what="job 9", why="cut short"),),
    )
    planned = replace(planned, buckets=(BucketVerdict(BucketKey("m5.large"), False, because(Code.BUCKET_NOT_ALLOWED)),))
    parsed: dict[str, Any] = json.loads(json.dumps(document(snapshot(), planned, {"read": 0.5, "parse": 0.25})))
    return parsed


def test_a_document_matches_its_declaration() -> None:
    assigned = {"assignment": [assignment_part(Assigned("execute", "m5.large 1", "ab12", (7, 8), 2))]}
    for expected in (full(), full() | assigned):
        read = PlanDocument.model_validate(expected).model_dump(mode="json", by_alias=True)
        assert {name: part for name, part in read.items() if name in expected} == expected


def test_every_kind_of_action_is_in_a_document() -> None:
    declared = json_schema()["properties"]["actions"]["items"]["discriminator"]["mapping"]
    assert {part["kind"] for part in full()["actions"]} == set(declared) == {action.kind for action in ONE_OF_EACH}


def test_an_action_on_many_jobs_names_the_first_three() -> None:
    jobs = tuple(str(number) for number in range(1, 101))
    assert (subject_of(Hold(jobs, WHY)), subject_of(Hold(jobs[:2], WHY))) == ("1, 2, 3 and 97 more", "1, 2")


def test_the_shipped_schema_is_up_to_date() -> None:
    assert json.loads((ROOT / "conf" / "plan.schema.json").read_text()) == json_schema()


def test_now_has_its_utc_offset() -> None:
    result = document(snapshot(), plan(), {}, zone=timezone(timedelta(hours=5, minutes=30)))
    assert result["now"] == "2026-11-21T14:40:00+05:30"


def test_unmeasured_timings_are_null() -> None:
    assert document(snapshot(), plan(), {"read": 0.12345})["timings"] == {"read": 0.123, "parse": None, "decide": None}


def test_the_kinds_in_json_are_fixed() -> None:
    worker = ["launch", "enrol", "enable", "disable", "remove", "terminate", "restart", "reimage"]
    jobs = ["ask", "annotate", "tell_waiting", "hold", "release", "kill", "reschedule"]
    assert [action_part(action)["kind"] for action in ONE_OF_EACH] == [*worker, *jobs, "renumber"]


def test_a_launch_has_type_count_array_and_price_each() -> None:
    result = action_part(launch(2))
    assert [result[name] for name in ("instance_type", "count", "node_array", "price_per_hour")] == [
        "c5.4xlarge",
        2,
        "execute",
        0.68,
    ]


def test_a_launch_names_the_created_nodes_it_is_for() -> None:
    assert [action_part(each)["nodes"] for each in (replace(launch(2), nodes=("n-1", "n-2")), launch(1))] == [
        ["n-1", "n-2"],
        [],
    ]


def test_a_reason_has_code_text_facts_and_trail() -> None:
    result = reason_part(because(Code.DEMAND, slots=6).then(because(Code.CAPPED, cap="max_workers", limit=2)))
    assert (result["code"], result["facts"], [link["code"] for link in result["trail"]], bool(result["text"])) == (
        "DEMAND",
        {"slots": 6},
        ["CAPPED"],
        True,
    )


def array_verdict() -> JobCategoryVerdict:
    return JobCategoryVerdict(ARRAY.jobs, ARRAY.tasks, ARRAY.ask, ARRAY.count, True, 60.0, because(Code.EXPIRED))


def test_array_jobs_have_their_waiting_tasks() -> None:
    result = document(snapshot(ARRAY), plan(job_categories=(array_verdict(),)), {})
    assert [(row["jobs"], row["count"], row["tasks"]) for row in result["job_categories"]] == [
        (["13.1-100:3", "14.1-3:1,7"], 2, 38)
    ]


def test_by_job_each_job_has_its_own_row_and_waiting_time() -> None:
    result = document(snapshot(ARRAY), plan(job_categories=(array_verdict(),)), {}, by_job=True)
    assert [(row["jobs"], row["tasks"], row["waited_s"]) for row in result["job_categories"]] == [
        (["13.1-100:3"], 34, 60.0),
        (["14.1-3:1,7"], 4, 20.0),
    ]


def test_by_job_waiting_time_counts_since_the_job_could_run() -> None:
    able = replace(plan(job_categories=(array_verdict(),)), memory=Memory(able_since={13: NOW - 5}))
    assert document(snapshot(ARRAY), able, {}, by_job=True)["job_categories"][0]["waited_s"] == 5.0


@pytest.mark.parametrize("number", (None, 812))
def test_the_sentence_of_the_document_starts_with_its_pass_number(number: int | None) -> None:
    head = "plan: " if number is None else "pass 812: "
    assert document(snapshot(), plan(disable("w1")), {}, pass_number=number)["sentence"].startswith(head)


def test_each_job_of_the_queue_answer_has_its_own_waiting_time() -> None:
    (row,), _ = queue_rows(snapshot(ARRAY), plan(job_categories=(array_verdict(),)))
    assert (row["longest_wait_s"], [job["waited_s"] for job in row["first"]]) == (60.0, [60.0, 20.0])


def test_the_owner_of_a_capped_job_reads_what_an_owner_can_do() -> None:
    capped = because(Code.DEMAND).then(because(Code.CAPPED, cap="max_workers", limit=2))
    verdict = replace(array_verdict(), reason=capped)
    found = explain_job(snapshot(ARRAY), plan(job_categories=(verdict,)), 13)
    assert found is not None
    remedies = [line.strip() for line in job_lines(found) if "→" in line]
    assert remedies[0].startswith("→ Wait until the limit leaves room, or ask an administrator")
    assert remedies[1].startswith("→ for administrators: Raise `CP_CAP_AUTOSCALE_WORKERS`")
    (row,), _ = queue_rows(snapshot(ARRAY), plan(job_categories=(replace(verdict, reason=capped.trail[0]),)))
    assert row["owner_remedy"].startswith("Wait until")
