"""What all node arrays launch: for the queues' demand and floors first, then for created nodes, then for the shortfall
of request sets. The workers that one launch may bring count against the limits for the next (rule 5).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Launch
from autoscaler.core.limits.limits import Usage, as_event, most_of
from autoscaler.core.limits.protected_mode import LaunchAllowance
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import InstanceType
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import CreatedNode
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.readable.remembered import PerArguments
from autoscaler.core.requests.arrays import GROUPS, families, family_of
from autoscaler.core.requests.created_nodes import by_request
from autoscaler.core.requests.targets import Need
from autoscaler.core.scale_up.group_launches import GroupLaunches
from autoscaler.core.scale_up.launch_needs import LaunchNeeds
from autoscaler.core.scale_up.owner_rate_limits import for_others, without_limited
from autoscaler.core.sizing.replacement import SwapPlan
from autoscaler.core.sizing.sizing import ArrayLaunch, LaunchContext, Shortfall, size_launch, size_requested
from autoscaler.core.snapshot import BucketVerdict


@dataclass(frozen=True, slots=True)
class Launches:
    """The launches of all node arrays."""

    launches: tuple[Launch, ...]
    buckets: tuple[BucketVerdict, ...]
    notes: tuple[Reason, ...]
    by_queue: Mapping[str, Reason]
    """By queue: what is launched for its demand, or why nothing is."""
    withheld: Mapping[str, Reason] = field(default_factory=dict)
    """By id of each created node for which nothing is launched now: why."""
    assigned: tuple[tuple[str, str, int, int], ...] = ()
    """If the policy asks for it: node array, worker, position of a demand, slots."""
    held_back: Mapping[int, Reason] = field(default_factory=dict)
    """By position of a demand whose jobs no launch has helped, or wait for workers to be free: why nothing is launched
    for it now.
    """
    due: float | None = None
    """When time alone would change what is launched."""

    @property
    def rate_limited(self) -> bool:
        """Whether the circuit breaker's window keeps some launches back."""
        of_launches = (launch.reason for launch in self.launches)
        reasons = (*of_launches, *self.notes, *self.by_queue.values(), *self.held_back.values())
        return any(link.code is Code.LAUNCH_RATE_LIMIT for reason in reasons for link in (reason, *reason.trail))

    def besides(self, groups: GroupLaunches) -> Launches:
        """The same with the launches for groups."""
        if not (groups.launches or groups.notes or groups.by_queue or groups.held_back):
            return self
        by_queue = {f"{queue}{GROUPS}": reason for queue, reason in groups.by_queue.items()}
        return replace(
            self,
            launches=(*self.launches, *groups.launches),
            notes=(*self.notes, *groups.notes),
            by_queue={**self.by_queue, **by_queue},
            held_back={**self.held_back, **groups.held_back},
        )


def launch_all(
    needs: LaunchNeeds,
    launch_context: LaunchContext,
    usage: Mapping[str, Usage],
    swaps: SwapPlan,
    blocked: Reason | None,
) -> Launches:
    """`blocked`: why nothing may be launched at all. `usage`: by node array."""
    demand, usage, launch_context, held_back = _for_demand(
        needs, launch_context, _reserving_in_total(usage, launch_context, swaps), swaps, blocked
    )
    taken = _reserving(usage, launch_context, swaps, [growth for _, growth in demand])
    nodes, taken, withheld = _for_nodes(needs, launch_context, taken, blocked)
    for_requests = _for_needs(needs, _later(launch_context, *(growth for _, growth in nodes)), taken, blocked)
    found = [*demand, *nodes, *for_requests]
    by_queue = {
        array.queue: growth.launch.reason if growth.launch else growth.note
        for array, growth in demand
        if array.extends is None
    }
    notes = dict.fromkeys(growth.note for _, growth in found if growth.note is not None)
    if blocked is not None and blocked.code not in (Code.BUDGET_SPENT, Code.BUDGET_UNKNOWN, Code.STATE_LOST):
        notes.pop(blocked, None)  # the pass reports it anyway
    return Launches(
        launches=tuple(growth.launch for _, growth in found if growth.launch is not None),
        buckets=tuple(
            [
                BucketVerdict(verdict.bucket, verdict.chosen, verdict.reason, array.name)
                for array, growth in found
                for verdict in growth.buckets
            ]
        ),
        notes=tuple(notes),
        by_queue={queue: reason for queue, reason in by_queue.items() if reason is not None},
        withheld=withheld,
        assigned=tuple((array.name, *each) for array, growth in demand for each in growth.assigned),
        held_back={**needs.waiting_for_free, **held_back},
        due=needs.due,
    )


_Found = list[tuple[NodeArrayPolicy, ArrayLaunch]]
_CountOf = Callable[[InstanceType], int]


def _for_demand(
    needs: LaunchNeeds,
    launch_context: LaunchContext,
    usage: Mapping[str, Usage],
    swaps: SwapPlan,
    blocked: Reason | None,
) -> tuple[_Found, Mapping[str, Usage], LaunchContext, Mapping[int, Reason]]:
    """The launches for demand and floors, array after array in policy order: what one array covers, the next does not
    launch.
    """
    found: _Found = []
    held_back: dict[int, Reason] = {}
    placement, unmet = needs.placement, needs.unmet
    for array in launch_context.policy.node_arrays:
        queue = launch_context.policy.queue(array.queue)
        default = queue is not None and queue.node_array == array.name
        mine = _mine(array, needs.wanted, unmet) if default else (0,) * len(unmet)
        any_mine = any(mine)
        allowances = needs.protection.hold_back(array, needs.wanted, mine)
        limited, kind = launch_context.owners_at_limit(array) if any_mine else {}, launch_context.policy.owner
        allowances = without_limited(allowances, needs.wanted, mine, limited, kind)
        mine, with_reason = _allowed(array, allowances)
        held_back |= with_reason
        short = needs.short_of_floor(array)
        obstacle = blocked or needs.missing.get(array.queue)
        if obstacle is not None:
            found.append((array, ArrayLaunch(note=obstacle) if any(mine) or short > 0 else ArrayLaunch()))
            continue
        replacement = swaps.replacements.get(array.name)
        size = size_launch if replacement is None else replacement.size_launch
        wanted = for_others(needs.wanted, limited, kind)
        growth = size(array, Shortfall(wanted, mine, placement, short), usage[array.name], launch_context)
        found.append((array, _as_trial(growth, allowances, limited.values()).besides(swaps.reasons.get(array.name))))
        placement = growth.placement or placement
        usage, launch_context = _after(usage, growth, launch_context), _later(launch_context, growth)
        if growth.covered:
            unmet = tuple([count - covered for count, covered in zip(unmet, growth.covered, strict=True)])
    return found, usage, launch_context, {at: reason for at, reason in held_back.items() if unmet[at]}


def _mine(array: NodeArrayPolicy, wanted: Sequence[CategoryDemand], unmet: Sequence[int]) -> tuple[int, ...]:
    """Of the unmet tasks, those that the default array of a queue launches for."""
    return _MINE.of(
        array.name,
        (array, wanted, unmet),
        lambda: tuple(
            [
                count if want.expired and array.queue in want.launches and not want.demand.together else 0
                for want, count in zip(wanted, unmet, strict=True)
            ]
        ),
    )


def _allowed(
    array: NodeArrayPolicy, allowances: Sequence[LaunchAllowance]
) -> tuple[tuple[int, ...], Mapping[int, Reason]]:
    """The tasks that may be launched for, and by position why nothing is."""
    return _ALLOWED.of(
        array.name,
        (allowances,),
        lambda: (
            tuple([each.tasks for each in allowances]),
            {at: each.reason for at, each in enumerate(allowances) if each.reason is not None and not each.tasks},
        ),
    )


_MINE, _ALLOWED = PerArguments[tuple[int, ...]](256), PerArguments[tuple[tuple[int, ...], Mapping[int, Reason]]](256)


def _as_trial(
    growth: ArrayLaunch, allowances: Sequence[LaunchAllowance], limited: Collection[Reason] = ()
) -> ArrayLaunch:
    """The launch; if launches like it helped no job, its reason says so."""
    if growth.launch is None:
        return growth
    tried = next(
        (each.reason for each in allowances if each.tasks and each.reason and each.reason not in limited), None
    )
    if tried is None:
        return growth
    return replace(growth, launch=replace(growth.launch, reason=growth.launch.reason.then(tried)))


def _for_nodes(
    needs: LaunchNeeds, launch_context: LaunchContext, usage: Mapping[str, Usage], blocked: Reason | None
) -> tuple[_Found, Mapping[str, Usage], Mapping[str, Reason]]:
    """The launches for created nodes, alike ones together; and why nothing is launched for some of them."""
    found: _Found = []
    withheld: dict[str, Reason] = {}
    for (name, machine_type, placement_group), nodes in by_request(needs.nodes).items():
        array = launch_context.policy.node_array(name)
        if array is None:
            continue
        obstacle = blocked or needs.missing.get(array.queue)
        if obstacle is not None:
            found.append((array, ArrayLaunch(note=obstacle)))
            withheld |= {node.id: obstacle for node in nodes}
            continue
        kind = array if machine_type is None else replace(array, machine_types=(machine_type,))
        reason = because(Code.NODE_REQUESTED, node_array=name, nodes=tuple(node.name for node in nodes))
        growth = size_requested(
            kind, reason, _exactly(len(nodes)), usage[name], launch_context, placement_group=placement_group
        )
        if growth.launch is not None:
            most = max(candidate.workers for candidate in growth.launch.candidates)
            ids = tuple(node.id for node in nodes[:most])
            growth = replace(growth, launch=replace(growth.launch, nodes=ids))
        found.append((array, growth))
        withheld |= _withheld(nodes, growth)
        usage, launch_context = _after(usage, growth, launch_context), _later(launch_context, growth)
    return found, usage, withheld


def _withheld(nodes: Sequence[CreatedNode], growth: ArrayLaunch) -> Mapping[str, Reason]:
    """By id of each node without a launch: why. That the node was requested is left out, because its caller knows."""
    launch = growth.launch
    reason = growth.note if launch is None else launch.reason
    if reason is not None and reason.code is Code.NODE_REQUESTED and reason.trail:
        reason = reason.trail[-1]
    if reason is None:
        return {}
    return {node.id: reason for node in nodes if launch is None or node.id not in launch.nodes}


def _exactly(count: int) -> _CountOf:
    return lambda _: count


def _for_needs(
    needs: LaunchNeeds, launch_context: LaunchContext, usage: Mapping[str, Usage], blocked: Reason | None
) -> _Found:
    """The launches for the shortfall of request sets."""
    found: _Found = []
    for name, need in needs.requests.items():
        array, there = launch_context.policy.node_array(name), needs.holding.vcpus.get(name, ())
        if array is None or not needs.has_shortfall(name):
            continue
        obstacle = blocked or needs.missing.get(array.queue)
        if obstacle is not None:
            found.append((array, ArrayLaunch(note=obstacle)))
            continue
        if array.unknown_types:
            nothing = because(Code.NOTHING_TO_LAUNCH, node_array=name, requested=array.unknown_types)
            found.append((array, ArrayLaunch(note=need.reason.then(nothing))))
            continue
        growth = size_requested(array, need.reason, _shortfall(need, there), usage[name], launch_context)
        if growth.launch is not None:
            growth = replace(growth, launch=replace(growth.launch, for_requests=True))
        found.append((array, growth))
        usage, launch_context = _after(usage, growth, launch_context), _later(launch_context, growth)
    return found


def _shortfall(need: Need, there: Sequence[int]) -> _CountOf:
    return lambda type_: need.shortfall(there, type_.vcpus)


def _after(usage: Mapping[str, Usage], growth: ArrayLaunch, launch_context: LaunchContext) -> Mapping[str, Usage]:
    """The usage after a launch brought all that it may."""
    launch = growth.launch
    array = launch_context.policy.node_array(launch.node_array) if launch is not None else None
    if launch is None or array is None:
        return usage
    kin, most = families(launch_context.policy).get(family_of(array), (array,)), most_of(launch)
    elsewhere = {name: each.plus_elsewhere(most) for name, each in usage.items()}
    return {**elsewhere, **{each.name: usage[each.name].plus_launch(launch, each) for each in kin}}


def _later(launch_context: LaunchContext, *done: ArrayLaunch) -> LaunchContext:
    """The same with these launches, which count among the launches of an hour."""
    launches = [growth.launch for growth in done if growth.launch is not None]
    if not launches:
        return launch_context
    events = (as_event(launch, launch_context.policy, launch_context.now) for launch in launches)
    return replace(launch_context, launches=(*launch_context.launches, *events))


def _reserving_in_total(
    usage: Mapping[str, Usage], launch_context: LaunchContext, swaps: SwapPlan
) -> Mapping[str, Usage]:
    """The usage with the room that swaps reserve under the limits of the whole cell, so that no other array takes the
    room that a replaced worker left.
    """
    reserved = dict(usage)
    for name, replacement in swaps.replacements.items():
        array = launch_context.policy.node_array(name)
        if array is None:
            continue
        limits, kept = array.limits, replacement.reserved.total_alone()
        if replacement.replacing.options:  # it comes as soon as it may, and takes what it needs
            all_of_it = (limits.total_workers or 0, limits.total_cores or 0, limits.total_price_per_hour or 0.0)
            kept = kept.at_least(Usage().plus_elsewhere(Usage(*all_of_it)))
        kin = {each.name for each in families(launch_context.policy).get(family_of(array), (array,))}
        reserved |= {other: reserved[other].at_least(kept) for other in reserved.keys() - kin}
    return reserved


def _reserving(
    usage: Mapping[str, Usage], launch_context: LaunchContext, swaps: SwapPlan, done: Sequence[ArrayLaunch]
) -> Mapping[str, Usage]:
    """The usage with the room that swaps reserve, so that no request takes it."""
    launching = {growth.launch.node_array for growth in done if growth.launch is not None}
    reserved = dict(usage)
    for name, replacement in swaps.replacements.items():
        array = launch_context.policy.node_array(name)
        if array is None or name in launching:
            continue
        all_of_it = bool(replacement.replacing.options)  # it comes as soon as it may, and takes what it needs
        kept = Usage(array.limits.max_workers) if all_of_it else replacement.reserved
        for each in families(launch_context.policy).get(family_of(array), (array,)):
            reserved[each.name] = reserved[each.name].at_least(kept)
    return reserved
