"""The reason of a large job that starves at a cap names what would let it run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.wording import text
from tests.core.building import M5, a_bucket, a_job, a_snapshot, a_worker, category_of, codes, jobs


def starving(*, limit: int = 2, used: int = 1, slots: int = 4) -> Snapshot:
    """Two workers of two slots each, one slot of each in use, a job that needs several at once, and small ones."""
    made = a_snapshot(
        a_job(slots=slots, pe="mpi"),
        jobs(3, 2),
        a_worker("w1", used=used),
        a_worker("w2", used=used),
        limits=Limits(max_workers=limit),
    )
    return replace(made, cluster=replace(made.cluster, max_reservation=0))


def test_the_reason_of_a_large_job_that_starves_at_the_cap_names_reservations() -> None:
    reason = category_of(plan(starving())).reason
    assert codes(reason)[-1] is Code.OTHERS_FIRST
    assert "max_reservation allows that (it is 0)" in text(reason)


@pytest.mark.parametrize(
    "why",
    (
        {"buckets": tuple(a_bucket(type_, problem="sold out") for type_ in M5)},
        {"memory": Memory(passes=7, stopped={"execute": "no such image"})},
        {"overrides": Overrides(paused=True)},
    ),
)
def test_the_reason_of_a_large_job_names_reservations_also_if_launches_are_blocked(why: dict[str, Any]) -> None:
    made = starving(limit=10)
    fleet = replace(made.fleet, buckets=why.get("buckets", made.fleet.buckets))
    memory = replace(made.memory, stopped=why["memory"].stopped) if "memory" in why else made.memory
    made = replace(made, fleet=fleet, memory=memory, overrides=why.get("overrides", made.overrides))
    assert Code.OTHERS_FIRST in codes(category_of(plan(made)).reason)


@pytest.mark.parametrize("settings", ({"limit": 10}, {"used": 0}, {"slots": 5}))
def test_reservations_are_not_named_if_workers_come_or_hosts_would_not_suffice(settings: dict[str, int]) -> None:
    assert Code.OTHERS_FIRST not in codes(category_of(plan(starving(**settings))).reason)


def test_reservations_are_not_named_if_a_needed_host_is_draining() -> None:
    leaving = a_worker("w2", used=1, mark=Disabling.IDLE)
    waiting = a_job(slots=4, pe="mpi"), jobs(3, 2)
    made = a_snapshot(*waiting, a_worker("w1", used=1), leaving, limits=Limits(max_workers=2))
    assert Code.OTHERS_FIRST not in codes(category_of(plan(made)).reason)


def test_reservations_are_not_named_if_no_smaller_job_waits() -> None:
    made = starving()
    alone = replace(made, cluster=replace(made.cluster, job_categories=made.cluster.job_categories[:1]))
    assert [Code.OTHERS_FIRST in codes(category_of(plan(each)).reason) for each in (made, alone)] == [True, False]
