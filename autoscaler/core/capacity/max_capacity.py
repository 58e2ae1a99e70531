"""Whether the best allowed cluster could ever serve a demand. If no allowed configuration can, nothing is launched for
it, and its reason says what prevents it.

Only for demand that does not fit now. Types in backoff or sold out still count, because that passes; types that a
provider rules out do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autoscaler.core.capacity.offers import distinguishing
from autoscaler.core.capacity.unmet_constraints import Misses
from autoscaler.core.demand.constraint_demand import NO_RULES, Entries, entries_of, without
from autoscaler.core.limits.limits import Room, most_ever
from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.host_limits import QUOTA
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.amounts import shown_property, written
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.placement.master_queues import MASTER
from autoscaler.core.placement.needs import requested_amounts
from autoscaler.core.placement.placement import PLENTY, OpenPlacement
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import LastValue
from autoscaler.core.requests.instance_types import allowed_types


@dataclass(frozen=True, slots=True)
class _Best:
    """What one node array could ever have: one worker of every allowed type, and how many of it; or why nothing."""

    workers: tuple[tuple[Host, Room], ...] = ()
    """Largest first."""
    kinds: tuple[tuple[NodeArrayPolicy, Bucket], ...] = ()
    """Node array and bucket of each of these, in the same order."""
    nothing: Reason | None = None


MOST_DEMANDS = 65_536


class MaxCapacity:
    """The best allowed cluster, per node array."""

    def __init__(
        self, policy: Policy, buckets: Sequence[Bucket], persistent: Sequence[Host], complexes: Mapping[str, Complex]
    ) -> None:
        self._persistent = persistent
        self._rules, self._complexes = policy.rules, complexes
        self._misses = Misses(policy.rules or NO_RULES, complexes)
        self._arrays = [array for array in policy.node_arrays if array.extends is None]
        self._buckets = buckets
        self._best = {array.queue: _best(array, buckets, complexes) for array in self._arrays}

        self._refusals: dict[tuple[Demand, tuple[str, ...]], Reason | None] = {}

    def refusal(self, wanted: CategoryDemand) -> Reason | None:
        """Why no allowed number of any allowed type could serve this demand, with all persistent hosts empty; None: one
        could.
        """
        key, known = (wanted.demand, wanted.launches), self._refusals
        if key not in known:
            if len(known) >= MOST_DEMANDS:
                known = self._refusals = {}
            known[key] = self._refusal(wanted)
        return known[key]

    def _refusal(self, wanted: CategoryDemand) -> Reason | None:
        known = self._best if self._rules is None or not wanted.demand.together else self._in_groups
        arrays = [known[queue] for queue in wanted.launches if queue in known]
        best = [entry for array in arrays for entry in array.workers]
        if not best:
            return next((array.nothing for array in arrays if array.nothing is not None), None)
        if any(self._serves(wanted.demand, host, room.count) for host, room in best):
            return None
        entries = entries_of(wanted.demand, self._rules)
        forbidden = self._forbidden(wanted, entries, arrays) if entries else None
        if forbidden is not None:
            return forbidden
        beyond = self._beyond_host_quota(wanted.demand, best)
        if beyond is not None:
            return beyond
        not_given = self._not_given(wanted.demand, best)
        if not_given is not None:
            return not_given
        not_requested = self._not_requested(wanted.demand, best)
        if not_requested is not None:
            return not_requested
        reason = because(
            Code.NO_TYPE_FITS,
            slots=wanted.demand.slots,
            where="one host" if wanted.demand.one_host else None,
            largest=max(max(host.slots.values()) for host, _ in best),
            workers=max(room.count for _, room in best),
            besides=_besides(wanted.demand, self._complexes),
        )
        in_the_way = next((room.cap for host, room in best if self._serves(wanted.demand, host, PLENTY)), None)
        return reason if in_the_way is None else reason.then(in_the_way)

    def _not_requested(self, demand: Demand, best: Sequence[tuple[Host, Room]]) -> Reason | None:
        """The FORCED complexes that a job would have to request to run on an allowed worker; None: that alone would not
        help.
        """
        everywhere = frozenset[str]().union(*(host.forced for host in (*self._persistent, *(host for host, _ in best))))
        requesting = replace(demand, names=demand.names | everywhere)
        if requesting.names == demand.names:
            return None
        able = next((host for host, room in best if self._serves(requesting, host, room.count)), None)
        if able is None:
            return None
        missing = (able.forced or everywhere) - demand.names
        return because(Code.MUST_BE_REQUESTED, resources=tuple(sorted(missing)))

    def _beyond_host_quota(self, demand: Demand, best: Sequence[tuple[Host, Room]]) -> Reason | None:
        """The quota for each host that alone keeps a job from allowed workers; None: there is none."""
        limits = [name for name, _ in demand.assumed if name.startswith(QUOTA)]
        for name in limits:
            free = replace(demand, assumed=tuple(each for each in demand.assumed if each[0] != name))
            if any(self._serves(free, host, room.count) for host, room in best):
                quota, _, limit = name.removeprefix(QUOTA).rpartition(": ")
                return because(Code.BEYOND_QUOTA, quota=quota, limit=f"{limit} on each host")
        return None

    def _not_given(self, demand: Demand, best: Sequence[tuple[Host, Room]]) -> Reason | None:
        """The requested consumables that workers are not given although they may have them, as their names are not
        those of the settings; None: they are not what keeps the job from workers.
        """
        missing = {
            name: amount
            for name, amount in requested_amounts(demand)
            if name in self._complexes and not any(has_amount(host, name) for host, _ in best)
        }
        if not missing:
            return None
        without_them = replace(
            demand,
            per_slot=tuple(each for each in demand.per_slot if each[0] not in missing),
            per_job=tuple(each for each in demand.per_job if each[0] not in missing),
            once_a_host=tuple(each for each in demand.once_a_host if each[0] not in missing),
        )
        if not any(self._serves(without_them, host, room.count) for host, room in best):
            return None
        return not_given(missing, self._complexes)

    @cached_property
    def _in_groups(self) -> dict[str, _Best]:
        """The same as workers of groups, because rules may treat these differently."""
        grouped = [replace(array, group_count=array.group_count or 1) for array in self._arrays]
        return {array.queue: _best(array, self._buckets, self._complexes) for array in grouped}

    def _forbidden(self, wanted: CategoryDemand, entries: Entries, arrays: Sequence[_Best]) -> Reason | None:
        """Why rules forbid the workers that come nearest, if nothing but rules speaks against them; else None."""
        bare = without(wanted.demand, entries)
        workers = [worker for array in arrays for worker in array.workers]
        kinds = [kind for array in arrays for kind in array.kinds]

        def serves(at: int) -> bool:
            host, room = workers[at]
            return self._serves(bare, host, room.count)

        return self._misses.reason(entries, kinds, (wanted.launches, wanted.demand.together), serves)

    def _serves(self, demand: Demand, host: Host, most: int) -> bool:
        """Whether `most` workers like `host` could run one such task, with persistent hosts if it may spread."""
        demand = replace(demand, together=False) if demand.together else demand  # all of them would be one group
        if OpenPlacement().with_new(host, most).takes(demand):
            return True
        return not demand.one_host and OpenPlacement(self._persistent).with_new(host, most).takes(demand)


_LAST = LastValue[MaxCapacity]()


def max_capacity(
    policy: Policy, buckets: Sequence[Bucket], persistent: Sequence[Host], complexes: Mapping[str, Complex]
) -> MaxCapacity:
    """The one of the last pass, if all that it depends on is the same."""
    arguments = policy, tuple(buckets), tuple(persistent), complexes
    return _LAST.value_of(arguments, lambda: MaxCapacity(*arguments))


_NAMING = "CP_CAP_GE_CONSUMABLE_RESOURCE_NAME_"


def naming_setting(entry: Complex) -> str | None:
    """The setting that gives workers a consumable of this name, as far as its name and type tell what it counts."""
    if "gpu" in entry.name.lower():
        return f"{_NAMING}GPU"
    if entry.type == "MEMORY":
        return f"{_NAMING}RAM"
    return f"{_NAMING}CPU" if entry.name.lower() in _CORES else None


def not_given(missing: Mapping[str, float], complexes: Mapping[str, Complex]) -> Reason:
    """The reason that workers have none of these consumables, with the setting that would name the first."""
    asked = tuple(f"{name}={written(amount, _type(name, complexes))}" for name, amount in missing.items())
    return because(Code.NOT_GIVEN_TO_WORKERS, resources=asked, setting=naming_setting(complexes[next(iter(missing))]))


_CORES = frozenset({"cpu", "cpus", "core", "cores", "ncpus", "threads"})


def has_amount(host: Host, name: str) -> bool:
    """Whether jobs find any value of a consumable on a host or in one of its queues, be it 0."""
    return name in dict(host.free) or any(name in dict(values) for values in host.own.values())


def _besides(demand: Demand, complexes: Mapping[str, Complex]) -> tuple[str, ...]:
    """What it asks for besides slots: no type may have that."""
    amounts = (
        name if name.startswith(MASTER) else f"{name}={written(amount, _type(name, complexes))}"
        for name, amount in requested_amounts(demand)
    )
    properties = (shown_property(each, complexes) for each in demand.properties)
    return (*amounts, *properties, *(("the host for itself",) if demand.exclusive else ()))


def _type(name: str, complexes: Mapping[str, Complex]) -> str:
    return complexes[name].type if name in complexes else "DOUBLE"


def _best(array: NodeArrayPolicy, buckets: Sequence[Bucket], complexes: Mapping[str, Complex]) -> _Best:
    allowed = allowed_types(array, buckets)
    most: dict[tuple[str, object], tuple[Room, Bucket]] = {}
    obstacles: list[Reason] = []
    for bucket in buckets:
        if not array.takes(bucket.key) or bucket.type.name not in allowed:
            continue
        room = most_ever(bucket, array.limits)
        obstacle = _obstacle(bucket, array, room)
        if obstacle is not None:
            obstacles.append(obstacle)
            continue
        alike = bucket.type.name, distinguishing(bucket, array, complexes)
        if alike not in most or most[alike][0].count < room.count:
            most[alike] = room, bucket
    if most:
        found = [
            (host_values_of(allowed[name], array, complexes, bucket.key).host("", array.queue), room, bucket)
            for (name, _), (room, bucket) in most.items()
        ]
        found.sort(key=lambda each: -max(each[0].slots.values()))
        hosts = tuple((host, room) for host, room, _ in found)
        return _Best(hosts, tuple((array, bucket) for _, _, bucket in found))
    if not obstacles:
        configured = (array.family if array.hybrid else None) or array.instance_type
        return _Best(nothing=because(Code.NO_INSTANCE_TYPE, node_array=array.name, requested=configured or None))
    # A cause that a setting would lift comes before one of the provider's.
    nearest = min(obstacles, key=lambda obstacle: _NEAREST.index(obstacle.code))
    if nearest.code is Code.AUTOSCALING_OFF:  # says all by itself
        return _Best(nothing=nearest)
    return _Best(nothing=because(Code.NO_WORKER_ALLOWED, node_array=array.name).then(nearest))


_NEAREST = (
    Code.AUTOSCALING_OFF,
    Code.CAPPED,
    Code.BUCKET_NO_PRICE,
    Code.BUCKET_UNAVAILABLE,
    Code.BUCKET_NOT_ALLOWED,
)


def _obstacle(bucket: Bucket, array: NodeArrayPolicy, room: Room) -> Reason | None:
    """Why no worker of this bucket will ever be launched with these settings."""
    if bucket.key.price_type not in array.price_types:
        return because(Code.BUCKET_NOT_ALLOWED, type=bucket.type.name, price_type=bucket.key.price_type.value)
    if bucket.problem is not None:
        return because(Code.BUCKET_UNAVAILABLE, type=bucket.type.name, message=bucket.problem)
    if array.limits.cap_price and bucket.price_per_hour is None:
        return because(Code.BUCKET_NO_PRICE, type=bucket.type.name)
    return None if room.count else room.cap
