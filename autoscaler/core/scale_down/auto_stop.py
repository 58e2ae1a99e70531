"""What workers that asked to stop are told: that they do, or why not.

Judged with all others that may leave (`shrink`): whoever asked goes first, whatever its idle time, and only where
without it all that is needed, asked for and kept still holds. STOPS is durable: the worker's mark is stored with it,
and nothing lets it in again but a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from autoscaler.core.model.actions import Enable
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.core.workers.step import WorkerStep
from autoscaler.core.workers.worker_state import WorkerState

_TAKEN_OVER = frozenset({Disabling.IDLE, Disabling.ADVISED})
"""Drains for which it would be let in again, were it needed: not once it was told that it stops."""


def told_to_stop(step: WorkerStep, asking: Set[str]) -> WorkerStep:
    """The step of a worker that drains, as that of one that stops for good where it asked to."""
    if step.machine.worker.id not in asking or not step.machine.draining:
        return step
    being_let_in = isinstance(step.action, Enable) or step.note.enabled_at is not None
    if being_let_in or step.note.disabling not in _TAKEN_OVER:
        return step
    return replace(step, note=replace(step.note, disabling=Disabling.AUTO_STOP))


def remembering_who_asks(step: WorkerStep, asking: Set[str], now: float) -> WorkerStep:
    """A group leaves as a whole, and its workers ask one by one: that an idle one asked counts until all have.

    Who was let go with its group although a person enables it asks no more: else it were let go again at once.
    """
    machine = step.machine
    if machine.worker.id not in asking or not machine.worker.group_id or step.note.idle_since is None:
        return step
    if _undone_for_its_group(machine):
        return replace(step, note=replace(step.note, stop_undone=True))
    return replace(step, note=replace(step.note, asked_at=now))


def _undone_for_its_group(machine: WorkerState) -> bool:
    """Whether this look found enabled what we had disabled because its group leaves."""
    return machine.enabled_by_hand and machine.before is not None and machine.before.disabling is Disabling.GROUP


def answers(steps: Iterable[WorkerStep], asking: Set[str]) -> dict[str, tuple[AutoStopAnswer, Reason]]:
    """Of every worker that asks and is known: what it is told."""
    found: dict[str, tuple[AutoStopAnswer, Reason]] = {}
    for step in steps:
        worker_id = step.machine.worker.id
        if worker_id not in asking:
            continue
        if step.machine.going or step.machine.gone:  # nothing brings it back from there
            found[worker_id] = AutoStopAnswer.STOPS, step.verdict.reason
        elif step.note.disabling is Disabling.GROUP:
            leaves = because(Code.GROUP_LEAVES, group=step.machine.worker.group_id)
            found[worker_id] = AutoStopAnswer.STOPS, leaves
        elif step.note.disabling is Disabling.AUTO_STOP:
            found[worker_id] = AutoStopAnswer.STOPS, because(Code.ASKED_TO_STOP)
        else:
            found[worker_id] = AutoStopAnswer.STAYS, _why_it_stays(step.verdict.reason)
    return found


def _why_it_stays(reason: Reason) -> Reason:
    """Where it would stop but for a pause or the brake, that alone."""
    return reason.trail[-1] if reason.code is Code.ASKED_TO_STOP and reason.trail else reason
