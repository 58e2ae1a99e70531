"""Which buckets gave machines that came up, and when: a success clears the failures that were counted before it.

A bucket that was out of capacity has capacity again if it gave a machine later. A bucket whose machines failed to boot
works again if one of its machines reported later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from autoscaler.core.model.changed import changed
from autoscaler.core.model.fleet import ANY, BucketKey, FailureKind
from autoscaler.core.model.memory import CameUp, Memory
from autoscaler.core.policy import Policy
from autoscaler.core.workers.observed import ObservedWorkers

CAPACITY = frozenset({FailureKind.CAPACITY, FailureKind.QUOTA})
"""Kinds of failure that are about what the cloud has left, not about the machine."""


def successes_of(observed: ObservedWorkers, memory: Memory, policy: Policy, now: float) -> tuple[CameUp, ...]:
    """The newest success of each bucket within the time for which failures count, this observation included."""
    since = now - max((array.unavailability_delay for array in policy.node_arrays), default=0.0)
    newest: dict[BucketKey, CameUp] = {}
    for each in memory.came_up:
        if each.at > since:
            other = newest.get(each.bucket)
            newest[each.bucket] = each if other is None else _newest(other, each)
    for worker in observed.workers if observed.last_joined > since else ():
        joined_at = worker.note.joined_at
        if joined_at is not None and joined_at > since:
            bucket = worker.worker.bucket
            other = newest.get(bucket)
            if other is None or joined_at > other.at or worker.made_at > other.made_at:
                each = CameUp(bucket, worker.made_at, joined_at)
                newest[bucket] = each if other is None else _newest(other, each)
    return tuple(sorted(newest.values(), key=lambda each: each.bucket))


def _newest(one: CameUp, other: CameUp) -> CameUp:
    return changed(one, made_at=max(one.made_at, other.made_at), at=max(one.at, other.at))


def cleared(bucket: BucketKey, kind: FailureKind, at: float, successes: Sequence[CameUp]) -> bool:
    """Whether a machine of that bucket came up after a failure of that kind and time."""
    return any((each.made_at if kind in CAPACITY else each.at) > at for each in successes if _same(bucket, each.bucket))


def _same(one: BucketKey, other: BucketKey) -> bool:
    """Whether they are equal; ANY on one side matches everything."""
    pairs = ((getattr(one, field.name), getattr(other, field.name)) for field in fields(BucketKey))
    return all(mine == theirs or ANY in (mine, theirs) for mine, theirs in pairs)
