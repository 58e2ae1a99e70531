"""`explain JOB` shows the actions on a job, also when Grid Engine no longer knows it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from autoscaler.core.actions import AskGridEngine, Hold, Kill, Question
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, Requests, RequestSet
from autoscaler.core.plan import plan as decide
from autoscaler.core.snapshot import Plan
from autoscaler.report.explain import (
    Past,
    explain_host,
    explain_job,
    explain_past,
)
from autoscaler.report.explain_lines import REMEMBERED, host_lines, in_words, job_lines
from autoscaler.sge.accounting import JobEnd
from autoscaler.store.journal import Result
from autoscaler.store.store import Store
from tests.core.building import NOW, a_host, a_job, a_snapshot, a_worker
from tests.report.plans import plan, waiting

WHY = because(Code.UNKNOWN_PE, pe="mpi", queues=("main.q",), slots=100)


@pytest.fixture
def job_12_store() -> Store:
    """A store in which job 12 was held and then deleted."""
    store = Store.open(None)
    made = plan(Hold(("12", "14"), WHY), Kill(("12",), WHY), job_categories=(waiting(1, reason=WHY),))
    for item in store.accept(made, pass_number=1, at=1_795_252_200.0):
        store.journal.end(item.id, Result.DONE, "", 1_795_252_201.0)
    store.history.explain(made.job_categories, 1_795_252_200.0)
    return store


def test_a_deleted_job_is_explained_by_its_actions(job_12_store: Store) -> None:
    explained = explain_past(12, Past(job_12_store.history.explanation(12)), job_12_store.journal.outcomes_of_job(12))
    assert explained is not None
    assert ([(act["kind"], act["result"], act["reason"]["code"]) for act in explained["done"]], explained["state"]) == (
        [("kill", "done", "UNKNOWN_PE"), ("hold", "done", "UNKNOWN_PE")],
        "ended",
    )


def test_the_lines_of_a_deleted_job_show_its_actions(job_12_store: Store) -> None:
    explained = explain_past(12, Past(job_12_store.history.explanation(12)), job_12_store.journal.outcomes_of_job(12))
    assert explained is not None
    lines = list(job_lines(explained))
    assert any(line.startswith("kill at ") and line.endswith(": done:") for line in lines)


def test_a_job_never_seen_waiting_is_explained_by_its_actions(job_12_store: Store) -> None:
    explained = explain_past(14, Past(), job_12_store.journal.outcomes_of_job(14))
    assert explained is not None
    assert ([act["kind"] for act in explained["done"]], explained["waiting"]) == (["hold"], [])


def test_an_unknown_job_is_not_explained(job_12_store: Store) -> None:
    assert (
        explain_past(99, Past(job_12_store.history.explanation(99)), job_12_store.journal.outcomes_of_job(99)) is None
    )


@pytest.mark.parametrize(
    ("made", "kinds"),
    (
        (plan(AskGridEngine((Question(12, "a"),), (), WHY), job_categories=(waiting(1),)), ["ask"]),
        (plan(Hold(("12.3-9:2",), WHY), job_categories=(waiting(1),)), ["hold"]),
        (plan(Kill(("112",), WHY), job_categories=(waiting(1),)), []),
    ),
)
def test_a_waiting_job_is_explained_with_the_planned_actions(made: Plan, kinds: list[str]) -> None:
    explained = explain_job(a_snapshot(a_job(12)), made, 12)
    assert explained is not None
    assert [action["kind"] for action in explained["actions"]] == kinds


def test_explain_worker_formats_times_and_durations() -> None:
    world = a_snapshot(a_worker("w1", used=1))
    made = decide(world)
    ((worker_id, note),) = made.memory.workers.items()
    silent = replace(note, seen_disabled=True, silent_s=12.5, price_per_hour=0.096, moved=("31", "32"))
    made = replace(made, memory=replace(made.memory, workers={worker_id: silent}))
    explained = explain_host(world, made, "w1", UTC)
    assert explained is not None
    lines = set(host_lines(explained))
    wanted = {
        "no load report for 12s, while other hosts sent some",
        "first seen 2027-01-15 07:30:00 UTC",
        "price per hour 0.096",
        "lost jobs that were rescheduled or deleted: 31, 32",
        "seen disabled after that",
    }
    assert (wanted - lines, [line for line in lines if "1970" in line or "<" in line]) == (set(), [])
    assert "phase ready" in lines
    assert json.dumps(explained["remembered"])
    assert explained["remembered"].keys() == REMEMBERED.keys()


ENDED = JobEnd("main.q", "w1", 0, 1_795_252_000.0, 1_795_252_300.0, 1_795_252_360.0, failed=0, exit_status=3, slots=2)


def test_an_ended_job_is_explained_from_waiting_to_end(job_12_store: Store) -> None:
    explained = explain_past(12, Past(job_12_store.history.explanation(12), (), (ENDED,)), ())
    assert explained is not None
    lines = list(job_lines(explained))
    assert any(
        "counts" not in line and line.startswith("last verdict on job 12 while it waited, after ") for line in lines
    )
    assert lines[-2:] == [
        "job 12 ran on main.q@w1, 2 slots, from 2026-11-21 09:11:40 UTC to 2026-11-21 09:12:40 UTC: exit status 3",
        "it is not known to have run on a worker, so it has no cost here",
    ]


def test_an_ended_job_waited_from_its_submission_to_its_start(job_12_store: Store) -> None:
    explained = explain_past(12, Past(job_12_store.history.explanation(12), (), (ENDED,)), ())
    assert explained is not None
    assert explained["waiting"][0]["waited_s"] == 300.0


def test_a_single_task_is_named_with_its_number() -> None:
    explained = explain_past(7, Past(ended=(replace(ENDED, task=5),)), ())
    assert explained is not None
    lines = [*job_lines(explained), *job_lines(explained | {"job": "7.5"})]
    assert [line.partition(" ran ")[0] for line in lines if " ran on " in line] == ["job 7.5", "job 7.5"]


def test_an_ended_job_never_seen_is_explained_from_accounting() -> None:
    explained = explain_past(7, Past(ended=(replace(ENDED, started_at=None, failed=8),)), ())
    assert explained is not None
    assert (
        list(job_lines(explained))[-1]
        == "job 7 was not started on main.q@w1, 2 slots: exit status 3, failed: in prolog"
    )


@pytest.mark.parametrize("failed", range(12, 17))
def test_a_job_whose_epilog_failed_did_run(failed: int) -> None:
    explained = explain_past(7, Past(ended=(replace(ENDED, started_at=None, ended_at=None, failed=failed),)), ())
    assert explained is not None
    assert list(job_lines(explained))[-1].startswith(
        "job 7 ran on main.q@w1, 2 slots, at times that Grid Engine does not tell: exit status 3, failed: "
    )


def test_a_task_number_is_printed_once() -> None:
    explained = explain_past(7, Past(ended=(replace(ENDED, task=3),)), ())
    assert explained is not None
    assert any(line.startswith("job 7.3 ran on ") for line in job_lines({**explained, "job": "7.3"}))


def test_explain_of_a_running_job_shows_the_verdict_on_its_worker() -> None:
    world = a_snapshot(a_worker("w1", used=1, heard=False))
    explained = explain_job(world, decide(world), 9000, UTC)
    assert explained is not None
    assert explained["running"][0]["worker"]["reason"]["code"] in {
        "NO_LOAD_REPORT",
        "SILENT",
        "RUNS_JOBS",
        "ALL_SILENT",
    }
    assert any(line.startswith("w1 (i-w1): ") for line in job_lines(explained))


def test_a_job_that_needs_no_launch_is_not_linked_to_one() -> None:
    world = a_snapshot(a_host("h1", slots=1), a_job(1, slots=1), a_job(2, slots=2))
    made = decide(world)
    explained = {job: explain_job(world, made, job, UTC) for job in (1, 2)}
    assert {job: bool(each and each["launches"]) for job, each in explained.items()} == {1: False, 2: True}


def test_queue_states_are_shown_with_their_meaning() -> None:
    assert (in_words("au"), in_words("")) == ("au (load alarm, no load report)", "")


def test_explain_job_shows_who_limits_its_node_array_and_until_when() -> None:
    sets = (RequestSet("nightly", "ann", 0.0, NOW + 60, (), ("execute",)),)
    arrays = (ArrayDefinition("execute", max_count=1, defined_by=(("max_count", "nightly"),)), ArrayDefinition("other"))
    world = replace(a_snapshot(a_job(1)), requests=Requests(sets, arrays))
    explained = explain_job(world, decide(world), 1, UTC)
    assert explained is not None
    assert [(row["cap"], row["by"]) for row in explained["caps"]] == [("MaxCount", "ann")]
    until = datetime.fromtimestamp(NOW + 60, UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert list(job_lines(explained))[-1] == f"execute is limited to 1 (MaxCount), set by ann in nightly until {until}"


def test_a_job_rescheduled_from_a_lost_host_is_not_shown_as_never_started() -> None:
    explained = explain_past(7, Past(ended=(replace(ENDED, started_at=None, failed=25, exit_status=0),)), ())
    assert explained is not None
    assert list(job_lines(explained))[-1].startswith("job 7 was rescheduled from main.q@w1, 2 slots: ")


def test_explain_says_which_conditions_of_a_worker_hold_and_since_when() -> None:
    idle = a_snapshot(a_worker("w1", idle=60, states="a"), a_host("h1"))
    explained, persistent = (explain_host(idle, decide(idle), name, UTC) for name in ("w1", "h1"))
    assert explained is not None
    assert persistent is not None
    line = "phase ready; idle since 2027-01-15 07:59:00 UTC; in alarm since 2027-01-15 08:00:00 UTC"
    assert line in list(host_lines(explained))
    assert not [line for line in host_lines(persistent) if line.startswith("phase")]
