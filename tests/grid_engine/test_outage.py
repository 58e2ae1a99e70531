"""Without a complete observation nothing is done, which is logged once; the next complete one ends that."""

from __future__ import annotations

import re

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.stand_in import StandIn
from tests.grid_engine.waiting import Until
from tests.samples import sample

NOT_OBSERVABLE = "cannot observe Grid Engine or the provider, so nothing is done"
LONGER_THAN_THREE_POLLS = 4
HURRIED = {"CP_CAP_AUTOSCALE_POLLING_DELAY": "0.5", "CP_CAP_AUTOSCALE_GRID_ENGINE_TIMEOUT": "2"}
"""On a busy machine a command may time out once, so messages from before an outage are not counted."""


def test_while_qmaster_is_down_no_worker_is_launched_or_removed_and_jobs_run_on(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    qstat = StandIn(empty_cell, "qstat")
    scaling = Autoscaling(empty_cell, {"PATH": qstat.path, **HURRIED})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    job = gate.submit("-pe", "local", "2")
    with scaling.running():
        (worker,) = until(lambda: scaling.running_on(job), 40)
        waiting = gate.submit("-pe", "local", "2")
        before = scaling.log_text().count(NOT_OBSERVABLE)
        empty_cell.stop_qmaster()
        until(lambda: scaling.log_text().count(NOT_OBSERVABLE) > before)
        blind, calls = journal(scaling), len(qstat.calls())
        until(lambda: len(qstat.calls()) > calls + LONGER_THAN_THREE_POLLS)
        during = (scaling.log_text().count(NOT_OBSERVABLE) - before, journal(scaling))
        empty_cell.start_qmaster()
        (other,) = until(lambda: scaling.running_on(waiting), 40)
        lives = empty_cell.host_runner(worker)(("pgrep", "-f", str(gate.script)), timeout=60.0).returncode == 0
    assert during == (1, blind)
    attempts = re.findall(r"can be observed again after (\d+)", scaling.log_text())
    assert int(attempts[before]) > LONGER_THAN_THREE_POLLS
    assert (set(scaling.running_on(job)), lives) == ({worker}, True)
    assert scaling.rented() == {worker, other}


@pytest.mark.thorough
@pytest.mark.parametrize("answer", sample(("cut-off", "empty", "none"), "cut-off"))
def test_an_unusable_listing_is_not_an_empty_cluster(
    answer: str, empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    qstat = StandIn(empty_cell, "qstat")
    scaling = Autoscaling(empty_cell, {"PATH": qstat.path, **HURRIED})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    whole = empty_cell.out("qstat", "-u", "*", "-r", "-f", "-xml").encode()
    gate = Gate(empty_cell)
    job = gate.submit()
    with scaling.running():
        until(lambda: scaling.running_on(job), 40)
        before = scaling.log_text().count(NOT_OBSERVABLE)
        gate.open()  # an empty cluster would remove its worker
        match answer:
            case "cut-off":
                qstat.answer(whole[: len(whole) // 2])
            case "empty":
                qstat.answer(b"")
            case _:
                qstat.hang()
        until(lambda: scaling.log_text().count(NOT_OBSERVABLE) > before)
        blind, calls = journal(scaling), len(qstat.calls())
        until(lambda: len(qstat.calls()) > calls + 2)
        during = (scaling.log_text().count(NOT_OBSERVABLE) - before, journal(scaling), len(scaling.rented()))
        qstat.run_real_program()
        until(lambda: [entry.kind for entry in journal(scaling)[len(blind) :]][:1] == ["disable"], 40)
    assert during == (1, blind, 1)
    assert scaling.ended_well(job)
