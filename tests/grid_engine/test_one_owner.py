"""One plain user of a real cell does not change what another one gets."""

from __future__ import annotations

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.test_access import submitted_by
from tests.grid_engine.test_deadlock import CALM, Passes, kinds, waiting

EVE, ANN = ("games", "60"), ("daemon", "1")
SETTINGS = {**CALM, "CP_CAP_AUTOSCALE_SCALE_UP_TIMEOUT": "0", "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_KILLS": "2"}


def test_jobs_of_a_plain_user_that_can_never_run_stop_no_launch_for_another(
    empty_cell: Cell, show_on_failure: Shown
) -> None:
    scaling = Autoscaling(empty_cell, SETTINGS)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    passes = Passes(scaling)
    submitted_by(empty_cell, ANN, "-h")
    hostile = {submitted_by(empty_cell, EVE, "-pe", "local", "100") for _ in range(5)}
    made = passes.all(7)
    deleted = [job for actions in kinds(made) for kind, jobs in actions for job in jobs if kind == "kill"]
    assert len(deleted) == 2
    left = min(hostile - set(deleted), key=int)
    assert hostile & waiting(empty_cell) == hostile - set(deleted)
    assert "2 jobs of games were deleted or held within" in str(scaling.explained(left)["waiting"])

    own = submitted_by(empty_cell, ANN, "-pe", "local", "2")
    after = passes.once()
    assert [action["kind"] for action in after["actions"]] == ["launch"], own
    assert not any("circuit breaker" in note["text"] for note in after["notes"])
