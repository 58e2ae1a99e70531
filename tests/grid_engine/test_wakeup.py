"""Grid Engine's own events wake the loop: a submission is observed long before the next poll."""

import time

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Until

POLL = 60.0
"""Seconds: longer than the whole test may take, so that only an event can explain a launch."""


def test_a_submission_leads_to_a_launch_before_the_next_poll(empty_cell: Cell, until: Until) -> None:
    autoscaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_POLLING_DELAY": str(POLL)})
    with autoscaling.running():
        until(lambda: "no job waits" in autoscaling.log_text(), 20, "the first pass was over")
        submitted = time.monotonic()
        empty_cell.submit("-b", "y", "sleep", "1")
        until(lambda: "launching 1 m5.large" in autoscaling.log_text(), POLL / 2, "the launch was ordered")
        print(f"from qsub to the launch order: {time.monotonic() - submitted:.1f} s")


def test_a_worker_is_ready_before_the_next_poll(empty_cell: Cell, until: Until) -> None:
    """No event is sent when a machine has booted, or when its execd reports to qmaster."""
    autoscaling = Autoscaling(
        empty_cell, {"CP_CAP_AUTOSCALE_POLLING_DELAY": str(POLL), "CP_CAP_AUTOSCALE_LOCAL_BOOT_DELAY": "2"}
    )
    with autoscaling.running():
        until(lambda: "no job waits" in autoscaling.log_text(), 20, "the first pass was over")
        job = empty_cell.submit("-b", "y", "sleep", "0")
        until(lambda: autoscaling.ended_well(job), POLL - 10, "the job ran before any poll")
