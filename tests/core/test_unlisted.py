"""An unlisted worker is not taken for gone: rule 3, and rule 5 with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.fleet import MachineState
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from tests.core.building import NOW, AWorker, a_job, a_machine, a_snapshot, a_worker, launched

ONE = Limits(max_workers=1)


def _then_unlisted(worker: AWorker, after: float = 60.0, **world: object) -> Snapshot:
    """A pass saw this worker; then a job waits, and the listing leaves the worker out."""
    remembered = plan(a_snapshot(worker, limits=ONE)).memory
    later = a_snapshot(a_job(waited=9999), remembered, limits=ONE, now=NOW + after)
    return replace(later, cluster=replace(later.cluster, hosts=() if worker.host is None else (worker.host,)))


@pytest.mark.parametrize("worker", (a_worker(used=2), a_machine(age=5.0)), ids=("in service", "booting"))
def test_an_unlisted_worker_still_counts_towards_the_limits(worker: AWorker) -> None:
    assert launched(plan(_then_unlisted(worker))) == {}


def test_a_worker_unlisted_for_longer_than_order_grace_no_longer_counts() -> None:
    first = _then_unlisted(a_machine(age=5.0))
    later = replace(first, memory=plan(first).memory, now=first.now + 601)
    assert launched(plan(later)) == {"m5.large": 1}


def test_a_terminated_worker_no_longer_counts_when_unlisted() -> None:
    assert launched(plan(_then_unlisted(a_machine(state=MachineState.TERMINATED)))) == {"m5.large": 1}


def test_an_unlisted_worker_counts_with_its_launch_price() -> None:
    limits = Limits(max_workers=9, max_price_per_hour=1.05)
    remembered = plan(a_snapshot(a_machine(age=5.0, price_per_hour=1.0), limits=limits)).memory
    later = a_snapshot(a_job(waited=9999), remembered, limits=limits, now=NOW + 60)
    assert launched(plan(later)) == {}, "1.00 and another 0.10 are beyond 1.05"
    later = a_snapshot(a_job(waited=9999), remembered, limits=replace(limits, max_price_per_hour=1.15), now=NOW + 60)
    assert launched(plan(later)) == {"m5.large": 1}
