"""Which workers the queues' own demand leaves over, in the order in which requests should keep them.

First those that cost already and cannot be sent back (ordered, booting), then those in service, whom idle time would
let go last first; then what was ordered for requests and waits for jobs by now, since its successor is launched when
they run; at the end those that drain and could be let in again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from autoscaler.core.asking.created_nodes import Service
from autoscaler.core.asking.targets import Spare
from autoscaler.core.fleet import Order
from autoscaler.core.leaving import wanted_back
from autoscaler.core.life import Life, Machine
from autoscaler.core.memory import Disabling
from autoscaler.core.shrink import could_leave, let_go_order
from autoscaler.core.sight import Sight
from autoscaler.core.steps import Moment
from autoscaler.core.supply import counts_as_coming

_OTHERS_BUSINESS = frozenset({Disabling.ADVISED, Disabling.SWAP})
"""Marks of workers that drain and are not let in again for a request."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All that tells who is spare."""

    sight: Sight
    ordered: Sequence[tuple[Order, int]]
    """Orders of which workers are still to show up, and how many."""
    asked: Set[str]
    """Ids of orders for requests."""
    moment: Moment
    service: Service
    used: Set[str] | None
    """Names of the supply's hosts that demand uses; None: demand asks for nothing, and every worker is spare."""
    silent: Set[str]
    """Hosts that are expected to be heard again."""
    again: Set[str]
    """Hosts that are let in again."""
    going: Set[str]
    """Ids of workers in service that leave in any case."""

    def unused(self, name: str) -> bool:
        return self.used is None or name not in self.used

    def idle(self, machine: Machine) -> bool:
        return self.used is None or (machine.empty and machine.name not in self.used)


def spare_workers(view: Overview) -> dict[str, list[Spare]]:
    """By node array."""
    coming, late = [], []
    for name, array, order, spare in _coming(view):
        if view.unused(name):
            coming.append((array, spare))
        elif order in view.asked:
            late.append((array, spare))
    there = [(each.worker.node_array, _spare(each)) for each in _there(view)]
    drains = [(each.worker.node_array, _spare(each, leaving=True)) for each in _draining(view)]
    found: dict[str, list[Spare]] = {}
    for array, spare in (*coming, *there, *late, *drains):
        found.setdefault(array, []).append(spare)
    return found


def _coming(view: Overview) -> Iterator[tuple[str, str, str | None, Spare]]:
    """Name in the supply, node array and order of every ordered or booting worker that is nobody else's."""
    for order, count in view.ordered:
        if order.id not in view.service.ordered:
            for name in (f"{order.id}#{number}" for number in range(count)):
                yield name, order.node_array, order.id, Spare(name, order.type.vcpus)
    for machine in _free(view):
        if counts_as_coming(machine, view.moment):
            worker = machine.worker
            yield worker.id, worker.node_array, worker.order_id, _spare(machine)


def _there(view: Overview) -> Iterator[Machine]:
    """In service, or heard again soon."""
    free = [machine for machine in _free(view) if view.idle(machine)]
    yield from (each for each in free if each.life is Life.UNHEARD and each.name in view.silent)
    if view.used is None:
        yield from (each for each in free if each.life is Life.DRAINING and each.name in view.again)
    serving = [
        each for each in free if each.life is Life.IN_SERVICE and each.worker.id not in view.going and not each.advised
    ]
    moment = view.moment
    stay = {each.worker.id for each in serving if moment.kept(each) is not None or not could_leave(each, moment)}
    yield from (each for each in serving if each.worker.id in stay)
    may_leave = (each for each in serving if each.worker.id not in stay)
    yield from sorted(may_leave, key=lambda each: let_go_order(each, moment.asking), reverse=True)


def _draining(view: Overview) -> Iterator[Machine]:
    for machine in _free(view):
        may_return = machine.name not in view.again and machine.note.disabling not in _OTHERS_BUSINESS
        if may_return and view.idle(machine) and wanted_back(machine, view.moment):
            yield machine


def _free(view: Overview) -> Iterator[Machine]:
    """Workers of known arrays that serve no created node, and that no person wants gone."""
    for machine in view.sight.machines:
        worker, service = machine.worker, view.service
        if machine.array is None or worker.id in service.by_worker or worker.order_id in service.ordered:
            continue
        if view.moment.let_go(machine) is None:
            yield machine


def _spare(machine: Machine, *, leaving: bool = False) -> Spare:
    return Spare(machine.worker.id, machine.worker.type.vcpus, leaving)
