"""A machine that no setting knows any more is listed, not terminated while it runs a job, and terminated by command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, journal, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until

SECOND = {
    "CP_CAP_SGE_MASTER_CORES": "0",
    "CP_CAP_SGE_QUEUE_NAME_1": "second.q",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.large",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT_1": "0",
}
"""A queue that the settings no longer name."""


def orphans(scaling: Autoscaling) -> list[dict[str, Any]]:
    done = scaling.command("orphans", "--json")
    assert done.returncode == 0, done.stderr.decode()
    rows: list[dict[str, Any]] = json.loads(done.stdout)["orphans"]
    return rows


@pytest.mark.thorough
def test_an_orphan_is_terminated_by_command_and_never_with_a_job_on_it(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    before, now = Autoscaling(empty_cell, SECOND), Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(before)
    assert before.command("init", "--yes", "--apply", "@allhosts").returncode == 0
    gate = Gate(empty_cell)
    job = gate.submit("-q", "second.q")
    with before.running():
        until(lambda: before.running_on(job), 40)
    (orphan,) = orphans(now)
    refused = now.command("orphans", "--end", orphan["id"], "--yes")
    states_after_refusal = now.instances()[f"second.q@{orphan['host']}"].states
    gate.open()
    until(lambda: before.ended_well(job))
    ended = now.command("orphans", "--end", orphan["id"], "--yes")
    assert (orphan["reason"]["code"], orphan["node_array"], orphan["busy"]) == ("UNKNOWN_NODE_ARRAY", "execute_1", True)
    assert (refused.returncode, b"runs jobs" in refused.stderr, states_after_refusal) == (1, True, "")
    # No autoscaler runs here, and the command says so: nothing else is wrong.
    assert ended.returncode == 0
    assert all(line.startswith(b"no autoscaler serves cell") for line in ended.stderr.splitlines())
    assert (now.rented(), orphan["host"] in now.execution_hosts(), orphans(now)) == (set(), False, [])
    assert [(entry.kind, entry.result) for entry in journal(now)][-2:] == [
        ("terminate", "failed"),
        ("terminate", "done"),
    ]
