"""Which buckets have a backoff after failures, and which node arrays an error that will not pass by itself has
stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Protocol

from autoscaler.core.model.fleet import ANY, Bucket, BucketKey, FailureKind, Fleet, LaunchFailure, Order, OrderState
from autoscaler.core.model.memory import Backoff, CameUp, Event, Memory
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.requests.instance_types import allowed_types
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.came_up import CAPACITY as _CAPACITY
from autoscaler.core.workers.came_up import cleared

FOR_GOOD = 4_102_444_800.0
"""The end of a backoff that only a person ends: the year 2100."""


def without_retried_failures(snapshot: Snapshot) -> Snapshot:
    """The same without launch failures from before a person's `retry`, and without their backoffs and stops."""
    retried_at, fleet, memory = snapshot.overrides.retried_at, snapshot.fleet, snapshot.memory
    if retried_at is None:
        return snapshot
    newer = tuple(failure for failure in fleet.failures if failure.at > retried_at)
    if memory.observed_at is not None and memory.observed_at <= retried_at:
        memory = replace(memory, backoffs=(), stopped={})
    return replace(snapshot, fleet=replace(fleet, failures=newer), memory=memory)


def backoffs_in_force(
    memory: Memory, failures: Sequence[LaunchFailure], policy: Policy, now: float, successes: Sequence[CameUp] = ()
) -> tuple[Backoff, ...]:
    """The backoffs that hold now: remembered ones, and those of new failures. Failures of an ended backoff no longer
    count, nor do failures before a success of their bucket.
    """
    failures = [each for each in failures if not cleared(each.bucket, each.kind, each.at, successes)]
    backoffs = {
        (backoff.bucket, backoff.kind): backoff
        for backoff in memory.backoffs
        if backoff.until > now and not _is_for_good(backoff) and not _over(backoff, successes)
    }
    for array in policy.node_arrays:
        for bucket, counted in _by_bucket(failures, array).items():
            recent = [failure for failure in counted if now - failure.at < array.unavailability_delay]
            for kinds, limit in (
                (_CAPACITY, array.unavailability_count_capacity),
                (None, array.unavailability_count_failure),
            ):
                alike = [failure for failure in recent if (failure.kind in _CAPACITY) == (kinds is _CAPACITY)]
                if not alike or len(alike) < limit:
                    continue
                last = alike[-1]
                until = last.at + array.unavailability_delay
                backoffs[bucket, last.kind] = Backoff(bucket, until, len(alike), last.kind, last.message, last.at)
    return tuple(sorted(backoffs.values(), key=lambda backoff: (backoff.bucket, backoff.kind)))


def _over(backoff: Backoff, successes: Sequence[CameUp]) -> bool:
    """Whether a machine of its bucket came up since the failure."""
    return backoff.failed_at is not None and cleared(backoff.bucket, backoff.kind, backoff.failed_at, successes)


def _by_bucket(failures: Sequence[LaunchFailure], array: NodeArrayPolicy) -> dict[BucketKey, list[LaunchFailure]]:
    """This array's failures that are neither permanent nor throttling, oldest first."""
    grouped: dict[BucketKey, list[LaunchFailure]] = {}
    for failure in sorted(failures, key=lambda failure: failure.at):
        if failure.kind not in (FailureKind.PERMANENT, FailureKind.THROTTLED) and array.takes(failure.bucket):
            grouped.setdefault(failure.bucket, []).append(failure)
    return grouped


def attributed(fleet: Fleet) -> Fleet:
    """The same with each failure laid to the node array of its order. Most clouds sell to all arrays alike, so that
    their buckets name none; what one array's order met says nothing of the settings, image and rights of another.
    """
    arrays = {order.id: order.node_array for order in fleet.orders}
    failures = tuple(
        replace(each, bucket=replace(each.bucket, node_array=arrays[each.order_id]))
        if each.bucket.node_array == ANY and each.order_id in arrays
        else each
        for each in fleet.failures
    )
    return fleet if failures == tuple(fleet.failures) else replace(fleet, failures=failures)


def refused_buckets(memory: Memory, failures: Sequence[LaunchFailure], resumed_at: float | None) -> tuple[Backoff, ...]:
    """Buckets that their provider refused for good, until a person resumes after that."""
    since = float("-inf") if resumed_at is None else resumed_at
    refused = (
        {} if since >= memory.failures_seen else {each.bucket: each for each in memory.backoffs if _is_for_good(each)}
    )
    for failure in failures:
        if failure.kind is FailureKind.PERMANENT and failure.at > since:
            refused[failure.bucket] = Backoff(failure.bucket, FOR_GOOD, 1, failure.kind, failure.message, failure.at)
    return tuple(refused[bucket] for bucket in sorted(refused))


def stopped_arrays(
    memory: Memory, fleet: Fleet, policy: Policy, refused: Sequence[Backoff], resumed_at: float | None = None
) -> Mapping[str, str]:
    """Node arrays whose provider refused for good all that they may order, with what it said last, until a person
    resumes after that.
    """
    resumed = resumed_at is not None and resumed_at >= memory.failures_seen
    stopped = {} if resumed else dict(memory.stopped)
    for array in policy.node_arrays if refused else ():
        types = allowed_types(array, fleet.buckets)
        offered = [
            bucket
            for bucket in fleet.buckets
            if array.takes(bucket.key) and bucket.type.name in types and bucket.key.price_type in array.price_types
        ]
        found = [backoff_of(bucket, refused, array) for bucket in offered]
        said = [each for each in found if each is not None]
        if said and len(said) == len(found):
            stopped[array.name] = max(said, key=lambda each: each.failed_at or 0.0).message
    return stopped


def _is_for_good(backoff: Backoff) -> bool:
    return backoff.kind is FailureKind.PERMANENT


def last_failures(
    orders: Sequence[Order], failures: Sequence[LaunchFailure], launches: Sequence[Event], since: float
) -> dict[str, float]:
    """By node array: when an order of it last failed, as a whole or in part, or was planned and is not seen yet;
    earlier times than `since` are left out.
    """
    arrays = {order.id: order.node_array for order in orders}
    unseen = Counter(event.node_array for event in launches if event.at >= since)
    unseen.subtract(order.node_array for order in orders if order.ordered_at >= since)
    found = [(order.node_array, order.ordered_at) for order in orders if order.state is OrderState.FAILED]
    found += [(arrays[failure.order_id], failure.at) for failure in failures if failure.order_id in arrays]
    found += [(event.node_array, event.at) for event in launches if unseen[event.node_array] > 0]
    failed_at: dict[str, float] = {}
    for name, at in found:
        if at < since:
            continue
        failed_at[name] = max(at, failed_at.get(name, 0.0))
    return failed_at


class OfFamily(Protocol):
    """A node array, with the one of the settings that it stems from."""

    @property
    def name(self) -> str: ...

    @property
    def extends(self) -> str | None: ...


def backoff_of(bucket: Bucket, backoffs: Sequence[Backoff], array: OfFamily) -> Backoff | None:
    """The backoff that keeps this array from ordering this bucket."""
    return next((backoff for backoff in backoffs if _covers(backoff.bucket, bucket.key, array)), None)


def _covers(failed: BucketKey, bucket: BucketKey, array: OfFamily) -> bool:
    """Whether a failure of one bucket counts for another: they are equal; ANY on one side matches everything."""
    for field in fields(BucketKey):
        one, other = getattr(failed, field.name), getattr(bucket, field.name)
        if field.name == "node_array":
            other = other or array.name
            if one == array.extends:
                continue
        if one != other and ANY not in (one, other):
            return False
    return True
