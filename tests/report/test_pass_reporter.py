"""A pass is logged when it acts or has news, once; verbose logs every verdict."""

from __future__ import annotations

import contextlib
import json
import logging
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from autoscaler.core.model.cluster import JobRequest
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.snapshot import Plan
from autoscaler.engine.observe import Observation
from autoscaler.engine.pass_reporter import PassReporter
from autoscaler.sge.cluster import Outputs
from autoscaler.store.store import Store
from tests.report.plans import disable, kept, plan, snapshot, waiting

SEEN = Observation(snapshot(), Outputs(b""), {"read": 0.1, "parse": 0.2})
CALM = because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=10.0, limit_s=30.0)


def reported(first: Plan, second: Plan) -> tuple[bool, bool]:
    reporter = PassReporter()
    return reporter.report(SEEN, first), reporter.report(SEEN, second)


def test_a_pass_without_news_is_reported_once() -> None:
    later = because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=20.0, limit_s=30.0)
    assert reported(plan(workers=(kept("w1", CALM),)), plan(workers=(kept("w1", later),), passes=813)) == (True, False)


def test_the_kept_document_of_a_pass_has_the_sites_time_zone(tmp_path: Path) -> None:
    with contextlib.closing(Store.open(tmp_path / "cell.sqlite")) as store:
        reporter = PassReporter(store=store, zone=timezone(timedelta(hours=5, minutes=30)))
        reporter.report(SEEN, plan(job_categories=(waiting(),)))
        (kept_pass,) = store.history.passes()
    assert kept_pass.document["now"].endswith("+05:30")


def test_a_pass_with_news_is_reported() -> None:
    assert reported(plan(workers=(kept("w1", CALM),)), plan(job_categories=(waiting(),))) == (True, True)


def test_passes_that_differ_only_in_counts_are_reported_once_a_minute() -> None:
    """An afternoon of jobs that come and go changes the counts in every pass."""
    reporter = PassReporter()
    found = []
    for second in range(0, 180, 2):
        then = replace(SEEN, snapshot=replace(SEEN.snapshot, now=1000.0 + second))
        found.append(reporter.report(then, plan(job_categories=(waiting(3 + second),), fitting=2)))
    assert [2 * number for number, told in enumerate(found) if told] == [0, 60, 120]


@pytest.mark.parametrize(
    "other",
    (
        plan(disable("w1"), job_categories=(waiting(3),)),
        plan(job_categories=(waiting(3, counted=False, reason=because(Code.HELD, state="hqw")),)),
        plan(job_categories=(waiting(3),), workers=(kept("w1"),)),
        plan(job_categories=(waiting(3),), workers=(kept("w2"),)),
    ),
    ids=("an action", "a reason", "a worker", "another worker"),
)
def test_an_action_or_a_reason_is_reported_at_once(other: Plan) -> None:
    reporter = PassReporter()
    reporter.report(SEEN, plan(job_categories=(waiting(4),), workers=(kept("w1", CALM),)))
    assert reporter.report(SEEN, other)


def test_a_pass_with_actions_is_reported_each_time() -> None:
    assert reported(plan(disable("w1")), plan(disable("w1"))) == (True, True)


def test_a_pass_without_news_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "autoscaler.pass")
    reported(plan(), plan(passes=813))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "pass 812: no job waits; nothing to do"),
        ("DEBUG", "pass 813: no job waits; nothing to do"),
    ]


def verdict_lines(reporter: PassReporter, of: Plan, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of a pass after its sentence."""
    caplog.clear()
    reporter.report(SEEN, of)
    return [record.message.strip() for record in caplog.records if not record.message.startswith("pass ")]


def test_verbose_logs_each_verdict_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also if passes act and durations change."""
    caplog.set_level(logging.INFO, "autoscaler.pass")
    reporter = PassReporter(verbose=True)
    later = because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=20.0, limit_s=30.0)
    first = plan(disable("w2"), job_categories=(waiting(2),), workers=(kept("w1", CALM), kept("p1")), notes=(CALM,))
    again = plan(disable("w2"), job_categories=(waiting(2),), workers=(kept("w1", later), kept("p1")), notes=(later,))
    assert len(verdict_lines(reporter, first, caplog)) == 4
    assert verdict_lines(reporter, again, caplog) == []
    busy = plan(workers=(kept("w1", because(Code.RUNS_JOBS, jobs=("7",))), kept("p1")))
    assert verdict_lines(reporter, busy, caplog) == ["w1: keep: it runs job 7"]


def test_verbose_follows_a_job_by_number_and_owner(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autoscaler.pass")
    reporter = PassReporter(verbose=True)
    mine = replace(waiting(3), jobs=(4, 5, 6), tasks=("", "", ""), ask=JobRequest("qw", owner="ann"))
    held = replace(mine, jobs=(5,), tasks=("",), counted=False, reason=because(Code.HELD, state="hqw"))
    (first,) = verdict_lines(reporter, plan(job_categories=(mine,)), caplog)
    assert first.startswith("jobs 4-6 of ann: counts: ")
    left = replace(mine, jobs=(4, 6), tasks=("", ""))
    assert verdict_lines(reporter, plan(job_categories=(left, held)), caplog) == [
        "job 5 of ann: does not count: it is held (state hqw)"
    ]
    (record,) = (record for record in caplog.records if "job 5" in record.message)
    assert (record.__dict__["job"], record.__dict__["owner"], record.__dict__["code"]) == ("5", "ann", "HELD")


def test_of_a_partly_counted_array_both_verdicts_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autoscaler.pass")
    reporter = PassReporter(verbose=True)
    some = replace(waiting(2), jobs=(4,), tasks=("1-2:1",))
    others = replace(some, tasks=("3-9:1",), counted=False, reason=because(Code.BEYOND_CONCURRENCY, limit=2))
    (line,) = verdict_lines(reporter, plan(job_categories=(some, others)), caplog)
    assert ("counts: " in line, "does not count: " in line) == (True, True)
    assert verdict_lines(reporter, plan(job_categories=(some, others)), caplog) == []


def test_the_history_of_a_pass_stays_small_on_a_large_cluster(tmp_path: Path) -> None:
    """A thousand workers and fifty thousand jobs: a pass stores no more than its sentence and its actions."""
    store = Store.open(tmp_path / "store.sqlite")
    workers = tuple(kept(f"w{n}") for n in range(1000))
    PassReporter(store).report(SEEN, plan(disable("w1"), job_categories=(waiting(50_000),), workers=workers))
    document = store.history.passes()[0].document
    store.close()
    assert (len(json.dumps(document)) < 2000, document["workers"]) == (True, {"additional": 1000, "persistent": 0})


def test_no_verdict_is_rendered_for_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("_category_part", "worker_part", "bucket_part"):
        monkeypatch.setattr(f"autoscaler.report.document.{part}", None)
    store = Store.open(tmp_path / "s")
    PassReporter(store).report(SEEN, plan(disable("w1"), job_categories=(waiting(2),), workers=(kept("w1"),)))
    (row,) = store.history.passes()
    assert row.document["workers"] == {"additional": 1, "persistent": 0}


def test_only_passes_with_news_are_stored_in_the_history(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.sqlite")
    reporter = PassReporter(store)
    reporter.report(SEEN, plan())
    reporter.report(SEEN, plan(passes=813))
    kept_passes = [(row.number, row.sentence, row.document["schema"]) for row in store.history.passes()]
    store.close()
    assert kept_passes == [(812, "pass 812: no job waits; nothing to do", 1)]
