"""Jobs wait for workers that will be free within a boot, for as long as the setting says: no new one is launched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.estimates.estimates import Estimates, RunTime
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from tests.core.building import (
    LONG_AGO,
    NOW,
    AWorker,
    Thing,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    codes,
    launched,
)
from tests.core.building import category_of as verdict

BOOT = 120.0


def busy(*ends: float, name: str = "w1") -> tuple[AWorker, dict[str, float]]:
    """A worker of two slots with a job on each, which booted in two minutes; and when these end, seconds from now."""
    first = 100 * int(name[1:])
    host = a_host(name, slots=2, used=len(ends))
    running = tuple(HostJob(first + at, "", "r", 1, "ann", started=NOW - 300) for at in range(len(ends)))
    host = replace(host, instances=(replace(host.instances[0], jobs=running),))
    worker = a_worker(name, host=host, age=NOW - LONG_AGO + BOOT)
    return worker, {str(first + at): NOW + end for at, end in enumerate(ends)}


def cell(*waiting: Thing, ends: tuple[float, ...] = (60.0, 600.0), runs: float = 30.0, wait: float = 300.0) -> Snapshot:
    """One busy worker, and jobs of which each is estimated to run so long."""
    worker, known = busy(*ends)
    snapshot = a_snapshot(worker, *waiting, wait_for_free=wait)
    numbers = [number for category in snapshot.cluster.job_categories for number in category.jobs]
    return replace(snapshot, estimates=Estimates(dict.fromkeys(numbers, RunTime(runs, runs, runs)), known))


def test_a_job_waits_for_a_slot_that_is_free_within_a_boot() -> None:
    made = plan(cell(a_job()))
    assert launched(made) == {}
    assert Code.WAITS_FOR_FREE in codes(verdict(made).reason)


@pytest.mark.parametrize(
    "snapshot",
    (
        pytest.param(cell(a_job(), wait=0.0), id="the setting is off"),
        pytest.param(cell(a_job(waited=300.0)), id="it has waited for so long"),
        pytest.param(cell(a_job(), ends=(121.0, 600.0)), id="a new worker is there earlier"),
        pytest.param(cell(a_job(slots=2)), id="only one of two slots will be free"),
        pytest.param(cell(a_job(1), a_job(2, hard={"h_rt": "600"}), runs=90.0), id="another one takes the slot"),
        pytest.param(replace(cell(a_job()), estimates=Estimates()), id="nothing is known"),
    ),
)
def test_a_worker_is_launched_if(snapshot: Snapshot) -> None:
    assert launched(plan(snapshot)) == {"m5.large": 1}


def test_short_jobs_take_the_same_slot_one_after_the_other() -> None:
    """Within two minutes it is free three times: after 60, 90 and 120 s."""
    for count, workers in ((1, {}), (2, {}), (3, {}), (4, {"m5.large": 1})):
        waiting = [a_job(number, hard={"h_rt": f"{600 + number}"}) for number in range(1, count + 1)]
        assert launched(plan(cell(*waiting, runs=30.0))) == workers, count


def test_it_is_judged_again_before_the_time_is_over() -> None:
    made = plan(cell(a_job()))
    assert made.due is not None
    assert NOW < made.due <= NOW + BOOT / 4
    late = plan(cell(a_job(waited=290.0)))
    assert late.due == NOW + 10.0


def test_without_a_boot_that_was_seen_nobody_waits() -> None:
    worker, known = busy(60.0, 600.0)
    unknown = replace(worker, worker=replace(worker.worker, created_at=LONG_AGO))
    snapshot = a_snapshot(unknown, a_job(), wait_for_free=300.0)
    made = plan(replace(snapshot, estimates=Estimates({1: RunTime(30.0, 30.0, 30.0)}, known)))
    assert launched(made) == {"m5.large": 1}


def test_a_worker_that_comes_counts_beside_those_that_are_free_soon() -> None:
    coming = a_machine("w2", state=MachineState.PENDING, age=10.0)
    waiting = [a_job(number, hard={"h_rt": f"{600 + number}"}) for number in range(1, 6)]
    snapshot = cell(*waiting, coming, runs=30.0)
    assert launched(plan(snapshot)) == {}
