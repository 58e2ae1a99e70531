"""SIGKILL at any moment: started again, the autoscaler converges; no worker leaks, is lost or is launched twice."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal, machines, open_orders
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.waiting import Until

STARTED_AGAIN = ("sh", "-c", "until sge-autoscaler run; do sleep 0.2; done")
"""As a service manager does: after every end that is none of SIGTERM's."""


@pytest.mark.parametrize(
    ("program", "calls"),
    (
        pytest.param("nsenter", "*first_process.py*", id="while-an-order-is-sent"),
        pytest.param("nsenter", "*hostname ip-*", id="while-a-machine-is-half-made", marks=pytest.mark.thorough),
        pytest.param("qmod", "-e*", id="between-enrol-and-enable", marks=pytest.mark.thorough),
        pytest.param("qconf", "-de*", id="between-disable-and-terminate", marks=pytest.mark.thorough),
    ),
)
def test_a_kill_before_and_after_a_call_leaks_loses_and_duplicates_no_worker(
    program: str, calls: str, empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    before = StandIn(empty_cell, program)
    scaling = Autoscaling(empty_cell, {"PATH": before.path})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    before.kill_caller_around(calls)
    gate = Gate(empty_cell)
    job = gate.submit()
    with empty_cell.start(STARTED_AGAIN, env=scaling.environment, output=scaling.log):
        until(lambda: scaling.running_on(job), 40)
        in_service = (set(scaling.living()), scaling.rented(), scaling.execution_hosts())
        gate.open()
        until(scaling.all_gone, 40)
    (machine,) = machines(scaling)
    assert before.killed() == {"before", "after"}
    assert in_service == ({machine.name},) * 3
    assert scaling.ended_well(job)
    assert open_orders(scaling) == []
    assert [entry for entry in journal(scaling) if entry.result is None] == []
