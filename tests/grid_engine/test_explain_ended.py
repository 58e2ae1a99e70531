"""`explain` shows an ended job from its launch to its end."""

from __future__ import annotations

import json

import pytest

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.gate import Gate
from tests.grid_engine.waiting import Until


@pytest.mark.thorough
def test_explain_shows_an_ended_job_from_its_launch_to_its_end(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    gate = Gate(empty_cell)
    with scaling.running():
        job = gate.submit("-t", "1-2")
        until(lambda: len(scaling.running_on(job)) > 0, 40)
        gate.open()
        until(lambda: len(scaling.ends(job)) == 2, 40)
        story = scaling.explained(job)
        one = scaling.explained(f"{job}.2")
        none = scaling.command("explain", f"{job}.9")
    assert (story["state"], story["waiting"][0]["counted"]) == ("ended", True)
    assert [order["instance_type"] for order in story["launched"]][:1] == ["m5.large"]
    assert sorted((end["task"], end["how"]) for end in story["ended"]) == [
        ("1", "exit status 0"),
        ("2", "exit status 0"),
    ]
    assert [end["task"] for end in one["ended"]] == ["2"]
    assert (none.returncode, b"has no task 9" in none.stderr) == (3, True)


def test_a_job_is_explained_in_the_first_second_after_it_was_submitted(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, {"CP_CAP_AUTOSCALE_POLLING_DELAY": "30", "CP_CAP_AUTOSCALE_WORKERS": "0"})
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    with scaling.running():
        until(lambda: json.loads(scaling.command("status", "--json").stdout)["pass"] >= 1, 40)
        asked = [(job := empty_cell.submit("-b", "y", "sleep", "1"), scaling.command("explain", job)) for _ in range(3)]
        unknown = scaling.command("explain", str(int(asked[-1][0]) + 1))
    assert [(job, done.returncode, done.stderr) for job, done in asked if done.returncode] == []
    assert (unknown.returncode, b"neither waits nor runs" in unknown.stderr) == (3, True)
