"""Machines no larger than suits their jobs are preferred, and nothing that could be reached is lost by that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import autoscaler.core
from autoscaler.core.actions import Launch
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.plan import plan
from autoscaler.core.policy import FITTING, LARGEST, CircuitBreaker, Limits
from tests.core.building import a_job, a_snapshot, jobs

MANY = Limits(max_workers=1000)


def first_launch(*things: JobCategory, size: str = FITTING, **array: Any) -> dict[str, int]:
    array = {"limits": MANY, "scale_up_batch": 1000, "hybrid": True, "hybrid_size": size, **array}
    (launch,) = (action for action in plan(a_snapshot(*things, **array)).actions if isinstance(action, Launch))
    return {offer.type.name: offer.count for offer in launch.candidates[0].offers}


def candidates(size: str) -> list[str]:
    made = plan(a_snapshot(jobs(100), limits=MANY, hybrid=True, hybrid_size=size))
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    return [candidate.type.name for candidate in launch.candidates if len(candidate.offers) == 1]


@pytest.mark.parametrize(
    ("batch", "bought"), ((1, {"m5.4xlarge": 1}), (3, {"m5.4xlarge": 3}), (1000, {"m5.4xlarge": 6, "m5.xlarge": 1}))
)
def test_a_batch_buys_no_larger_machines_than_single_launches_do(batch: int, bought: dict[str, int]) -> None:
    assert first_launch(jobs(100), scale_up_batch=batch) == bought


def test_the_type_that_runs_the_most_pending_cores_is_taken_if_that_is_set() -> None:
    assert first_launch(jobs(100), size=LARGEST) == {"m5.8xlarge": 3, "m5.xlarge": 1}


def test_few_jobs_get_the_smallest_type_that_runs_them() -> None:
    assert first_launch(jobs(8)) == first_launch(jobs(8), size=LARGEST) == {"m5.2xlarge": 1}


def test_the_largest_job_on_one_host_decides_the_size() -> None:
    assert first_launch(jobs(100), a_job(7, slots=32)) == {"m5.8xlarge": 4, "m5.xlarge": 1}


def test_a_large_job_after_small_ones_gets_its_worker() -> None:
    assert first_launch(a_job(7, slots=32)) == {"m5.8xlarge": 1}


def test_memory_that_a_fitting_type_lacks_makes_a_larger_one_fit() -> None:
    fat = jobs(40, hard={"h_vmem": "100G"})
    assert first_launch(fat) == first_launch(fat, size=LARGEST) == {"m5.8xlarge": 40}


@pytest.mark.parametrize("max_workers", (1, 4, 7, 10))
def test_larger_machines_are_taken_where_their_number_binds(max_workers: int) -> None:
    limits = Limits(max_workers=max_workers)
    assert first_launch(jobs(100), limits=limits) == first_launch(jobs(100), size=LARGEST, limits=limits)


def test_a_limit_of_cores_that_few_workers_reach_leaves_the_choice() -> None:
    limits = Limits(max_workers=10, max_cores=160)
    assert first_launch(jobs(100), limits=limits) == {"m5.4xlarge": 6, "m5.xlarge": 1}


@pytest.mark.parametrize("max_workers", (*range(1, 14), 20, 30, 50))
@pytest.mark.parametrize("max_cores", (None, 48, 100, 400))
@pytest.mark.parametrize("count", (17, 100, 333, 1000))
def test_no_launch_serves_less_than_the_largest_types_would(
    max_workers: int, max_cores: int | None, count: int
) -> None:
    def cores(size: str) -> int:
        vcpus = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}
        limits = Limits(max_workers=max_workers, max_cores=max_cores)
        launch = first_launch(jobs(count), size=size, limits=limits)
        return min(count, sum(many * vcpus[name.partition(".")[2]] for name, many in launch.items()))

    assert cores(FITTING) >= cores(LARGEST)


def test_after_a_launch_the_other_workers_could_still_hold_several_times_the_cores_in_use() -> None:
    """Ten of 160 cores leave twenty or nineteen workers, which hold 640 or 608."""
    assert first_launch(jobs(160), limits=Limits(max_workers=30)) == {"m5.4xlarge": 10}
    assert first_launch(jobs(160), limits=Limits(max_workers=29)) == {"m5.8xlarge": 5}


def test_larger_machines_are_taken_where_the_rate_of_launches_binds() -> None:
    hourly = Limits(max_workers=1000, max_launches_per_hour=6)
    assert first_launch(jobs(100), limits=hourly) == {"m5.8xlarge": 3, "m5.xlarge": 1}
    assert first_launch(jobs(100), circuit_breaker=CircuitBreaker(max_launches=6)) == {"m5.8xlarge": 3, "m5.xlarge": 1}
    assert first_launch(jobs(100), circuit_breaker=CircuitBreaker(max_launches=7)) == {"m5.4xlarge": 6, "m5.xlarge": 1}


def test_jobs_that_spread_or_need_hosts_of_their_own_are_judged_as_before() -> None:
    mpi = a_job(7, slots=64, pe="mpi")
    assert first_launch(mpi) == first_launch(mpi, size=LARGEST) == {"m5.8xlarge": 2}
    assert first_launch(jobs(100), mpi) == first_launch(jobs(100), mpi, size=LARGEST)


def test_no_offer_is_left_out_and_the_nearest_size_is_tried_next() -> None:
    assert sorted(candidates(FITTING)) == sorted(candidates(LARGEST))
    assert candidates(FITTING) == ["m5.4xlarge", "m5.2xlarge", "m5.xlarge", "m5.large", "m5.8xlarge"]


@pytest.mark.parametrize("strategy", ("naive-cpu-capacity", "default"))
def test_the_seeds_rule_is_not_changed(strategy: str) -> None:
    assert first_launch(jobs(100), strategy=strategy, scale_up_batch=1) == {"m5.8xlarge": 1}


def test_no_verdict_on_a_job_can_depend_on_it() -> None:
    core = Path(autoscaler.core.__file__).parent
    names = {
        path.relative_to(core).as_posix() for path in core.rglob("*.py") if "hybrid_size" in path.read_text("utf-8")
    }
    assert names == {"policy.py", "sizing/sizing.py"}
