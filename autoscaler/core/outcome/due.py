"""When time alone would change the decision, so that the loop observes again then instead of at its next poll; and
whether there is anything to watch at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from autoscaler.core.facts.facts import Facts
from autoscaler.core.limits.lost_state import LISTINGS_LAG
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.policy import Policy
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.idle import COARSE, paid_until
from autoscaler.core.workers.worker_state import WorkerState


def nothing_to_scale(snapshot: Snapshot, plan: Plan) -> bool:
    """Whether no job is pending, and no worker exists, is ordered or wanted. New jobs and requests wake the loop, and
    nothing else would change the plan.
    """
    pending = snapshot.cluster.job_categories or snapshot.cluster.set_aside
    workers = any(worker.exists for worker in snapshot.fleet.workers) or outstanding(
        snapshot.fleet, snapshot.policy, snapshot.now
    )
    remembered = any(not note.gone for note in plan.memory.workers.values())
    requests = snapshot.requests
    wanted = requests.sets or requests.nodes or requests.operations or requests.auto_stops
    floors = any(array.limits.min_workers for array in snapshot.policy.node_arrays)
    undone = plan.actions or plan.due is not None or snapshot.overrides.stop
    return not (pending or workers or remembered or wanted or floors or undone)


def next_due(facts: Facts, memory: Memory, *, rate_limited: bool) -> float | None:
    """The next moment at which a job expires, a request lapses, a worker has been idle or empty for long enough, an
    enrolment that was cut short is tried again, or a node array may launch again. `memory`: for the next pass.
    `rate_limited`: the circuit breaker's window keeps a launch back. None: only an outside change can lead to an
    action.
    """
    policy, requests, demands = facts.policy, facts.snapshot.requests, facts.demand.wanted
    demanded, throttled = bool(demands or requests.sets or requests.nodes), facts.launch_context.throttled
    until = throttled["until_at"] if throttled is not None and demanded else None
    times = (
        *([memory.lost_at + LISTINGS_LAG] if memory.lost_at is not None else ()),
        *([float(until)] if isinstance(until, int | float) else ()),
        *_EXPIRIES.value_of((demands, policy), lambda: _expiries(demands, policy)),
        *_waits(facts, memory),
        *(enrolled_at + facts.pass_context.retry_after for enrolled_at in _enrolments(memory.workers)),
        *(event.at + policy.batch_delay for event in memory.launches if demanded),
        *(event.at + policy.circuit_breaker.window for event in memory.launches if rate_limited),
        *(float(str(slowed["until_at"])) for slowed in facts.pass_context.slowed.values()),
        *(note.ask_at for note in memory.unstarted.values()),
        *(live.expires_at for live in requests.sets if live.expires_at is not None),
    )
    return min((time for time in times if time > facts.pass_context.now), default=None)


_EXPIRIES = LastObjects[frozenset[float]]()


def _expiries(demands: Sequence[CategoryDemand], policy: Policy) -> frozenset[float]:
    return frozenset(
        [
            want.oldest + queue.scale_up_timeout
            for want in demands
            if not want.expired
            for queue in map(policy.queue, want.launches)
            if queue is not None
        ]
    )


_WAITS = LastObjects[frozenset[float]]()


def _waits(facts: Facts, memory: Memory) -> Iterable[float]:
    """When workers have waited for long enough."""
    if any(array.billing_step >= COARSE for array in facts.policy.node_arrays):
        return _ends_of_waiting(facts, memory)
    return _WAITS.value_of(
        (facts.observed, memory.workers),
        lambda: frozenset(_ends_of_waiting(facts, memory)),
        facts.pass_context.schedule_interval,
    )


def _ends_of_waiting(facts: Facts, memory: Memory) -> Iterator[float]:
    workers = {worker.worker.id: worker for worker in facts.observed.workers}
    alarmed = bool([note for note in memory.workers.values() if note.alarm_since is not None])
    idle = [
        (worker_id, note)
        for worker_id, note in memory.workers.items()
        if note.idle_since is not None or note.empty_since is not None or note.alarm_since is not None
    ]
    for worker_id, note in memory.workers.items() if alarmed else idle:
        worker = workers.get(worker_id)
        array = None if worker is None else worker.array
        if alarmed and note.joined_at is not None and array is not None:
            yield note.joined_at + array.boot_timeout  # then it shows that alarms need not be
        if note.alarm_since is not None and array is not None:
            yield note.alarm_since + array.boot_timeout
        elif note.idle_since is not None and worker is not None and array is not None:
            enough = note.idle_since + array.idle_timeout
            yield enough if array.billing_step < COARSE else _may_leave(worker, enough, facts.pass_context.now)
        if note.empty_since is not None:
            yield note.empty_since + facts.pass_context.schedule_interval


def _may_leave(worker: WorkerState, idle_enough: float, now: float) -> float:
    """When a worker may leave that is idle for long enough from a moment on."""
    paid = paid_until(worker, max(idle_enough, now))
    return idle_enough if paid is None else paid


def _enrolments(notes: Mapping[str, WorkerNote]) -> Iterator[float]:
    """When the workers that did not join yet were last enrolled."""
    for note in notes.values():
        if note.disabling is Disabling.ENROL and note.retired_at is None and not note.gone:
            tried = note.disabled_at if note.completed_at is None else note.completed_at
            if tried is not None:
                yield tried
