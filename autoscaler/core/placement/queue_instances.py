"""The values of a queue on each host: its own, or those for the host or host group (`[@big=…]`).

A future worker gets the values for the host group that it will join, and for those that this group is in. Instances
with the same configuration are the queue's pool. Others are pools of their own, named like Grid Engine's queue domains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from autoscaler.core.model.cluster import BATCH, Cluster, Complex, Consumable, ExecutionHost, Queue, QueueInstance
from autoscaler.core.model.complexes import amount, by_any_name, canonical
from autoscaler.core.model.demand_vector import Amounts
from autoscaler.core.model.host_limits import QUOTA, left_of
from autoscaler.core.placement.master_queues import MASTER, MasterRequest, master_requests
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.snapshot import Snapshot

SLOTS = "slots"
NEW_HOST = "a-worker-yet-to-come"
"""The host name of a worker that has none yet. Requests such as `!w1` are matched with it."""
_Value = TypeVar("_Value")


def with_queue_instances(snapshot: Snapshot) -> Snapshot:
    """The snapshot with every queue instance as it is configured."""
    cluster, policy = as_configured(snapshot.cluster, snapshot.policy)
    return snapshot if cluster is snapshot.cluster else replace(snapshot, cluster=cluster, policy=policy)


def as_configured(cluster: Cluster, policy: Policy) -> tuple[Cluster, Policy]:
    """Cluster and policy with the values of queues on each host and on future workers."""
    own = [queue for queue in cluster.queues.values() if _has_own(queue)]
    masters = master_requests(cluster)
    if not own and not masters:
        return cluster, policy
    groups: dict[str, tuple[str, ...]] = {}
    for group in dict.fromkeys(place for queue in own for place in places_of(queue) if place.startswith("@")):
        for host in cluster.host_groups.get(group, ()):
            groups[host] = (*groups.get(host, ()), group)
    arrays = {array.queue: cluster.places_of(array.host_group) for array in reversed(policy.node_arrays)}
    pools = dict(cluster.queues)
    pools |= {queue.name: queue_at(queue, arrays.get(queue.name, ())) for queue in own}
    names = {queue.name for queue in own}
    complexes = by_any_name(cluster.complexes)

    def placed(instance: QueueInstance) -> QueueInstance:
        if not masters:
            return as_its_queue(instance)
        amounts = (one.amounts(instance.queue, (instance.host,), cluster.host_groups) for one in masters)
        found = {name: str(value) for some in amounts for name, value in some.items()}
        instance = as_its_queue(instance)
        return replace(instance, consumables={**instance.consumables, **found}) if found else instance

    def as_its_queue(instance: QueueInstance) -> QueueInstance:
        if instance.queue not in names:
            return instance
        queue = cluster.queues[instance.queue]
        # A queue's value for a host overrides that for a group of the host.
        places = (instance.host, *groups.get(instance.host, ()))
        here, values = queue_at(queue, places), _consumables(queue_at(queue, places), complexes)
        if _alike(here, pools[queue.name], complexes):
            return replace(instance, consumables=values)
        decisive = [place for place in places if place in places_of(queue)]
        domain = f"{queue.name}@{'+'.join(decisive) or '*'}"
        pools[domain] = here
        return replace(instance, domain=domain, consumables=values)

    def all_placed(host: ExecutionHost) -> ExecutionHost:
        return replace(host, instances=tuple(map(placed, host.instances)))

    hosts = tuple(map(all_placed, cluster.hosts))
    names_of_masters = frozenset(each.name for each in masters)
    return replace(cluster, hosts=hosts, pools=pools, masters=names_of_masters), replace(
        policy,
        node_arrays=tuple(
            _given(array, pools, complexes, _of_masters(array, masters, cluster)) for array in policy.node_arrays
        ),
    )


def _of_masters(array: NodeArrayPolicy, masters: Sequence[MasterRequest], cluster: Cluster) -> dict[str, float]:
    """What a worker to come has for the master tasks of jobs."""
    hosts = (NEW_HOST, *cluster.places_of(array.host_group))
    amounts = (one.amounts(array.queue, hosts, cluster.host_groups) for one in masters)
    return {name: value for some in amounts for name, value in some.items()}


def left_in(instance: QueueInstance, complexes: Mapping[str, Complex], *, emptied: bool = False) -> Amounts:
    """What is left of the consumables that the queue gives to this instance; `emptied`: as if no job were on it."""
    if not instance.consumables:
        return ()
    left: dict[str, float] = {}
    known = by_any_name(complexes)
    for name, text in instance.consumables.items():
        if name.startswith(MASTER):
            left[name] = int(text)
            continue
        if name.startswith(QUOTA):
            left[name] = left_of(text, emptied=emptied)
            continue
        entry = complexes[name]
        used = 0.0 if emptied else sum(held(job.hard, job.slots, entry, known) for job in instance.jobs)
        left[name] = max((amount(text, entry.type) or 0) - used, 0)
    return tuple(sorted(left.items()))


def held(hard: Sequence[tuple[str, str]], slots: int, entry: Complex, known: Mapping[str, Complex]) -> float:
    """How much of a consumable a running job holds: its request, or the default."""
    text = next((text for name, text in hard if known.get(name) == entry), entry.default)
    return (amount(text, entry.type) or 0) * (slots if entry.consumable is Consumable.PER_SLOT else 1)


def _has_own(queue: Queue) -> bool:
    return bool(queue.complex_values or places_of(queue))


def places_of(queue: Queue) -> tuple[str, ...]:
    """Hosts and host groups for which the queue has other values."""
    return tuple(dict.fromkeys(place for values in _overrides(queue) for place in values))


def _overrides(queue: Queue) -> tuple[Mapping[str, object], ...]:
    """The overrides that decide where a job may start, by host or host group."""
    return (
        queue.pe_list_by_host,
        queue.complex_values_by_host,
        queue.qtype_by_host,
        queue.ckpt_list_by_host,
        queue.limits_by_host,
        queue.calendar_by_host,
    )


def queue_at(queue: Queue, places: Sequence[str]) -> Queue:
    """The queue with its values at these places; the first place that has a value decides."""
    limits = dict(queue.limits)
    for place in reversed(places):
        limits |= queue.limits_by_host.get(place, {})
    return replace(
        queue,
        pe_list=_first(places, queue.pe_list_by_host, queue.pe_list),
        pe_list_by_host={},
        complex_values=_first(places, queue.complex_values_by_host, queue.complex_values),
        complex_values_by_host={},
        qtype=_first(places, queue.qtype_by_host, queue.qtype),
        qtype_by_host={},
        ckpt_list=_first(places, queue.ckpt_list_by_host, queue.ckpt_list),
        ckpt_list_by_host={},
        limits=limits,
        limits_by_host={},
        calendar=calendar_at(queue, places),
        calendar_by_host={},
    )


def calendar_at(queue: Queue, places: Sequence[str]) -> str:
    """The name of the queue's calendar at these places; '': it has none."""
    return _first(places, queue.calendar_by_host, queue.calendar)


def _first(places: Sequence[str], overrides: Mapping[str, _Value], default: _Value) -> _Value:
    return next((overrides[place] for place in places if place in overrides), default)


def _alike(one: Queue, other: Queue, complexes: Mapping[str, Complex]) -> bool:
    """Whether the same jobs may run in both, whatever their number."""
    return (
        set(one.pe_list) == set(other.pe_list)
        and (BATCH in one.qtype) == (BATCH in other.qtype)
        and set(one.ckpt_list) == set(other.ckpt_list)
        and one.limits == other.limits
        and one.calendar == other.calendar
        and dict(_fixed(one, complexes)) == dict(_fixed(other, complexes))
    )


def _fixed(queue: Queue, complexes: Mapping[str, Complex]) -> Iterator[tuple[str, str]]:
    for name, text in queue.complex_values.items():
        entry = complexes.get(name)
        if entry is not None and (is_forced(entry) or not _counted(entry)):
            yield entry.name, "" if _counted(entry) else canonical(text, entry.type)


def _consumables(queue: Queue, complexes: Mapping[str, Complex]) -> dict[str, str]:
    """By full name, as the queue has them."""
    found = ((complexes.get(name), text) for name, text in queue.complex_values.items())
    return {entry.name: text for entry, text in found if entry is not None and _counted(entry)}


def is_forced(entry: Complex) -> bool:
    """Whether only jobs that request it start where it is set or reported (FORCED)."""
    return entry.requestable.upper() == "FORCED"


def forced_in(complexes: Mapping[str, Complex]) -> frozenset[str]:
    """Names of the FORCED complexes among these."""
    return frozenset(name for name, entry in complexes.items() if is_forced(entry))


def _counted(entry: Complex) -> bool:
    return entry.consumable is not Consumable.NO and entry.relop != "EXCL" and entry.name != SLOTS


def _given(
    array: NodeArrayPolicy, pools: Mapping[str, Queue], complexes: Mapping[str, Complex], more: Mapping[str, float]
) -> NodeArrayPolicy:
    queue = pools.get(array.queue)
    own = {} if queue is None else _consumables(queue, complexes)
    values = {**{name: amount(text, complexes[name].type) or 0 for name, text in own.items()}, **more}
    return replace(array, queue_values=tuple(sorted(values.items()))) if values else array
