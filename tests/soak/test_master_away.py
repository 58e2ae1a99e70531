"""A qmaster outage many leases long: the test takes a minute, half of which an execd needs to come back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.renting import Rented, worker_boot
from tests.grid_engine.waiting import wait_until


@pytest.fixture
def cell() -> Iterator[Cell]:
    with Cell.up(scheduler={"schedule_interval": "0:0:1"}) as cell:
        yield cell


def test_a_job_that_ends_during_a_qmaster_outage_is_in_accounting_afterwards(cell: Cell) -> None:
    """Its shepherd is gone long before, and the worker is without a qmaster for many leases."""
    worker = Rented(cell, replace(worker_boot(cell), lease=1))
    job = cell.submit("-b", "y", "sleep", "2")
    wait_until(lambda: worker.joined() and Autoscaling(cell).running_on(job))
    cell.stop_qmaster()
    away = time.monotonic() + 15.0
    wait_until(lambda: time.monotonic() > away, 20.0)
    cell.start_qmaster()
    wait_until(lambda: Autoscaling(cell).ended_well(job), 90.0)
    assert worker.ending() is None
