"""The cost of a job in `explain` is the cost in `cost --by job`."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoscaler.report.job_cost import cost_lines, job_cost
from tests.core.building import NOW
from tests.cost_world import CostWorld, Job, Machine


@pytest.fixture
def three_workers(tmp_path: Path) -> CostWorld:
    """Two workers; one has more slots in use than it offers for a while, the price of the other is not known."""
    machines = [Machine("w1", 0, 7000, price=2.0), Machine("w2", 100, 6000, price=0.7), Machine("w3", 0, price=None)]
    world = CostWorld(tmp_path / "three_workers", machines)
    world.jobs = [
        Job(1, "w1", 0, 1801, slots=3),
        Job(2, "w1", 900, 2700, slots=3),
        Job(3, "w1", 1000, 1500, 2, others=(("w2", 4),)),
        *(Job(4, "w2", 3000 + 500 * task, 3400 + 500 * task, task=task) for task in (1, 2, 3)),
        Job(5, "w3", 10, 20),
        Job(6, "w1", 3000, slots=1),
    ]
    for at in range(0, 9000, 450):
        world.account(at)
        world.see(at)
    return world


def test_the_cost_of_a_job_equals_its_row_in_the_table(three_workers: CostWorld) -> None:
    rows = {row.key: row for table in three_workers.report(9000, "array").tables for row in table.sorted()}
    for job in (1, 2, 3, 4, 6):
        found = job_cost(three_workers.store, job, None, NOW + 9000)
        assert found is not None
        (result,) = found["currencies"]
        assert result["cost"] == pytest.approx(rows[str(job)].used / 1e6, abs=5e-6), job
        assert result["slot_h"] == pytest.approx(rows[str(job)].slot_ms / 3.6e6, abs=1e-5), job


def test_a_task_has_its_own_cost_and_a_parallel_job_that_of_all_its_workers(three_workers: CostWorld) -> None:
    whole, task = (job_cost(three_workers.store, 4, each, NOW + 9000) for each in (None, 2))
    assert whole is not None
    assert task is not None
    assert whole["currencies"][0]["cost"] == pytest.approx(3 * task["currencies"][0]["cost"], abs=1e-5)
    parallel = job_cost(three_workers.store, 3, None, NOW + 9000)
    assert parallel is not None
    assert parallel["workers"] == 2


def test_a_cost_has_its_currency_and_unknown_prices_are_stated(three_workers: CostWorld) -> None:
    def lines(job: int, state: str = "ended") -> list[str]:
        end = {"started_at": "2026-11-23T09:00:00+00:00"}
        return list(
            cost_lines({"cost": job_cost(three_workers.store, job, None, NOW + 9000), "ended": [end], "state": state})
        )

    assert lines(4) == ["it cost 0.0583 USD, for 0.33 slot hours on 1 worker (an estimate)"]
    # Its worker ended at 7000 s, and a pass observed it last at 6750 s.
    assert lines(6, "running") == ["it cost 0.5208 USD so far, for 1.04 slot hours on 1 worker (an estimate)"]
    assert lines(5) == ["the price of 1 worker that it ran on is not known"]
    assert lines(99) == ["it is not known to have run on a worker, so it has no cost here"]
