"""A worker whose master is away: the machine ends itself when its lease is over, and no job is lost before.

Durations are seconds here that are hours elsewhere; who counts them is the script that every worker gets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoscaler.act.boot_script import WorkerBoot
from autoscaler.core.fleet import Bucket, BucketKey, Ending
from providers.catalog import load_catalog
from providers.interface import LaunchOrder
from providers.local.hosts import TreeHosts
from providers.local.provider import LocalProvider
from providers.local.settings import LocalSettings
from sge.cell import Cell, ExecHost
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.waiting import Shown, Until

HOURS = 3600.0
Rent = Callable[..., "Rented"]


class Rented:
    """One machine that was ordered with a boot script of its own."""

    def __init__(self, cell: Cell, boot: WorkerBoot, *, known: bool = True) -> None:
        self.cell = cell
        settings = LocalSettings(network=cell.tree.directory, state=cell.home / "machines")
        hosts = TreeHosts(cell.tree)
        self.provider = LocalProvider(settings, cell="lease", hosts=hosts)
        self.name = hosts.free_names()[0]
        if known:
            cell.enrol(ExecHost(self.name, 2))
        kind = load_catalog().offers["m5.large"].type
        order = LaunchOrder("t", "o", "lease", "execute", (Bucket(BucketKey(kind.name), kind),), 1, boot.script())
        (self.id,) = self.provider.launch(order).ids

    def said(self) -> str:
        return self.provider.console(self.id)

    def ending(self) -> Ending | None:
        """How it ended; None while it lives."""
        (worker,) = (worker for worker in self.provider.workers() if worker.id == self.id)
        return None if worker.exists else worker.ending

    def joined(self) -> bool:
        return "joined" in self.said()


@pytest.fixture
def boot(empty_cell: Cell) -> WorkerBoot:
    environment = empty_cell.environment
    return WorkerBoot(
        sge_root=str(empty_cell.root),
        cell="default",
        master="master",
        master_address="",
        qmaster_port=int(environment["SGE_QMASTER_PORT"]),
        execd_port=int(environment["SGE_EXECD_PORT"]),
        bootstrap="",
        provider="local",
        join_within=HOURS,
        lease=HOURS,
        longest_lease=24 * HOURS,
        stays_after=1,
    )


@pytest.fixture
def rent(empty_cell: Cell, show_on_failure: Shown) -> Rent:
    def rent(boot: WorkerBoot, *, known: bool = True) -> Rented:
        rented = Rented(empty_cell, boot, known=known)
        show_on_failure["console"] = rented.said
        return rented

    return rent


def test_a_worker_that_no_master_takes_ends_itself(rent: Rent, boot: WorkerBoot, until: Until) -> None:
    worker = rent(replace(boot, join_within=2), known=False)
    until(lambda: worker.ending() is Ending.RELEASED)
    assert "no queue master took it" in worker.said()


def test_an_idle_worker_without_a_master_ends_itself_after_its_lease(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    worker = rent(replace(boot, lease=2))
    until(worker.joined)
    empty_cell.stop_qmaster()
    until(lambda: worker.ending() is Ending.RELEASED)
    assert "no queue master for 2 s, and no job" in worker.said()


def test_a_worker_that_sees_its_master_stays_however_long_it_is_idle(
    rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    worker = rent(replace(boot, lease=1))
    until(worker.joined)
    looks = worker.provider.clock() + 3.0
    until(lambda: worker.provider.clock() > looks)
    assert worker.ending() is None


def test_a_worker_keeps_the_end_of_a_job_that_it_could_not_tell_yet(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    """The job's processes are gone by then. The master, back again, hears of it 30 s later."""
    worker = rent(replace(boot, lease=1))
    job = empty_cell.submit("-b", "y", "sleep", "2")
    until(lambda: worker.joined() and Autoscaling(empty_cell).running_on(job))
    empty_cell.stop_qmaster()
    look = empty_cell.host_runner(worker.name)
    until(lambda: look(("pgrep", "sge_shepherd"), timeout=5.0).returncode == 1)
    later = worker.provider.clock() + 3.0
    until(lambda: worker.provider.clock() > later)
    assert worker.ending() is None


def test_a_worker_with_a_job_ends_itself_after_its_longest_lease(
    empty_cell: Cell, rent: Rent, boot: WorkerBoot, until: Until
) -> None:
    worker = rent(replace(boot, lease=1, longest_lease=3))
    job = empty_cell.submit("-b", "y", "sleep", "60")
    until(lambda: worker.joined() and Autoscaling(empty_cell).running_on(job))
    empty_cell.stop_qmaster()
    until(lambda: worker.ending() is Ending.RELEASED)
    assert "no queue master for 3 s:" in worker.said()
