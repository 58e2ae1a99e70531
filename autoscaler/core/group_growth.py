"""What to launch for groups: what those that are wanted lack, and new ones, each one order of one instance type in one
zone, whole or not at all.

Instance types are tried in the node array's order. One of which its cloud lately had not enough is left out for a
while: for a group, a part is of no use. Limits win over whatever is wanted (rule 5); batches do not divide a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Candidate, Launch
from autoscaler.core.arrays import GROUPS, family_of
from autoscaler.core.bonds import Bond
from autoscaler.core.fleet import ANY, Bucket, Fleet, LaunchFailure
from autoscaler.core.group_names import free_number, group_id
from autoscaler.core.groups import NO_MORE, Group, GroupTarget, group_targets, groups_of, hopeless, workers_of
from autoscaler.core.grow import Ground
from autoscaler.core.growth.options import Option, options_for
from autoscaler.core.growth.registry import strategy_of
from autoscaler.core.life import Sight
from autoscaler.core.limits import Room, Usage, launches_left, most_of
from autoscaler.core.memory import Rest
from autoscaler.core.model import Demand, Host, Wanted
from autoscaler.core.placement import PLENTY, Board, place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.request_sets import Requests
from autoscaler.core.steps import Moment

Usages = Mapping[str, Usage]
"""By node array."""


@dataclass(frozen=True, slots=True)
class Site:
    """What growth of groups stands on, besides what any growth does."""

    ground: Ground
    failures: Sequence[LaunchFailure]
    taken: frozenset[str]
    """Ids of groups that no new one may have."""
    usage: Usages
    """Before this pass."""


@dataclass(frozen=True, slots=True)
class GroupGrowth:
    """What is launched for groups, and why not more."""

    launches: tuple[Launch, ...] = ()
    notes: tuple[Reason, ...] = ()
    told: Mapping[str, Reason] = field(default_factory=dict)
    """By queue, for jobs that want to stay inside one group: what is done, or why nothing is."""


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What this pass launches so far, which counts against limits like what is there."""

    site: Site
    launches: tuple[tuple[NodeArrayPolicy, Launch], ...] = ()
    ending: Mapping[str, Reason] = field(default_factory=dict)
    """By node array: why a group of it that never served is given back, and is not gone yet. It still takes room that
    the next one may need: of the limits, and of its cloud's quota.
    """

    def plus(self, array: NodeArrayPolicy, launch: Launch) -> _Ledger:
        return replace(self, launches=(*self.launches, (array, launch)))

    def usage_of(self, array: NodeArrayPolicy) -> Usage:
        """Of the array with its kin; one that is new has nothing of its own yet."""
        known = self.site.usage.get(array.name)
        usage = known or replace(self.site.usage[family_of(array)], own_workers=0, own_cores=0)
        for other, launch in self.launches:
            usage = usage.plus_launch(launch, array) if family_of(other) == family_of(array) else usage
        return usage

    def left_this_hour(self, array: NodeArrayPolicy) -> Room | None:
        ground, family = self.site.ground, family_of(array)
        room = launches_left(array.limits, ground.launches, family, ground.now)
        if room is None:
            return None
        spent = sum(most_of(launch).workers for other, launch in self.launches if family_of(other) == family)
        return replace(room, count=max(room.count - spent, 0))

    def number_for(self, array: NodeArrayPolicy) -> int:
        return free_number({*self.site.taken, *(launch.group_id for _, launch in self.launches)}, array.name)

    def has(self, group: str) -> bool:
        return any(launch.group_id == group for _, launch in self.launches)


@dataclass(frozen=True, slots=True)
class Grouping:
    """All groups as this look shows them."""

    groups: tuple[Group, ...]
    given_up: Mapping[str, Reason]
    """By group id: never to be completed."""
    targets: Mapping[str, GroupTarget]
    site: Site


def group_up(
    sight: Sight, fleet: Fleet, taken: frozenset[str], requests: Requests, moment: Moment, ground: Ground, usage: Usages
) -> Grouping:
    """Every group, which of them are hopeless, and what callers want. `taken`: ids that no new group may have."""
    groups = groups_of(sight, fleet, ground.policy, moment)
    site = Site(ground, fleet.failures, taken, usage)
    targets = {} if moment.wishes.stop is not None else group_targets(requests, ground.policy, moment.now)
    return Grouping(groups, hopeless(groups, fleet.failures, lambda group: can_complete(group, site)), targets, site)


def grow_groups(
    grouping: Grouping,
    bonds: Mapping[str, Bond],
    wanted: Sequence[Wanted],
    lacking: Sequence[int],
    board: Board,
    earlier: Sequence[Launch] = (),
) -> GroupGrowth:
    """`lacking` is parallel to `wanted`: tasks that found no group. `board`: the supply with all demand on it that
    fits. `earlier`: what this pass launches besides.
    """
    groups, site = grouping.groups, grouping.site
    policy = site.ground.policy
    known = [(policy.node_array(launch.node_array), launch) for launch in earlier]
    backs = [(group.array.name, bonds[group.id].back) for group in groups if not group.served]
    ending = {name: back for name, back in backs if back is not None}
    ledger = _Ledger(site, tuple((array, launch) for array, launch in known if array is not None), ending)
    notes: list[Reason] = []
    told: dict[str, Reason] = {}
    for want, count in zip(wanted, lacking, strict=True):
        root = _root(want, policy.node_arrays) if want.demand.together and want.expired and count else None
        if root is not None:
            ledger, board, reason = _for_demand(want, count, root, groups, bonds, board, ledger)
            told[root.queue] = reason
    for group in groups:
        if bonds[group.id].wanted and group.lacking and not ledger.has(group.id):
            ledger, note = _refill(group, ledger, because(Code.GROUP_LOST, group=group.id, have=group.have))
            notes += [note] if note is not None else []
    for name, target in grouping.targets.items():
        array = policy.node_array(name)
        if array is not None:
            there = sum(bonds[group.id].targeted and group.array.name == name for group in groups)
            ledger, note = _for_target(array, target.count - there, target.reason, ledger)
            notes += [note] if note is not None else []
    return GroupGrowth(tuple(launch for _, launch in ledger.launches[len(known) :]), tuple(notes), told)


def can_complete(group: Group, site: Site) -> bool:
    """Whether what a group lacks could be ordered, of the same kind: its own workers on their way out make room."""
    room = len(group.machines) - len(group.staying)
    options = _options_like(group, _Ledger(site))
    return any(_has(option, group.lacking - room, group.lacking) for option in options)


# -- for whom ----------------------------------------------------------------------------------------------------------


def _root(want: Wanted, arrays: Sequence[NodeArrayPolicy]) -> NodeArrayPolicy | None:
    """The node array of the settings whose groups such jobs get."""
    roots = (array for array in arrays if array.extends is None and array.queue in want.launches)
    return min(roots, key=lambda array: want.launches.index(array.queue), default=None)


def _for_demand(
    want: Wanted,
    count: int,
    root: NodeArrayPolicy,
    groups: Sequence[Group],
    bonds: Mapping[str, Bond],
    board: Board,
    ledger: _Ledger,
) -> tuple[_Ledger, Board, Reason]:
    """Groups for so many tasks: first what incomplete ones lack, then new ones. The reason tells the first launch, or
    why there is none.
    """
    demand, slots = want.demand, want.demand.slots * count
    reason = because(Code.DEMAND, queue=root.queue, tasks=count, slots=slots)
    told: Reason | None = None
    for group in groups:
        usable = group.array.queue == root.queue and group.lacking and bonds[group.id].back is None
        if not usable or not count or ledger.has(group.id):
            continue
        host = _labelled(_options_like(group, ledger)[:1], group.id)
        grown = board.with_new(host, group.lacking) if host is not None else board
        placed = grown.place(((demand, count),)).placed[0] if host is not None else 0
        if placed:
            ledger, note = _refill(group, ledger, reason)
            board, count, told = (grown, count - placed, told) if note is None else (board, count, told or note)
    while count:
        waited = ledger.site.ground.now - want.oldest
        answer = _new(_array_for(demand, root, ledger, waited), ledger, reason, waited, demand)
        if isinstance(answer, Reason):
            return ledger, board, told or answer
        array, launch, host = answer
        ledger = ledger.plus(array, launch)
        board = board.with_new(host, launch.candidates[0].count)
        told = told or launch.reason
        count -= max(board.place(((demand, count),)).placed[0], 1)
    return ledger, board, told or (ledger.launches[-1][1].reason if ledger.launches else reason)


def _for_target(array: NodeArrayPolicy, count: int, reason: Reason, ledger: _Ledger) -> tuple[_Ledger, Reason | None]:
    """So many new groups, as far as limits and its cloud allow."""
    for _ in range(count):
        answer = _new(array, ledger, reason)
        if isinstance(answer, Reason):
            return ledger, answer
        ledger = ledger.plus(answer[0], answer[1])
    return ledger, None


# -- one launch --------------------------------------------------------------------------------------------------------


def _new(
    array: NodeArrayPolicy,
    ledger: _Ledger,
    reason: Reason,
    waited: float = float("inf"),
    demand: Demand | None = None,
) -> tuple[NodeArrayPolicy, Launch, Host] | Reason:
    """A new group, with the host that its first candidate's workers are; or why there is none."""
    ground = ledger.site.ground
    stopped = next((name for name in (array.name, family_of(array)) if name in ground.stopped), None)
    if stopped is not None:
        return because(Code.NODE_ARRAY_STOPPED, node_array=stopped, message=ground.stopped[stopped])
    later = ledger.ending.get(array.name) or _too_soon(array, ground)
    if later is not None:
        return later
    name = group_id(array.name, ledger.number_for(array))
    hourly = ledger.left_this_hour(array)
    capped: Reason | None = None
    first: Host | None = None
    candidates: list[Candidate] = []
    for option in _options(array, ledger, waited):
        count = workers_of(array, option.type) or 0
        host = replace(option.host, group=name)
        if not count or (demand is not None and not place(((demand, 1),), (), host, count).complete):
            continue
        room = min((room for room in (option.room, hourly) if room is not None), key=lambda room: room.count)
        if room.count < count:
            capped = capped or because(Code.GROUP_TOO_LARGE, workers=count, type=option.type.name).then(room.cap)
            continue
        found = [Candidate((bucket,), count) for bucket in _near(option.buckets) if _enough(bucket, count)]
        first = first or (host if found else None)
        candidates += found
    if first is None:
        return capped or because(Code.NOTHING_TO_LAUNCH, node_array=array.name, asked=array.machine_types or None)
    made = because(Code.GROUP_LAUNCHED, group=name, workers=candidates[0].count, type=candidates[0].type.name)
    return array, Launch(array.name, tuple(candidates), reason.then(made), group_id=name), first


def _refill(group: Group, ledger: _Ledger, reason: Reason) -> tuple[_Ledger, Reason | None]:
    """What a group lacks, of its own kind. One that never served wants all of it at once."""
    if (soon := _too_soon(group.array, ledger.site.ground)) is not None:
        return ledger, soon
    options = _options_like(group, ledger)
    least = 1 if group.served else group.lacking
    hourly = ledger.left_this_hour(group.array)
    for option in options:
        room = min((room for room in (option.room, hourly) if room is not None), key=lambda room: room.count)
        count = min(group.lacking, room.count)
        if count < least:
            wanted = because(Code.GROUP_TOO_LARGE, workers=group.lacking, type=option.type.name)
            return ledger, wanted.then(room.cap)
        buckets = [bucket for bucket in option.buckets if _enough(bucket, count)]
        if buckets:
            made = because(Code.GROUP_LAUNCHED, group=group.id, workers=count, type=option.type.name)
            candidates = tuple(Candidate((bucket,), count) for bucket in buckets)
            launch = Launch(group.array.name, candidates, reason.then(made), group_id=group.id)
            return ledger.plus(group.array, launch), None
    return ledger, because(Code.NOTHING_TO_LAUNCH, node_array=group.array.name)


def _too_soon(array: NodeArrayPolicy, ground: Ground) -> Reason | None:
    """Why nothing is ordered just now: an order went wrong a moment ago, and so might the next."""
    delay, last = ground.policy.batch_delay, ground.setbacks.get(array.name)
    if last is None or ground.now - last >= delay:
        return None
    return because(Code.BATCH_DELAY, node_array=array.name, delay_s=delay)


# -- what can be had ---------------------------------------------------------------------------------------------------


def _options(array: NodeArrayPolicy, ledger: _Ledger, waited: float = float("inf")) -> tuple[Option, ...]:
    """In the array's order of preference; what lately could not be had is left out."""
    site = ledger.site
    ground = site.ground
    wanted = replace(array, wanted=True)
    rests = (*ground.rests, *_short_ones(array, site))
    options, _ = options_for(wanted, ground.buckets, rests, ledger.usage_of(array), ground.complexes, waited=waited)
    cores = array.group_cores or 1
    return strategy_of(array)(((Demand(frozenset({array.queue}), slots=cores), 1),), options)


def _options_like(group: Group, ledger: _Ledger) -> tuple[Option, ...]:
    """Of a group's own instance type, price type, zone and placement group."""
    alike = (
        replace(option, buckets=tuple(_near([bucket for bucket in option.buckets if _is_near(bucket, group)])))
        for option in _options(group.array, ledger)
        if (option.type.name, option.price_type) == (group.type.name, group.price_type)
    )
    return tuple(option for option in alike if option.buckets)


def _short_ones(array: NodeArrayPolicy, site: Site) -> tuple[Rest, ...]:
    """Buckets that lately had not enough rest for groups after the first failure."""
    until = {failure: failure.at + array.unavailability_delay for failure in site.failures if failure.kind in NO_MORE}
    return tuple(
        Rest(failure.bucket, end, 1, failure.kind, failure.message)
        for failure, end in until.items()
        if end > site.ground.now and array.takes(failure.bucket)
    )


def _is_near(bucket: Bucket, group: Group) -> bool:
    """Whether workers of this bucket come to stand with those of the group."""
    key = bucket.key
    return key.zone in (ANY, group.zone) and key.placement_group in (ANY, group.placement_group)


def _near(buckets: Sequence[Bucket]) -> Sequence[Bucket]:
    """Those of placement groups, where there are any."""
    grouped = [bucket for bucket in buckets if bucket.key.placement_group != ANY]
    return grouped or buckets


def _enough(bucket: Bucket, count: int) -> bool:
    return bucket.available is None or bucket.available >= count


def _has(option: Option, within_limits: int, count: int) -> bool:
    return option.room.count >= within_limits and any(_enough(bucket, count) for bucket in option.buckets)


def _labelled(options: Sequence[Option], group: str) -> Host | None:
    return replace(options[0].host, group=group) if options else None


def _array_for(demand: Demand, root: NodeArrayPolicy, ledger: _Ledger, waited: float) -> NodeArrayPolicy:
    """The array of groups that hold one such task: as many vCPUs as it has slots, and more where its hosts cannot be
    filled (a fixed number of slots a host, memory, cores kept back).
    """
    policy = ledger.site.ground.policy
    size = demand.slots
    for option in _options(replace(root, group_cores=size), ledger, waited):
        found = place(((demand, 1),), (), replace(option.host, group=GROUPS), PLENTY)
        if found.complete:
            by_cores = -(-size // option.type.vcpus)
            size = size if found.new_used <= by_cores else found.new_used * option.type.vcpus
            break
    while (known := policy.node_array(f"{root.name}{GROUPS}{size}")) is not None and known.group_cores != size:
        size += 1
    if known is not None:
        return known
    own = replace(root.limits, min_workers=0)
    return replace(root, name=f"{root.name}{GROUPS}{size}", extends=root.name, group_cores=size, limits=own)
