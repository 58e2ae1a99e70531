"""Which row of the table of transitions each step of a pass has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from autoscaler.core.model.actions import Action
from autoscaler.core.outcome import outcome as planning
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.transitions import SHOWN, TRANSITIONS, Transition
from autoscaler.core.workers.observed import ObservedWorkers, observe_workers
from autoscaler.core.workers.phases import Phase
from autoscaler.core.workers.step import WorkerStep


def observed_in(snapshot: Snapshot) -> ObservedWorkers:
    return observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)


@contextmanager
def recorded_steps() -> Iterator[list[WorkerStep]]:
    """The steps of all passes that are planned meanwhile."""
    taken: list[WorkerStep] = []
    sort_actions = planning._actions

    def actions(steps: Sequence[WorkerStep], *more: Any) -> tuple[Action, ...]:
        taken.extend(steps)
        return sort_actions(steps, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_actions", actions)
        yield taken


def steps_of(snapshot: Snapshot) -> list[WorkerStep]:
    """Every worker's step in a pass."""
    with recorded_steps() as taken:
        plan(snapshot)
    return taken


def rows_for(step: WorkerStep) -> list[Transition]:
    machine = step.machine
    return [
        row
        for row in TRANSITIONS
        if (row.procedure, row.rule) == (machine.procedure, step.rule) and machine.phase in row.sources
        if row.action is (None if step.action is None else type(step.action))
        if not row.reasons or step.verdict.reason.code in row.reasons
    ]


def told(step: WorkerStep) -> str:
    action = type(step.action).__name__ if step.action else "no action"
    machine = step.machine
    return f"{machine.procedure}/{step.rule}: {machine.phase} {machine.decisive} {action} {step.verdict.reason.code}"


def phases_after(step: WorkerStep) -> frozenset[Phase]:
    """The phases that its worker may be in when it is observed next: by the step, or by what happens meanwhile."""
    found = {step.machine.phase, *(row.to for row in rows_for(step) if row.to is not None)}
    while more := {row.to for row in SHOWN if row.to is not None and not found.isdisjoint(row.sources)} - found:
        found |= more
    return frozenset(found)
