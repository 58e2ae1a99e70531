"""The supply: free and coming hosts, in the order in which demand should use them, and how much of the limits all
workers use.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType

from autoscaler.core.capacity.reported_values import of_coming, reported_by
from autoscaler.core.limits.limits import Usage, UsageCount
from autoscaler.core.model.cluster import Cluster, ExecutionHost
from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, Fleet, InstanceType, Order, Worker
from autoscaler.core.model.memory import ReportedType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.hosts import HOSTNAME, HostValues, emptied_host, host_values_of, joined_host
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import LastObjects, PerObject
from autoscaler.core.requests.arrays import families
from autoscaler.core.requests.group_names import pe_of
from autoscaler.core.requests.orders import named, outstanding
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.drain import may_be_enabled
from autoscaler.core.workers.idle import could_leave, removal_order
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.overdue import counts_as_coming
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Supply:
    """Capacity that counts, by how certain it is."""

    there: tuple[Host, ...]
    """Free now: persistent hosts, then workers in service, those that could leave last."""
    coming: tuple[Host, ...]
    """Booting, joining and ordered workers, as what they will offer."""
    draining: tuple[Host, ...]
    """Workers on their way out that could be enabled again."""
    dispensable: tuple[tuple[WorkerState, Host], ...]
    """The tail of `there`: workers that could leave by idle time alone."""
    persistent_emptied: tuple[Host, ...]
    """Persistent hosts as if nothing ran there."""
    later: frozenset[str] = frozenset()
    """Names of hosts in `there` on which nothing starts yet."""
    available_at: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By name of a coming host: when it is expected, by the boot times of its node array."""

    def expected_at(self, pools: Set[str]) -> float | None:
        """When all coming hosts of these pools are expected; None: for one of them that is not known, or none is
        coming.
        """
        names = [host.name for host in self.coming if not pools.isdisjoint(host.slots)]
        known = [self.available_at[name] for name in names if name in self.available_at]
        return max(known) if known and len(known) == len(names) else None

    @property
    def all(self) -> tuple[Host, ...]:
        return (*self.there, *self.coming)


@dataclass(frozen=True, slots=True)
class SupplyContext:
    """The facts from which the supply is read."""

    observed: ObservedWorkers
    snapshot: Snapshot
    pass_context: PassContext
    names: frozenset[str]
    """Complexes that demand asks for."""
    silent: frozenset[str] = frozenset()
    """Hosts that are expected to report again."""
    leaving: frozenset[str] = frozenset()
    """Ids of workers that leave although demand could use them: a stronger one replaces them, or they are quarantined
    in this pass. They are no supply, and are not enabled again.
    """
    given_up: Set[str] = frozenset()
    """Ids of groups that are given back: their workers are no supply."""
    replaced: Set[str] = frozenset()
    """Ids of workers on their way out without which their groups are whole: they are not enabled again."""
    recovered: Set[str] = frozenset()
    """Ids of workers that were silent or interrupted and are enabled again."""
    boot_times: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By node array, the longest boot that was seen."""
    later: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By name of hosts on which nothing starts yet: the state letters that cause this and will pass."""
    reported: Sequence[ReportedType] = ()
    """What hosts of a type reported: launches are sized by it, so coming workers count by it too."""

    @property
    def cluster(self) -> Cluster:
        return self.snapshot.cluster

    def offer(self, type_: InstanceType, array: NodeArrayPolicy, key: BucketKey) -> HostValues:
        """What a worker of this type that is coming will offer."""
        complexes = self.cluster.complexes
        known = reported_by(self.reported, type_.name, array.name)
        return of_coming(host_values_of(type_, array, complexes, key), known, complexes)

    def joined(self, host: ExecutionHost, ignoring: str) -> Host | None:
        """The free part of a host."""
        return joined_host(host, self.cluster.complexes, self.names, ignoring=ignoring)

    def free(self, worker: WorkerState, ignoring: str) -> Host | None:
        """The free part of a worker, with its group."""
        there = replace(worker.host, instances=worker.to_enable) if worker.host else None
        host = self.joined(there, ignoring) if there else None
        if host is None:
            return None
        return replace(host, group=self.usable_group(worker), price=self.price(worker.array, worker.worker))

    def price(self, array: NodeArrayPolicy | None, ordered: Worker | Order) -> float | None:
        """What placement takes as its price; None: its node array does not buy by packing."""
        if array is None or not array.packs:
            return None
        return ordered.price_per_hour or 0.0

    def usable_group(self, worker: WorkerState) -> str:
        """Its group, if Grid Engine can start the group's jobs there. It cannot if the group's parallel environments do
        not exist: the worker joined before they were configured, or a person removed them.
        """
        group, pes = worker.worker.group_id or "", self.cluster.pes
        bases = (base for base in self.pass_context.group_pes if group and base in pes)
        return group if all(pe_of(base, group) in pes for base in bases) else ""


def supply_of(context: SupplyContext) -> Supply:
    """All capacity of this snapshot."""
    pass_context, later, observed = context.pass_context, context.later, context.observed
    serving = pass_context.undrained(observed.in_service)
    if context.leaving:
        serving = [worker for worker in serving if worker.worker.id not in context.leaving]
    free = _free(serving, context)
    # A busy worker, as most are, need not be asked.
    able = {at for at in free.not_busy if could_leave(free.workers[at][0], pass_context)}
    dispensable = [free.workers[at] for at in able]
    dispensable.sort(key=lambda pair: removal_order(pair[0], pass_context.stop_requests), reverse=True)
    staying = free.hosts if not able else tuple([each for at, each in enumerate(free.hosts) if at not in able])
    if later:  # last, as jobs start elsewhere first
        dispensable.sort(key=lambda pair: pair[1].name in later)
        staying = tuple(sorted(staying, key=lambda host: host.name in later))
    recovered = [w for w in observed.workers if w.worker.id in context.recovered] if context.recovered else []
    draining = (
        context.free(worker, "d")
        for worker in observed.draining
        if may_be_enabled(worker, pass_context)
        and worker.worker.id not in context.leaving
        and worker.worker.id not in context.replaced
    )
    return Supply(
        there=(
            *_persistent(context),
            *staying,
            *[host for _, host in dispensable],
        ),
        coming=(
            *_machines_coming(context),
            *_orders_coming(context),
            *_silent(context),
            *(host for worker in recovered if (host := context.free(worker, "d")) is not None),
        ),
        draining=tuple(host for host in draining if host is not None),
        dispensable=tuple(dispensable),
        persistent_emptied=tuple(
            emptied_host(host, context.cluster.complexes, context.names) for host in context.observed.others
        ),
        later=frozenset(later),
        available_at=_available_at(context),
    )


def _available_at(context: SupplyContext) -> Mapping[str, float]:
    begun = {worker.worker.id: (worker.worker.node_array, worker.made_at) for worker in context.observed.coming}
    now = context.pass_context.now
    for order, names in named(outstanding(context.snapshot.fleet, context.snapshot.policy, now)):
        begun |= dict.fromkeys(names, (order.node_array, order.ordered_at))
    times = context.boot_times
    found = {name: at + times[array] for name, (array, at) in begun.items() if array in times}
    return {name: at for name, at in found.items() if at > now}


_FREE = PerObject[WorkerState, Host | None]()
_ID = attrgetter("worker.id")


@dataclass(frozen=True, slots=True)
class _Free:
    """What is free on workers."""

    workers: tuple[tuple[WorkerState, Host], ...]
    """Those that have anything free, with the host that describes it."""
    hosts: tuple[Host, ...]
    """Parallel to them."""
    not_busy: tuple[int, ...]
    """Positions of those that could leave if they have been idle for long."""


def _found(machines: Sequence[WorkerState], free: Sequence[Host | None]) -> _Free:
    workers = tuple([(worker, host) for worker, host in zip(machines, free, strict=True) if host is not None])
    not_busy = [at for at, (worker, _) in enumerate(workers) if worker.empty or worker.advised]
    return _Free(workers, tuple([host for _, host in workers]), tuple(not_busy))


_FOUND = LastObjects[_Free](2)


def _free(machines: Sequence[WorkerState], context: SupplyContext) -> _Free:
    shared = context.cluster.complexes, context.names, context.cluster.pes.keys(), context.pass_context.group_pes
    free: Sequence[Host | None] = _FREE.each(machines, map(_ID, machines), lambda each: context.free(each, ""), shared)
    if later := context.later:
        free = [
            context.free(worker, later[worker.name]) if worker.name in later else host
            for worker, host in zip(machines, free, strict=True)
        ]
    return _FOUND.value_of((machines, free), lambda: _found(machines, free))


def _persistent(context: SupplyContext) -> list[Host]:
    """What is free on persistent hosts and on workers that a person disabled, where queues may still be enabled."""
    observed = context.observed
    foreign = [*observed.others, *observed.missing_hosts.values()]
    not_ours = (Condition.UNKNOWN_ARRAY, Condition.DISABLED_BY_HAND)
    foreign += [worker.host for worker in observed.workers if worker.decisive in not_ours and worker.host]
    found = (context.joined(host, context.later.get(host.name, "")) for host in foreign if host.heard)
    return [host for host in found if host is not None]


def _machines_coming(context: SupplyContext) -> list[Host]:
    hosts: list[Host] = []
    for worker in context.observed.coming:
        if worker.worker.group_id in context.given_up:
            continue
        if worker.array is not None and counts_as_coming(worker, context.pass_context):
            offer = context.offer(worker.worker.type, worker.array, worker.worker.bucket)
            host_name = worker.worker.name if HOSTNAME in context.names else None
            host = offer.host(worker.worker.id, worker.array.queue, host_name)
            price = context.price(worker.array, worker.worker)
            hosts.append(replace(host, group=worker.worker.group_id or "", price=price))
    return hosts


def _silent(context: SupplyContext) -> list[Host]:
    """What is free on hosts that are expected to report again, as far as is known now."""
    observed, silent = context.observed, context.silent
    unheard = context.pass_context.undrained([worker for worker in observed.workers if worker.unheard])
    found = [context.free(worker, "au") for worker in unheard if worker.name in silent]
    others = (host for host in observed.others if not host.heard and host.name in silent)
    found += [context.joined(host, "au") for host in others]
    return [host for host in found if host is not None]


def _orders_coming(context: SupplyContext) -> list[Host]:
    pass_context, policy = context.pass_context, context.snapshot.policy
    if pass_context.overrides.stop == "now":
        return []
    hosts: list[Host] = []
    for order, names in named(outstanding(context.snapshot.fleet, policy, pass_context.now)):
        array = policy.node_array(order.node_array)
        if array is not None and order.group_id not in context.given_up:
            offer = context.offer(order.type, array, order.bucket)
            there = replace(offer.host("", array.queue), price=context.price(array, order))
            hosts += [replace(there, name=name, group=order.group_id) for name in names]
    return hosts


def usage_of(fleet: Fleet, policy: Policy, observed: ObservedWorkers, now: float) -> dict[str, Usage]:
    """The usage of each node array: its additional workers and orders, with those of arrays that extend it. A worker
    counts until its provider says it is gone. A worker of an unknown array counts with the first array of the settings.
    """
    prices = {bucket.key: bucket for bucket in fleet.buckets}
    ordered = outstanding(fleet, policy, now)
    coming = {order.id for order, _ in ordered}
    usage = dict(
        _COUNTED.value_of((observed, fleet.buckets, policy.node_arrays), lambda: _counted(observed, policy, prices))
    )
    for note in observed.missing.values():
        if note.bucket is None or note.terminated_at is not None or note.order_id in coming or not usage:
            continue
        price = note.price_per_hour if note.price_per_hour is not None else _price(note.bucket, prices)
        name = _counted_in(note.bucket.node_array, usage)
        usage[name] = usage[name].plus(note.vcpus, price, 1)
    for order, count in ordered:
        if usage:
            name = _counted_in(order.node_array, usage)
            price = order.price_per_hour if order.price_per_hour is not None else _price(order.bucket, prices)
            usage[name] = usage[name].plus(order.type.vcpus, price, count)
    return _with_family(usage, policy)


_COUNTED = LastObjects[dict[str, Usage]]()


def _counted(observed: ObservedWorkers, policy: Policy, prices: Mapping[BucketKey, Bucket]) -> dict[str, Usage]:
    """By node array, the workers that a listing shows."""
    counts = {array.name: UsageCount() for array in policy.node_arrays}
    for worker in observed.workers:
        machine = worker.worker
        if not worker.gone and counts:
            price = machine.price_per_hour if machine.price_per_hour is not None else _price(machine.bucket, prices)
            counts[_counted_in(machine.node_array, counts)].add(machine.type.vcpus, price)
    return {name: count.usage for name, count in counts.items()}


def _counted_in(name: str, usage: Mapping[str, object]) -> str:
    return name if name in usage else next(iter(usage))


def _with_family(usage: Mapping[str, Usage], policy: Policy) -> dict[str, Usage]:
    """The usage of each array with that of its family, and with the total of the cell: limits hold for all of them
    together.
    """
    together = dict(usage)
    for kin in families(policy).values():
        for array, other in itertools.permutations(kin, 2):
            together[array.name] = together[array.name].plus_others(usage[other.name])
    total = Usage()
    for own in usage.values():
        total = total.plus_elsewhere(own)
    return {
        name: replace(
            each,
            total_workers=total.total_workers,
            total_cores=total.total_cores,
            total_price_per_hour=total.total_price_per_hour,
        )
        for name, each in together.items()
    }


def price_of(worker: Worker, buckets: Sequence[Bucket]) -> float | None:
    """What a worker costs, by its provider or else the catalogue; None: unknown."""
    if worker.price_per_hour is not None:
        return worker.price_per_hour
    return _price(worker.bucket, {bucket.key: bucket for bucket in buckets})


def _price(key: BucketKey, buckets: Mapping[BucketKey, Bucket]) -> float | None:
    """What the catalogue says a worker of this bucket costs, whatever its zone and placement group."""
    candidates: Sequence[BucketKey] = (
        key,
        BucketKey(key.instance_type, key.node_array, ANY, key.price_type),
        BucketKey(key.instance_type, ANY, ANY, key.price_type),
    )
    return next((buckets[one].price_per_hour for one in candidates if one in buckets), None)
