"""The verdict on each group as a whole: needed, held back until all workers are ready, given back, kept, or leaving.

A group that demand does not need may meet a target of a request set; if the queues' demand is off, every group may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.capacity.group_targets import GroupTarget
from autoscaler.core.capacity.placement_groups import Group, GroupKind
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Policy
from autoscaler.core.workers.group_verdict import GroupVerdict
from autoscaler.core.workers.idle import could_leave, idle_for, paid_until
from autoscaler.core.workers.step import PassContext


def judge_groups(
    groups: Sequence[Group],
    used: frozenset[str],
    targets: Mapping[GroupKind, GroupTarget],
    given_up: Mapping[str, Reason],
    pass_context: PassContext,
    *,
    queue_not_empty: Mapping[str, Reason],
    policy: Policy,
) -> Mapping[str, GroupVerdict]:
    """By group id. `used`: names of the supply that demand would use. `queue_not_empty`: as in `ServiceContext`."""
    targeted = _targeted(groups, used, targets, given_up, queue_demand=policy.queue_demand)
    found: dict[str, GroupVerdict] = {}
    for group in groups:
        not_empty = queue_not_empty.get(group.array.queue)
        group_verdict = _judge_group(
            group, group.used(used), targeted.get(group.id), given_up.get(group.id), pass_context, not_empty
        )
        returning = group.returning if group_verdict.wanted else ()
        found[group.id] = replace(
            group_verdict,
            targeted=group.id in targeted,
            surplus=group.surplus,
            returning=frozenset(worker.worker.id for worker in returning),
        )
    return found


def _targeted(
    groups: Sequence[Group],
    used: frozenset[str],
    targets: Mapping[GroupKind, GroupTarget],
    given_up: Mapping[str, Reason],
    *,
    queue_demand: bool,
) -> dict[str, Reason]:
    """By id, the groups that meet a target, with the target's reason."""
    free = [
        group
        for group in sorted(groups, key=lambda group: group.preference)
        if not group.leaving and group.id not in given_up
        if not queue_demand or not (group.busy or group.used(used))
    ]
    if not queue_demand:
        free.sort(key=lambda group: not group.busy)
    found: dict[str, Reason] = {}
    for kind, target in targets.items():
        mine = [group for group in free if group.kind == kind]
        found |= {group.id: target.reason for group in mine[: target.count]}
    return found


def _judge_group(
    group: Group,
    used: bool,
    target: Reason | None,
    given_up: Reason | None,
    pass_context: PassContext,
    queue_not_empty: Reason | None,
) -> GroupVerdict:
    """The first rule with a verdict decides."""
    needed = used or target is not None
    if group.leaving:
        return GroupVerdict(leave=because(Code.GROUP_LEAVES, group=group.id))
    if given_up is not None:
        return GroupVerdict(leave=given_up)
    if not group.served:
        if (group.shortfall or group.blocked) and not needed:
            return GroupVerdict(leave=because(Code.GROUP_NOT_NEEDED, group=group.id))
        if group.ready < group.want:
            hold = because(Code.GROUP_INCOMPLETE, group=group.id, ready=group.ready, want=group.want)
            return GroupVerdict(hold=hold, wanted=needed)
        return GroupVerdict(keep=target, wanted=needed)
    keep = _why_kept(group, used, target, pass_context, queue_not_empty)
    if keep is not None:
        return GroupVerdict(keep=keep, wanted=needed)
    idle = min(idle_for(worker, pass_context.now) or 0.0 for worker in group.serving)
    reason = because(Code.IDLE, idle_s=idle, limit_s=group.array.idle_timeout)
    if idle < group.array.idle_timeout and _stop_requested(group, pass_context):
        reason = because(Code.ASKED_TO_STOP)
    return GroupVerdict(leave=reason.then(because(Code.GROUP_LEAVES, group=group.id)))


def _why_kept(
    group: Group,
    used: bool,
    target: Reason | None,
    pass_context: PassContext,
    queue_not_empty: Reason | None,
) -> Reason | None:
    """Why a group that has served stays; None: no reason."""
    if group.busy:
        return because(Code.GROUP_IN_USE, group=group.id)
    if used:
        return because(Code.NEEDED)
    if target is not None:
        return target
    kept = next((why for worker in group.workers if (why := pass_context.kept(worker)) is not None), None)
    if kept is not None:
        return kept
    if any(worker.enabled_by_hand for worker in group.serving):
        return because(Code.ENABLED_BY_HAND)
    others = tuple(worker.name for worker in group.serving if not could_leave(worker, pass_context))
    if others and _stop_requested(group, pass_context):
        return because(Code.GROUP_STAYS, group=group.id, others=others)
    paid = max((paid_until(worker, pass_context.now) or 0.0 for worker in group.serving), default=0.0)
    if paid and not _stop_requested(group, pass_context):
        return because(Code.PAID_FOR, until_at=paid)
    if others or not group.serving:
        idle = min((idle_for(worker, pass_context.now) or 0.0 for worker in group.serving), default=0.0)
        return because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle, limit_s=group.array.idle_timeout)
    return queue_not_empty


def _stop_requested(group: Group, pass_context: PassContext) -> bool:
    """Whether one of its workers asks to stop."""
    return any(worker.worker.id in pass_context.stop_requests for worker in group.serving)
