"""Groups of workers that request sets request, and those that can never be completed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from autoscaler.core.capacity.placement_groups import Group, GroupKind
from autoscaler.core.model.fleet import LaunchFailure
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.policy import Policy
from autoscaler.core.workers.came_up import CAPACITY


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """The groups that all live sets together request of one node array."""

    count: int
    reason: Reason


def group_targets(requests: Requests, policy: Policy, now: float) -> dict[GroupKind, GroupTarget]:
    """In the policy's order: the groups of each kind that live sets request, added up."""
    found: dict[GroupKind, GroupTarget] = {}
    for array, of_workers in product(policy.node_arrays, (False, True)):
        requested = [
            (live.name, target.groups)
            for live in requests.sets
            if live.expires_at is None or live.expires_at > now
            for target in live.targets
            if target.node_array == array.name and target.groups and (target.group_count is not None) is of_workers
        ]
        if requested and array.requested:
            count, sets = sum(groups for _, groups in requested), tuple(sorted({name for name, _ in requested}))
            reason = because(Code.REQUESTED, node_array=array.name, sets=sets, groups=count)
            found[array.name, of_workers] = GroupTarget(count, reason)
    return found


def groups_to_give_up(
    groups: Sequence[Group], failures: Sequence[LaunchFailure], can_complete: Callable[[Group], bool]
) -> Mapping[str, Reason]:
    """Groups that never served and cannot be completed. They are given back, and their workers are no supply.

    `can_complete`: whether the missing workers of a group, of the same kind, could be ordered now.
    """
    found: dict[str, Reason] = {}
    for group in groups:
        if group.served or group.leaving or not group.shortfall:
            continue
        short = [failure for failure in failures if failure.order_id in group.orders and failure.kind in CAPACITY]
        if short or not can_complete(group):
            found[group.id] = because(
                Code.GROUP_NOT_COMPLETED,
                group=group.id,
                have=group.have,
                want=group.want,
                message=short[-1].message if short else None,
            )
    return found
