"""A worker whose master is unreachable: the machine ends itself when its lease is over, and no job is lost before.

Durations are seconds here that are hours elsewhere; the script that every worker gets counts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoscaler.core.model.fleet import Ending
from autoscaler.engine.boot_script import WorkerBoot
from autoscaler.lab.cell import Cell, ExecHost
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.renting import Rented, worker_boot
from tests.grid_engine.waiting import Shown, Until

Rent = Callable[..., Rented]


@pytest.fixture
def boot(empty_cell: Cell) -> WorkerBoot:
    return worker_boot(empty_cell)


@pytest.fixture
def rent(empty_cell: Cell, show_on_failure: Shown) -> Rent:
    def rent(boot: WorkerBoot, *, known: bool = True) -> Rented:
        rented = Rented(empty_cell, boot, known=known)
        show_on_failure["console"] = rented.log_text
        return rented

    return rent


def test_a_worker_that_never_joins_ends_itself(rent: Rent, boot: WorkerBoot, until: Until) -> None:
    worker = rent(replace(boot, join_within=2), known=False)
    until(lambda: worker.ending() is Ending.RELEASED)
    assert "no qmaster took it" in worker.log_text()


@pytest.mark.thorough
def test_a_worker_joins_even_if_it_is_enrolled_late(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    """Its first sge_execd was denied and has ended by then."""
    worker = rent(replace(boot, stays_after=10), known=False)
    until(lambda: "denied" in worker.log_text())
    runner = empty_cell.host_runner(worker.name)
    until(lambda: runner(("pgrep", "sge_execd"), timeout=60.0).returncode == 1)
    empty_cell.enrol(ExecHost(worker.name, 2))
    until(lambda: "load_avg=" in empty_cell.out("qconf", "-se", worker.name))


@pytest.mark.thorough
def test_an_idle_worker_without_a_master_ends_itself_after_its_lease(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    worker = rent(replace(boot, lease=2))
    until(worker.joined)
    empty_cell.stop_qmaster()
    until(lambda: worker.ending() is Ending.RELEASED)
    assert "no qmaster for 2 s, and no job" in worker.log_text()


@pytest.mark.thorough
def test_a_worker_that_reaches_its_master_does_not_end_itself_while_idle(
    rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    worker = rent(replace(boot, lease=1))
    until(worker.joined)
    later = worker.provider.clock() + 3.0
    until(lambda: worker.provider.clock() > later)
    assert worker.ending() is None


@pytest.mark.thorough
def test_a_worker_does_not_end_itself_before_it_has_reported_the_end_of_its_job(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    """The job's processes are gone by then. The master, back again, gets its report 30 s later."""
    worker = rent(replace(boot, lease=1))
    gate = Gate(empty_cell)
    job = gate.submit()
    until(lambda: worker.joined() and Autoscaling(empty_cell).running_on(job))
    empty_cell.stop_qmaster()
    gate.open()
    runner = empty_cell.host_runner(worker.name)
    until(lambda: runner(("pgrep", "sge_shepherd"), timeout=60.0).returncode == 1)
    later = worker.provider.clock() + 3.0
    until(lambda: worker.provider.clock() > later)
    assert worker.ending() is None
    empty_cell.start_qmaster()
    until(lambda: Autoscaling(empty_cell).ended_well(job), 60, "the end of the job was not reported")


@pytest.mark.thorough
def test_a_worker_with_a_job_ends_itself_after_its_longest_lease(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    worker = rent(replace(boot, lease=1, longest_lease=3))
    job = empty_cell.submit("-b", "y", "sleep", "60")
    until(lambda: worker.joined() and Autoscaling(empty_cell).running_on(job))
    empty_cell.stop_qmaster()
    until(lambda: worker.ending() is Ending.RELEASED)
    assert "no qmaster for 3 s:" in worker.log_text()
