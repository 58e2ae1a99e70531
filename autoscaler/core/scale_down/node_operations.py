"""Restarts and reimages machines as callers request, if no job can be on them.

A person must have disabled the worker, so that nothing starts there, and two observations a scheduler interval apart
must show it empty. A pause and the circuit breaker delay it, as they delay every end of a worker. If the worker is no
longer disabled and empty, the request is refused for good, and the caller has to repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.actions import Reimage, Restart
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import NodeOperation
from autoscaler.core.workers.phases import Condition, disabled
from autoscaler.core.workers.step import PassContext, WorkerStep
from autoscaler.core.workers.worker_state import WorkerState

OPERATIONS: Mapping[str, type[Restart | Reimage]] = MappingProxyType({kind.kind: kind for kind in (Restart, Reimage)})


@dataclass(frozen=True, slots=True)
class NodeOperations:
    """The steps of all workers after such requests."""

    steps: Sequence[WorkerStep]
    """Steps of all workers, with the operations in their place."""
    closed_since: Mapping[int, float]
    refused: Mapping[int, Reason]
    due: float | None
    """The time of the second observation."""


def closed(worker: WorkerState) -> bool:
    """Whether no job is on it and none can come: a person has disabled all of it, and it is empty."""
    host = worker.host
    return worker.decisive is Condition.DISABLED_BY_HAND and host is not None and disabled(host) and not host.busy


def carry_out(
    steps: Sequence[WorkerStep],
    operations: Sequence[NodeOperation],
    closed_since: Mapping[int, float],
    pass_context: PassContext,
) -> NodeOperations:
    """These steps with the operations that callers requested. `closed_since`: as the last pass left it."""
    if not operations:
        return NodeOperations(steps, {}, {}, None)
    by_worker = {step.worker.worker.id: step for step in steps}
    changed: dict[str, WorkerStep] = {}
    since: dict[int, float] = {}
    refused: dict[int, Reason] = {}
    for operation in operations:
        step = by_worker.get(operation.worker_id)
        if operation.begun_at is not None:
            if step is not None and step.action is None:
                changed[operation.worker_id] = _with_verdict(step, "keep", _begun(operation, step))
        elif (
            step is None or step.action is not None or not closed(step.worker) or operation.operation not in OPERATIONS
        ):
            refused[operation.id] = because(Code.NODE_OPERATION_REFUSED)
        else:
            since[operation.id] = closed_since.get(operation.id, pass_context.now)
            changed[operation.worker_id] = _step(step, operation, since[operation.id], pass_context)
    times = (at + pass_context.schedule_interval for at in since.values())
    return NodeOperations(
        [changed.get(step.worker.worker.id, step) for step in steps],
        since,
        refused,
        min((at for at in times if at > pass_context.now), default=None),
    )


def _step(step: WorkerStep, operation: NodeOperation, since: float, pass_context: PassContext) -> WorkerStep:
    reason = because(Code.NODE_OPERATION, by=operation.by, operation=operation.operation)
    if pass_context.now - since < pass_context.schedule_interval:
        return _with_verdict(step, "wait", reason.then(because(Code.SECOND_OBSERVATION)))
    if pass_context.paused is not None:
        return _with_verdict(step, "wait", reason.then(pass_context.paused))
    action = OPERATIONS[operation.operation](step.worker.worker.id, step.worker.name, reason)
    return replace(_with_verdict(step, action.kind, reason), action=action)


def _begun(operation: NodeOperation, step: WorkerStep) -> Reason:
    begun = because(Code.NODE_OPERATION_BEGUN, by=operation.by, operation=operation.operation)
    return step.verdict.reason.then(begun)


def _with_verdict(step: WorkerStep, verdict: str, reason: Reason) -> WorkerStep:
    return replace(step, verdict=replace(step.verdict, verdict=verdict, reason=reason))
