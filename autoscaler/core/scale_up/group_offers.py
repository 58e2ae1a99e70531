"""What could be launched for a group: instance types in the node array's order, as far as limits and clouds allow.

A type of which its cloud recently had too little is left out for a while, because a part of a group is of no use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Launch
from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.capacity.placement_groups import Group, GroupKind, kind_of, of_kind, workers_of
from autoscaler.core.limits.limits import Room, Usage, most_of, room_for
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, LaunchFailure
from autoscaler.core.model.memory import Backoff
from autoscaler.core.model.reasons import Reason
from autoscaler.core.placement.placement import PLENTY, OpenPlacement, place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.arrays import GROUPS, family_of
from autoscaler.core.requests.group_names import group_id
from autoscaler.core.sizing.problem import Problem
from autoscaler.core.sizing.sizing import LaunchContext
from autoscaler.core.sizing.strategies import preferred
from autoscaler.core.workers.came_up import CAPACITY

Usages = Mapping[str, Usage]
"""By node array."""


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What launches of groups depend on, besides what all launches do."""

    launch_context: LaunchContext
    failures: Sequence[LaunchFailure]
    taken: frozenset[str]
    """Ids of groups that no new one may have."""
    usage: Usages
    """Usage before this pass."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What this pass launches so far; it counts against limits like existing workers."""

    group_context: GroupContext
    usage: Usages
    launches: tuple[Launch, ...] = ()
    """For groups."""
    kin: Mapping[str, str] = field(default_factory=dict)
    """Node arrays that this pass creates, with the one of the settings that each stems from."""
    numbers: Mapping[GroupKind, int] = field(default_factory=dict)
    """By kind of group, the highest number that this pass has used."""
    had: Mapping[BucketKey, int] = field(default_factory=dict)
    """By bucket, the workers that launches of this pass try there first."""
    spent: Mapping[str, int] = field(default_factory=dict)
    """Workers launched in this pass, by the array of the settings."""
    ending: Mapping[str, Reason] = field(default_factory=dict)
    """By node array: why a group that never served is given back but is not gone yet. It still uses room of the limits
    and of its cloud's quota that the next group may need.
    """

    def plus(self, array: NodeArrayPolicy, launch: Launch, *, number: int = 0) -> Ledger:
        """The ledger with one more launch. `number`: of the group, if it is new."""
        family, first = family_of(array), launch.candidates[0]
        usage = {**self.usage, array.name: self.usage_of(array)}
        kin = {**self.kin, array.name: family}
        for name, known in usage.items():
            owner = self.group_context.launch_context.policy.node_array(name)
            if (family_of(owner) if owner is not None else kin.get(name)) == family:
                usage[name] = known.plus_launch(launch, owner or replace(array, name=name))
            else:
                usage[name] = known.plus_elsewhere(most_of(launch))
        had = dict(self.had)
        for offer in first.offers:
            had |= {bucket.key: had.get(bucket.key, 0) + offer.count for bucket in offer.buckets}
        return replace(
            self,
            usage=usage,
            launches=(*self.launches, launch),
            kin=kin,
            numbers={**self.numbers, kind_of(array): number} if number else self.numbers,
            had=had,
            spent={**self.spent, family: self.spent.get(family, 0) + most_of(launch).workers},
        )

    def usage_of(self, array: NodeArrayPolicy) -> Usage:
        """Usage of the array with its family; a new array has no workers of its own yet."""
        known = self.usage.get(array.name)
        return known or replace(self.usage[family_of(array)], own_workers=0, own_cores=0)

    def room_of(self, option: LaunchOffer, array: NodeArrayPolicy, owner: str = "") -> Room:
        """How many workers of this option the limits allow, the launches of an hour included. `owner`: of the jobs."""
        usage = self.usage_of(array)
        rooms = [room_for(bucket, array.limits, usage) for bucket in option.buckets]
        hourly = self.group_context.launch_context.room_in_hour(array, owner, whole=True)
        if hourly is not None:
            rooms.append(replace(hourly, count=max(hourly.count - self.spent.get(family_of(array), 0), 0)))
        rooms += [room for room in (self._room_in_window(owner),) if room is not None]
        return min(rooms, key=lambda room: room.count)

    def _room_in_window(self, owner: str) -> Room | None:
        """What the window of the circuit breaker allows. A group is launched as a whole: if nothing else was launched
        in the window, it may be larger.
        """
        room, done = self.group_context.launch_context.room_in_window(owner), sum(self.spent.values())
        if room is None or (
            not done and room.count == self.group_context.launch_context.policy.circuit_breaker.max_launches
        ):
            return None
        return replace(room, count=max(room.count - done, 0))

    def enough(self, bucket: Bucket, count: int) -> bool:
        """Whether its cloud has `count` more, as far as it says."""
        return bucket.available is None or bucket.available - self.had.get(bucket.key, 0) >= count

    def next_number(self, array: NodeArrayPolicy) -> int:
        """The smallest that no group of the array and of this kind has."""
        name, of_workers = kind_of(array)
        number = self.numbers.get((name, of_workers), 0) + 1
        while group_id(name, number, of_workers=of_workers) in self.group_context.taken:
            number += 1
        return number

    def has(self, group: str) -> bool:
        return any(launch.group_id == group for launch in self.launches)


@dataclass(frozen=True, slots=True)
class GroupOption:
    """One option for a whole group."""

    offer: LaunchOffer
    workers: int
    tasks: int = 0
    """How many tasks of the demand it runs at once."""


def group_options(
    array: NodeArrayPolicy, ledger: Ledger, demand: Demand | None = None, waited: float = float("inf")
) -> tuple[GroupOption, ...]:
    """Every option for a whole group of this array; for a demand, only options that can run it."""
    found: list[GroupOption] = []
    for option in _options(array, ledger, waited):
        count = workers_of(array, option.type) or 0
        host = replace(option.host, group=array.name)
        tasks = place(((demand, PLENTY),), (), host, count).placed[0] if demand is not None else 0
        if count and (tasks or demand is None):
            found.append(GroupOption(replace(option, buckets=tuple(_near(option.buckets))), count, tasks))
    return tuple(found)


def options_like(group: Group, ledger: Ledger) -> tuple[LaunchOffer, ...]:
    """The options of a group's own instance type, price type, zone and placement group."""
    alike = (
        replace(option, buckets=tuple(_near([bucket for bucket in option.buckets if _is_near(bucket, group)])))
        for option in _options(group.array, ledger)
        if (option.type.name, option.price_type) == (group.type.name, group.price_type)
    )
    return tuple(option for option in alike if option.buckets)


def can_complete(group: Group, group_context: GroupContext) -> bool:
    """Whether a group's missing workers of its kind could be ordered. Its own workers on their way out free room."""
    room = len(group.workers) - len(group.staying)
    ledger = Ledger(group_context, group_context.usage)
    return any(
        option.room.count >= group.shortfall - room
        and any(ledger.enough(bucket, group.shortfall) for bucket in option.buckets)
        for option in options_like(group, ledger)
    )


def array_for(demand: Demand, root: NodeArrayPolicy, ledger: Ledger, waited: float) -> NodeArrayPolicy:
    """The array of groups that can run one such task: as many vCPUs as it has slots, or more if its hosts cannot be
    filled (a fixed number of slots a host, memory, cores kept free).
    """
    policy, size = ledger.group_context.launch_context.policy, demand.slots
    for option in _options(replace(root, group_cores=size), ledger, waited):
        found = place(((demand, 1),), (), replace(option.host, group=root.name), PLENTY)
        if found.complete:
            by_cores = -(-size // option.type.vcpus)
            size = size if found.new_used <= by_cores else found.new_used * option.type.vcpus
            break
    name = f"{root.name}{GROUPS}{size}"
    if (known := policy.node_array(name)) is not None:
        return of_kind(known, of_workers=False)
    own = replace(root.limits, min_workers=0)
    return replace(root, name=name, extends=root.name, group_cores=size, limits=own)


def _options(array: NodeArrayPolicy, ledger: Ledger, waited: float = float("inf")) -> tuple[LaunchOffer, ...]:
    """The options in the array's order of preference, without those that recently had too little."""
    launch_context, usage = ledger.group_context.launch_context, ledger.usage_of(array)
    wanted_array = replace(array, requested=True)
    options, _ = launch_context.offers(
        wanted_array, usage, more=_group_backoffs(array, ledger.group_context), waited=waited
    )
    cores = array.group_cores or 1
    demand = Demand(frozenset({array.queue}), slots=cores)
    return preferred(array, Problem(((demand, 1),), OpenPlacement(), options, now=launch_context.now))


def _group_backoffs(array: NodeArrayPolicy, group_context: GroupContext) -> tuple[Backoff, ...]:
    """Backoffs for groups after the first failure: buckets that recently had too little."""
    ends = ((failure, failure.at + array.unavailability_delay) for failure in group_context.failures)
    return tuple(
        Backoff(failure.bucket, end, 1, failure.kind, failure.message)
        for failure, end in ends
        if failure.kind in CAPACITY and end > group_context.launch_context.now and array.takes(failure.bucket)
    )


def _is_near(bucket: Bucket, group: Group) -> bool:
    """Whether workers of this bucket are near those of the group."""
    key = bucket.key
    return key.zone in (ANY, group.zone) and key.placement_group in (ANY, group.placement_group)


def _near(buckets: Sequence[Bucket]) -> Sequence[Bucket]:
    """The buckets of placement groups if there are any, else all."""
    grouped = [bucket for bucket in buckets if bucket.key.placement_group != ANY]
    return grouped or buckets
