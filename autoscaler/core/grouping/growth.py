"""What to launch for groups: what those that are wanted lack, and new ones, each one order of one instance type in one
zone, whole or not at all. Limits win over whatever is wanted (rule 5); batches do not divide a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Candidate, Launch
from autoscaler.core.asking.arrays import family_of
from autoscaler.core.fleet import Fleet
from autoscaler.core.grouping.bonds import Bond
from autoscaler.core.grouping.groups import Group, GroupKind, groups_of, kind_of, of_kind
from autoscaler.core.grouping.names import group_id
from autoscaler.core.grouping.options import Ledger, Site, Usages, Way, array_for, can_complete, options_like, ways_for
from autoscaler.core.grouping.verdicts import GroupTarget, group_targets, hopeless
from autoscaler.core.grow import Ground
from autoscaler.core.growth.instance_types import not_offered
from autoscaler.core.model import Host, Wanted
from autoscaler.core.placement import Board
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.request_sets import Requests
from autoscaler.core.sight import Sight
from autoscaler.core.steps import Moment


@dataclass(frozen=True, slots=True)
class GroupGrowth:
    """What is launched for groups, and why not more."""

    launches: tuple[Launch, ...] = ()
    notes: tuple[Reason, ...] = ()
    told: Mapping[str, Reason] = field(default_factory=dict)
    """By queue, for jobs that want to stay inside one group: what is done, or why nothing is."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """All groups as this look shows them."""

    groups: tuple[Group, ...]
    given_up: Mapping[str, Reason]
    """By group id: never to be completed."""
    targets: Mapping[GroupKind, GroupTarget]
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
    groups, policy = grouping.groups, grouping.site.ground.policy
    ledger, board = _opened(grouping, bonds, earlier), board.with_new(Host("", {}), 0)
    notes: list[Reason | None] = []
    told: dict[str, Reason] = {}
    for want, count in zip(wanted, lacking, strict=True):
        root = _root(want, policy.node_arrays) if want.demand.together and want.expired and count else None
        if root is not None:
            ledger, board, reason = _for_demand(want, count, root, grouping, bonds, board, ledger)
            told[root.queue] = reason
    for group in groups:
        if bonds[group.id].wanted and group.lacking and not ledger.has(group.id):
            ledger, note = _refill(group, ledger, because(Code.GROUP_LOST, group=group.id, have=group.have))
            notes.append(note)
    for kind, target in grouping.targets.items():
        name, of_workers = kind
        known = policy.node_array(name)
        if known is not None:
            array = of_kind(known, of_workers=of_workers)
            there = sum(bonds[group.id].targeted and group.kind == kind for group in groups)
            ledger, note = _for_target(array, target.count - there, target.reason, ledger)
            notes.append(note)
    return GroupGrowth(ledger.launches, tuple(note for note in notes if note is not None), told)


def _opened(grouping: Grouping, bonds: Mapping[str, Bond], earlier: Sequence[Launch]) -> Ledger:
    """With what this pass launches besides groups."""
    site, policy = grouping.site, grouping.site.ground.policy
    backs = [(group.array.name, bonds[group.id].back) for group in grouping.groups if not group.served]
    ledger = Ledger(site, site.usage, ending={name: back for name, back in backs if back is not None})
    for launch in earlier:
        array = policy.node_array(launch.node_array)
        ledger = ledger if array is None else ledger.plus(array, launch)
    return replace(ledger, launches=())


# -- for whom ----------------------------------------------------------------------------------------------------------


def _root(want: Wanted, arrays: Sequence[NodeArrayPolicy]) -> NodeArrayPolicy | None:
    """The node array of the settings whose groups such jobs get."""
    roots = (array for array in arrays if array.extends is None and array.queue in want.launches)
    return min(roots, key=lambda array: want.launches.index(array.queue), default=None)


def _for_demand(
    want: Wanted,
    count: int,
    root: NodeArrayPolicy,
    grouping: Grouping,
    bonds: Mapping[str, Bond],
    board: Board,
    ledger: Ledger,
) -> tuple[Ledger, Board, Reason]:
    """Groups for so many tasks: those that this pass launches anyway, what incomplete ones lack, then new ones. The
    reason tells the first launch, or why there is none.
    """
    demand = want.demand
    reason = because(Code.DEMAND, queue=root.queue, tasks=count, slots=demand.slots * count)
    told: Reason | None = ledger.launches[-1].reason if ledger.launches else None
    if ledger.launches:
        count -= board.place(((demand, count),)).placed[0]
    for group in grouping.groups:
        usable = group.array.queue == root.queue and group.lacking and bonds[group.id].back is None
        if not usable or not count or ledger.has(group.id):
            continue
        like = options_like(group, ledger)
        grown = board.with_new(replace(like[0].host, group=group.id), group.lacking) if like else board
        placed = grown.place(((demand, count),)).placed[0] if like else 0
        if placed:
            ledger, note = _refill(group, ledger, reason)
            board, count = (grown, count - placed) if note is None else (board, count)
            told = note or ledger.launches[-1].reason
    if not count:
        return ledger, board, told or reason
    waited = ledger.site.ground.now - want.oldest
    array = array_for(demand, root, ledger, waited)
    ways, begun, left = ways_for(array, ledger, demand, waited), len(ledger.launches), count
    while left > 0:
        answer = _new(array, ways, ledger, reason)
        if isinstance(answer, Reason):
            told = answer if told is None or begun == len(ledger.launches) else told
            break
        ledger, way = answer
        told = ledger.launches[begun].reason
        launch = ledger.launches[-1]
        board = board.with_new(replace(way.option.host, group=launch.group_id), way.workers)
        left -= way.tasks
    board.place(((demand, min(count, count - left)),))
    return ledger, board, told or reason


def _for_target(array: NodeArrayPolicy, count: int, reason: Reason, ledger: Ledger) -> tuple[Ledger, Reason | None]:
    """So many new groups, as far as limits and its cloud allow."""
    ways = ways_for(array, ledger) if count > 0 else ()
    for _ in range(count):
        answer = _new(array, ways, ledger, reason)
        if isinstance(answer, Reason):
            return ledger, answer
        ledger, _ = answer
    return ledger, None


# -- one launch --------------------------------------------------------------------------------------------------------


def _new(array: NodeArrayPolicy, ways: Sequence[Way], ledger: Ledger, reason: Reason) -> tuple[Ledger, Way] | Reason:
    """One new group, and the way that it is tried in first; or why there is none."""
    ground = ledger.site.ground
    stopped = next((name for name in (array.name, family_of(array)) if name in ground.stopped), None)
    if stopped is not None:
        return because(Code.NODE_ARRAY_STOPPED, node_array=stopped, message=ground.stopped[stopped])
    later = ledger.ending.get(array.name) or _too_soon(array, ground)
    if later is not None:
        return later
    capped: Reason | None = None
    first: Way | None = None
    candidates: list[Candidate] = []
    for way in ways:
        room = ledger.room_of(way.option, array)
        if room.count < way.workers:
            too_large = because(Code.GROUP_TOO_LARGE, workers=way.workers, type=way.option.type.name)
            capped = capped or too_large.then(room.cap)
            continue
        buckets = [bucket for bucket in way.option.buckets if ledger.enough(bucket, way.workers)]
        first = first or (way if buckets else None)
        candidates += [Candidate((bucket,), way.workers) for bucket in buckets]
    if first is None:
        asked = not_offered(array, ground.buckets) or array.machine_types
        return capped or because(Code.NOTHING_TO_LAUNCH, node_array=array.name, asked=asked or None)
    number = ledger.next_number(array)
    name, of_workers = kind_of(array)
    name = group_id(name, number, of_workers=of_workers)
    made = because(Code.GROUP_LAUNCHED, group=name, workers=first.workers, type=first.option.type.name)
    launch = Launch(array.name, tuple(candidates), reason.then(made), group_id=name)
    return ledger.plus(array, launch, number=number), first


def _refill(group: Group, ledger: Ledger, reason: Reason) -> tuple[Ledger, Reason | None]:
    """What a group lacks, of its own kind. One that never served wants all of it at once."""
    if (soon := _too_soon(group.array, ledger.site.ground)) is not None:
        return ledger, soon
    least = 1 if group.served else group.lacking
    for option in options_like(group, ledger):
        room = ledger.room_of(option, group.array)
        count = min(group.lacking, room.count)
        if count < least:
            wanted = because(Code.GROUP_TOO_LARGE, workers=group.lacking, type=option.type.name)
            return ledger, wanted.then(room.cap)
        buckets = [bucket for bucket in option.buckets if ledger.enough(bucket, count)]
        if buckets:
            made = because(Code.GROUP_LAUNCHED, group=group.id, workers=count, type=option.type.name)
            candidates = tuple(Candidate((bucket,), count) for bucket in buckets)
            return ledger.plus(group.array, Launch(group.array.name, candidates, reason.then(made), group.id)), None
    return ledger, because(Code.NOTHING_TO_LAUNCH, node_array=group.array.name)


def _too_soon(array: NodeArrayPolicy, ground: Ground) -> Reason | None:
    """Why nothing is ordered just now: an order went wrong a moment ago, and so might the next."""
    delay, last = ground.policy.batch_delay, ground.setbacks.get(array.name)
    if last is None or ground.now - last >= delay:
        return None
    return because(Code.BATCH_DELAY, node_array=array.name, delay_s=delay)
