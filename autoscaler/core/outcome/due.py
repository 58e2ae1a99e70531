"""When time alone would change the decision: the loop looks again then, instead of at its next poll."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.memory import Disabling, Event, WorkerNote
from autoscaler.core.model.reasons import Reason
from autoscaler.core.policy import Policy
from autoscaler.core.snapshot import Snapshot


def next_due(
    wanted: Sequence[CategoryDemand],
    notes: Mapping[str, WorkerNote],
    arrays: Mapping[str, str],
    launches: Sequence[Event],
    snapshot: Snapshot,
    now: float,
    *,
    throttled: Reason | None = None,
    rate_limited: bool = False,
    retry_after: float,
) -> float | None:
    """The next moment after `now` at which a job expires, a request lapses, a worker has been idle or empty for long
    enough, an enrolment that was cut short is tried again, or a node array may launch again. `arrays`: node array by
    worker id. `rate_limited`: the circuit breaker's
    window keeps a launch back. `retry_after`: seconds until an action whose effect does
    not show is planned again. None: only a change outside can bring anything.
    """
    policy, requests, schedule_interval = snapshot.policy, snapshot.requests, snapshot.cluster.schedule_interval
    until = throttled["until_at"] if throttled is not None and (wanted or requests.sets or requests.nodes) else None
    times = (
        *([float(until)] if isinstance(until, int | float) else ()),
        *_expiries(wanted, policy),
        *_ends_of_waiting(notes, arrays, policy, schedule_interval),
        *(enrolled_at + retry_after for enrolled_at in _enrolments(notes)),
        *(event.at + policy.batch_delay for event in launches if wanted or requests.sets or requests.nodes),
        *(event.at + policy.brake.window for event in launches if rate_limited),
        *(live.expires_at for live in requests.sets if live.expires_at is not None),
    )
    return min((time for time in times if time > now), default=None)


def _expiries(wanted: Sequence[CategoryDemand], policy: Policy) -> Iterator[float]:
    for want in wanted:
        for queue in map(policy.queue, want.launches):
            if queue is not None and not want.expired:
                yield want.oldest + queue.scale_up_timeout


def _ends_of_waiting(
    notes: Mapping[str, WorkerNote], arrays: Mapping[str, str], policy: Policy, schedule_interval: float
) -> Iterator[float]:
    for worker_id, note in notes.items():
        array = policy.node_array(arrays.get(worker_id, ""))
        if note.alarm_since is not None and array is not None:
            yield note.alarm_since + array.boot_timeout
        elif note.idle_since is not None and array is not None:
            yield note.idle_since + array.idle_timeout
        if note.empty_since is not None:
            yield note.empty_since + schedule_interval


def _enrolments(notes: Mapping[str, WorkerNote]) -> Iterator[float]:
    """When the workers that did not join yet were last enrolled."""
    for note in notes.values():
        if note.disabling is Disabling.ENROL and note.retired_at is None and not note.gone:
            tried = note.disabled_at if note.completed_at is None else note.completed_at
            if tried is not None:
                yield tried
