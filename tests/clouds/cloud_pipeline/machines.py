"""Runs of the platform as real hosts: of a namespace tree, with an `sge_execd`, that enrol themselves in the cell.

On the platform the image does this: it makes itself an execution host at the master, disabled, and starts its execd.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from autoscaler.commands.context import Invocation
from autoscaler.commands.serving import boot_script
from autoscaler.core.fleet import Bucket, BucketKey
from autoscaler.namespaces import Tree
from autoscaler.process import SystemRunner
from providers.catalog import load_catalog
from providers.interface import LaunchOrder
from providers.local.provider import LocalProvider
from providers.local.settings import LocalSettings
from providers.settings import read_settings
from sge.admin import Administrator
from tests.clouds.cloud_pipeline.platform import Platform, Run

CELL = "platform"
NETWORK = "CP_CAP_AUTOSCALE_LOCAL_NETWORK"


def rent_out_hosts(platform: Platform, records: Path) -> None:
    """Let every run that is launched be a host of the tree that this process belongs to."""
    values = {NETWORK: os.environ[NETWORK], "CP_CAP_AUTOSCALE_LOCAL_STATE": str(records)}
    hosts = LocalProvider(read_settings(LocalSettings, values), cell=CELL)
    tree, grid_engine = Tree(Path(values[NETWORK])), Administrator(SystemRunner(), timeout=10.0)
    script = boot_script(Invocation(os.environ))("execute")
    ids: dict[int, str] = {}

    def running(run: Run) -> None:
        told = {name: parameter["value"] for name, parameter in run.asked["params"].items()}
        kind = load_catalog().offers[run.asked["instanceType"]].type
        bucket = Bucket(BucketKey(kind.name), kind)
        order = LaunchOrder(str(run.id), str(run.id), CELL, "execute", (bucket,), 1, script)
        run.never_set_up = True
        (ids[run.id],) = hosts.launch(order).ids
        run.pod = next(worker.name or "" for worker in hosts.workers() if worker.id == ids[run.id])
        run.address = tree.address(run.pod)
        threading.Thread(target=lambda: enrol(run, told, kind.vcpus), daemon=True).start()

    def enrol(run: Run, told: dict[str, str], slots: int) -> None:
        grid_engine.enrol(run.pod, told["CP_CAP_SGE_QUEUE_NAME"], told["CP_CAP_SGE_HOSTLIST_NAME"], slots)
        run.never_set_up = False

    platform.on_running = running
    platform.on_ended = lambda run: hosts.terminate([ids[run.id]])
