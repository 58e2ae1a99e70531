"""Launches for owners of jobs who have used up their part of the circuit breaker's window, or of an hour, wait, and no
others (docs/decisions/0099, 0101).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.limits.protected_mode import LaunchAllowance
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.reasons import Reason
from autoscaler.core.owners import owner_of, tasks_besides
from autoscaler.core.policy import OwnerKind


def without_limited(
    allowances: Sequence[LaunchAllowance],
    demands: Sequence[CategoryDemand],
    counts: Sequence[int],
    limited: Mapping[str, Reason],
    kind: OwnerKind,
) -> tuple[LaunchAllowance, ...]:
    """The same without tasks of owners in `limited`. `counts`: the unmet tasks of each demand. What is free or coming
    counts as others' first, since otherwise they would get a worker in each pass until theirs is up.
    """
    if not limited:
        return tuple(allowances)
    found: list[LaunchAllowance] = []
    for allowance, want, count in zip(allowances, demands, counts, strict=True):
        others = tasks_besides(want, limited, kind) - (want.count - count)
        left = min(allowance.tasks, max(others, 0))
        found.append(allowance if left == allowance.tasks else LaunchAllowance(left, next(iter(limited.values()))))
    return tuple(found)


def for_others(
    demands: Sequence[CategoryDemand], limited: Mapping[str, Reason], kind: OwnerKind
) -> Sequence[CategoryDemand]:
    """The same demands as those of other owners, where there are some: for these is launched what is launched."""
    return [_for_others(want, limited, kind) for want in demands] if limited else demands


def _for_others(want: CategoryDemand, limited: Mapping[str, Reason], kind: OwnerKind) -> CategoryDemand:
    each = zip(want.asks, want.tasks or (1,) * len(want.asks), strict=True)
    others = [(ask, count) for ask, count in each if owner_of(ask, kind) not in limited]
    if not others or len(others) == len(want.asks):
        return want
    return replace(want, asks=tuple(ask for ask, _ in others), tasks=tuple(count for _, count in others))
