"""What machines offer, as `Host` values: instance types that could be had or are coming, and existing execution hosts.

One function says what a type offers. An Enrol takes its slots and `complex_values` from the same offer, so that Grid
Engine gets exactly what was planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from autoscaler.core.constraints.node import Node
from autoscaler.core.constraints.ruleset import Rules
from autoscaler.core.model.cluster import Complex, Consumable, ExecutionHost
from autoscaler.core.model.complexes import amount, canonical
from autoscaler.core.model.demand_vector import Amounts
from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, InstanceType
from autoscaler.core.model.host_limits import QUOTA, factor_of, is_dynamic, left_of
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.amounts import configured
from autoscaler.core.placement.constraint_effects import Given, as_text, given_to, node_of_type
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.placement.queue_instances import NEW_HOST, is_forced, left_in
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.readable.remembered import PerArguments
from autoscaler.core.requests.arrays import GROUPS

MEMORY_NAMES = frozenset(
    {"h_vmem", "s_vmem", "h_rss", "h_data", "virtual_free", "mem_free", "mem_total", "m_mem_free", "ram"}
)
"""Consumables of type MEMORY that stand for a machine's main memory. Others (scratch, tmp) may stand for something
else.
"""
HOSTNAME = "hostname"
_IDLE_VALUES = (
    *("load_avg", "load_short", "load_medium", "load_long", "cpu"),
    *("np_load_avg", "np_load_short", "np_load_medium", "np_load_long"),
    *("mem_used", "virtual_used", "swap_used", "swap_total", "swap_free", "swap_rate", "swap_rsvd"),
)


CHANGING = frozenset((*_IDLE_VALUES, HOSTNAME))
"""Values of a host that do not hold for others of its type."""


@dataclass(frozen=True, slots=True)
class HostValues:
    """What one machine of a type offers to jobs."""

    slots: int
    consumables: Amounts
    properties: Mapping[str, str]
    """Canonical values, as its execd is expected to report them."""
    complex_values: tuple[tuple[str, str], ...]
    """For its enrolment, in Grid Engine's notation; without slots."""
    queue_values: Amounts = ()
    """Consumables that the queue gives to its instance there."""
    forced: frozenset[str] = frozenset()
    """Its complexes that jobs there must request."""

    def host(self, name: str, pool: str, host_name: str | None = None) -> Host:
        """The same as a `Host`. `host_name`: its name in Grid Engine, if demand asks for host names."""
        key = self.slots, name, pool, host_name
        return _HOSTS.of(key, (self,), lambda: self._host(name, pool, host_name))

    def _host(self, name: str, pool: str, host_name: str | None) -> Host:
        properties = {**self.properties, HOSTNAME: host_name} if host_name else self.properties
        own = {pool: self.queue_values} if self.queue_values else {}
        return Host(name, {pool: self.slots}, self.consumables, properties, own=own, forced=self.forced)


_HOSTS = PerArguments[Host]()


def host_values_of(
    type_: InstanceType, array: NodeArrayPolicy, complexes: Mapping[str, Complex], key: BucketKey | None = None
) -> HostValues:
    """What a machine of this type will offer in this node array. `key`: its bucket, which rules may depend on."""
    name = type_.name, array.name, key
    return _VALUES.of(name, (type_, array, complexes), lambda: _host_values_of(type_, array, complexes, key))


_VALUES = PerArguments[HostValues]()


def _host_values_of(
    type_: InstanceType, array: NodeArrayPolicy, complexes: Mapping[str, Complex], key: BucketKey | None
) -> HostValues:
    given = dict(_consumables(type_, array, complexes))
    if array.rules is None:
        offer = _offer(given, type_, array, complexes)
    else:
        by_rules = given_to(array.rules, type_, array, _key(type_, array, key), given, complexes)
        offer = _under_rules(given, type_, array, complexes, by_rules)
    offer = _limited(offer, array, complexes) if array.host_limits else offer
    has = (*offer.properties, *(name for name, _ in offer.complex_values))
    return replace(offer, forced=frozenset(name for name in has if name in complexes and is_forced(complexes[name])))


def _limited(offer: HostValues, array: NodeArrayPolicy, complexes: Mapping[str, Complex]) -> HostValues:
    """The offer with what quotas give to each such worker."""
    types = {name: entry.type for name, entry in complexes.items()}
    amounts = {
        each: limit_on_host(each.limit.text, each.type, offer.properties.get, types) for each in array.host_limits
    }
    known = [(each.limit.name, value, each.of_queue) for each, value in amounts.items() if value is not None]
    of_queue = tuple((name, value) for name, value, own in known if own)
    of_host = tuple((name, value) for name, value, own in known if not own)
    return replace(
        offer,
        consumables=tuple(sorted((*offer.consumables, *of_host))),
        queue_values=tuple(sorted((*offer.queue_values, *of_queue))),
    )


def limit_on_host(text: str, type_: str, shown: Callable[[str], str | None], types: Mapping[str, str]) -> float | None:
    """A quota's limit on a host with these values; None: it is not known. `types`: of complexes, by name."""
    if not is_dynamic(text):
        return amount(text, type_)
    name, factor = factor_of(text)
    value = shown(name)
    number = None if value is None else amount(value, types.get(name, "DOUBLE"))
    return None if number is None else number * factor


def as_node(bucket: Bucket, array: NodeArrayPolicy, complexes: Mapping[str, Complex], rules: Rules) -> Node:
    """A worker of this bucket that does not exist yet, as rules see it."""
    offered = dict(_consumables(bucket.type, array, complexes))
    return node_of_type(rules, bucket.type, _key(bucket.type, array, bucket.key), offered, complexes)


def _key(type_: InstanceType, array: NodeArrayPolicy, key: BucketKey | None) -> BucketKey:
    """The bucket key as rules see it: a worker of a group without a placement group of its cloud counts as in one of
    its group.
    """
    made = replace(key or BucketKey(type_.name), node_array=array.name)
    of_groups = array.group_cores is not None or array.group_count is not None or GROUPS in array.name
    return replace(made, placement_group=array.name) if of_groups and made.placement_group == ANY else made


def _under_rules(
    given: Mapping[str, float],
    type_: InstanceType,
    array: NodeArrayPolicy,
    complexes: Mapping[str, Complex],
    by_rules: Given,
) -> HostValues:
    """The offer with the values that rules give: they win over the provider's."""
    numbers = {
        name: value
        for name, value in by_rules.values.items()
        if complexes[name].consumable is not Consumable.NO and not isinstance(value, str)
    }
    texts = {name: as_text(value, complexes[name]) for name, value in by_rules.values.items() if name not in numbers}
    offer = _offer({**given, **numbers}, type_, array, complexes)
    fixed = {name: canonical(text, complexes[name].type) for name, text in texts.items()}
    return replace(
        offer,
        consumables=tuple(sorted({**dict(offer.consumables), **by_rules.counted}.items())),
        properties={**offer.properties, **fixed, **by_rules.met},
        complex_values=tuple(sorted({**dict(offer.complex_values), **texts}.items())),
    )


def exclusive_of(array: NodeArrayPolicy, complexes: Mapping[str, Complex]) -> str | None:
    """The complex for exclusive use of a host: the configured one if the cell has it, else the cell's only one with the
    relation EXCL.
    """
    if array.exclusive_complex is None or array.exclusive_complex in complexes:
        return array.exclusive_complex
    found = [entry for entry in complexes.values() if entry.relop == "EXCL"]
    by_shortcut = [entry for entry in found if entry.shortcut == array.exclusive_complex]
    one_of = by_shortcut or found
    return one_of[0].name if len(one_of) == 1 else None


def _offer(
    given: Mapping[str, float], type_: InstanceType, array: NodeArrayPolicy, complexes: Mapping[str, Complex]
) -> HostValues:
    exclusive = exclusive_of(array, complexes)
    reported = {**_reported(type_), **{name: value for name, value in given.items() if name == exclusive}}
    # A FORCED complex with the value 0 would keep out all jobs that do not request it.
    given = {name: value for name, value in given.items() if value or not is_forced(complexes[name])}
    return HostValues(
        slots=slots_of(type_, array),
        consumables=tuple(sorted((name, value) for name, value in given.items() if name != exclusive)),
        properties={HOSTNAME: NEW_HOST}
        | {name: canonical(str(value), complexes[name].type) for name, value in reported.items() if name in complexes},
        complex_values=tuple(
            sorted((name, text) for name, value in given.items() if (text := configured(value, complexes[name].type)))
        ),
        queue_values=array.queue_values,
    )


def slots_of(type_: InstanceType, array: NodeArrayPolicy) -> int:
    """Its cores minus those kept free; all of them if none would be left."""
    left = type_.vcpus - array.free_cores
    return left if left > 0 else type_.vcpus


def _consumables(
    type_: InstanceType, array: NodeArrayPolicy, complexes: Mapping[str, Complex]
) -> Iterable[tuple[str, float]]:
    exclusive = exclusive_of(array, complexes)
    for name, entry in complexes.items():
        if entry.consumable is Consumable.NO or name == SLOTS:
            continue
        if name == array.gpu_complex:
            yield name, type_.gpus
        elif name == array.cpu_complex:
            yield name, slots_of(type_, array)
        elif name == exclusive:
            yield name, 1
        elif entry.type == "MEMORY" and (name in MEMORY_NAMES or name == array.memory_complex):
            yield name, type_.memory


def _reported(type_: InstanceType) -> dict[str, str | int]:
    """Load values of an idle machine of this type, without those that cannot be predicted (topology, tmpdir)."""
    cores, memory = type_.vcpus, type_.memory
    return {
        **dict.fromkeys(_IDLE_VALUES, 0),
        **dict.fromkeys(("mem_total", "mem_free", "virtual_total", "virtual_free"), memory),
        "arch": type_.arch,
        "num_proc": cores,
    }


def joined_host(
    host: ExecutionHost, complexes: Mapping[str, Complex], names: frozenset[str], *, ignoring: str = ""
) -> Host | None:
    """What is free on an execution host now, in queue instances without other state letters than the ignored ones.

    `names`: the complexes that some demand asks for; no others are read. None: no slot is free, or a job has the host
    to itself.
    """
    open_ = [instance for instance in host.instances if not set(instance.states) - set(ignoring)]
    # An advance reservation holds slots that count as reserved, not as used.
    slots = {instance.pool: instance.slots - instance.used - instance.reserved for instance in open_}
    free_slots = {pool: free for pool, free in slots.items() if free > 0}
    if not free_slots or (host.jobs and _taken_whole(host, complexes)):
        return None
    own = {instance.pool: left_in(instance, complexes) for instance in open_ if instance.consumables}
    return replace(_described(host, complexes, names), slots=free_slots, empty=not host.busy, own=own)


def emptied_host(host: ExecutionHost, complexes: Mapping[str, Complex], names: frozenset[str]) -> Host:
    """What an execution host would offer with nothing on it, to find out if something could ever run there."""
    slots = {instance.pool: instance.slots for instance in host.instances}
    described = _described(host, complexes, names, emptied=True)
    free = dict(described.free)
    for name, value in _used(host, complexes):
        if name in free:
            free[name] += value
    if SLOTS in free:
        free[SLOTS] = max(free[SLOTS], sum(slots.values()))
    own = {each.pool: left_in(each, complexes, emptied=True) for each in host.instances if each.consumables}
    return replace(described, slots=slots, own=own, free=tuple(free.items()))


def _described(
    host: ExecutionHost, complexes: Mapping[str, Complex], names: frozenset[str], *, emptied: bool = False
) -> Host:
    """Of the complexes that matter: consumables left, properties, and which ones jobs must request."""
    free: dict[str, float] = {}
    properties: dict[str, str] = {HOSTNAME: host.name} if HOSTNAME in names else {}
    forced: set[str] = set()
    # `slots` of a host limits all its queue instances together.
    for name in (*names, SLOTS):
        entry = complexes.get(name)
        text = shown_value(host, name)
        if text is not None and name.startswith(QUOTA):
            free[name] = left_of(text, emptied=emptied)
        if entry is None or text is None:
            continue
        if is_forced(entry):
            forced.add(name)
        value = amount(text, entry.type)
        if entry.relop != "EXCL" and entry.consumable is not Consumable.NO and value is not None:
            free[name] = max(value, 0)
        elif entry.consumable is Consumable.NO or entry.relop == "EXCL":
            properties[name] = canonical(text, entry.type)
    return Host(host.name, {}, tuple(sorted(free.items())), properties, forced=frozenset(forced))


def shown_value(host: ExecutionHost, name: str) -> str | None:
    """The value of a complex that Grid Engine shows: what is left of a consumable, a fixed value, or a load value."""
    for values in (host.consumables, host.fixed, host.load):
        if name in values:
            return values[name]
    return None


def _taken_whole(host: ExecutionHost, complexes: Mapping[str, Complex]) -> bool:
    """Whether a job that asked for the host to itself runs there."""
    exclusive = {name for entry in complexes.values() if entry.relop == "EXCL" for name in (entry.name, entry.shortcut)}
    return any(name in exclusive and amount(text, "BOOL") for job in host.jobs for name, text in job.hard)


def _used(host: ExecutionHost, complexes: Mapping[str, Complex]) -> Iterable[tuple[str, float]]:
    """The amounts that running jobs hold of the host's consumables."""
    for instance in host.instances:
        for job in instance.jobs:
            for name, text in job.hard:
                entry = complexes.get(name)
                if entry is None or entry.consumable is Consumable.NO or name not in host.consumables:
                    continue
                value = amount(text, entry.type) or 0
                yield name, value * (job.slots if entry.consumable is Consumable.PER_SLOT else 1)
