"""A job that the scheduler dispatches between `qstat` and `qhost` waits in one and uses slots in the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from autoscaler.core.demand.detail_needs import Needs
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.plan import plan
from autoscaler.lab.cell import Cell
from autoscaler.sge.cluster import cluster_from
from autoscaler.sge.reading import Outputs, read_outputs
from tests.core.building import NOW, a_snapshot, launched
from tests.differential.rounds import STOPPED, dispatch
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until


def test_jobs_dispatched_between_the_reads_launch_nothing(cell: Cell, until: Until) -> None:
    gate = Gate(cell)
    cell.schedule(**STOPPED)  # with `qconf -kt` and `-at` in a row qmaster 8.1.9 sometimes dies
    dispatch(cell)
    for _ in range(3):
        gate.submit()
    before = read(cell)
    until(lambda: all("qw" not in state for _, state in dispatch(cell)), 30, "the jobs were not dispatched")
    after = read(cell)
    gate.open()

    readings = (before, replace(before, qhost=after.qhost), after)
    assert [planned(reading) for reading in readings] == [{}, {}, {}]


def read(cell: Cell) -> Outputs:
    """Everything, `qstat -j` of each job included: without, a job that the scheduler has not seen does not count."""

    def all_of_them(job_categories: Sequence[JobCategory], _: Needs) -> list[int]:
        return [number for category in job_categories for number in category.jobs]

    return read_outputs(cell.runner, wanted=all_of_them, zone=UTC)[0]


def planned(outputs: Outputs) -> dict[str, int]:
    """What is launched on that reading, where jobs wait for a worker as soon as they fit nowhere."""
    cluster = cluster_from(outputs, zone=UTC, now=NOW)
    cluster = replace(cluster, job_categories=tuple(map(long_ago, cluster.job_categories)))
    return launched(plan(replace(a_snapshot(queue={"scale_up_timeout": 0.0}), cluster=cluster)))


def long_ago(category: JobCategory) -> JobCategory:
    return replace(category, submitted=tuple(0.0 for _ in category.submitted))
