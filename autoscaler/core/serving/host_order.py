"""The order in which the scheduler fills workers, by when their work is estimated to end (`pack` is `predicted`).

Jobs go first where work ends latest, so workers that could leave soon get nothing new. The workers of a queue exchange
the sequence numbers that they got as they joined: no other number is used, and no other host's is written. A number
that is not the one last written is a person's, and its worker is left out. Workers with what is scarce come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType

from autoscaler.core.actions import Enrol, Numbered, Renumber
from autoscaler.core.facts.facts import Facts
from autoscaler.core.joining.scarce import kind_of_worker, scarce_kinds
from autoscaler.core.model.cluster import ExecutionHost, Queue
from autoscaler.core.model.memory import HostOrder
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.policy import PACK_PREDICTED
from autoscaler.core.workers.step import WorkerStep
from autoscaler.core.workers.worker_state import WorkerState

EDITS_APART = 60.0
"""Least seconds between two changes of a queue's numbers."""
MATTERS = 120.0
"""Work that ends within so many seconds of other work ends at the same time."""


@dataclass(frozen=True, slots=True)
class HostOrders:
    """The changes of this pass, and what is remembered of all queues."""

    actions: tuple[Renumber, ...] = ()
    memory: Mapping[str, HostOrder] = field(default_factory=lambda: MappingProxyType({}))
    due: float | None = None
    """When a change is made that waits for the time between two."""


def order_hosts(facts: Facts, steps: Sequence[WorkerStep]) -> HostOrders:
    """For each queue with such workers: one change at most, if the order matters. `steps`: of all workers."""
    arrays = {array.name: array.queue for array in facts.policy.node_arrays if array.pack == PACK_PREDICTED}
    known, now = facts.snapshot.memory.host_orders, facts.snapshot.now
    actions: list[Renumber] = []
    memory: dict[str, HostOrder] = {}
    due: float | None = None
    for name in dict.fromkeys(arrays.values()):
        queue, order = facts.snapshot.cluster.queues.get(name), known.get(name, HostOrder())
        if queue is None:
            continue
        mine = [step for step in steps if arrays.get(step.worker.worker.node_array) == name]
        numbers = {worker.worker.id: number for worker, number in _in_service(mine, queue, order)}
        wanted = _wanted(facts, mine, numbers)
        if wanted and facts.pass_context.paused is None:
            free_at = order.written_at + EDITS_APART
            if now >= free_at:
                hosts = {step.worker.worker.id: step.worker.name for step in mine}
                changed = tuple(Numbered(hosts[worker], number) for worker, number in sorted(wanted.items()))
                actions.append(Renumber(name, changed, because(Code.HOSTS_ORDERED, workers=len(changed))))
                order = HostOrder(now, {**order.numbers, **wanted}, order.numbers)
            else:
                due = free_at if due is None else min(due, free_at)
        memory[name] = _remembered(order, mine)
    return HostOrders(tuple(actions), memory, due)


def _remembered(order: HostOrder, steps: Sequence[WorkerStep]) -> HostOrder:
    """With the numbers of those that join, without those that have left."""
    there = {step.worker.worker.id for step in steps}
    joining = {
        step.worker.worker.id: step.action.seq_no
        for step in steps
        if isinstance(step.action, Enrol) and step.action.seq_no is not None
    }
    return HostOrder(
        order.written_at,
        {worker: number for worker, number in {**order.numbers, **joining}.items() if worker in there},
        {worker: number for worker, number in order.before.items() if worker in there},
    )


def _in_service(steps: Sequence[WorkerStep], queue: Queue, order: HostOrder) -> list[tuple[WorkerState, int]]:
    """Workers in service that have the number that was written last, or, if that failed, the one before."""
    by_short = {place.partition(".")[0].lower(): number for place, number in queue.seq_no_by_host.items()}
    found: list[tuple[WorkerState, int]] = []
    for worker in (step.worker for step in steps if step.action is None):
        number = by_short.get(worker.name.partition(".")[0].lower())
        ours = order.numbers.get(worker.worker.id), order.before.get(worker.worker.id)
        if worker.in_service and worker.host is not None and number is not None and number in ours:
            found.append((worker, number))
    return found


def _wanted(facts: Facts, steps: Sequence[WorkerStep], numbers: Mapping[str, int]) -> dict[str, int]:
    """By worker id, the numbers that change; empty: the order does not matter, or is right."""
    workers = {step.worker.worker.id: step.worker for step in steps if step.worker.worker.id in numbers}
    ends = {key: _end(facts, worker.host) for key, worker in workers.items() if worker.host is not None}
    last = _with_scarce(facts, [workers[key] for key in ends])
    current = sorted(ends, key=lambda key: (numbers[key], key))
    if not _matters(facts, [(key in last, ends[key]) for key in current if _has_free(workers[key].host)]):
        return {}
    wanted = sorted(current, key=lambda key: (key in last, -ends[key], numbers[key], key))
    given = sorted(numbers[key] for key in current)
    return {key: number for key, number in zip(wanted, given, strict=True) if numbers[key] != number}


def _with_scarce(facts: Facts, workers: Sequence[WorkerState]) -> frozenset[str]:
    """Ids of those that have a consumable that others of them lack."""
    kinds = {kind_of_worker(each.worker): (each.worker.type, each.array) for each in workers if each.array is not None}
    scarce = scarce_kinds(kinds, facts.snapshot.cluster.complexes)
    return frozenset(each.worker.id for each in workers if kind_of_worker(each.worker) in scarce)


def _matters(facts: Facts, ordered: Sequence[tuple[bool, float]]) -> bool:
    """Whether a worker with free slots comes before one whose work ends clearly later, or one with what is scarce
    before one without. `ordered`: of each, whether it has what is scarce, and its end.
    """
    least, before = inf, False
    for last, end in ordered:
        if before and not last:
            return True
        if last and not before:
            least, before = inf, True
        if end > least + max(MATTERS, 0.1 * (least - facts.snapshot.now)):
            return True
        least = min(least, end)
    return False


def _end(facts: Facts, host: ExecutionHost) -> float:
    """When its last job is estimated to end: now if none runs, never if of one nothing is estimated."""
    ends = facts.snapshot.estimates.ends
    jobs = (job for instance in host.instances for job in instance.jobs)
    return max((ends.get(job.name, inf) for job in jobs), default=facts.snapshot.now)


def _has_free(host: ExecutionHost | None) -> bool:
    return host is not None and any(instance.used < instance.slots for instance in host.instances)
