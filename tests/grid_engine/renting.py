"""Machines of a real cell that boot by an order, without an autoscaler."""

from __future__ import annotations

from autoscaler.core.model.fleet import Bucket, BucketKey, Ending
from autoscaler.engine.boot_script import WorkerBoot
from autoscaler.lab.cell import Cell, ExecHost
from autoscaler.providers.catalog import load_catalog
from autoscaler.providers.interface import LaunchOrder
from autoscaler.providers.local.hosts import TreeHosts
from autoscaler.providers.local.provider import LocalProvider
from autoscaler.providers.local.settings import LocalSettings

HOURS = 3600.0


def worker_boot(cell: Cell) -> WorkerBoot:
    """What a worker of this cell boots with; one second is enough to join if the cell has enrolled it before."""
    return WorkerBoot(
        sge_root=str(cell.root),
        cell="default",
        master="master",
        master_address="",
        qmaster_port=int(cell.environment["SGE_QMASTER_PORT"]),
        execd_port=int(cell.environment["SGE_EXECD_PORT"]),
        bootstrap="",
        provider="local",
        join_within=HOURS,
        lease=HOURS,
        longest_lease=24 * HOURS,
        stays_after=1,
    )


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

    def log_text(self) -> str:
        return self.provider.console(self.id)

    def ending(self) -> Ending | None:
        """How it ended; None while it lives."""
        (worker,) = (worker for worker in self.provider.workers() if worker.id == self.id)
        return None if worker.exists else worker.ending

    def joined(self) -> bool:
        return "joined" in self.log_text()
