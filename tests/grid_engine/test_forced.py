"""GPUs that only jobs which request them may have (FORCED), on a real Grid Engine: others get workers without any."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.test_closed_queues import MANY, more_passes, verdicts_of
from tests.grid_engine.waiting import Shown, Until

CATALOG = """
cloud = "aws"
region = "eu-central-1"
currency = "USD"
as_of = 2026-01-01

[types]
"m5.large" = { vcpus = 2, memory_gib = 8, on_demand = 0.1 }
"m5.xlarge" = { vcpus = 2, memory_gib = 8, gpus = 1, on_demand = 0.05 }
"""
"""The one with a GPU is the cheaper one: nothing but the complex speaks against it."""


def scaling_with_gpus(cell: Cell, **settings: str) -> Autoscaling:
    complexes, catalog = cell.home / "complexes", cell.home / "catalog.toml"
    complexes.write_text(cell.out("qconf", "-sc") + "gpus gpus INT <= FORCED YES 0 0\n")
    cell.out("qconf", "-Mc", str(complexes))
    catalog.write_text(CATALOG)
    return Autoscaling(cell, {**MANY, "CP_CAP_AUTOSCALE_LOCAL_CATALOG": str(catalog), **settings})


@pytest.mark.thorough
def test_jobs_that_request_gpus_and_jobs_that_do_not_run_on_different_workers(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = scaling_with_gpus(empty_cell, CP_CAP_AUTOSCALE_HYBRID="true")
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    jobs = {gate.submit(): "m5.large", gate.submit("-l", "gpus=1"): "m5.xlarge"}

    with autoscaling.running():
        until(lambda: all(autoscaling.running_on(job) for job in jobs), 40, "the jobs did not both start")
        types = autoscaling.living()
        assert {job: types[host] for job in jobs for host in autoscaling.running_on(job)} == jobs
        gate.open()
        until(autoscaling.all_gone, 40, "the workers did not leave")
    assert len(autoscaling.lifetimes()) == 2


def test_nothing_is_launched_for_a_job_that_does_not_request_a_forced_complex(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = scaling_with_gpus(empty_cell, CP_CAP_AUTOSCALE_INSTANCE_TYPE="m5.xlarge")
    show_on_failure["autoscaler"] = autoscaling.log_text
    job = empty_cell.submit("-b", "y", "true")

    with autoscaling.running():
        more_passes(autoscaling, until)
        assert autoscaling.lifetimes() == ()
        assert verdicts_of(autoscaling, job) == [(False, "MUST_BE_REQUESTED")]
        empty_cell.out("qalter", "-l", "gpus=1", job)
        until(lambda: autoscaling.ended_well(job), 40, "the job did not run when it requested it")
