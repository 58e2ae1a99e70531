"""Groups of workers near each other: which there are, and how many of their workers are missing.

A group is used as a whole. No worker of it takes jobs before all are ready. A group that can never be completed is
given back. Once a group has served, a worker that it loses is replaced by one of the same instance type, zone and
group. An idle group leaves as a whole. A group is the workers and orders that carry its id: nothing else of it is
stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.model.fleet import Fleet, InstanceType, Order, PriceType
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.requests.group_names import is_of_workers
from autoscaler.core.requests.orders import named, outstanding
from autoscaler.core.workers.drain import may_be_enabled
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.overdue import counts_as_coming
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState

GroupKind = tuple[str, bool]
"""A node array, and whether its groups are sized by workers, and not by vCPUs."""
_STAYS_WITH = frozenset({None, Condition.SILENT, Condition.CORDONED, Condition.DISABLED_BY_HAND})
"""A ready worker with one of these conditions is there, whether it takes jobs just now or not."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group, with all that carries its id."""

    id: str
    array: NodeArrayPolicy
    """Its array as groups of its kind see it."""
    type: InstanceType
    price_type: PriceType
    zone: str
    placement_group: str
    want: int
    """Workers that make it whole."""
    workers: tuple[WorkerState, ...] = ()
    """Workers that the provider lists and that are not gone."""
    staying: tuple[WorkerState, ...] = ()
    """Workers that are there or on their way in."""
    draining: tuple[WorkerState, ...] = ()
    """Workers that are on their way out and may be enabled again, the oldest first."""
    ordered: tuple[str, ...] = ()
    """Names under which ordered workers that no listing shows yet stand in the supply."""
    unlisted: int = 0
    """Workers that the listing leaves out now and whose end is not confirmed."""
    unlisted_work: bool = False
    """Whether a worker has work that the listing leaves out."""
    orders: frozenset[str] = frozenset()
    """Ids of the orders it came from, as far as they are known."""

    @property
    def kind(self) -> GroupKind:
        return self.array.name, is_of_workers(self.id)

    @property
    def have(self) -> int:
        return len(self.staying) + len(self.ordered) + self.unlisted

    @property
    def shortfall(self) -> int:
        return max(self.want - self.have, 0)

    @property
    def returning(self) -> tuple[WorkerState, ...]:
        """Workers on their way out that are enabled again if the group is wanted: no more than are missing."""
        return self.draining[: self.shortfall] if self.served else ()

    @property
    def replaced(self) -> frozenset[str]:
        """Ids of workers on their way out without which the group is whole."""
        return frozenset(worker.worker.id for worker in self.draining if worker not in self.returning)

    @property
    def surplus(self) -> frozenset[str]:
        """Ids of workers on their way in that are too many: one was given up as late, replaced, and came after all. The
        workers that are furthest stay.
        """
        furthest = sorted(
            self.staying,
            key=lambda each: (not each.in_service, not each.joined, each.worker.created_at),
        )
        return frozenset(worker.worker.id for worker in furthest[self.want :] if worker.coming)

    @property
    def served(self) -> bool:
        """Whether any worker of it ever took jobs."""
        return self.unlisted > 0 or any(_served(worker) for worker in self.workers)

    @property
    def leaving(self) -> bool:
        """Whether it is leaving, which is never undone."""
        return any(worker.note.disabling is Disabling.GROUP for worker in self.workers)

    @property
    def blocked(self) -> bool:
        """Whether it cannot become ready until a person enables a worker of it."""
        return any(worker.decisive is Condition.DISABLED_BY_HAND for worker in self.staying)

    @property
    def ends(self) -> bool:
        """Whether it would end soon if it were given back. What a person disabled stays."""
        by_hand = (worker.decisive is Condition.DISABLED_BY_HAND for worker in self.workers)
        return not self.served and (bool(self.ordered) or not all(by_hand))

    @property
    def busy(self) -> bool:
        return self.unlisted_work or any(not worker.empty for worker in self.workers)

    @property
    def serving(self) -> tuple[WorkerState, ...]:
        return tuple(worker for worker in self.staying if worker.in_service)

    @property
    def ready(self) -> int:
        return sum(worker.joined for worker in self.staying)

    @property
    def preference(self) -> tuple[object, ...]:
        """Sorting key, the groups to keep first: those that served, those with the fewest missing workers, then a fixed
        order.
        """
        return not self.served, self.shortfall, len(self.id), self.id

    def used(self, names: frozenset[str]) -> bool:
        """Whether any worker of it is among these names of the supply."""
        own = {name for worker in (*self.staying, *self.returning) for name in (worker.name, worker.worker.id)}
        return not names.isdisjoint(own.union(self.ordered))


def of_kind(array: NodeArrayPolicy, *, of_workers: bool) -> NodeArrayPolicy:
    """An array of groups as its groups sized by workers see it, or those sized by vCPUs: it may have both."""
    size = array.group_cores or array.group_count
    return replace(array, group_cores=None if of_workers else size, group_count=size if of_workers else None)


def kind_of(array: NodeArrayPolicy) -> GroupKind:
    """The kind that `of_kind` gave it."""
    return array.name, array.group_count is not None


def workers_of(array: NodeArrayPolicy, type_: InstanceType) -> int | None:
    """How many workers of this type make one group of that array; None: it is no array of groups."""
    if array.group_count is not None:
        return array.group_count
    return None if array.group_cores is None else -(-array.group_cores // type_.vcpus)


# -- which there are -------------------------------------------------------------------------------------------------


def groups_of(observed: ObservedWorkers, fleet: Fleet, policy: Policy, pass_context: PassContext) -> tuple[Group, ...]:
    """Every group that a worker carries or an order is to bring, in the order of node arrays and then of their ids."""
    machines: dict[str, list[WorkerState]] = {}
    for worker in observed.workers:
        if worker.worker.group_id and worker.array is not None and not worker.gone:
            machines.setdefault(worker.worker.group_id, []).append(worker)
    coming: dict[str, list[tuple[Order, int]]] = {}
    for order, count in outstanding(fleet, policy, pass_context.now):
        if order.group_id and policy.node_array(order.node_array) is not None:
            coming.setdefault(order.group_id, []).append((order, count))
    missing, at_work = _missing(observed, coming), _at_work(observed)
    found = [
        replace(_with_unlisted(group, coming.get(name, ()), missing.count(name), fleet), unlisted_work=name in at_work)
        for name in {*machines, *coming}
        if (group := _listed(name, machines.get(name, ()), pass_context) or _to_come(name, coming[name], policy))
        is not None
    ]
    positions = {array.name: position for position, array in enumerate(policy.node_arrays)}
    return tuple(sorted(found, key=lambda group: (positions[group.array.name], len(group.id), group.id)))


def group_ids(fleet: Fleet, memory: Memory) -> frozenset[str]:
    """Every group id in use: no other group gets one of them."""
    carried = [*[worker.group_id for worker in fleet.workers], *[order.group_id for order in fleet.orders]]
    remembered = [note.group_id for note in memory.workers.values()]
    return frozenset([name for name in (*carried, *remembered) if name])


def _listed(name: str, machines: Sequence[WorkerState], pass_context: PassContext) -> Group | None:
    """A group by its listed workers; the oldest one shows its type, zone and price type."""
    if not machines:
        return None
    first = min(machines, key=lambda worker: (worker.worker.created_at, worker.worker.id))
    if first.array is None:
        return None
    array, machine = of_kind(first.array, of_workers=is_of_workers(name)), first.worker
    staying = tuple(worker for worker in machines if _stands(worker) or counts_as_coming(worker, pass_context))
    return Group(
        name,
        array,
        machine.type,
        machine.price_type,
        machine.zone,
        machine.placement_group,
        want=workers_of(array, machine.type) or len(staying),
        workers=tuple(machines),
        staying=staying,
        draining=tuple(worker for worker in machines if may_be_enabled(worker, pass_context) and not worker.advised),
    )


def _to_come(name: str, coming: Sequence[tuple[Order, int]], policy: Policy) -> Group | None:
    """A group of which only orders are known."""
    order, count = coming[0]
    known, key = policy.node_array(order.node_array), order.bucket
    if known is None:
        return None
    array = of_kind(known, of_workers=is_of_workers(name))
    want = workers_of(array, order.type) or count
    return Group(name, array, order.type, key.price_type, key.zone, key.placement_group, want)


def _with_unlisted(group: Group, coming: Iterable[tuple[Order, int]], unlisted: int, fleet: Fleet) -> Group:
    orders = {order.id for order in fleet.orders if order.group_id == group.id}
    return replace(
        group,
        ordered=tuple(name for _, names in named(coming) for name in names),
        unlisted=unlisted,
        orders=frozenset(orders | {worker.worker.order_id or "" for worker in group.workers}),
    )


def _missing(observed: ObservedWorkers, coming: Mapping[str, Sequence[tuple[Order, int]]]) -> list[str]:
    """The group of every worker that the listing leaves out, unless its order still counts for it."""
    waited_for = {order.id for orders in coming.values() for order, _ in orders}
    return [
        note.group_id
        for note in observed.missing.values()
        if note.group_id and not note.gone and note.terminated_at is None and note.order_id not in waited_for
    ]


def _at_work(observed: ObservedWorkers) -> frozenset[str]:
    """Groups with a busy worker that the listing leaves out, whether its order still counts for it or not."""
    busy = (observed.missing[worker_id] for worker_id, host in observed.missing_hosts.items() if host.busy)
    return frozenset(note.group_id for note in busy if note.group_id)


def _stands(worker: WorkerState) -> bool:
    withdrawn = worker.decisive is Condition.INTERRUPTED and worker.notice is None
    return worker.phase is Phase.READY and (withdrawn or worker.decisive in _STAYS_WITH)


def _served(worker: WorkerState) -> bool:
    """Whether it ever took jobs. A disabled worker may belong to a group that never was whole."""
    return not worker.coming and worker.note.opened
