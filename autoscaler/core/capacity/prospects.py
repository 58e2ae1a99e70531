"""What could be launched now for each node array, whatever waits: for people who ask before they submit a job.

The same offers and limits as for launches, for every bucket that the provider reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.capacity.offers import cheapest_first, offers_for
from autoscaler.core.capacity.supply import usage_of
from autoscaler.core.limits.backoff import backoffs_in_force, stopped_arrays, without_retried_failures
from autoscaler.core.limits.launched import settled
from autoscaler.core.limits.limits import Room, Usage, launches_left, launches_left_in_window, room_for
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.queue_instances import with_queue_instances
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.requests.arrays import family_of
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.observed import observe_workers


@dataclass(frozen=True, slots=True)
class Prospect:
    """One bucket as one node array may use it now."""

    node_array: str
    bucket: Bucket
    count: int
    """How many more workers of it alone could be ordered, by limits and by what the provider says is left."""
    refusal: Reason | None = None
    """Why none can be ordered; None: some can."""


def prospects(snapshot: Snapshot) -> tuple[Prospect, ...]:
    """For every node array the buckets it could order from, cheapest first, then those it cannot, with the reason."""
    snapshot = with_queue_instances(settled(without_retried_failures(snapshot)))
    fleet, policy, now = snapshot.fleet, snapshot.policy, snapshot.now
    observed = observe_workers(snapshot.cluster, fleet, snapshot.memory, policy, now)
    usage = usage_of(fleet, policy, observed, now)
    found = [each for array in policy.node_arrays for each in _of_array(array, snapshot, usage[array.name])]
    return tuple(
        sorted(found, key=lambda each: (each.node_array, each.refusal is not None, *cheapest_first(each.bucket)))
    )


def _of_array(array: NodeArrayPolicy, snapshot: Snapshot, usage: Usage) -> Iterator[Prospect]:
    fleet, policy, memory, now = snapshot.fleet, snapshot.policy, snapshot.memory, snapshot.now
    stopped = stopped_arrays(memory, fleet, policy, snapshot.overrides.resumed_at)
    backoffs = backoffs_in_force(memory, fleet.failures, policy, now, memory.came_up)
    options, refused = offers_for(array, fleet.buckets, backoffs, usage, snapshot.cluster.complexes)
    usable = {bucket.key for option in options for bucket in option.buckets}
    refusals = {verdict.bucket: verdict.reason for verdict in refused}
    an_hour = launches_left(array.limits, memory.launches, family_of(array), now)
    window = launches_left_in_window(policy.brake, memory.launches, now, snapshot.overrides.resumed_at)
    pace = [room for room in (an_hour, window) if room is not None]
    for bucket in fleet.buckets:
        if not array.takes(bucket.key):
            continue
        if bucket.key not in usable:
            other = because(Code.BUCKET_NOT_ALLOWED, type=bucket.type.name)
            yield Prospect(array.name, bucket, 0, refusals.get(bucket.key, other))
        elif array.name in stopped:
            stop = because(Code.NODE_ARRAY_STOPPED, node_array=array.name, message=stopped[array.name])
            yield Prospect(array.name, bucket, 0, stop)
        else:
            yield _allowed(array, bucket, usage, pace)


def _allowed(array: NodeArrayPolicy, bucket: Bucket, usage: Usage, pace: Sequence[Room]) -> Prospect:
    rooms = [room_for(bucket, array.limits, usage), *pace]
    room = min(rooms, key=lambda each: each.count)
    if room.count <= 0:
        return Prospect(array.name, bucket, 0, room.cap)
    return Prospect(array.name, bucket, room.count if bucket.available is None else min(room.count, bucket.available))
