"""An unlisted worker is not taken for gone: rule 3, and rule 5 with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import (
    NOW,
    AWorker,
    a_host,
    a_job,
    a_machine,
    a_snapshot,
    a_worker,
    acts,
    launched,
    verdict_and_code,
)

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


# -- what Grid Engine shows meanwhile ------------------------------------------------------------------------------


REPORTING = a_host("h1")
DISABLED, OPEN, BUSY = a_host("w1", states="d"), a_host("w1"), a_host("w1", used=1)
SILENT = a_host("w1", states="du", heard=False)


def _passes(worker: AWorker, *shown: ExecutionHost, listed_again: bool = True) -> Plan:
    """The plan after a pass saw this worker, passes whose listings left it out while its execution host was as given,
    and one that listed it again with the last of these hosts.
    """
    made, now = plan(a_snapshot(worker, REPORTING)), NOW
    for host in shown:
        now += 10.0
        made = plan(_left_out(host, made.memory, now))
    if not listed_again:
        return made
    return plan(a_snapshot(replace(worker, host=shown[-1], note=None), REPORTING, made.memory, now=now + 10.0))


def _left_out(host: ExecutionHost, memory: Memory, now: float) -> Snapshot:
    return a_snapshot(host, REPORTING, memory, now=now)


MARKS = (Disabling.ENROL, Disabling.IDLE, Disabling.COMMAND, Disabling.SILENT, Disabling.BROKEN)


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.name)
def test_what_a_person_enabled_and_disabled_meanwhile_is_disabled_by_a_person(mark: Disabling) -> None:
    """Rule 4: it is neither enabled nor removed."""
    made = _passes(a_worker(mark=mark, states="d", empty=60), OPEN, DISABLED)
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.name)
def test_it_is_left_alone_though_it_falls_silent_and_stays_unlisted(mark: Disabling) -> None:
    worker = a_worker(mark=mark, states="d", empty=60)
    made = _passes(worker, OPEN, DISABLED, *(SILENT,) * 100, listed_again=False)
    assert (acts(made), verdict_and_code(made, "w1")) == ([], ("keep", Code.DISABLED_BY_HAND))


def test_a_worker_that_nobody_enabled_meanwhile_joins_when_it_is_listed_again() -> None:
    made = _passes(a_worker(mark=Disabling.ENROL, states="d", empty=60), DISABLED, DISABLED)
    assert (acts(made), verdict_and_code(made, "w1")) == ([("enable", "w1")], ("enable", Code.JOINED))


@pytest.mark.parametrize("slots", (0, 1), ids=("without slots", "with other slots"))
def test_an_enrolment_cut_short_goes_on_though_its_host_was_unlisted(slots: int) -> None:
    """Nobody enabled it: `qmod -d` was still to come."""
    half = a_host("w1", slots=slots, consumables={"slots": str(slots)})
    made = _passes(a_worker(mark=Disabling.ENROL, states="d", host=half), half, half)
    assert acts(made) == [("enrol", "w1")]


def test_a_job_that_ran_meanwhile_begins_the_time_of_being_empty_anew() -> None:
    """Rule 1: two observations, a scheduler interval apart, show a worker disabled and empty before it is removed."""
    busy = a_host("w1", states="d", used=1)
    worker = a_worker(mark=Disabling.IDLE, states="d")
    assert acts(_passes(worker, busy, DISABLED)) == []
    assert acts(_passes(worker, DISABLED, DISABLED)) == [("remove", "w1")]


def test_a_job_that_ran_meanwhile_begins_the_idle_time_anew() -> None:
    assert acts(_passes(a_worker(idle=9999), BUSY, OPEN)) == []
    assert acts(_passes(a_worker(idle=9999), OPEN, OPEN)) == [("disable", "w1")]
