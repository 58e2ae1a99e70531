"""What to launch for groups: the missing workers of needed groups, and new groups. A new group is one order of one
instance type in one zone, whole or not at all. Limits win over every request (rule 5). Batches do not divide a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import Launch, LaunchSet
from autoscaler.core.capacity.group_targets import GroupTarget, group_targets, groups_to_give_up
from autoscaler.core.capacity.placement_groups import Group, GroupKind, groups_of, kind_of, of_kind
from autoscaler.core.categories import assignment_of
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.fleet import Fleet
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.owners import ordered_for
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import LastObjects
from autoscaler.core.requests.group_names import group_id
from autoscaler.core.requests.instance_types import not_offered
from autoscaler.core.scale_up.group_offers import (
    GroupContext,
    GroupOption,
    Ledger,
    Usages,
    array_for,
    can_complete,
    group_options,
    options_like,
)
from autoscaler.core.scale_up.launch_needs import LaunchNeeds
from autoscaler.core.scale_up.owner_rate_limits import for_others, without_limited
from autoscaler.core.sizing.sizing import LaunchContext
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.step import PassContext


@dataclass(frozen=True, slots=True)
class GroupLaunches:
    """The launches for groups, and why there are not more."""

    launches: tuple[Launch, ...] = ()
    notes: tuple[Reason, ...] = ()
    by_queue: Mapping[str, Reason] = field(default_factory=dict)
    """By queue, for jobs that must stay inside one group: what is launched, or why nothing is."""
    held_back: Mapping[int, Reason] = field(default_factory=dict)
    """By position of a demand whose jobs no launch has helped: why nothing is launched for it now."""

    def without(self, missing: Mapping[str, Reason], policy: Policy) -> GroupLaunches:
        """The same without launches for queues that workers could not join."""
        if not missing:
            return self
        queues = {array.name: array.queue for array in policy.node_arrays}
        return replace(
            self, launches=tuple(launch for launch in self.launches if queues.get(launch.node_array) not in missing)
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """All groups as this observation shows them."""

    groups: tuple[Group, ...]
    given_up: Mapping[str, Reason]
    """By group id, groups that can never be completed: why."""
    targets: Mapping[GroupKind, GroupTarget]
    group_context: GroupContext


def find_groups(
    observed: ObservedWorkers,
    fleet: Fleet,
    taken: frozenset[str],
    requests: Requests,
    pass_context: PassContext,
    launch_context: LaunchContext,
    usage: Usages,
) -> Grouping:
    """Every group, which of them can never be completed, and the targets of callers. `taken`: ids that no new group may
    have.
    """
    groups = groups_of(observed, fleet, launch_context.policy, pass_context)
    group_context = GroupContext(launch_context, fleet.failures, taken, usage)
    targets = (
        {}
        if pass_context.overrides.stop is not None
        else group_targets(requests, launch_context.policy, pass_context.now)
    )
    return Grouping(
        groups,
        groups_to_give_up(groups, fleet.failures, lambda group: can_complete(group, group_context)),
        targets,
        group_context,
    )


_TOGETHER = LastObjects[bool](2)


def _any_together(wanted: Sequence[CategoryDemand]) -> bool:
    """Whether some demand needs hosts of one group."""
    return _TOGETHER.value_of((wanted,), lambda: any(want.demand.together for want in wanted))


def launch_groups(
    grouping: Grouping,
    group_verdicts: Mapping[str, GroupVerdict],
    needs: LaunchNeeds,
    earlier: Sequence[Launch],
) -> GroupLaunches:
    """`earlier`: the other launches of this pass."""
    groups, policy = grouping.groups, grouping.group_context.launch_context.policy
    if not (groups or grouping.targets or _any_together(needs.wanted)):
        return GroupLaunches()
    ledger, placement = _opened(grouping, group_verdicts, earlier), needs.placement.copy()
    notes: list[Reason | None] = []
    by_queue: dict[str, Reason] = {}
    held_back: dict[int, Reason] = {}
    limited_in: dict[str, Mapping[str, Reason]] = {}
    for at, (want, count) in enumerate(zip(needs.wanted, needs.unmet, strict=True)):
        root = _root(want, policy.node_arrays) if want.demand.together and want.expired and count else None
        if root is not None:
            if root.name not in limited_in:
                limited_in[root.name] = grouping.group_context.launch_context.owners_at_limit(root)
            limited = limited_in[root.name]
            allowances = needs.protection.hold_back(root, (want,), (count,))
            (allowance,) = without_limited(allowances, (want,), (count,), limited, policy.owner)
            count = allowance.tasks
            if not count and allowance.reason is not None:
                held_back[at] = allowance.reason
        if root is not None and count:
            (want,) = for_others((want,), limited, policy.owner)
            ledger, placement, reason = _for_demand(want, count, root, grouping, group_verdicts, placement, ledger)
            by_queue[root.queue] = reason
    for group in groups:
        verdict = group_verdicts[group.id]
        if verdict.wanted and group.shortfall > len(verdict.returning) and not ledger.has(group.id):
            lost = because(Code.GROUP_LOST_WORKERS, group=group.id, have=group.have + len(verdict.returning))
            ledger, note = _refill(group, ledger, lost, len(verdict.returning))
            notes.append(note)
    for kind, target in grouping.targets.items():
        name, of_workers = kind
        known = policy.node_array(name)
        if known is not None:
            array = of_kind(known, of_workers=of_workers)
            there = sum(group_verdicts[group.id].targeted and group.kind == kind for group in groups)
            ledger, note = _for_target(array, target.count - there, target.reason, ledger)
            notes.append(note)
    return GroupLaunches(ledger.launches, tuple(note for note in notes if note is not None), by_queue, held_back)


def _opened(grouping: Grouping, group_verdicts: Mapping[str, GroupVerdict], earlier: Sequence[Launch]) -> Ledger:
    """A ledger with the other launches of this pass."""
    group_context, policy = grouping.group_context, grouping.group_context.launch_context.policy
    leaving = [(group.array.name, group_verdicts[group.id].leave) for group in grouping.groups if group.ends]
    ledger = Ledger(group_context, group_context.usage, ending={name: why for name, why in leaving if why is not None})
    for launch in earlier:
        array = policy.node_array(launch.node_array)
        ledger = ledger if array is None else ledger.plus(array, launch)
    return replace(ledger, launches=())


# -- demand and targets ------------------------------------------------------------------------------------------------


def _root(want: CategoryDemand, arrays: Sequence[NodeArrayPolicy]) -> NodeArrayPolicy | None:
    """The node array of the settings whose groups such jobs get."""
    roots = (array for array in arrays if array.extends is None and array.queue in want.launches)
    return min(roots, key=lambda array: want.launches.index(array.queue), default=None)


def _for_demand(
    want: CategoryDemand,
    count: int,
    root: NodeArrayPolicy,
    grouping: Grouping,
    group_verdicts: Mapping[str, GroupVerdict],
    placement: OpenPlacement,
    ledger: Ledger,
) -> tuple[Ledger, OpenPlacement, Reason]:
    """Groups for `count` tasks: those that this pass launches anyway, then missing workers of incomplete groups, then
    new groups. The reason is that of the first launch, or why there is none.
    """
    demand = want.demand
    reason = because(Code.DEMAND, queue=root.queue, tasks=count, slots=demand.slots * count)
    cause: Reason | None = ledger.launches[-1].reason if ledger.launches else None
    if ledger.launches:
        count -= placement.place(((demand, count),)).placed[0]
    for group in grouping.groups:
        usable = group.array.queue == root.queue and group.shortfall and group_verdicts[group.id].leave is None
        if not usable or not count or ledger.has(group.id):
            continue
        like = options_like(group, ledger)
        grown = placement.with_new(replace(like[0].host, group=group.id), group.shortfall) if like else placement
        placed = grown.place(((demand, count),)).placed[0] if like else 0
        if placed:
            ledger, note = _refill(group, ledger, reason)
            ledger = ledger if note is not None else _assigned(ledger, want, placed)
            placement, count = (grown, count - placed) if note is None else (placement, count)
            cause = note or ledger.launches[-1].reason
    if not count:
        return ledger, placement, cause or reason
    waited = ledger.group_context.launch_context.now - want.oldest
    array = array_for(demand, root, ledger, waited)
    options, begun, left = group_options(array, ledger, demand, waited), len(ledger.launches), count
    owner = ledger.group_context.launch_context.main_owner_of((want,), (count,))
    while left > 0:
        answer = _new(array, options, ledger, reason, owner)
        if isinstance(answer, Reason):
            cause = answer if cause is None or begun == len(ledger.launches) else cause
            break
        ledger, option = answer
        ledger = _assigned(ledger, want, min(option.tasks, left))
        cause = ledger.launches[begun].reason
        launch = ledger.launches[-1]
        placement = placement.with_new(replace(option.offer.host, group=launch.group_id), option.workers)
        left -= option.tasks
    placement.place(((demand, min(count, count - left)),))
    return ledger, placement, cause or reason


def _assigned(ledger: Ledger, want: CategoryDemand, tasks: int) -> Ledger:
    """The ledger with `tasks` of this demand assigned to the last launch."""
    *others, last = ledger.launches
    served = replace(last, assignment=assignment_of((want,), (tasks,)), ordered_for=ordered_for((want,), (tasks,)))
    return replace(ledger, launches=(*others, served))


def _for_target(array: NodeArrayPolicy, count: int, reason: Reason, ledger: Ledger) -> tuple[Ledger, Reason | None]:
    """Launch `count` new groups, as far as limits and the cloud allow."""
    options = group_options(array, ledger) if count > 0 else ()
    for _ in range(count):
        answer = _new(array, options, ledger, reason)
        if isinstance(answer, Reason):
            return ledger, answer
        ledger, _ = answer
    return ledger, None


# -- one launch --------------------------------------------------------------------------------------------------------


def _new(
    array: NodeArrayPolicy, options: Sequence[GroupOption], ledger: Ledger, reason: Reason, owner: str = ""
) -> tuple[Ledger, GroupOption] | Reason:
    """Launch one new group; return the option that is tried first, or why there is no launch. `owner`: of the jobs."""
    launch_context = ledger.group_context.launch_context
    if (stopped := launch_context.stopped_by(array)) is not None:
        return stopped
    later = ledger.ending.get(array.name) or _too_soon(array, launch_context)
    if later is not None:
        return later
    capped: Reason | None = None
    first: GroupOption | None = None
    candidates: list[LaunchSet] = []
    for option in options:
        room = ledger.room_of(option.offer, array, owner)
        if room.count < option.workers:
            too_large = because(Code.GROUP_TOO_LARGE, workers=option.workers, type=option.offer.type.name)
            capped = capped or too_large.then(room.cap)
            continue
        buckets = [bucket for bucket in option.offer.buckets if ledger.enough(bucket, option.workers)]
        first = first or (option if buckets else None)
        candidates += [LaunchSet((bucket,), option.workers) for bucket in buckets]
    if first is None:
        types = not_offered(array, launch_context.buckets) or array.machine_types
        return capped or because(Code.NOTHING_TO_LAUNCH, node_array=array.name, requested=types or None)
    number = ledger.next_number(array)
    name, of_workers = kind_of(array)
    name = group_id(name, number, of_workers=of_workers)
    made = because(Code.GROUP_LAUNCHED, group=name, workers=first.workers, type=first.offer.type.name)
    launch = Launch(array.name, tuple(candidates), reason.then(made), group_id=name)
    return ledger.plus(array, launch, number=number), first


def _refill(group: Group, ledger: Ledger, reason: Reason, returning: int = 0) -> tuple[Ledger, Reason | None]:
    """Launch the missing workers of a group, of its own kind, without those that are enabled again. A group that never
    served needs all of them at once.
    """
    missing = group.shortfall - returning
    if (soon := _too_soon(group.array, ledger.group_context.launch_context)) is not None:
        return ledger, soon
    least = 1 if group.served else missing
    for option in options_like(group, ledger):
        room = ledger.room_of(option, group.array)
        count = min(missing, room.count)
        if count < least:
            too_large = because(Code.GROUP_TOO_LARGE, workers=missing, type=option.type.name)
            return ledger, too_large.then(room.cap)
        buckets = [bucket for bucket in option.buckets if ledger.enough(bucket, count)]
        if buckets:
            made = because(Code.GROUP_LAUNCHED, group=group.id, workers=count, type=option.type.name)
            candidates = tuple(LaunchSet((bucket,), count) for bucket in buckets)
            return ledger.plus(group.array, Launch(group.array.name, candidates, reason.then(made), group.id)), None
    return ledger, because(Code.NOTHING_TO_LAUNCH, node_array=group.array.name)


def _too_soon(array: NodeArrayPolicy, launch_context: LaunchContext) -> Reason | None:
    """Why nothing is ordered just now: an order failed a moment ago, and the next might too."""
    if launch_context.throttled is not None:
        return launch_context.throttled
    delay, last = launch_context.policy.batch_delay, launch_context.failed_at.get(array.name)
    if last is None or launch_context.now - last >= delay:
        return None
    return because(Code.BATCH_DELAY, node_array=array.name, delay_s=delay)
