"""Several autoscaled queues on one real cell, served by one process, each with its own workers."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

SECOND = {
    "CP_CAP_SGE_MASTER_CORES": "0",
    "CP_CAP_SGE_QUEUE_NAME_1": "second.q",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE_1": "c5.large",
    "CP_CAP_AUTOSCALE_WORKERS_1": "1",
    "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT_1": "0",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT_1": "0.5",
}


def test_each_queue_gets_its_own_workers_which_never_run_jobs_of_the_other(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, {**SECOND, "CP_CAP_AUTOSCALE_WORKERS": "1"})
    show_on_failure["autoscaler"] = autoscaling.log_text
    assert autoscaling.command("init", "--yes", "--apply", "@allhosts").returncode == 0
    gate = Gate(empty_cell)
    first, second = gate.submit("-q", "main.q"), gate.submit("-q", "second.q")
    more = gate.submit("-q", "main.q", "-t", "1:2")

    with autoscaling.running():
        until(lambda: autoscaling.running_on(first) and autoscaling.running_on(second), 30, "they did not both start")
        hosts = {one.node_array: one.name for one in autoscaling.lifetimes()}
        types = {one.node_array: one.instance_type for one in autoscaling.lifetimes()}
        assert types == {"execute": "m5.large", "execute_1": "c5.large"}
        assert autoscaling.running_on(first) == {hosts["execute"]: 1}
        assert autoscaling.running_on(second) == {hosts["execute_1"]: 1}
        assert autoscaling.running_on(more) == {hosts["execute"]: 1}
        gate.open()
        until(lambda: autoscaling.ended_well(more, tasks=2), 30, "the other tasks did not end well")
        until(autoscaling.all_gone, 30, "the workers did not leave")

    assert {end.host for job in (first, more) for end in autoscaling.ends(job)} == {hosts["execute"]}
    assert {end.host for end in autoscaling.ends(second)} == {hosts["execute_1"]}


@pytest.mark.thorough
def test_two_queues_share_the_limit_of_the_whole_cell(empty_cell: Cell, until: Until, show_on_failure: Shown) -> None:
    """Each might cost 0.1 an hour, which pays for one worker; so does the cell, so one follows the other."""
    prices = {"CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR": "0.1", "CP_CAP_AUTOSCALE_MAX_PRICE_PER_HOUR_1": "0.1"}
    total = {"CP_CAP_AUTOSCALE_TOTAL_PRICE_PER_HOUR": "0.1"}
    autoscaling = Autoscaling(empty_cell, {**SECOND, **prices, **total})
    show_on_failure["autoscaler"] = autoscaling.log_text
    assert autoscaling.command("init", "--yes", "--apply", "@allhosts").returncode == 0
    gate = Gate(empty_cell)
    jobs = [gate.submit("-q", "main.q"), gate.submit("-q", "second.q")]

    with autoscaling.running():
        until(lambda: any(autoscaling.running_on(job) for job in jobs), 30, "none of them started")
        until(lambda: "total_price_per_hour" in autoscaling.log_text(), 30, "the limit was not logged")
        gate.open()
        until(lambda: all(autoscaling.ended_well(job) for job in jobs), 60, "they did not both end well")
        until(autoscaling.all_gone, 30, "the workers did not leave")

    first, second = sorted(autoscaling.lifetimes(), key=lambda one: one.created_at)
    assert {first.node_array, second.node_array} == {"execute", "execute_1"}
    assert first.ended_at is not None
    assert second.created_at >= first.ended_at, "never two at a time"
