"""The answers to workers that asked to stop: that they stop, or why not.

They are judged with all others that may leave (`scale_down`). A worker that asked goes first, whatever its idle time,
but only if demand, requests and overrides do not need it. STOPS is durable: the worker's mark is stored with it, and
only a person enables the worker again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from autoscaler.core.actions import Disable, Enable
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import AutoStopAnswer
from autoscaler.core.workers.marks import UNTIL_IT_ASKS
from autoscaler.core.workers.step import WorkerStep


def stop_if_requested(step: WorkerStep, stop_requests: Set[str]) -> WorkerStep:
    """The same step; if its worker drains or begins to, and asked to stop, it leaves for good."""
    drains = step.worker.draining or isinstance(step.action, Disable)
    if step.worker.worker.id not in stop_requests or not drains:
        return step
    being_enabled = isinstance(step.action, Enable) or step.note.enabled_at is not None
    if being_enabled or step.note.disabling not in UNTIL_IT_ASKS:
        return step
    return replace(step, note=replace(step.note, disabling=Disabling.AUTO_STOP))


def remember_stop_requests(steps: Sequence[WorkerStep], stop_requests: Set[str], now: float) -> Sequence[WorkerStep]:
    """The steps of all workers, with what is remembered of requests."""
    return [remember_stop_request(step, stop_requests, now) for step in steps] if stop_requests else steps


def remember_stop_request(step: WorkerStep, stop_requests: Set[str], now: float) -> WorkerStep:
    """A group leaves as a whole, but its workers ask one by one: the request of an idle one counts until all have
    asked.

    If a person enables a worker that we had disabled, its request no longer counts: else it would leave at once.
    """
    worker = step.worker
    if worker.worker.id not in stop_requests or step.note.idle_since is None:
        return step
    if worker.enabled_by_hand and step.action is None:
        return replace(step, note=replace(step.note, stop_undone=True))
    return replace(step, note=replace(step.note, asked_to_stop_at=now)) if worker.worker.group_id else step


def answers(steps: Iterable[WorkerStep], stop_requests: Set[str]) -> dict[str, tuple[AutoStopAnswer, Reason]]:
    """The answer to each known worker that asks."""
    found: dict[str, tuple[AutoStopAnswer, Reason]] = {}
    for step in steps if stop_requests else ():
        worker_id = step.worker.worker.id
        if worker_id not in stop_requests:
            continue
        if step.worker.going or step.worker.gone:  # this cannot be undone
            found[worker_id] = AutoStopAnswer.STOPS, step.verdict.reason
        elif step.note.stop_undone:
            found[worker_id] = AutoStopAnswer.STAYS, because(Code.ENABLED_BY_HAND)
        elif step.note.disabling is Disabling.GROUP:
            leaves = because(Code.GROUP_LEAVES, group=step.worker.worker.group_id)
            found[worker_id] = AutoStopAnswer.STOPS, leaves
        elif step.note.disabling is Disabling.AUTO_STOP:
            found[worker_id] = AutoStopAnswer.STOPS, because(Code.ASKED_TO_STOP)
        else:
            found[worker_id] = AutoStopAnswer.STAYS, _why_it_stays(step.verdict.reason)
    return found


def _why_it_stays(reason: Reason) -> Reason:
    """If only a pause or the circuit breaker keeps it, that reason alone."""
    return reason.trail[-1] if reason.code is Code.ASKED_TO_STOP and reason.trail else reason
