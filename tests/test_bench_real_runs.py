"""What the benches of whole services make of their records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autoscaler.simulation.workload import WorkloadJob
from bench.fidelity import JITTER, ends_in, jobs_of, mean_of, shaken
from bench.real_workers import Faulty, plan_of, simulated
from bench.scale import NEEDED, TRANSFER, Found, in_qsub, spread, stretched, table, troubles_in

BEGAN = 1000.0


def test_jobs_are_stretched_until_they_need_their_share_of_all_slots() -> None:
    slot_seconds = 50 * 8 * 300.0
    jobs = stretched(jobs_of(500, 5.0, 1), slot_seconds)
    needed = sum(job.slots * job.tasks * (job.seconds + TRANSFER) for job in jobs)
    assert needed == pytest.approx(NEEDED * slot_seconds, rel=0.05)


def test_a_dependency_is_submitted_by_name_since_numbers_are_not_known_before() -> None:
    assert in_qsub(WorkloadJob(7, 0.0, 5.0, 1, None, after=6))[-4:] == ["-hold_jid", "j6", "sleep", "5"]


def test_a_task_whose_machine_was_lost_lasts_from_its_first_start_to_its_last_end() -> None:
    jobs = [WorkloadJob(1, 0.4, 5.0, 1, None), WorkloadJob(2, 0.6, 5.0, 1, None, tasks=2)]
    events = """\
JOB_ADD (1.0:ECL_TIME=1000)
JOB_START (1.0:ECL_TIME=1003)
JOB_FINISH (1.0:ECL_TIME=1010)
JOB_START (2.2:ECL_TIME=1000)
JOB_START (1.0:ECL_TIME=1020)
JOB_FINISH (1.0:ECL_TIME=1031)
JOB_FINISH (2.2:ECL_TIME=1009)
"""
    found = {
        (end.job, end.task): (end.submitted_at, end.started_at, end.ended_at) for end in ends_in(events, jobs, BEGAN)
    }
    assert found == {(1, 0): (1000.4, 1003.5, 1031.5), (2, 2): (1000.6, 1000.6, pytest.approx(1009.6))}


def test_warnings_of_a_log_are_counted_whatever_their_numbers_are() -> None:
    log = "2026-11-28 04:00:00 pass 3\n" + "".join(
        f"2026-11-28 04:00:0{number} WARNING: worker m5-large-{number} is late by {number}.5 s\n" for number in (1, 2)
    )
    assert troubles_in(log) == {"WARNING worker m0-large-0 is late by 0 s": 2}


def test_a_spread_names_mean_median_nearly_all_and_longest() -> None:
    assert spread([1.0, 2.0, 3.0], " s") == "mean 2.00, median 2.00, 95 % 2.90, longest 3.00 s"


def a_sample(at: float, commands: int, store: float) -> Mapping[str, Any]:
    return {
        "at": at, "load": 1.0, "answers": {"/metrics": 0.1}, "commands": {"qstat": commands}, "store": store,
        "command_seconds": {"qstat": commands / 10}, "run": [at / 10, 0.0, 70.0], "serve": [0.0, 0.0, 60.0],
        "qmaster": [at / 20, 0.0, 90.0], "log of the store": 4.0,
    }  # fmt: skip


def test_the_table_of_a_run_that_was_stopped_shows_what_there_is() -> None:
    found = Found(jobs_of(3, 1.0, 1), 5)
    assert dict(table(found))["over"] == "NO"
    found.samples += [dict(a_sample(0.0, 0, 0.5)), dict(a_sample(60.0, 30, 1.5)), dict(a_sample(120.0, 90, 2.5))]
    shown = dict(table(found))
    assert shown["commands a minute"] == "mean 45.0, most 60.0 (qstat 45.0)"
    assert shown["CPU of run"] == "12 s, 10.0% of a core"
    assert shown["MB of the store"].split()[-1] == "2.5"


def test_jobs_are_submitted_with_their_dependencies_after_what_they_wait_for(tmp_path: Path) -> None:
    qsub = tmp_path / "qsub"
    qsub.write_text('#!/bin/sh\n[ "$1" = first ] && sleep 0.3\necho "Your job 1$2 (\\"j\\") has been submitted"\n')
    qsub.chmod(0o755)
    lines = '[1, 0.0, null, ["first", "1"]]\n[2, 0.0, 1, ["then", "2"]]\n'
    done = subprocess.run(
        (sys.executable, "-m", "bench.submitting"), input=lines, capture_output=True, text=True, timeout=60,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=Path(__file__).parent.parent, check=True,
    )  # fmt: skip
    assert [line.split(",")[:2] for line in done.stdout.splitlines()] == [["[1", " 11"], ["[2", " 12"]]


def test_shaken_jobs_come_in_their_order_and_hardly_at_another_time() -> None:
    jobs = jobs_of(200, 1.0, 1)
    assert shaken(jobs, 0) == jobs
    moved = shaken(jobs, 1)
    assert moved == shaken(jobs, 1) != shaken(jobs, 2)
    assert sorted(moved, key=lambda job: job.submitted) == moved
    before = {job.number: job.submitted for job in jobs}
    off = [abs(job.submitted - before[job.number]) for job in moved]
    assert 0.0 < max(off) <= JITTER


def test_a_figure_that_one_of_two_has_not_counts_as_none_there() -> None:
    assert mean_of([{"launches": 3, "price": 1.0}, {"price": 2.0}]) == {"launches": 1.5, "price": 1.5}


def test_a_machine_never_joins_and_a_lost_one_is_replaced_in_the_simulation_as_in_the_cell() -> None:
    jobs = jobs_of(25, 1.0, 1)
    failing, lost_at = plan_of(jobs, 1.0, 1)
    document, run = simulated(jobs, None, failing, lost_at, 1)
    well, _ = simulated(jobs, None, 0, 1e9, 1)
    assert isinstance(run.cloud, Faulty)
    assert (run.cloud.failed, run.measures.launched.total() > failing) == (1, True)
    assert "lost a m5" in run.lost
    assert document["interrupted"]["tasks_started_again"] >= 1
    assert document["tasks"]["finished"] == well["tasks"]["finished"] == sum(job.tasks for job in jobs)
