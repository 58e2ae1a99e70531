"""Callers in a real cell: what they ask for comes, stays as long as it is asked for, and goes."""

from __future__ import annotations

import json
import sys
import time

from sge.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, told
from tests.grid_engine.waiting import Until

SCRIPT = """
import sys
from autoscaler import jetpack
jetpack.autoscale.update([{"Name": "execute", "TargetCoreCount": 3}], request_set="script")
"""


def enabled(scaling: Autoscaling) -> set[str]:
    """Workers that take jobs."""
    return {instance.host for instance in scaling.instances().values() if not instance.states and instance.slots}


def test_workers_come_by_a_command_and_by_a_script_and_go_when_nobody_asks_any_more(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """One by the command, two for the script's three vCPUs: sets add up. What is idle stays as long as it is wanted."""
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: told(scaling)
    with scaling.running():
        until(lambda: list(scaling.state.glob("*.sock")), 20)
        asked = scaling.command("autoscale", "--name=execute", "--count=1", "--expiration=60s", "--json")
        assert json.loads(asked.stdout)["note"] == ""
        scripted = empty_cell.runner((sys.executable, "-c", SCRIPT), timeout=30.0, env=scaling.environment)
        assert scripted.returncode == 0, scripted.stderr.decode()
        workers = until(lambda: enabled(scaling) if len(enabled(scaling)) == 3 else set(), 30)
        shown = json.loads(scaling.command("requests", "--json").stdout)
        time.sleep(1.0)  # twice the idle timeout: nothing to wait for
        assert (enabled(scaling), [one["name"] for one in shown["request_sets"]]) == (workers, ["script", "standard"])
        scaling.command("requests", "--end", "script")
        until(lambda: len(scaling.rented()) == 1, 20)
        scaling.command("autoscale", "--name=execute", "--count=0")
        until(scaling.all_gone, 20)
    assert len(scaling.lifetimes()) == 3
