"""The surplus: workers that the queues' own demand does not need, in the order in which requests should keep them.

First workers that cost money already and cannot be cancelled (ordered, booting). Then those in service, those that
would leave last (`removal_order`) first. Then those that were ordered for requests but will run jobs, because their
successors are launched only when the jobs run. Last those that drain and could be enabled again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from autoscaler.core.model.fleet import Order
from autoscaler.core.requests.created_nodes import Service
from autoscaler.core.requests.orders import named
from autoscaler.core.requests.targets import SurplusWorker
from autoscaler.core.workers.drain import may_be_enabled
from autoscaler.core.workers.idle import could_leave, removal_order
from autoscaler.core.workers.marks import NOT_FOR_REQUESTS
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.overdue import counts_as_coming
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class SurplusContext:
    """What `surplus_workers` needs."""

    observed: ObservedWorkers
    ordered: Sequence[tuple[Order, int]]
    """Orders with outstanding workers, and how many."""
    for_requests: Set[str]
    """Ids of orders for requests."""
    pass_context: PassContext
    service: Service
    used: Set[str] | None
    """Names of the supply's hosts that demand uses; None: there is no demand, and every worker is surplus."""
    silent: Set[str]
    """Silent hosts that are expected to report again."""
    to_enable: Set[str]
    """Draining hosts that are enabled again."""
    going: Set[str]
    """Ids of workers in service that leave in any case."""

    def unused(self, name: str) -> bool:
        return self.used is None or name not in self.used

    def idle(self, worker: WorkerState) -> bool:
        return self.used is None or (worker.empty and worker.name not in self.used)


def surplus_workers(view: SurplusContext) -> dict[str, list[SurplusWorker]]:
    """The surplus workers by node array, in the order in which requests keep them."""
    coming, late = [], []
    for name, array, order, surplus in _coming(view):
        if view.unused(name):
            coming.append((array, surplus))
        elif order in view.for_requests:
            late.append((array, surplus))
    there = [(each.worker.node_array, _surplus(each)) for each in _there(view)]
    drains = [(each.worker.node_array, _surplus(each, leaving=True)) for each in _draining(view)]
    found: dict[str, list[SurplusWorker]] = {}
    for array, surplus in (*coming, *there, *late, *drains):
        found.setdefault(array, []).append(surplus)
    return found


def _coming(view: SurplusContext) -> Iterator[tuple[str, str, str | None, SurplusWorker]]:
    """Name in the supply, node array and order of every ordered or booting worker that serves no created node."""
    for order, names in named(view.ordered):
        if order.id not in view.service.ordered:
            for name in names:
                yield name, order.node_array, order.id, SurplusWorker(name, order.type.vcpus)
    for worker in _free(view):
        if counts_as_coming(worker, view.pass_context):
            machine = worker.worker
            yield machine.id, machine.node_array, machine.order_id, _surplus(worker)


def _there(view: SurplusContext) -> Iterator[WorkerState]:
    """Workers in service, or expected to report again soon."""
    free = [worker for worker in _free(view) if view.idle(worker)]
    yield from (each for each in free if each.unheard and each.name in view.silent)
    if view.used is None:
        yield from (each for each in free if each.draining and each.name in view.to_enable)
    serving = [each for each in free if each.in_service and each.worker.id not in view.going and not each.advised]
    pass_context = view.pass_context
    stay = {
        each.worker.id for each in serving if pass_context.kept(each) is not None or not could_leave(each, pass_context)
    }
    yield from (each for each in serving if each.worker.id in stay)
    may_leave = (each for each in serving if each.worker.id not in stay)
    yield from sorted(may_leave, key=lambda each: removal_order(each, pass_context.stop_requests), reverse=True)


def _draining(view: SurplusContext) -> Iterator[WorkerState]:
    for worker in _free(view):
        free_to_return = worker.name not in view.to_enable and worker.note.disabling not in NOT_FOR_REQUESTS
        if free_to_return and view.idle(worker) and may_be_enabled(worker, view.pass_context):
            yield worker


def _free(view: SurplusContext) -> Iterator[WorkerState]:
    """Workers of known arrays that serve no created node and that no person drains."""
    for worker in view.observed.workers:
        machine, service = worker.worker, view.service
        if worker.array is None or machine.id in service.by_worker or machine.order_id in service.ordered:
            continue
        if view.pass_context.drained_by_person(worker) is None:
            yield worker


def _surplus(worker: WorkerState, *, leaving: bool = False) -> SurplusWorker:
    return SurplusWorker(worker.worker.id, worker.worker.type.vcpus, leaving)
