"""The best allowed cluster, as a bound: no allowed configuration can ever run a demand beyond it.

Every estimate is an upper bound: each limit is applied alone, workers of all types count at once, existing hosts count
as if nothing ran there. So a demand beyond it is certainly unsatisfiable; a demand within it may still be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from autoscaler.core.capacity.array_ranges import ArrayType, Range, range_of
from autoscaler.core.model.cluster import Cluster, Complex, Consumable, ExecutionHost
from autoscaler.core.model.complexes import amount, by_any_name, canonical
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.hosts import emptied_host
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.placement.placement import PLENTY, as_shares, place
from autoscaler.core.placement.queue_instances import held
from autoscaler.core.policy import Limits, Policy


@dataclass(frozen=True, slots=True)
class Lift:
    """A setting that, changed alone, would allow more."""

    limit: str
    """Name of the policy's field."""
    place: str
    """As `NodeArrayPolicy` has it."""
    to: str | None


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A setting and what it has to be."""

    limit: str
    """Name of the policy's field."""
    place: str
    to: str


class Allowed:
    """All ranges together, with the existing hosts."""

    def __init__(
        self,
        ranges: Iterable[Range],
        complexes: Mapping[str, Complex],
        persistent: Sequence[Host] = (),
        present: Sequence[Host] = (),
        spreading: Mapping[str, str] | None = None,
    ) -> None:
        """`persistent`: hosts that are not ours, emptied. `present`: workers that are execution hosts, emptied.

        `spreading`: by pool, a parallel environment there whose slots may be on any hosts.
        """
        self.ranges = tuple(ranges)
        self.complexes = complexes
        self.persistent = persistent
        self.present = present
        self.spreading = spreading or {}
        self._on_hosts: dict[Demand, tuple[bool, int, bool]] = {}

    def of(self, demand: Demand) -> tuple[Range, ...]:
        """The node arrays whose workers could serve it."""
        return tuple(each for each in self.ranges if each.array.queue in demand.pools)

    def of_queues(self, queues: Collection[str]) -> Allowed:
        """The same with the node arrays of these queues alone."""
        ranges = (each for each in self.ranges if each.array.queue in queues)
        return Allowed(ranges, self.complexes, self.persistent, self.present, self.spreading)

    def there(self, demand: Demand) -> bool:
        """Whether the existing hosts could run one such task once they are free."""
        return place(((replace(demand, together=False), 1),), (*self.persistent, *self.present)).complete

    def serves(self, demand: Demand, *, only_to_be_had: bool = False) -> bool:
        """Whether one such task might fit on what is allowed. `only_to_be_had`: without types that have an obstacle
        now.
        """
        there, most, once = self._of_hosts(demand)
        if there:
            return True
        for each in self.of(demand):
            kinds = [kind for kind in each.kinds if not (only_to_be_had and kind.obstacle)]
            most += most_visits(demand, kinds, each.array.limits)
            once = once or any(_room(replace(_share(demand), per_job=demand.per_job), kind.host) for kind in kinds)
        return once and most >= demand.slots // (demand.per_host or 1)

    def _of_hosts(self, demand: Demand) -> tuple[bool, int, bool]:
        """For the existing hosts: whether they could run one such task, how many of its visits the persistent ones
        take, and whether one of these has its amounts per job. Computed once for a demand, however many types are
        tried.
        """
        known = self._on_hosts.get(demand)
        if known is None:
            if len(self._on_hosts) >= _DEMANDS:
                self._on_hosts.clear()
            first = replace(_share(demand), per_job=demand.per_job)
            most = sum(visits_on(demand, host) for host in self.persistent)
            once = not (demand.per_job and not demand.one_host) or any(_room(first, host) for host in self.persistent)
            known = self._on_hosts[demand] = self.there(demand), most, once
        return known

    def obstacles(self, demand: Demand) -> Iterator[Reason]:
        """Why types cannot be had now, although that may pass."""
        for each in self.of(demand):
            yield from (kind.obstacle for kind in each.kinds if kind.obstacle is not None)

    def most_slots(self, demand: Demand) -> int:
        """An upper bound of the slots that one such task could have on all that is allowed."""
        workers = sum(most_visits(demand, each.kinds, each.array.limits) for each in self.of(demand))
        visits = workers + sum(visits_on(demand, host) for host in self.persistent)
        return visits * (demand.per_host or 1)

    def present_slots(self, demand: Demand) -> int:
        """An upper bound of the slots that one such task could have on the present workers alone."""
        return sum(visits_on(demand, host) for host in self.present) * (demand.per_host or 1)

    def hosts(self, demand: Demand) -> tuple[Host, ...]:
        """One empty host of every allowed type, and all persistent ones, as far as they have slots in its pools."""
        kinds = [kind.host for each in self.of(demand) for kind in each.kinds]
        return tuple(host for host in (*kinds, *self.persistent) if slots_in(demand.pools, host))

    def changes(self, demand: Demand) -> tuple[Change, ...]:
        """The fewest settings that have to change together so that workers of one type could serve this demand. If
        several choices have as few: limits before types, then the least limit, then the cheapest type. Empty: there is
        none, or only a mix of types would do.
        """
        visits = demand.slots // (demand.per_host or 1) - sum(visits_on(demand, host) for host in self.persistent)
        found = (
            ((len(made), *_least(made[0], cost), cost, count, kind.type.name), made)
            for each in self.of(demand)
            if each.array.extends is None  # a caller's: no setting is its own
            for kind in (*each.kinds, *each.barred, *each.others)
            if kind.type.vcpus >= (demand.per_host or 1) and (room := visits_on(demand, kind.host))
            if _room(replace(_share(demand), per_job=demand.per_job), kind.host)
            for count in (-(-max(visits, 1) // room),)
            for cost in (count * (kind.bucket.price_per_hour or 0.0),)
            if (made := tuple(_changes(each, kind, count)))
        )
        return min(found, default=((), ()))[1]

    def lifts(self, demand: Demand) -> Iterator[Lift]:
        """Single settings whose change would allow this demand: limits first, then types, the cheapest first."""
        for each in self.of(demand):
            if each.array.extends is not None:  # a caller's: no setting is its own
                continue
            limits = each.array.limits
            off = limits.switched_off
            if off is not None:
                on = replace(limits, max_workers=off.workers, switched_off=None)
                lifted = replace(each, array=replace(each.array, limits=on), kinds=(*each.kinds, *each.barred))
                yield from self._lift(demand, each, lifted, off.limit, off.to)
                continue  # no other setting alone brings a worker
            for limit, without in (
                ("max_workers", replace(limits, max_workers=PLENTY)),
                ("max_cores", replace(limits, max_cores=None)),
                ("max_price_per_hour", replace(limits, max_price_per_hour=None)),
                ("total_workers", replace(limits, total_workers=None)),
                ("total_cores", replace(limits, total_cores=None)),
                ("total_price_per_hour", replace(limits, total_price_per_hour=None)),
            ):
                if without != limits:
                    array = replace(each.array, limits=without)
                    lifted = replace(each, array=array, kinds=(*each.kinds, *each.barred))
                    yield from self._lift(demand, each, lifted, limit, self._enough(demand, lifted, limit))
            for kind in each.others:
                setting = _type_setting(each, kind.type)
                # Most types of a catalogue could take nothing of it, so that is checked first.
                large = kind.type.vcpus >= (demand.per_host or 1)
                if setting is not None and large and visits_on(demand, kind.host):
                    yield from self._lift(demand, each, replace(each, kinds=(*each.kinds, kind)), *setting)

    def _enough(self, demand: Demand, lifted: Range, limit: str) -> str | None:
        """The least value of this limit with which workers of one type could serve it; None: only a mix might."""
        visits = demand.slots // (demand.per_host or 1) - sum(visits_on(demand, host) for host in self.persistent)
        needed: list[float] = []
        for kind in lifted.kinds:
            room = visits_on(demand, kind.host)
            count = -(-visits // room) if room else 0
            if not room or kind.most(lifted.array.limits) < count:
                continue
            price = kind.bucket.price_per_hour
            if limit.endswith("workers"):
                needed.append(count)
            elif limit.endswith("cores"):
                needed.append(count * kind.type.vcpus)
            elif price is not None:
                needed.append(ceil(count * price * 1000 - 1e-6) / 1000)
        return f"{min(needed):g}" if needed else None

    def _lift(self, demand: Demand, old: Range, new: Range, limit: str, to: str | None = None) -> Iterator[Lift]:
        ranges = [new if each is old else each for each in self.ranges]
        lifted = Allowed(ranges, self.complexes, self.persistent, self.present, self.spreading)
        lifted._on_hosts = self._on_hosts
        if lifted.serves(demand):
            yield Lift(limit, old.array.place, to)


def allowed_by(
    policy: Policy,
    buckets: Sequence[Bucket],
    cluster: Cluster,
    persistent: Sequence[Host] = (),
    present: Sequence[Host] = (),
    there: Iterable[tuple[str, BucketKey, InstanceType]] = (),
) -> Allowed:
    """The best that this policy allows. `there`: node array, bucket and type of existing or coming machines, those of
    types no longer allowed included. A node array that is not wanted any more and has no machines does not count.
    """
    machines = tuple(there)
    alive = {name for name, _, _ in machines}
    arrays = [array for array in policy.node_arrays if array.requested or array.name in alive]
    ranges = [range_of(array, buckets, cluster.complexes, machines) for array in arrays]
    return Allowed(ranges, cluster.complexes, _bare(persistent), _bare(present), _spreading(cluster))


def _bare(hosts: Sequence[Host]) -> list[Host]:
    """Without FORCED complexes: a person can change these at any time."""
    return [replace(host, forced=frozenset()) if host.forced else host for host in hosts]


def at_best(host: ExecutionHost, complexes: Mapping[str, Complex], names: frozenset[str]) -> Host:
    """All that an execution host might have if nothing ran on it; if that is not known, rather too much."""
    empty = emptied_host(host, complexes, names)
    free, properties = dict(empty.free), dict(empty.properties)
    known = by_any_name(complexes)
    # Reservations do not show what they hold, nor do jobs that began after the jobs were listed.
    unseen = any(each.reserved or each.used > sum(job.slots for job in each.jobs) for each in host.instances)
    for name in names:
        entry = complexes.get(name)
        if entry is None or name == SLOTS:
            continue
        if entry.relop == "EXCL":
            properties |= {name: "1"} if name in properties else {}
        elif entry.consumable is Consumable.NO:
            continue
        elif not host.heard or (name in free and (unseen or (host.jobs and name in host.load))):
            # Of a consumable that the host reports as well, Grid Engine shows the less.
            free[name] = float("inf")
        elif host.jobs and name in free:
            # A job that requests none of it holds its default, which no listing shows.
            used = sum(held(job.hard, job.slots, entry, known) for job in host.jobs)
            free[name] = max(free[name], (amount(host.consumables.get(name, ""), entry.type) or 0.0) + used)
    if "mem_free" in properties and "mem_total" in host.load:
        properties["mem_free"] = canonical(host.load["mem_total"], "MEMORY")
    return replace(empty, free=tuple(sorted(free.items())), properties=properties, empty=True)


def slots_in(pools: Iterable[str], host: Host) -> int:
    return sum(host.slots.get(pool, 0) for pool in pools)


def _type_setting(each: Range, type_: InstanceType) -> tuple[str, str] | None:
    """The single setting that would allow this type, and its value."""
    array, most = each.array, each.array.max_cores_per_worker
    if not array.hybrid:
        return "instance_type", type_.name
    if not each.of_family(type_.family):
        return ("family", _with_family(each, type_)) if not most or type_.vcpus <= most else None
    return "max_cores_per_worker", str(type_.vcpus)


def _with_family(each: Range, type_: InstanceType) -> str:
    """The value that allows the family of this type: where several are allowed, those and this one."""
    several = each.array.family is not None and ("," in each.array.family or len(each.families) > 1)
    return f"{each.array.family},{type_.family}" if several else type_.family


_OF_TYPES = frozenset({"instance_type", "family", "max_cores_per_worker"})
_SWITCHES = frozenset({"autoscale", "watch_only"})


def _least(change: Change, cost: float) -> tuple[bool, float]:
    if change.limit in _SWITCHES:
        return False, 0.0
    return (True, cost) if change.limit in _OF_TYPES else (False, float(change.to))


def _changes(each: Range, kind: ArrayType, count: int) -> Iterator[Change]:
    """The settings to change for `count` workers of one type; none if that is not known."""
    limits, price, name = each.array.limits, kind.bucket.price_per_hour, each.array.place
    settings = _type_settings(each, kind.type) if kind in each.others else ()
    if kind.obstacle is not None or (limits.cap_price and price is None) or (kind in each.others and not settings):
        return
    off = limits.switched_off
    if off is not None:
        yield Change(off.limit, name, off.to)
    yield from (Change(limit, name, to) for limit, to in settings)
    cost = 0.0 if price is None else ceil(count * price * 1000 - 1e-6) / 1000
    cores = count * kind.type.vcpus
    for limit, most, needed in (
        ("max_workers", limits.max_workers if off is None else off.workers, count),
        ("max_cores", limits.max_cores, cores),
        ("max_price_per_hour", limits.max_price_per_hour, cost),
        ("total_workers", limits.total_workers, count),
        ("total_cores", limits.total_cores, cores),
        ("total_price_per_hour", limits.total_price_per_hour, cost),
    ):
        if most is not None and needed > most + 1e-9:
            yield Change(limit, name, f"{needed:g}")


def _type_settings(each: Range, type_: InstanceType) -> tuple[tuple[str, str], ...]:
    """The settings that together would allow this type, with their values."""
    array, most = each.array, each.array.max_cores_per_worker
    if array.machine_types:
        return ()
    if not array.hybrid:
        return (("instance_type", type_.name),)
    family = () if each.of_family(type_.family) else (("family", _with_family(each, type_)),)
    return (*family, *((("max_cores_per_worker", str(type_.vcpus)),) if most and type_.vcpus > most else ()))


def _spreading(cluster: Cluster) -> dict[str, str]:
    rules = {name for name, pe in cluster.pes.items() if pe.allocation_rule in ("$fill_up", "$round_robin")}
    found = {name: sorted(rules.intersection(queue.pe_list)) for name, queue in cluster.queues.items()}
    return {name: pes[0] for name, pes in found.items() if pes}


_DEMANDS = 1000
"""How many demands are remembered."""


# -- bounds ------------------------------------------------------------------------------------------------------


def most_visits(demand: Demand, kinds: Sequence[ArrayType], limits: Limits) -> int:
    """An upper bound of the visits of one task that a node array's workers could take: the least of the bounds by each
    limit alone. It holds for any mix of types, because each worker's visits are counted at the best rate.
    """
    rooms = [(kind, room) for kind in kinds if (room := visits_on(demand, kind.host)) and kind.most(limits) > 0]
    if not rooms:
        return 0
    bounds: list[float] = [sum(kind.most(limits) * room for kind, room in rooms)]
    bounds += [
        most * max(room for _, room in rooms) for most in (limits.max_workers, limits.total_workers) if most is not None
    ]
    bounds += [
        most * max(room / kind.type.vcpus for kind, room in rooms)
        for most in (limits.max_cores, limits.total_cores)
        if most is not None
    ]
    prices = [(kind.bucket.price_per_hour, room) for kind, room in rooms]
    for most in (limits.max_price_per_hour, limits.total_price_per_hour):
        if most is not None and all(price for price, _ in prices):
            bounds.append(most * max(room / price for price, room in prices if price))
    return int(min(bounds) + 1e-6)


def visits_on(demand: Demand, host: Host) -> int:
    """How many visits of one task such an empty host takes; at most one if each must be on a different host."""
    room = _room(_share(demand), host)
    return room if demand.per_host is None else min(room, 1)


def _room(share: Demand, host: Host) -> int:
    return place(((share, PLENTY),), (replace(host, empty=True, forced=frozenset()),)).placed[0]


@lru_cache(maxsize=1024)
def _share(demand: Demand) -> Demand:
    """The demand of one visit on an empty host, where exclusive use makes no difference."""
    return replace(as_shares(((demand, 1),))[0][0], exclusive=False, together=False)
