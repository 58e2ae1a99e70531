"""Which row of the table of transitions each step of a pass has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from autoscaler.core.actions import Action
from autoscaler.core.outcome import outcome as planning
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.transitions import RULES, SHOWN
from autoscaler.core.workers.drain import WAY_OUT
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Phase
from autoscaler.core.workers.step import Transition, WorkerStep
from autoscaler.core.workers.worker_observation import observe_workers


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


def by_its_row(step: WorkerStep) -> bool:
    """Whether the row that took the step has what it does: its action, or none where that waits, and why."""
    row = step.row
    if row is None or step.worker.phase not in row.sources:
        return False
    if step.action is None:
        return True
    codes = {code for row in rows_of(step) for code in row.reasons}
    return type(step.action) is row.action and (not codes or step.verdict.reason.code in codes)


def rows_of(step: WorkerStep) -> list[Transition[Any]]:
    """The row that took the step, and where it is one of the way out, those of its rule that lead there."""
    ours = [rule for rule in RULES[step.worker.procedure] if rule.name == step.rule]
    led = [row for rule in ours for row in rule.rows if row.way_out]
    own = [row for rule in ours for row in rule.rows if row is step.row]
    assert own or (led and any(row is step.row for rule in WAY_OUT for row in rule.rows))
    return own or [*led, *([step.row] if step.row else [])]


def described(step: WorkerStep) -> str:
    action = type(step.action).__name__ if step.action else "no action"
    worker = step.worker
    when = step.row.when if step.row else "no row"
    why = step.verdict.reason.code
    return f"{worker.procedure}/{step.rule} ({when}): {worker.phase} {worker.decisive} {action} {why}"


def phases_after(step: WorkerStep) -> frozenset[Phase]:
    """The phases that its worker may be in when it is observed next: by the step, or by what happens meanwhile."""
    assert step.row is not None
    found = {step.worker.phase, *([step.row.to] if step.row.to is not None else [])}
    while more := {row.to for row in SHOWN if row.to is not None and not found.isdisjoint(row.sources)} - found:
        found |= more
    return frozenset(found)
