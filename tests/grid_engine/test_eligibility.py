"""Jobs that could not start even on a free host launch nothing, and have a reason."""

from __future__ import annotations

import time

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

MANY = {"CP_CAP_AUTOSCALE_WORKERS": "10", "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "10"}


@pytest.mark.thorough
def test_held_future_and_limited_tasks_launch_no_more_workers_than_they_can_use(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, MANY)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)
    tomorrow = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + 86_400))
    held, future = gate.submit("-h", "-t", "1:20"), gate.submit("-a", tomorrow)
    limited = gate.submit("-t", "1:4", "-tc", "2")

    with autoscaling.running():
        until(lambda: sum(autoscaling.running_on(limited).values()) == 2, 30, "two tasks did not run")
        explained = {job: autoscaling.explained(job)["waiting"] for job in (held, future, limited)}
        gate.open()
        until(lambda: autoscaling.ended_well(limited, tasks=4), 30, "the four tasks did not end well")
        until(autoscaling.all_gone, 30, "the worker did not leave")

    codes = {job: {(row["counted"], row["reason"]["code"]) for row in rows} for job, rows in explained.items()}
    assert codes == {held: {(False, "HELD")}, future: {(False, "FUTURE")}, limited: {(False, "BEYOND_CONCURRENCY")}}
    assert len(autoscaling.lifetimes()) == 1
