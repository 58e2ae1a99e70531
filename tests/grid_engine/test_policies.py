"""An autoscale policy on a real cell: a worker joins ahead of any job, and the history has both."""

from __future__ import annotations

import json
from typing import Any

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

PREFIX = "CP_CAP_AUTOSCALE_POLICY_WARM_BUFFER_"
ALWAYS = {"CP_CAP_AUTOSCALE_POLICIES": "warm_buffer", f"{PREFIX}DAYS": "mon-sun", f"{PREFIX}COUNT": "1"}
ALWAYS |= {f"{PREFIX}BEGIN": "00:00", f"{PREFIX}END": "23:59:59.999"}


def began(autoscaling: Autoscaling) -> list[dict[str, Any]]:
    """The history, once any job has begun in it."""
    found = autoscaling.command("history", "--json", "--since", "10m")
    periods: list[dict[str, Any]] = json.loads(found.stdout)["periods"]
    return periods if any(period["began"] for period in periods) else []


def test_a_warm_buffer_worker_runs_a_job_and_the_history_records_both(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = autoscaling.log_text
    with autoscaling.running(**ALWAYS):
        until(lambda: [one for one in autoscaling.instances().values() if not one.states], 30, "a worker is in service")
        gate = Gate(empty_cell)
        job = gate.submit()
        until(lambda: f"(job {job} runs)" in autoscaling.log_text(), 20, "a pass saw it run")
        periods = until(lambda: began(autoscaling), 20, "the history knows of it")
        gate.open()
        assert "policy:warm_buffer: requested by policy" in autoscaling.command("requests").stdout.decode()
    targets = [period["arrays"].get("execute", {}).get("target_workers", 0) for period in periods]
    cost = sum(period["cost"] for period in periods)
    assert (max(targets), sum(period["began"] for period in periods), cost > 0) == (1, 1, True)
