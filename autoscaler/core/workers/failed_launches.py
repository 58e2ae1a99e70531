"""Machines that were accepted and ended before they joined: launches that failed late.

Each counts once against its bucket, like an order that was refused at once, so that the same backoff follows. A machine
that ever reported is lost, not failed. A machine that we, a person or a spot market ended is no failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.model.fleet import FailureKind, Fleet, LaunchFailure, MachineState, Worker
from autoscaler.core.model.memory import CameUp, WorkerNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.workers.came_up import cleared
from autoscaler.core.workers.worker_state import WorkerState

_ENDED = frozenset({MachineState.STOPPING, MachineState.TERMINATED})
NO_WORDS = "it ended before it had come up"


def failed_to_join(worker: Worker, note: WorkerNote, fleet: Fleet, *, known: bool) -> bool:
    """Whether a machine counts as a failed launch. `known`: an earlier observation showed it. If not, it counts only if
    the journal has its order: after a lost store, machines are listed that ended long ago.
    """
    if worker.failure is None or worker.state not in _ENDED:
        return False
    if note.joined_at is not None or note.terminated_at is not None:
        return False
    return known or any(order.id == worker.order_id for order in fleet.orders)


def newly_failed(machines: Sequence[WorkerState], now: float) -> tuple[LaunchFailure, ...]:
    """The failures that this observation counts for the first time."""
    return tuple(
        LaunchFailure(
            worker.worker.bucket,
            now,
            worker.worker.failure or FailureKind.BOOT,
            worker.worker.message or NO_WORDS,
            worker.worker.order_id or "",
            worker.worker.id,
        )
        for worker in machines
        if worker.note.failed and not (worker.before is not None and worker.before.failed)
    )


def why_failed(worker: WorkerState) -> Reason | None:
    """Why a machine that ended never joined; None: it did join, or its launch did not fail."""
    if not worker.note.failed:
        return None
    return because(Code.ENDED_BEFORE_JOINING, message=worker.worker.message)


def with_recent_failures(
    reasons: Mapping[str, Reason],
    failures: Sequence[LaunchFailure],
    successes: Sequence[CameUp],
    policy: Policy,
    now: float,
) -> dict[str, Reason]:
    """The reasons by queue, with the recent launch failures of its node array."""
    found = dict(reasons)
    for array in policy.node_arrays:
        lately = _recent_failures(array, failures, successes, now) if array.extends is None else ()
        if lately and array.queue in found:
            last = lately[-1]
            kind = last.bucket.instance_type
            link = because(
                Code.LAUNCHES_FAILED, node_array=array.name, failures=len(lately), type=kind, message=last.message
            )
            found[array.queue] = found[array.queue].then(link)
    return found


def _recent_failures(
    array: NodeArrayPolicy, failures: Sequence[LaunchFailure], successes: Sequence[CameUp], now: float
) -> Sequence[LaunchFailure]:
    """Failures that count for an array, oldest first."""
    counted = [
        each
        for each in failures
        if each.kind not in (FailureKind.PERMANENT, FailureKind.THROTTLED) and array.takes(each.bucket)
        if now - each.at < array.unavailability_delay and not cleared(each.bucket, each.kind, each.at, successes)
    ]
    return sorted(counted, key=lambda each: each.at)
