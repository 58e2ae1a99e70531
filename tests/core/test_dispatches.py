"""Slots that a dispatch took while Grid Engine was read: their jobs still wait in the snapshot, and are not launched
for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from tests.core.building import a_host, a_job, a_snapshot, a_worker, acts, jobs, launched, reason_code, verdict_and_code
from tests.core.test_groups import a_member, in_groups, launches


def dispatching(taken: int, name: str = "h1", *, running: int = 0, **host: Any) -> ExecutionHost:
    """A host where this many slots were taken after the jobs were read."""
    made = a_host(name, used=running, **host)
    (instance,) = made.instances
    return replace(made, instances=(replace(instance, used=running + taken, in_flight=taken),))


@pytest.mark.parametrize("states", ("", "S", "d", "a"))
def test_a_job_in_flight_is_not_launched_for(states: str) -> None:
    made = plan(a_snapshot(jobs(2), dispatching(2, states=states), a_host("open", used=2)))
    assert (launched(made), reason_code(made)) == ({}, Code.FITS)


def test_jobs_beyond_those_in_flight_are_launched_for() -> None:
    assert launched(plan(a_snapshot(jobs(4), dispatching(1, running=1)))) == {"m5.large": 2}


def test_a_job_over_several_hosts_may_be_in_flight() -> None:
    job = a_job(slots=4, pe="mpi")
    assert launched(plan(a_snapshot(job, dispatching(2, "h1"), dispatching(2, "h2")))) == {}


def test_a_job_of_a_group_may_be_in_flight_on_all_its_hosts() -> None:
    """Else a second group is launched for it: two workers too many, where there is room for them."""
    members = (a_member(name, host=dispatching(2, name, fixed={"group_id": "execute:4-1"})) for name in ("w1", "w2"))
    made = plan(in_groups(a_job(slots=4, pe="mpi*"), *members))
    assert (launches(made), reason_code(made)) == ([], Code.FITS)


@pytest.mark.parametrize("asked", ({"h_vmem": "4G"}, {"scratch": "4G"}))
def test_a_job_in_flight_that_holds_the_last_of_a_consumable_is_not_launched_for(asked: dict[str, str]) -> None:
    host = dispatching(1, consumables=dict.fromkeys(asked, "0"))
    assert launched(plan(a_snapshot(a_job(hard=asked), host))) == {}


def test_a_host_offers_of_a_consumable_only_what_is_left_and_in_flight() -> None:
    host = dispatching(1, slots=8, consumables={"h_vmem": "0"})
    assert launched(plan(a_snapshot(jobs(3, hard={"h_vmem": "4G"}), host))) == {"m5.large": 1}


def test_an_exclusive_job_in_flight_is_not_launched_for() -> None:
    host = dispatching(1, fixed={"exclusive": "1"})
    assert launched(plan(a_snapshot(a_job(hard={"exclusive": "true"}), host))) == {}


def test_a_worker_with_a_slot_in_flight_is_busy() -> None:
    made = plan(a_snapshot(a_worker("w1", idle=600, host=dispatching(1, "w1"))))
    assert (acts(made), verdict_and_code(made, "w1")[0]) == ([], "keep")


def test_an_idle_worker_stays_while_jobs_are_in_flight_elsewhere() -> None:
    made = plan(a_snapshot(jobs(2), dispatching(2), a_worker("w1", idle=600)))
    assert verdict_and_code(made, "w1")[0] == "keep"
