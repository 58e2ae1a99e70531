"""What all node arrays launch together: for the queues' demand and floors first, then for created nodes, then for what
request sets lack. What one launch may bring counts against the limits for the next (rule 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Launch
from autoscaler.core.asking.arrays import GROUPS, families, family_of
from autoscaler.core.asking.created_nodes import by_wish
from autoscaler.core.asking.targets import Holding, Need
from autoscaler.core.fleet import InstanceType
from autoscaler.core.grouping.growth import GroupGrowth
from autoscaler.core.grow import Ground, Growth, grow, grow_asked
from autoscaler.core.limits import Usage, as_event
from autoscaler.core.model import BucketVerdict, Wanted
from autoscaler.core.placement import Board
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.request_sets import CreatedNode
from autoscaler.core.swapping.swap import Swaps


@dataclass(frozen=True, slots=True)
class Calls:
    """All that workers may be launched for."""

    wanted: Sequence[Wanted]
    lacking: Sequence[int]
    """Parallel to `wanted`: tasks that fit nowhere."""
    board: Board
    """The supply with all demand placed on it that fits."""
    floors: Mapping[str, int]
    """By node array: workers lacking to `min_workers`."""
    nodes: Sequence[CreatedNode] = ()
    """Created nodes without a worker, oldest first."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    holding: Holding = field(default_factory=Holding)

    def lacks(self, node_array: str) -> bool:
        """Whether request sets want more workers of it than they have."""
        need = self.needs.get(node_array)
        return need is not None and not need.met_by(self.holding.vcpus.get(node_array, ()))

    def short_of_floor(self, array: NodeArrayPolicy) -> int:
        """What requests lack is launched anyway, and counts for the floor; unless nothing can be launched for them."""
        launched_anyway = self.lacks(array.name) and not array.unknown_types
        return 0 if launched_anyway else self.floors.get(array.name, 0)


@dataclass(frozen=True, slots=True)
class Launches:
    """What all node arrays do together."""

    launches: tuple[Launch, ...]
    buckets: tuple[BucketVerdict, ...]
    notes: tuple[Reason, ...]
    told: Mapping[str, Reason]
    """By queue: what is done for its demand, or why nothing is."""
    withheld: Mapping[str, Reason] = field(default_factory=dict)
    """By id of each created node for which nothing is launched now: why."""

    def besides(self, groups: GroupGrowth) -> Launches:
        """With what is launched for groups."""
        told = {f"{queue}{GROUPS}": reason for queue, reason in groups.told.items()}
        return replace(
            self,
            launches=(*self.launches, *groups.launches),
            notes=(*self.notes, *groups.notes),
            told={**self.told, **told},
        )


def launch_all(
    calls: Calls, ground: Ground, usage: Mapping[str, Usage], swaps: Swaps, blocked: Reason | None
) -> Launches:
    """`blocked`: why nothing may be launched at all. `usage`: by node array."""
    demand, usage = _for_demand(calls, ground, usage, swaps, blocked)
    taken = _reserving(usage, ground, swaps, [growth for _, growth in demand])
    ground = _later(ground, *(growth for _, growth in demand))
    nodes, taken, withheld = _for_nodes(calls, ground, taken, blocked)
    asked = _for_needs(calls, _later(ground, *(growth for _, growth in nodes)), taken, blocked)
    found = [*demand, *nodes, *asked]
    told = {
        array.queue: growth.launch.reason if growth.launch else growth.note
        for array, growth in demand
        if array.extends is None
    }
    return Launches(
        launches=tuple(growth.launch for _, growth in found if growth.launch is not None),
        buckets=tuple(verdict for _, growth in found for verdict in growth.buckets),
        notes=tuple(growth.note for _, growth in found if growth.note is not None and growth.note is not blocked),
        told={queue: reason for queue, reason in told.items() if reason is not None},
        withheld=withheld,
    )


_Found = list[tuple[NodeArrayPolicy, Growth]]
_CountOf = Callable[[InstanceType], int]


def _for_demand(
    calls: Calls, ground: Ground, usage: Mapping[str, Usage], swaps: Swaps, blocked: Reason | None
) -> tuple[_Found, Mapping[str, Usage]]:
    """Array after array, in policy order; what one array brings the next need not."""
    found: _Found = []
    board, lacking = calls.board, list(calls.lacking)
    for array in ground.policy.node_arrays:
        queue = ground.policy.queue(array.queue)
        default = queue is not None and queue.node_array == array.name
        mine = [
            count if default and want.expired and array.queue in want.launches and not want.demand.together else 0
            for want, count in zip(calls.wanted, lacking, strict=True)
        ]
        short = calls.short_of_floor(array)
        if blocked is not None:
            found.append((array, Growth(note=blocked) if any(mine) or short > 0 else Growth()))
            continue
        replacement = swaps.replacements.get(array.name)
        if replacement is None:
            growth = grow(array, calls.wanted, mine, board, usage[array.name], ground, short_of_floor=short)
        else:
            growth = replacement.grow(array, calls.wanted, mine, board, usage[array.name], ground, short_of_floor=short)
        found.append((array, growth.besides(swaps.told.get(array.name))))
        board = growth.board or board
        usage = _after(usage, growth, ground)
        if growth.covered:
            lacking = [count - covered for count, covered in zip(lacking, growth.covered, strict=True)]
    return found, usage


def _for_nodes(
    calls: Calls, ground: Ground, usage: Mapping[str, Usage], blocked: Reason | None
) -> tuple[_Found, Mapping[str, Usage], Mapping[str, Reason]]:
    """Created nodes, those alike together; and why nothing is launched for some of them."""
    found: _Found = []
    withheld: dict[str, Reason] = {}
    for (name, machine_type, placement_group), nodes in by_wish(calls.nodes).items():
        array = ground.policy.node_array(name)
        if array is None:
            continue
        if blocked is not None:
            found.append((array, Growth(note=blocked)))
            withheld |= {node.id: blocked for node in nodes}
            continue
        kind = array if machine_type is None else replace(array, machine_types=(machine_type,))
        reason = because(Code.NODE_WANTED, node_array=name, nodes=tuple(node.name for node in nodes))
        growth = grow_asked(kind, reason, _exactly(len(nodes)), usage[name], ground, placement_group=placement_group)
        if growth.launch is not None:
            most = max(candidate.count for candidate in growth.launch.candidates)
            ids = tuple(node.id for node in nodes[:most])
            growth = replace(growth, launch=replace(growth.launch, nodes=ids))
        found.append((array, growth))
        withheld |= _withheld(nodes, growth)
        usage, ground = _after(usage, growth, ground), _later(ground, growth)
    return found, usage, withheld


def _withheld(nodes: Sequence[CreatedNode], growth: Growth) -> Mapping[str, Reason]:
    """Why nothing is launched for those of these nodes that wait on; that they are wanted their callers know."""
    launch = growth.launch
    reason = growth.note if launch is None else launch.reason
    if reason is not None and reason.code is Code.NODE_WANTED and reason.trail:
        reason = reason.trail[-1]
    if reason is None:
        return {}
    return {node.id: reason for node in nodes if launch is None or node.id not in launch.nodes}


def _exactly(count: int) -> _CountOf:
    return lambda _: count


def _for_needs(calls: Calls, ground: Ground, usage: Mapping[str, Usage], blocked: Reason | None) -> _Found:
    """What the targets of request sets lack."""
    found: _Found = []
    for name, need in calls.needs.items():
        array, there = ground.policy.node_array(name), calls.holding.vcpus.get(name, ())
        if array is None or not calls.lacks(name):
            continue
        if blocked is not None:
            found.append((array, Growth(note=blocked)))
            continue
        if array.unknown_types:
            nothing = because(Code.NOTHING_TO_LAUNCH, node_array=name, asked=array.unknown_types)
            found.append((array, Growth(note=need.reason.then(nothing))))
            continue
        growth = grow_asked(array, need.reason, _lacking(need, there), usage[name], ground)
        if growth.launch is not None:
            growth = replace(growth, launch=replace(growth.launch, asked=True))
        found.append((array, growth))
        usage, ground = _after(usage, growth, ground), _later(ground, growth)
    return found


def _lacking(need: Need, there: Sequence[int]) -> _CountOf:
    return lambda type_: need.lacking(there, type_.vcpus)


def _after(usage: Mapping[str, Usage], growth: Growth, ground: Ground) -> Mapping[str, Usage]:
    """What limits have to hold for once a launch brought all that it may."""
    launch = growth.launch
    array = ground.policy.node_array(launch.node_array) if launch is not None else None
    if launch is None or array is None:
        return usage
    kin = families(ground.policy).get(family_of(array), (array,))
    return {**usage, **{each.name: usage[each.name].plus_launch(launch, each) for each in kin}}


def _later(ground: Ground, *done: Growth) -> Ground:
    """With what was launched just now, which counts among the launches of an hour."""
    launches = [growth.launch for growth in done if growth.launch is not None]
    events = (as_event(launch, ground.policy, ground.now) for launch in launches)
    return replace(ground, launches=(*ground.launches, *events))


def _reserving(usage: Mapping[str, Usage], ground: Ground, swaps: Swaps, done: Sequence[Growth]) -> Mapping[str, Usage]:
    """That usage with the room that is kept for stronger workers to come, so that no request takes it."""
    launching = {growth.launch.node_array for growth in done if growth.launch is not None}
    reserved = dict(usage)
    for name, replacement in swaps.replacements.items():
        array = ground.policy.node_array(name)
        if array is None or name in launching:
            continue
        all_of_it = bool(replacement.replacing.options)  # it comes as soon as it may, and takes what it needs
        kept = Usage(array.limits.max_workers) if all_of_it else replacement.reserved
        for each in families(ground.policy).get(family_of(array), (array,)):
            reserved[each.name] = reserved[each.name].at_least(kept)
    return reserved
