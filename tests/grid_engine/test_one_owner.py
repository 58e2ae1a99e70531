"""One plain user of a real cell does not change what another one gets."""

from __future__ import annotations

from autoscaler.lab.cell import Cell
from tests.grid_engine.autoscaling import Autoscaling
from tests.grid_engine.evidence import Shown, log_and_journal
from tests.grid_engine.test_access import submitted_by
from tests.grid_engine.test_deadlock import CALM, Passes, kinds, waiting
from tests.grid_engine.waiting import Until

EVE, MAL, ANN = ("games", "60"), ("man", "12"), ("daemon", "1")
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


def test_jobs_of_plain_users_that_are_deleted_as_machines_come_stop_nothing_for_another_and_are_paid_for(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """Their launches use up the window's limit, and their removals exceed it. Nobody else waits, and what was rented
    counts for the budget of the user for whom it was ordered.
    """
    limits = {
        "CP_CAP_AUTOSCALE_WORKERS": "6",
        "CP_CAP_AUTOSCALE_SCALE_UP_BATCH_SIZE": "3",
        "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_LAUNCHES": "3",
        "CP_CAP_AUTOSCALE_CIRCUIT_BREAKER_REMOVALS": "2",
        "CP_CAP_AUTOSCALE_BUDGETS": "user:games=0.00005, user:daemon=1",
        "CP_CAP_AUTOSCALE_BUDGET_ACTION": "stop",
    }
    scaling = Autoscaling(empty_cell, limits)
    show_on_failure["autoscaler"] = lambda: log_and_journal(scaling)
    submitted_by(empty_cell, ANN, "-h")
    with scaling.running():
        for who, count in ((EVE, 3), (MAL, 1)):
            theirs = [submitted_by(empty_cell, who, "-pe", "local", "2") for _ in range(count)]
            until(lambda count=count: len(scaling.rented()) == count, 60, "nothing was rented for them")  # type: ignore[misc]
            empty_cell.out("qdel", *theirs)
            until(scaling.all_gone, 90, "their workers stay")
        own = submitted_by(empty_cell, ANN, "-pe", "local", "2")
        until(lambda: scaling.ended_well(own), 60, "the job of another did not run")
        until(scaling.all_gone, 60, "its worker stays")
        assert "circuit breaker" not in scaling.log_text()
    again = submitted_by(empty_cell, EVE, "-pe", "local", "2")
    made = Passes(scaling).once()
    assert [action["kind"] for action in made["actions"] if action["kind"] == "launch"] == []
    assert "the budget of user games is spent" in str(scaling.explained(again)["waiting"])


def test_a_long_request_of_a_plain_user_is_read_in_turns_and_jobs_of_another_do_not_wait(
    empty_cell: Cell, until: Until, show_on_failure: Shown
) -> None:
    """`-hold_jid` takes any number of names, and `qstat -r` prints each in an element of its own: 60,000 are 4 MB."""
    scaling = Autoscaling(empty_cell)
    show_on_failure["autoscaler"] = scaling.log_text
    options = empty_cell.output / "options"
    options.write_text("-hold_jid " + ",".join(f"no{number:06d}" for number in range(60_000)))
    submitted_by(empty_cell, ANN, "-h")
    long = submitted_by(empty_cell, EVE, "-h", "-@", str(options))

    with scaling.running():
        until(
            lambda: "the requests of jobs of games are too long" in scaling.log_text(), 60, "it reads all in every pass"
        )
        own = submitted_by(empty_cell, ANN, "-pe", "local", "2")
        until(lambda: scaling.ended_well(own), 60, "the job of another did not run")
        empty_cell.out("qdel", long)
        until(lambda: "qstat: as usual again" in scaling.log_text(), 60, "its owner is still read in turns")
