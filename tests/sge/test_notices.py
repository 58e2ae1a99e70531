"""Interruption notices that workers report themselves, as a load value."""

from __future__ import annotations

import pytest

from autoscaler.core.model.cluster import ExecutionHost
from autoscaler.core.model.fleet import InstanceType, Interruption, MachineState, Worker
from autoscaler.sge.notices import COMPLEX, reported_notices

KIND = InstanceType("m5.large", "m5", 2, 8 << 30)


def worker(state: MachineState = MachineState.RUNNING) -> Worker:
    return Worker("i-1", KIND, "execute", state, 1.0, name="w1.ec2.internal")


def host(text: str, *, heard: bool = True) -> ExecutionHost:
    return ExecutionHost("w1", load={COMPLEX: text}, heard=heard)


@pytest.mark.parametrize("kind", ("terminate", "stop", "reboot", "rebalance"))
def test_the_load_value_of_a_host_is_an_interruption_notice_of_its_worker(kind: str) -> None:
    found = tuple(reported_notices([host(f"{kind}@1763740000")], [worker()]))
    assert found == (Interruption("i-1", 1763740000.0, kind),)


@pytest.mark.parametrize(
    "text", ("none", "", "terminate", "terminate@soon", "freeze@1763740000", "terminate@1763740000x")
)
def test_any_other_text_is_not_an_interruption_notice(text: str) -> None:
    assert tuple(reported_notices([host(text)], [worker()])) == ()


def test_the_last_load_value_of_a_silent_host_is_not_an_interruption_notice() -> None:
    assert tuple(reported_notices([host("terminate@1763740000", heard=False)], [worker()])) == ()


def test_a_host_that_is_not_our_worker_gives_no_interruption_notice() -> None:
    other = ExecutionHost("w2", load={COMPLEX: "terminate@1763740000"})
    assert tuple(reported_notices([other], [worker()])) == ()


def test_a_terminated_machine_gives_no_interruption_notice() -> None:
    assert tuple(reported_notices([host("terminate@1763740000")], [worker(MachineState.TERMINATED)])) == ()
