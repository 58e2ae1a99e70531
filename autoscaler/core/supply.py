"""What there is and what is coming, as Hosts in the order in which demand should use them up, and what it all counts
for against limits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from autoscaler.core.asking.arrays import families
from autoscaler.core.capacity import HOSTNAME, emptied_host, joined_host, offer_of
from autoscaler.core.cluster import Cluster
from autoscaler.core.fleet import ANY, Bucket, BucketKey, Fleet, Order, OrderState, Worker
from autoscaler.core.grouping.names import pe_of
from autoscaler.core.joining import overdue
from autoscaler.core.leaving import wanted_back
from autoscaler.core.life import Life, Machine
from autoscaler.core.limits import Usage
from autoscaler.core.model import Host
from autoscaler.core.policy import Policy
from autoscaler.core.shrink import could_leave, let_go_order
from autoscaler.core.sight import Sight
from autoscaler.core.steps import Moment


@dataclass(frozen=True, slots=True)
class Supply:
    """Capacity that counts, by how certain it is."""

    there: tuple[Host, ...]
    """Free now: persistent hosts, then workers in service, those that could leave last."""
    coming: tuple[Host, ...]
    """Booting, joining and ordered workers, as what they will offer."""
    draining: tuple[Host, ...]
    """Ours on their way out that could be let in again."""
    dispensable: tuple[tuple[Machine, Host], ...]
    """Of `there`, its tail: what idle time alone would let go."""
    persistent_emptied: tuple[Host, ...]
    """Persistent hosts as if nothing ran there."""

    @property
    def all(self) -> tuple[Host, ...]:
        return (*self.there, *self.coming)


def supply_of(
    sight: Sight,
    cluster: Cluster,
    fleet: Fleet,
    policy: Policy,
    moment: Moment,
    names: frozenset[str],
    silent: frozenset[str] = frozenset(),
    making_room: frozenset[str] = frozenset(),
    given_up: Set[str] = frozenset(),
) -> Supply:
    """All capacity of this snapshot.

    `names`: complexes that demand asks for. `silent`: hosts that are expected to report again. `making_room`: ids of
    workers that a stronger one is to replace: no supply, and not wanted back. `given_up`: ids of groups that are given
    back.
    """
    complexes = cluster.complexes
    foreign = [*sight.others, *sight.missing_hosts.values()]
    # Of what a person disabled some queues may be open.
    not_ours = (Life.UNKNOWN_ARRAY, Life.DISABLED_BY_HAND)
    foreign += [machine.host for machine in sight.machines if machine.life in not_ours and machine.host]
    persistent = [joined_host(host, complexes, names) for host in foreign if host.heard]
    serving = [
        machine
        for machine in sight.machines
        if machine.life is Life.IN_SERVICE and moment.let_go(machine) is None and machine.worker.id not in making_room
    ]
    staying = [machine for machine in serving if not could_leave(machine, moment)]
    able = [machine for machine in serving if could_leave(machine, moment)]
    dispensable = [
        (machine, host)
        for machine in sorted(able, key=lambda machine: let_go_order(machine, moment.asking), reverse=True)
        if (host := _free(machine, cluster, moment, names)) is not None
    ]
    draining = [
        machine for machine in sight.machines if wanted_back(machine, moment) and machine.worker.id not in making_room
    ]
    kept = [host for host in (_free(machine, cluster, moment, names) for machine in staying) if host is not None]
    let_in = [
        host for host in (_free(machine, cluster, moment, names, "d") for machine in draining) if host is not None
    ]
    return Supply(
        there=(*(host for host in persistent if host is not None), *kept, *(host for _, host in dispensable)),
        coming=(
            *_machines_coming(sight, cluster, moment, names, given_up),
            *_orders_coming(fleet, policy, cluster, moment, given_up),
            *_silent(sight, cluster, moment, names, silent),
        ),
        draining=tuple(let_in),
        dispensable=tuple(dispensable),
        persistent_emptied=tuple(emptied_host(host, complexes, names) for host in sight.others),
    )


def _free(machine: Machine, cluster: Cluster, moment: Moment, names: frozenset[str], ignoring: str = "") -> Host | None:
    host = joined_host(machine.host, cluster.complexes, names, ignoring=ignoring) if machine.host else None
    return host if host is None else replace(host, group=_usable_group(machine, cluster, moment))


def _usable_group(machine: Machine, cluster: Cluster, moment: Moment) -> str:
    """Its group, where jobs can have it: one that joined before a parallel environment was said to be for groups, or
    that lost its own to a person, has nothing by which Grid Engine would put them there.
    """
    group = machine.worker.group_id or ""
    bases = (base for base in moment.group_pes if group and base in cluster.pes)
    return group if all(pe_of(base, group) in cluster.pes for base in bases) else ""


def _machines_coming(
    sight: Sight, cluster: Cluster, moment: Moment, names: frozenset[str], given_up: Set[str]
) -> list[Host]:
    hosts: list[Host] = []
    for machine in sight.machines:
        if machine.worker.group_id in given_up:
            continue
        if machine.array is not None and counts_as_coming(machine, moment):
            offer = offer_of(machine.worker.type, machine.array, cluster.complexes, machine.worker.bucket)
            host_name = machine.worker.name if HOSTNAME in names else None
            host = offer.host(machine.worker.id, machine.array.queue, host_name)
            hosts.append(replace(host, group=machine.worker.group_id or ""))
    return hosts


def _silent(
    sight: Sight, cluster: Cluster, moment: Moment, names: frozenset[str], silent: frozenset[str]
) -> list[Host]:
    """What hosts that are expected to report again have free, as far as is known of them now."""
    unheard = [machine for machine in sight.machines if machine.life is Life.UNHEARD and moment.let_go(machine) is None]
    found = [_free(machine, cluster, moment, names, "au") for machine in unheard if machine.name in silent]
    others = (host for host in sight.others if not host.heard and host.name in silent)
    found += [joined_host(host, cluster.complexes, names, ignoring="au") for host in others]
    return [host for host in found if host is not None]


def counts_as_coming(machine: Machine, moment: Moment) -> bool:
    """Whether a machine on its way is still expected: not late, and wanted gone by nobody."""
    return machine.coming and moment.let_go(machine) is None and overdue(machine, moment.now) is None


def _orders_coming(fleet: Fleet, policy: Policy, cluster: Cluster, moment: Moment, given_up: Set[str]) -> list[Host]:
    if moment.wishes.stop == "now":
        return []
    hosts: list[Host] = []
    for order, count in outstanding(fleet, policy, moment.now):
        array = policy.node_array(order.node_array)
        if array is not None and order.group_id not in given_up:
            offer = offer_of(order.type, array, cluster.complexes, order.bucket)
            there = offer.host("", array.queue)
            hosts += [replace(there, name=f"{order.id}#{number}", group=order.group_id) for number in range(count)]
    return hosts


def outstanding(fleet: Fleet, policy: Policy, now: float) -> list[tuple[Order, int]]:
    """Orders of which workers are still to show up in the listing, and how many (rule 3)."""
    listed = {worker.id for worker in fleet.workers}
    by_order: dict[str, int] = {}
    for worker in fleet.workers:
        if worker.order_id:
            by_order[worker.order_id] = by_order.get(worker.order_id, 0) + 1
    found: list[tuple[Order, int]] = []
    for order in fleet.orders:
        if order.state is OrderState.SENT:
            count = order.count - by_order.get(order.id, 0)
        elif order.state is OrderState.ACCEPTED and now - order.ordered_at < policy.order_grace:
            count = sum(worker_id not in listed for worker_id in order.ids)
        else:
            count = 0
        if count > 0:
            found.append((order, count))
    return found


def usage_of(fleet: Fleet, policy: Policy, sight: Sight, now: float) -> dict[str, Usage]:
    """What every node array's additional workers and orders amount to, with those of its kin. A worker counts until its
    provider says it is gone. One of an array that is not known (any more) counts with the first of the settings.
    """
    prices = {bucket.key: bucket for bucket in fleet.buckets}
    ordered = outstanding(fleet, policy, now)
    coming = {order.id for order, _ in ordered}
    usage = {array.name: Usage() for array in policy.node_arrays}
    for machine in sight.machines:
        worker = machine.worker
        if machine.life is not Life.GONE and usage:
            name = _counted_in(worker.node_array, usage)
            price = worker.price_per_hour if worker.price_per_hour is not None else _price(worker.bucket, prices)
            usage[name] = usage[name].plus(worker.type.vcpus, price, 1)
    for note in sight.missing.values():
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
    return _with_kin(usage, policy)


def _counted_in(name: str, usage: Mapping[str, Usage]) -> str:
    return name if name in usage else next(iter(usage))


def _with_kin(usage: Mapping[str, Usage], policy: Policy) -> dict[str, Usage]:
    """Every array's with that of the others that stem from the same one: limits hold for all of them together."""
    together = dict(usage)
    for kin in families(policy).values():
        for array, other in itertools.permutations(kin, 2):
            together[array.name] = together[array.name].plus_others(usage[other.name])
    return together


def price_of(worker: Worker, buckets: Sequence[Bucket]) -> float | None:
    """What a worker costs, by its provider or else the catalogue; None: nobody knows."""
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
