"""What if an action fails, and the world moves on? The next pass decides as if it had never been planned."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from autoscaler.core.actions import Disable, Enable, Enrol, Launch, Remove
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.marks import FOR_GOOD
from tests.core.test_phases import REACHED
from tests.core.transition_rows import observed_in
from tests.core.worker_observations import MARKS, OURS, Observation, snapshot_of

REVOCABLE = (Disable, Enable, Enrol, Remove)
"""Terminate is not: its provider may carry it out whatever it answered. What is ordered, killed or rescheduled has a
journal, or attempts that are counted.
"""
LATER = 60.0
"""Seconds after which a failed action may be tried again."""
PLACES = ("open", "closed", "partly", "busy", "closed and busy")
COMBINED = [
    Observation(host=host, mark=mark, heard=heard, idle=4000.0, empty=300.0, disabled=disabled)
    for host, mark, heard, disabled in itertools.product(PLACES, MARKS, (True, False), (20.0, 4000.0))
]
SEEN = [
    seen
    for seen in [*(seen for _, _, seen in REACHED), *COMBINED]
    # Without a queue instance it counts as disabled anyway. A mark of an image has the time of the observation.
    if seen.host not in ("bare", "unqueued") and not seen.enrols_itself
    if seen.listed not in (MachineState.TERMINATED, "left out and gone")  # nothing depends on the order of its steps
]


def observed_notes(snapshot: Snapshot) -> Mapping[str, WorkerNote]:
    """What a pass remembers of workers that observes and plans nothing."""
    return {worker.worker.id: worker.note for worker in observed_in(snapshot).known}


def on_ours(made: Plan) -> list[tuple[str, str]]:
    """Launches, and what is done with the worker, with why."""
    return [
        (action.kind, action.reason.code)
        for action in made.actions
        if isinstance(action, Launch) or getattr(action, "worker_id", None) == OURS
    ]


@cache
def planned_by(seen: Observation) -> tuple[Plan, set[type]]:
    """The plan, and which revocable actions it has that change something."""
    made = plan(snapshot_of(seen))
    kinds = {type(each) for each in made.actions if isinstance(each, REVOCABLE) and each.worker_id == OURS}
    note = made.memory.workers.get(OURS)
    if note is None or note.disabling in FOR_GOOD:
        return made, set()
    disabled = seen.host in ("closed", "closed and busy", "reserved")
    if seen.fenced is not None and seen.mark is None:
        return made, set()  # the end of a fence is an effect of its own
    return made, kinds - {Disable if disabled else Enable}


@pytest.mark.parametrize("kind", REVOCABLE)
@pytest.mark.parametrize("override", ("", "drain", "keep"))
@pytest.mark.parametrize("waiting", (0, 5))
def test_after_a_failed_action_the_next_pass_decides_as_if_it_had_not_been_planned(
    kind: type, waiting: int, override: str
) -> None:
    judged = 0
    for seen in SEEN:
        made, kinds = planned_by(seen)
        if kind not in kinds:
            continue
        judged += 1
        first, moved_on = snapshot_of(seen), snapshot_of(replace(seen, waiting=waiting, override=override))
        then = replace(moved_on, now=first.now + LATER, memory=made.memory)
        unplanned = replace(then, memory=replace(made.memory, workers={**made.memory.workers, **observed_notes(first)}))
        assert on_ours(plan(then)) == on_ours(plan(unplanned)), (seen, made.actions)
    assert judged
