"""Runs of the platform as real hosts: of a namespace tree, with an `sge_execd`, that enrol themselves in the cell.

On the platform the image does this: it makes itself an execution host at the master, disabled, and starts its execd.
Then the platform runs the run's command, with the run's parameters in its environment.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from shlex import quote

from autoscaler.commands.context import Invocation
from autoscaler.commands.serving import worker_boot
from autoscaler.process import SystemRunner
from autoscaler.providers.catalog import load_catalog
from autoscaler.sge.admin import Administrator
from tests.clouds.cloud_pipeline.platform import Platform, Run
from tests.clouds.machines import RealHosts


def container(run: Run, parameters: dict[str, str]) -> str:
    """What the platform does once the image is up, which has no record of the worker yet."""
    environment = "".join(
        f"export {name}={quote(value)}\n" for name, value in (parameters | {"RUN_ID": str(run.id)}).items()
    )
    command = quote(run.asked["cmdTemplate"])
    return f"""
rm -f "$WORKER_ETC/worker.conf" "$WORKER_BIN/jetpack"
unset WORKER_ID
{environment}echo "Command text: "{command}
setsid --fork bash -c {command}
"""


def rent_out_hosts(platform: Platform, tree: Path) -> Path:
    """Let every run that is launched be a host of the tree whose master this process is on.

    Returns the hosts file of that master in which the autoscaler may write.
    """
    hosts, grid_engine = RealHosts.of(tree), Administrator(SystemRunner(), timeout=60.0)
    script, types = worker_boot(Invocation(os.environ), "execute").script(), load_catalog().types
    hosts_file = Path(os.environ["HOME"]) / "hosts"
    hosts_file.write_text("")

    def running(run: Run) -> None:
        parameters = {name: parameter["value"] for name, parameter in run.asked["params"].items()}
        kind = types[run.asked["instanceType"]]
        run.never_set_up = True
        run.pod = hosts.free_name()
        run.address = hosts.start(run.pod, "", kind.name, script + container(run, parameters))
        threading.Thread(target=lambda: enrol(run, parameters, kind.vcpus), daemon=True).start()

    def enrol(run: Run, parameters: dict[str, str], slots: int) -> None:
        grid_engine.enrol(run.pod, parameters["CP_CAP_SGE_QUEUE_NAME"], parameters["CP_CAP_SGE_HOSTLIST_NAME"], slots)
        for role in ("-as", "-ah"):  # shell/sge_setup_worker makes it a submit and an administrative host, too
            grid_engine.configure(role, run.pod)
        run.never_set_up = False

    platform.on_running = running
    platform.on_ended = lambda run: hosts.end(run.pod)
    return hosts_file
