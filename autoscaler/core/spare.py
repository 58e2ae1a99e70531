"""Which workers the queues' own demand leaves over, in the order in which requests should keep them.

First those that cost already and cannot be sent back (ordered, booting), then those in service, whom idle time would
let go last first; at the end those that drain and could be let in again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set

from autoscaler.core.created_nodes import Service
from autoscaler.core.fleet import Order
from autoscaler.core.leaving import wanted_back
from autoscaler.core.life import Life, Machine, Sight
from autoscaler.core.memory import Disabling
from autoscaler.core.shrink import could_leave, let_go_order
from autoscaler.core.steps import Moment
from autoscaler.core.supply import counts_as_coming
from autoscaler.core.targets import Spare

_OTHERS_BUSINESS = frozenset({Disabling.ADVISED, Disabling.SWAP})
"""Marks of workers that drain and are not let in again for a request."""


def spare_workers(
    sight: Sight,
    ordered: Sequence[tuple[Order, int]],
    moment: Moment,
    service: Service,
    *,
    used: Set[str] | None,
    silent: Set[str],
    again: Set[str],
    going: Collection[str],
) -> dict[str, list[Spare]]:
    """By node array. `used`: names of the supply's hosts that demand uses; None: demand asks for nothing, and every
    worker is spare. `silent`, `again`: hosts expected to be heard, or let in again. `going`: ids of workers in service
    that leave in any case.
    """
    found: dict[str, list[Spare]] = {}
    for machine in _in_order(sight, moment, used, silent, again, going):
        worker = machine.worker
        if worker.id not in service.by_worker and worker.order_id not in service.ordered:
            spare = Spare(worker.id, worker.type.vcpus, _drains(machine, again))
            found.setdefault(worker.node_array, []).append(spare)
    for order, count in ordered:
        names = [f"{order.id}#{number}" for number in range(count) if order.id not in service.ordered]
        spares = [Spare(name, order.type.vcpus) for name in names if used is None or name not in used]
        found[order.node_array] = spares + found.get(order.node_array, [])
    return found


def _in_order(
    sight: Sight, moment: Moment, used: Set[str] | None, silent: Set[str], again: Set[str], going: Collection[str]
) -> Iterator[Machine]:
    def idle(machine: Machine, name: str) -> bool:
        return used is None or (machine.empty and name not in used)

    wanted = [machine for machine in sight.machines if machine.array and moment.let_go(machine) is None]
    yield from (each for each in wanted if counts_as_coming(each, moment) and idle(each, each.worker.id))
    yield from (each for each in wanted if each.life is Life.UNHEARD and each.name in silent and idle(each, each.name))
    if used is None:
        yield from (each for each in wanted if each.life is Life.DRAINING and each.name in again)
    serving = [
        each
        for each in wanted
        if each.life is Life.IN_SERVICE and each.worker.id not in going and not each.advised and idle(each, each.name)
    ]
    staying = {each.worker.id for each in serving if moment.kept(each) is not None or not could_leave(each, moment)}
    yield from (each for each in serving if each.worker.id in staying)
    may_leave = (each for each in serving if each.worker.id not in staying)
    yield from sorted(may_leave, key=lambda each: let_go_order(each, moment.asking), reverse=True)
    yield from (each for each in wanted if _drains(each, again) and wanted_back(each, moment) and idle(each, each.name))


def _drains(machine: Machine, again: Set[str]) -> bool:
    return (
        machine.life is Life.DRAINING and machine.name not in again and machine.note.disabling not in _OTHERS_BUSINESS
    )
