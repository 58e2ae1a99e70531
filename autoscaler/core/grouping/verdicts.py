"""What becomes of each group as a whole: wanted, held back until all are ready, given back, kept, or let go.

A group that demand leaves over meets a target of a request set; where the queues' demand is off, every group does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from autoscaler.core.fleet import LaunchFailure
from autoscaler.core.grouping.bonds import Bond
from autoscaler.core.grouping.groups import NO_MORE, Group, GroupKind
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.request_sets import Requests
from autoscaler.core.shrink import could_leave, idle_for
from autoscaler.core.steps import Moment


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """Groups that all live sets together want of one node array."""

    count: int
    reason: Reason


def group_targets(requests: Requests, policy: Policy, now: float) -> dict[GroupKind, GroupTarget]:
    """In the policy's order: the groups of each kind that live sets want, added up."""
    found: dict[GroupKind, GroupTarget] = {}
    for array, of_workers in product(policy.node_arrays, (False, True)):
        asked = [
            (live.name, target.groups)
            for live in requests.sets
            if live.expires_at is None or live.expires_at > now
            for target in live.targets
            if target.node_array == array.name and target.groups and (target.group_count is not None) is of_workers
        ]
        if asked and array.wanted:
            count, sets = sum(groups for _, groups in asked), tuple(sorted({name for name, _ in asked}))
            reason = because(Code.REQUESTED, node_array=array.name, sets=sets, groups=count)
            found[array.name, of_workers] = GroupTarget(count, reason)
    return found


def hopeless(
    groups: Sequence[Group], failures: Sequence[LaunchFailure], can_complete: Callable[[Group], bool]
) -> Mapping[str, Reason]:
    """Groups that never served and cannot be completed: they are given back, and their workers are no supply.

    `can_complete`: whether what a group lacks could be ordered now, of the same kind.
    """
    found: dict[str, Reason] = {}
    for group in groups:
        if group.served or group.leaving or not group.lacking:
            continue
        short = [failure for failure in failures if failure.order_id in group.orders and failure.kind in NO_MORE]
        if short or not can_complete(group):
            found[group.id] = because(
                Code.GROUP_GIVEN_BACK,
                group=group.id,
                have=group.have,
                want=group.want,
                message=short[-1].message if short else None,
            )
    return found


def bonds_of(
    groups: Sequence[Group],
    used: frozenset[str],
    targets: Mapping[GroupKind, GroupTarget],
    given_up: Mapping[str, Reason],
    moment: Moment,
    *,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
    policy: Policy,
) -> Mapping[str, Bond]:
    """By group id. `used`: names of the supply that waiting demand would use. A group that demand leaves over meets a
    target; where the queues' demand is off, every group does.
    """
    targeted = _targeted(groups, used, targets, given_up, queue_demand=policy.queue_demand)
    found: dict[str, Bond] = {}
    for group in groups:
        bond = _bond(group, group.used(used), targeted.get(group.id), given_up.get(group.id), moment, quiet)
        found[group.id] = replace(bond, targeted=group.id in targeted, surplus=group.surplus)
    return found


def _targeted(
    groups: Sequence[Group],
    used: frozenset[str],
    targets: Mapping[GroupKind, GroupTarget],
    given_up: Mapping[str, Reason],
    *,
    queue_demand: bool,
) -> dict[str, Reason]:
    """Which groups meet the targets, and whose."""
    spare = [
        group
        for group in sorted(groups, key=lambda group: group.preference)
        if not group.leaving and group.id not in given_up
        if not queue_demand or not (group.busy or group.used(used))
    ]
    if not queue_demand:
        spare.sort(key=lambda group: not group.busy)
    found: dict[str, Reason] = {}
    for kind, target in targets.items():
        mine = [group for group in spare if group.kind == kind]
        found |= {group.id: target.reason for group in mine[: target.count]}
    return found


def _bond(
    group: Group,
    used: bool,
    target: Reason | None,
    given_up: Reason | None,
    moment: Moment,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
) -> Bond:
    """A ladder: the first that speaks decides."""
    wanted = used or target is not None
    if group.leaving:
        return Bond(back=because(Code.GROUP_LEAVES, group=group.id))
    if given_up is not None:
        return Bond(back=given_up)
    if not group.served:
        if group.lacking and not wanted:
            return Bond(back=because(Code.GROUP_NOT_WANTED, group=group.id))
        if group.ready < group.want:
            hold = because(Code.GROUP_INCOMPLETE, group=group.id, ready=group.ready, want=group.want)
            return Bond(hold=hold, wanted=wanted)
        return Bond(keep=target, wanted=wanted)
    keep = _why_kept(group, used, target, moment, quiet)
    if keep is not None:
        return Bond(keep=keep, wanted=wanted)
    idle = min(idle_for(machine, moment.now) or 0.0 for machine in group.serving)
    reason = because(Code.IDLE, idle_s=idle, limit_s=group.array.idle_timeout)
    if idle < group.array.idle_timeout and _asking(group, moment):
        reason = because(Code.ASKED_TO_STOP)
    return Bond(back=reason.then(because(Code.GROUP_LEAVES, group=group.id)))


def _why_kept(
    group: Group,
    used: bool,
    target: Reason | None,
    moment: Moment,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
) -> Reason | None:
    """Why a group that served stays; None: nothing speaks for it."""
    if group.busy:
        return because(Code.GROUP_IN_USE, group=group.id)
    if used:
        return because(Code.NEEDED)
    if target is not None:
        return target
    kept = next((why for machine in group.machines if (why := moment.kept(machine)) is not None), None)
    if kept is not None:
        return kept
    if any(machine.enabled_by_hand for machine in group.serving):
        return because(Code.ENABLED_BY_HAND)
    others = tuple(machine.name for machine in group.serving if not could_leave(machine, moment))
    if others and _asking(group, moment):
        return because(Code.GROUP_STAYS, group=group.id, others=others)
    if others or not group.serving:
        idle = min((idle_for(machine, moment.now) or 0.0 for machine in group.serving), default=0.0)
        return because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle, limit_s=group.array.idle_timeout)
    return quiet(group.array)


def _asking(group: Group, moment: Moment) -> bool:
    """Whether some worker of it asks to stop."""
    return any(machine.worker.id in moment.asking for machine in group.serving)
