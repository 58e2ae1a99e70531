"""Which kinds of job a queue starts, on a real Grid Engine: for others none is launched, with a reason."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.test_closed_queues import MANY, more_passes, verdicts_of
from tests.grid_engine.test_doctor import findings
from tests.grid_engine.waiting import Shown, Until

CKPT = """ckpt_name blcr
interface userdefined
ckpt_command none
migr_command none
restart_command none
clean_command none
ckpt_dir /tmp
signal none
when sx
"""


@pytest.mark.thorough
def test_an_interactive_queue_gets_workers_for_parallel_jobs_only(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    empty_cell.out("qconf", "-rattr", "queue", "qtype", "INTERACTIVE", "main.q")
    gate = Gate(empty_cell)
    jobs = [gate.submit() for _ in range(3)]

    with autoscaling.running():
        more_passes(autoscaling, until)
        assert autoscaling.lifetimes() == ()
        assert {row for job in jobs for row in verdicts_of(autoscaling, job)} == {(False, "NO_BATCH_QUEUE")}
        assert findings(empty_cell)["queue types"] == "warn"
        parallel = gate.submit("-pe", "local", "2")
        until(lambda: bool(autoscaling.running_on(parallel)), 60, "the parallel job did not start")
        assert not any(autoscaling.running_on(job) for job in jobs)
        empty_cell.out("qconf", "-rattr", "queue", "qtype", "BATCH", "main.q")
        gate.open()
        until(lambda: all(autoscaling.ended_well(job) for job in (*jobs, parallel)), 60, "the jobs did not end well")


@pytest.mark.thorough
def test_a_checkpointing_job_gets_a_worker_once_its_queue_has_the_environment(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    file = empty_cell.directory / "ckpt"
    file.write_text(CKPT)
    empty_cell.out("qconf", "-Ackpt", str(file))
    gate = Gate(empty_cell)
    job = gate.submit("-ckpt", "blcr")

    with autoscaling.running():
        more_passes(autoscaling, until)
        assert autoscaling.lifetimes() == ()
        assert verdicts_of(autoscaling, job) == [(False, "NOT_IN_CKPT_LIST")]
        plain = gate.submit()
        until(lambda: bool(autoscaling.running_on(plain)), 60, "the job without checkpointing did not start")
        empty_cell.out("qconf", "-aattr", "queue", "ckpt_list", "blcr", "main.q")
        until(lambda: bool(autoscaling.running_on(job)), 60, "the checkpointing job did not start")
        gate.open()
        until(lambda: autoscaling.ended_well(job), 30, "the job did not end well")
