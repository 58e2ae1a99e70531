"""Why jobs wait, written to the context of real jobs: many by one command, and nothing else of them changes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest

from autoscaler.core.actions import TellWaiting
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.memory import Memory
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.lab.cell import Cell
from autoscaler.sge.cluster import cluster_from, read_outputs
from autoscaler.sge.events import find_qevent
from autoscaler.sge.qstat import COMMAND, read_qstat
from autoscaler.store.journal import Result
from tests.core.building import a_snapshot
from tests.grid_engine.test_job_actions import Acting
from tests.grid_engine.waiting import Until

LATER = 700.0
"""Seconds by which the clock of the plan is ahead: a job submitted now has waited for long."""
CLOSED = "the queue main.q is disabled by a person (sge-autoscaler explain JOB says more)"


@pytest.fixture
def acting(cell: Cell) -> Acting:
    return Acting(cell)


def all_of(job_categories: Sequence[JobCategory], _: object) -> list[int]:
    """`qstat -j` is asked about every job."""
    return [job for category in job_categories for job in category.jobs]


def waiting_actions(made: Plan) -> list[TellWaiting]:
    return [action for action in made.actions if isinstance(action, TellWaiting)]


def seen(cell: Cell, memory: Memory, later: float = LATER) -> Snapshot:
    """What a pass would observe of the cell so much later."""
    now = time.time() + later
    outputs, _ = read_outputs(cell.runner, wanted=all_of, zone=UTC)
    built = a_snapshot(now=now)
    return replace(
        built,
        cluster=cluster_from(outputs, zone=UTC, now=now),
        memory=memory,
        policy=replace(built.policy, job_context=True),
    )


def passed(acting: Acting, cell: Cell, memory: Memory, later: float = LATER) -> tuple[Plan, list[str]]:
    """A pass that carries out what it planned: the plan, and how many jobs each command was for."""
    made = plan(seen(cell, memory, later))
    found = waiting_actions(made)
    assert [acting(action)[0] for action in found] == [Result.DONE] * len(found)
    return made, [" ".join(action.jobs) for action in found]


def contexts(cell: Cell, job: str) -> dict[str, str]:
    """The variables of a job's context, as `qstat -j` shows them."""
    shown = re.search(r"^context: +(.*)$", cell.out("qstat", "-j", job), re.MULTILINE)
    return dict(part.split("=", 1) for part in shown[1].split(",")) if shown else {}


def test_waiting_jobs_get_the_reason_in_their_context_and_running_jobs_lose_it(
    cell: Cell, acting: Acting, until: Until
) -> None:
    cell.out("qmod", "-d", "main.q")
    plain = cell.submit("-b", "y", "-ac", "MINE=a=b,OTHER=x", "sleep", "1000")
    array = cell.submit("-t", "1-3", "-b", "y", "sleep", "1000")
    categories = read_qstat(cell.out(*COMMAND).encode(), UTC).job_categories

    first, found = passed(acting, cell, Memory())
    assert found == [f"{plain} {array}"]
    assert contexts(cell, plain) == {"MINE": "a=b", "OTHER": "x", "autoscaler": CLOSED}
    assert contexts(cell, array) == {"autoscaler": CLOSED}
    assert read_qstat(cell.out(*COMMAND).encode(), UTC).job_categories == categories

    second, found = passed(acting, cell, first.memory, LATER + 10)
    assert found == []

    cell.out("qmod", "-e", "main.q")
    until(lambda: " r " in cell.out("qstat", "-s", "r"), 30)
    until(lambda: cell.out("qstat", "-s", "r").count("\n") >= 2 + 4, 30)
    third, found = passed(acting, cell, second.memory, LATER + 20)
    assert found == [f"{plain} {array}"]
    assert (contexts(cell, plain), contexts(cell, array)) == ({"MINE": "a=b", "OTHER": "x"}, {})
    fourth, found = passed(acting, cell, third.memory, LATER + 30)
    assert (found, fourth.memory.waiting_notes) == ([], ())


def test_a_job_that_ended_meanwhile_does_not_fail_the_action(cell: Cell, acting: Acting) -> None:
    cell.out("qmod", "-d", "main.q")
    jobs = [cell.submit("-b", "y", "sleep", "1") for _ in range(3)]
    made = plan(seen(cell, Memory()))
    cell.out("qdel", jobs[1])
    (action,) = waiting_actions(made)
    assert acting(action) == (Result.DONE, f"gone already: {jobs[1]}")
    assert contexts(cell, jobs[2]) == {"autoscaler": CLOSED}


def test_writing_a_context_causes_no_event(cell: Cell, acting: Acting, until: Until, tmp_path: Path) -> None:
    """The submission afterwards is one: so qevent was listening."""
    cell.out("qmod", "-d", "main.q")
    cell.submit("-b", "y", "sleep", "1")
    received = cell.home / "received"
    received.touch()
    listening = cell.start((find_qevent(), "-ts"), env=cell.environment, output=received)
    try:
        until(lambda: "ECL_STATE" in received.read_text(), 40)
        before = events(received)
        passed(acting, cell, Memory())
        job = cell.submit("-b", "y", "sleep", "1")
        until(lambda: len(events(received)) > len(before), 40)
    finally:
        listening.terminate(10.0)
    assert [line.split(":")[0] for line in events(received)[len(before) :]] == [f"JOB_ADD ({job}.0"]


def events(received: Path) -> Sequence[str]:
    return [line for line in received.read_text().splitlines() if line.startswith("JOB_")]


@pytest.mark.parametrize(("allowed", "tried"), (("h,i,e,o,j,M,N,p,w", False), ("ac,h,i,e,o,j,M,N,p,w", True)))
def test_no_context_is_written_if_the_verifier_does_not_allow_it(
    cell: Cell, acting: Acting, allowed: str, tried: bool
) -> None:
    cell.out("qmod", "-d", "main.q")
    job = cell.submit("-b", "y", "sleep", "1")
    script = cell.home / "jsv"
    script.write_text("#!/bin/sh\nexec cat\n")
    script.chmod(0o755)
    cell.configure(jsv_url=f"script:{script}", jsv_allowed_mod=allowed)
    assert [action.kind for action in plan(seen(cell, Memory())).actions] == ["tell_waiting"] * tried
    refused = cell.runner(("qalter", "-ac", "autoscaler=x", job), timeout=60.0)
    assert (b"modified context" in refused.stdout + refused.stderr) is tried  # as Grid Engine itself has it
