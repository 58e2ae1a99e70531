"""Notices that workers report themselves, as a load value."""

from __future__ import annotations

import pytest

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import InstanceType, Interruption, MachineState, Worker
from sge.notices import COMPLEX, reported_notices

KIND = InstanceType("m5.large", "m5", 2, 8 << 30)


def worker(state: MachineState = MachineState.RUNNING) -> Worker:
    return Worker("i-1", KIND, "execute", state, 1.0, name="w1.ec2.internal")


def host(told: str, *, heard: bool = True) -> ExecutionHost:
    return ExecutionHost("w1", load={COMPLEX: told}, heard=heard)


@pytest.mark.parametrize("kind", ("terminate", "stop", "rebalance"))
def test_what_a_host_reports_is_a_notice_of_its_worker(kind: str) -> None:
    told = tuple(reported_notices([host(f"{kind}@1763740000")], [worker()]))
    assert told == (Interruption("i-1", 1763740000.0, kind),)


@pytest.mark.parametrize(
    "told", ("none", "", "terminate", "terminate@soon", "reboot@1763740000", "terminate@1763740000x")
)
def test_another_text_is_no_notice(told: str) -> None:
    assert tuple(reported_notices([host(told)], [worker()])) == ()


def test_what_a_silent_host_said_last_is_no_notice() -> None:
    assert tuple(reported_notices([host("terminate@1763740000", heard=False)], [worker()])) == ()


def test_a_host_that_is_no_worker_of_ours_gives_none() -> None:
    other = ExecutionHost("w2", load={COMPLEX: "terminate@1763740000"})
    assert tuple(reported_notices([other], [worker()])) == ()


def test_a_machine_that_has_ended_gives_none() -> None:
    assert tuple(reported_notices([host("terminate@1763740000")], [worker(MachineState.TERMINATED)])) == ()
