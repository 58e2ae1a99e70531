"""The one allowed worker is too weak for the waiting jobs: it is swapped for a stronger one, never with a job on it."""

from __future__ import annotations

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling, most_at_once
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Shown, Until

ONE_WORKER = {
    "CP_CAP_AUTOSCALE_HYBRID": "true",
    "CP_CAP_AUTOSCALE_INSTANCE_TYPE": "m5.large",
    "CP_CAP_AUTOSCALE_WORKERS": "1",
    "CP_CAP_AUTOSCALE_IDLE_TIMEOUT": "600",
}
"""It would stay for its idle timeout: whatever leaves here leaves for a swap."""
FOUR_SLOTS = ("-pe", "local", "4")


def weak_worker(autoscaling: Autoscaling, gate: Gate, until: Until) -> tuple[str, str]:
    """A job of one slot, and the worker of two that was rented for it."""
    job = gate.submit()
    (host,) = until(lambda: autoscaling.running_on(job), 30, "the small job did not start")
    return job, host


def disabled(autoscaling: Autoscaling, host: str) -> bool:
    return "d" in autoscaling.instances()[f"main.q@{host}"].states


@pytest.mark.thorough
def test_an_idle_weak_worker_is_swapped_for_a_stronger_one(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, ONE_WORKER)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)

    with autoscaling.running():
        small, _ = weak_worker(autoscaling, gate, until)
        gate.open()
        until(lambda: autoscaling.ended_well(small), 30, "the small job did not end well")
        large = gate.submit(*FOUR_SLOTS)
        until(lambda: autoscaling.ended_well(large), 30, "the large job did not end well")

    weak, strong = sorted(autoscaling.lifetimes(), key=lambda one: one.created_at)
    assert (weak.instance_type, strong.instance_type) == ("m5.large", "m5.xlarge")
    assert (weak.ended_at or strong.created_at + 1) <= strong.created_at
    assert f"disabling {weak.name} (a stronger worker replaces it: m5.xlarge" in autoscaling.log_text()


def test_a_busy_weak_worker_is_drained_before_the_swap(empty_cell: Cell, until: Until, show_on_failure: Shown) -> None:
    autoscaling = Autoscaling(empty_cell, ONE_WORKER)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)

    with autoscaling.running():
        small, host = weak_worker(autoscaling, gate, until)
        large = gate.submit(*FOUR_SLOTS)
        until(lambda: disabled(autoscaling, host), 30, "the busy worker was not disabled")
        late = gate.submit()
        meanwhile = (autoscaling.rented(), autoscaling.running_on(small), autoscaling.running_on(late))
        gate.open()
        until(lambda: all(map(autoscaling.ended_well, (small, large, late))), 30, "the jobs did not end well")

    assert meanwhile == ({host}, {host: 1}, {})
    assert [one.instance_type for one in sorted(autoscaling.lifetimes(), key=lambda one: one.created_at)] == [
        "m5.large",
        "m5.xlarge",
    ]
    assert most_at_once(autoscaling.lifetimes()) == 1


@pytest.mark.thorough
def test_a_worker_disabled_for_a_swap_is_enabled_when_the_swap_is_no_longer_needed(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    autoscaling = Autoscaling(empty_cell, ONE_WORKER)
    show_on_failure["autoscaler"] = autoscaling.log_text
    gate = Gate(empty_cell)

    with autoscaling.running():
        small, host = weak_worker(autoscaling, gate, until)
        large = gate.submit(*FOUR_SLOTS)
        until(lambda: disabled(autoscaling, host), 30, "the busy worker was not disabled")
        empty_cell.out("qdel", large)
        until(lambda: not disabled(autoscaling, host), 30, "it was not enabled again")
        other = gate.submit()
        until(lambda: autoscaling.running_on(other) == {host: 1}, 30, "no further job started on it")
        gate.open()
        until(lambda: autoscaling.ended_well(small) and autoscaling.ended_well(other), 30, "a job did not end well")

    assert [one.name for one in autoscaling.lifetimes()] == [host]
    assert autoscaling.running_on(small) == {}
