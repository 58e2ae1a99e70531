"""Which types are in backoff after failures, and what ends that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.fleet import FailureKind, PriceType
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.plan import plan
from tests.core.building import NOW, X2LARGE, AWorker, a_failure, a_snapshot, a_worker, jobs, launched


def came_up(name: str = "w1", *, age: float = 500.0, heard: float = 400.0, **worker: Any) -> AWorker:
    """A busy worker, launched and first reporting this many seconds ago."""
    note = WorkerNote(NOW - age, joined_at=NOW - heard, host=name)
    return replace(a_worker(name, type_=X2LARGE, used=8, age=age, **worker), note=note)


# -- success --------------------------------------------------------------------------------------------------------


def test_a_worker_that_joins_after_failures_clears_them() -> None:
    failures = [a_failure(X2LARGE, age=600 + n) for n in range(5)]
    up = came_up(age=500, heard=400)
    made = plan(a_snapshot(jobs(8), *failures, up, hybrid=True))
    assert (launched(made), made.memory.backoffs) == ({"m5.2xlarge": 1}, ())


def test_a_worker_that_joins_ends_a_current_backoff() -> None:
    failures = [a_failure(X2LARGE, age=600 + n) for n in range(5)]
    backed_off = replace(plan(a_snapshot(jobs(8), *failures, hybrid=True)).memory, launches=())
    up = came_up(age=500, heard=400)
    made = plan(a_snapshot(jobs(8), *failures, up, backed_off, hybrid=True))
    assert (len(backed_off.backoffs), launched(made)) == (1, {"m5.2xlarge": 1})


def test_success_is_remembered_when_its_worker_has_left() -> None:
    failures = [a_failure(X2LARGE, age=600 + n) for n in range(5)]
    up = came_up(age=500, heard=400)
    memory = replace(plan(a_snapshot(up, hybrid=True)).memory, workers={}, backoffs=())
    assert launched(plan(a_snapshot(jobs(8), *failures, memory, hybrid=True))) == {"m5.2xlarge": 1}


@pytest.mark.parametrize(
    ("kind", "age", "heard", "backs_off"),
    (
        (FailureKind.CAPACITY, 700, 400, True),  # launched before they failed: it shows nothing of the capacity now
        (FailureKind.BOOT, 700, 400, False),  # it has reported since: its image and settings work
        (FailureKind.BOOT, 900, 700, True),
    ),
)
def test_only_a_worker_launched_or_heard_after_the_failures_clears_them(
    kind: FailureKind, age: float, heard: float, *, backs_off: bool
) -> None:
    failures = [a_failure(X2LARGE, age=600 + n, kind=kind) for n in range(5)]
    up = came_up(age=age, heard=heard)
    assert bool(plan(a_snapshot(jobs(8), *failures, up, hybrid=True)).memory.backoffs) is backs_off


def test_a_success_in_another_zone_or_of_another_price_type_clears_nothing() -> None:
    failures = [a_failure(X2LARGE, age=600 + n, zone="a") for n in range(5)]
    ups = [came_up("w1", zone="b"), came_up("w2", zone="a", price_type=PriceType.SPOT)]
    assert len(plan(a_snapshot(jobs(8), *failures, *ups, hybrid=True)).memory.backoffs) == 1


def test_failures_after_a_success_count() -> None:
    failures = [a_failure(X2LARGE, age=600 + n) for n in range(4)] + [a_failure(X2LARGE, age=60)]
    up = came_up(age=500, heard=400)
    assert launched(plan(a_snapshot(jobs(8), *failures, up, hybrid=True))) == {"m5.2xlarge": 1}
