"""`cost` on a real cell: shares of cost, over a killed worker, a restart and a lost store, add up to what the workers
cost.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoscaler.lab.cell import Cell
from autoscaler.providers.local import failures
from autoscaler.providers.local.machines import Records
from autoscaler.report.cost import WORKERS
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.test_access import GAMES, MAIL, a_project, submitted_by
from tests.grid_engine.test_lost import machine_of
from tests.grid_engine.waiting import Until

SETTINGS = {
    "CP_CAP_AUTOSCALE_WORKERS": "2",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "5",
    "CP_CAP_AUTOSCALE_BUDGET": "0.000001",
}


def cost(scaling: Autoscaling, by: str) -> dict[str, Any]:
    done = scaling.command("cost", "--by", by, "--json")
    assert done.returncode == 0, done.stderr.decode()
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def micros(scaling: Autoscaling, by: str) -> dict[str, int]:
    """Row → millionths, idle time included; they add up to the sum."""
    tables = cost(scaling, by)["currencies"]
    if not tables:
        return {}
    (table,) = tables
    found = {row["key"]: round(row["cost"] * 1e6) for row in table["rows"]}
    if by not in WORKERS:
        found |= {"(starting)": round(table["starting"] * 1e6), "(idle)": round(table["idle"] * 1e6)}
    assert sum(found.values()) == round(table["cost"] * 1e6)
    assert table["currency"] == "USD"
    return found


def rented(scaling: Autoscaling) -> dict[str, float]:
    """Worker → what it cost by the provider's records, until its termination."""
    machines = Records(scaling.cell.home / "machines").all()
    return {
        one.id: (one.ended_at - one.created_at) / 3600 * (one.price_per_hour or 0.0) * 1e6
        for one in machines
        if one.ended_at is not None
    }


def disabled(scaling: Autoscaling, host: str) -> bool:
    """Whether Grid Engine starts no job there, not even on a machine that is gone."""
    instance = scaling.instances().get(f"main.q@{host}")
    return instance is None or "d" in instance.states


@pytest.mark.thorough
def test_cost_by_user_adds_up_over_a_lost_worker_a_restart_and_a_lost_store(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling, gate = Autoscaling(empty_cell, SETTINGS), Gate(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    for project in ("wind", "sun"):
        a_project(empty_cell, project)
    with scaling.running():
        jobs = [
            submitted_by(empty_cell, who, "-P", project, seconds=3) for who, project in ((GAMES, "wind"), (MAIL, "sun"))
        ]
        until(lambda: all(scaling.ended_well(job) for job in jobs), 60, "the jobs did not run")
        until(lambda: {"wind", "sun"} <= micros(scaling, "project").keys(), 60, "accounting was not taken in")
        assert {"games", "mail"} <= micros(scaling, "user").keys()
        until(lambda: "the budget of the cell spent" in scaling.log_text(), 30, "the budget was not told")
        until(scaling.all_gone, 60, "the workers did not leave")
        ended = micros(scaling, "worker")
        assert ended.keys() == rented(scaling).keys()
        assert all(ended[worker] >= least - 1 for worker, least in rented(scaling).items())
        assert sum(ended.values()) == sum(micros(scaling, "user").values())
        # A worker is taken away with a job on it.
        held = gate.submit("-P", "wind")
        until(lambda: scaling.running_on(held), 60, "the job did not start")
        until(lambda: "root" in micros(scaling, "user"), 30, "the running job does not count")
        (host,) = scaling.running_on(held)
        failures.kill(machine_of(scaling, host), empty_cell.tree)
    with scaling.running():  # another process
        until(lambda: host not in scaling.living(), 60, "the lost worker is not known to be gone")
        until(lambda: disabled(scaling, host), 30, "the lost worker's free slot was not closed")
        assert micros(scaling, "worker").items() >= ended.items()
        assert micros(scaling, "job")[held] > 0
        again = Gate(empty_cell, "again").submit("-P", "sun")
        until(lambda: scaling.running_on(again), 60, "the second job did not start")
    living = {one.worker_id: one.created_at for one in scaling.lifetimes() if one.ended_at is None}
    for file in scaling.state.glob("*.sqlite*"):
        file.unlink()
    with scaling.running():
        until(lambda: living.keys() <= micros(scaling, "worker").keys(), 60, "its workers were not found again")
        assert {one.worker_id: one.created_at for one in scaling.lifetimes()}.items() >= living.items()
        assert cost(scaling, "user")["known_since"] is not None
        assert "root" in micros(scaling, "user")
        Gate(empty_cell, "again").open()
