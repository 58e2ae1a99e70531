"""Callers in a real cell: requested workers are launched, stay while they are requested, and leave."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.waiting import Until
from tests.jetpack.test_guide_examples import CORES, DYNAMIC, IMPORT

PROGRAM = str(Path(sys.executable).with_name("sge-autoscaler"))
LARGE = {"CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.16xlarge", "CP_CAP_AUTOSCALE_WORKERS": "6"}
"""64 vCPUs: 128 of them are two workers."""


def script(scaling: Autoscaling, text: str) -> None:
    """Run a caller's script on the master."""
    done = scaling.cell.runner((sys.executable, "-c", IMPORT + text), timeout=60.0, env=scaling.environment)
    assert done.returncode == 0, done.stderr.decode()


def serving(scaling: Autoscaling) -> Counter[str]:
    """How many workers of each node array take jobs."""
    open_hosts = {each.host for each in scaling.instances().values() if not each.states and each.slots}
    return Counter(one.node_array for one in scaling.lifetimes() if one.name in open_hosts and one.ended_at is None)


def document_of(scaling: Autoscaling, *words: str) -> dict[str, Any]:
    """The document that a command prints."""
    done = scaling.command(*words, "--json")
    assert done.returncode == 0, done.stderr.decode()
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_requests_of_commands_and_scripts_add_up_and_workers_leave_as_each_request_ends(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """The idle timeout is half a second: workers stay only because they are requested. The command runs before any
    autoscaler runs; the second script no longer names the array that the first one made.
    """
    scaling = Autoscaling(empty_cell, LARGE)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    early = document_of(scaling, "autoscale", "--name=execute", "--count=1", "--request-set=early", "--expiration=1h")
    with scaling.running():
        until(lambda: list(scaling.state.glob("*.sock")), 20)
        script(scaling, DYNAMIC)
        until(lambda: serving(scaling) == {"execute": 3, "dynamic_array": 3}, 40)
        (one, *_) = [life.name for life in scaling.lifetimes() if life.name and life.node_array == "dynamic_array"]
        asked = empty_cell.tree.host_runner(one)(
            (PROGRAM, "worker", "config", "get", "application_version"), timeout=120.0
        )
        script(scaling, CORES)
        scaling.command("requests", "--end", "early")
        until(lambda: serving(scaling) == {"execute": 2} and len(scaling.rented()) == 2, 30)
        late = document_of(scaling, "requests")
    assert (early["note"][:13], asked.stdout.decode().strip(), [each["name"] for each in late["request_sets"]]) == (
        "no autoscaler",
        "1.2.3",
        ["standard"],
    )
