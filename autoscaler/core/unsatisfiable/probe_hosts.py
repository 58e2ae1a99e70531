"""Which probe hosts (execution hosts without a machine) show Grid Engine the best that is allowed, so that it can say
"never".

For a demand that needs one host: one probe host of every allowed type that no other dominates. For one over several
hosts: as many as the limits allow, or, if these are too many, fewer and larger ones that offer as much. They never
offer less than what is allowed, so that an explicit "no suitable queues" holds for every allowed configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autoscaler.core.actions import ProbeHost
from autoscaler.core.capacity.array_ranges import ArrayType, Range
from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.complexes import RESOURCE_MAP, amount
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.placement.amounts import configured, written
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.unsatisfiable.best_cluster import Allowed, most_visits, visits_on

MOST = 16
"""The most probe hosts in one question."""
REPORTED = frozenset({"arch", "num_proc", "mem_total", "mem_free"})
"""Load values that can be predicted from the type. Swap, load, topology and site-specific load sensors cannot."""


def probe_hosts_for(demands: Iterable[Demand], allowed: Allowed) -> tuple[ProbeHost, ...] | None:
    """Probe hosts for all these demands together, which may offer a single demand more than it would get alone. None:
    it takes too many.
    """
    every = tuple(demands)
    names = frozenset(requested.name for demand in every for requested in demand.properties) & REPORTED
    found: list[ProbeHost] = []
    for demand in every:
        ranges = allowed.of(demand)
        for each in ranges:
            some = _for(demand, each, names, MOST // len(ranges), allowed)
            if some is None:
                return None
            found += _missing(some, found)
    return tuple(sorted(found, key=_sorting)) if len(found) <= MOST else None


def _missing(some: Sequence[ProbeHost], found: Sequence[ProbeHost]) -> list[ProbeHost]:
    """`some` without `found`, as multisets."""
    left = list(found)
    more: list[ProbeHost] = []
    for probe_host in some:
        if probe_host in left:
            left.remove(probe_host)
        else:
            more.append(probe_host)
    return more


def _sorting(probe_host: ProbeHost) -> tuple[str, int, tuple[tuple[str, str], ...]]:
    return probe_host.queue, -probe_host.slots, probe_host.complex_values


def _for(demand: Demand, each: Range, names: frozenset[str], most: int, allowed: Allowed) -> list[ProbeHost] | None:
    complexes = allowed.complexes
    able = [kind for kind in each.kinds if visits_on(demand, kind.host)]
    if demand.one_host or not able:
        return _dominant([_probe_host(kind, each, names, complexes) for kind in each.kinds], complexes)
    bound = most_visits(demand, each.kinds, each.array.limits)
    best = max(able, key=lambda kind: kind.most(each.array.limits) * visits_on(demand, kind.host))
    count = best.most(each.array.limits)
    if demand.per_host is not None:
        # Every visit needs a host of its own, so a larger host does not replace two.
        return None if bound > most else [_united(able, each, names, complexes)] * bound
    if count <= most and count * visits_on(demand, best.host) >= bound:
        once = demand.per_job or demand.once_a_host
        one = _united(able, each, names, complexes) if once else _probe_host(best, each, names, complexes)
        return [one] * count
    count, united = min(count, most), _united(able, each, names, complexes)
    # Together they offer the bound, and no more: else Grid Engine would call jobs beyond it possible.
    return [
        _with_slots(united, demand, bound // count + (at < bound % count), complexes)
        for at in range(max(1, min(count, bound)))
    ]


def _probe_host(kind: ArrayType, each: Range, names: frozenset[str], complexes: Mapping[str, Complex]) -> ProbeHost:
    """A worker of this type as Grid Engine would have it, with the load values of `names` that it would report."""
    offer = host_values_of(kind.type, each.array, complexes)
    # No execd reports for a probe host: qalter finds load values in its complex_values only.
    reported = {name: _notation(offer.properties[name], complexes[name]) for name in names if name in offer.properties}
    return ProbeHost(each.array.queue, offer.slots, tuple(sorted({**reported, **dict(offer.complex_values)}.items())))


def _notation(value: str, entry: Complex) -> str:
    number = amount(value, entry.type) if entry.type in _NUMBERS else None
    return value if number is None else written(number, entry.type)


_NUMBERS = frozenset({"INT", "DOUBLE", "MEMORY", "TIME", RESOURCE_MAP})


def _united(
    kinds: Sequence[ArrayType], each: Range, names: frozenset[str], complexes: Mapping[str, Complex]
) -> ProbeHost:
    """A host with the most of every value of these types."""
    first, *others = (_probe_host(kind, each, names, complexes) for kind in reversed(kinds))
    slots, values = first.slots, dict(first.complex_values)
    for other in others:
        slots = max(slots, other.slots)
        values |= {
            name: text
            for name, text in other.complex_values
            if (more := _number(text, name, complexes)) is not None
            and more > (_number(values.get(name, "0"), name, complexes) or 0)
        }
    return ProbeHost(first.queue, slots, tuple(sorted(values.items())))


def _with_slots(probe_host: ProbeHost, demand: Demand, slots: int, complexes: Mapping[str, Complex]) -> ProbeHost:
    """The same host with this many slots, and enough of the amounts that each slot takes."""
    values = dict(probe_host.complex_values)
    for name, each in (*demand.per_slot, *demand.assumed):
        if name in values and (_number(values[name], name, complexes) or 0) < each * slots:
            values[name] = configured(each * slots, complexes[name].type)
    return ProbeHost(probe_host.queue, slots, tuple(sorted(values.items())))


def _dominant(probe_hosts: Sequence[ProbeHost], complexes: Mapping[str, Complex]) -> list[ProbeHost]:
    """The probe hosts to which no other one is equal or superior in everything."""
    return [
        probe_host
        for probe_host in sorted(dict.fromkeys(probe_hosts), key=_sorting)
        if not any(_offers_more(other, probe_host, complexes) for other in probe_hosts if other != probe_host)
    ]


def _offers_more(one: ProbeHost, other: ProbeHost, complexes: Mapping[str, Complex]) -> bool:
    """Whether `one` offers at least as much of everything. More processors count as more: a job that asks for more
    `num_proc` than any type has fits nowhere anyway.
    """
    if one.slots < other.slots or one.queue != other.queue:
        return False
    values = dict(one.complex_values)
    for name, text in other.complex_values:
        mine, theirs = (_number(each, name, complexes) for each in (values.get(name, ""), text))
        if mine is None or theirs is None:
            if values.get(name) != text:
                return False
        elif mine < theirs:
            return False
    return True


def _number(text: str, name: str, complexes: Mapping[str, Complex]) -> float | None:
    entry = complexes.get(name)
    return amount(text, entry.type) if entry is not None and entry.type in {*_NUMBERS, "BOOL"} else None
