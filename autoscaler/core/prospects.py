"""What could be launched now for each node array, whoever waits: for people who ask before any job does.

The same options and limits that growth goes by, for every bucket that the provider told of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.core.asking.arrays import family_of
from autoscaler.core.fleet import Bucket
from autoscaler.core.growth.options import options_for
from autoscaler.core.limits import Room, Usage, launches_left, room_for
from autoscaler.core.model import Snapshot
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.rests import forgiven, resting, stopped_arrays
from autoscaler.core.sight import look
from autoscaler.core.supply import usage_of


@dataclass(frozen=True, slots=True)
class Prospect:
    """One bucket as one node array may use it now."""

    node_array: str
    bucket: Bucket
    count: int
    """So many workers more could be ordered of it alone, by limits and by what the provider says is left."""
    refusal: Reason | None = None
    """Why none; None: some."""


def prospects(snapshot: Snapshot) -> tuple[Prospect, ...]:
    """For every node array the buckets it could order from, cheapest first, then those it cannot, with the reason."""
    snapshot = forgiven(snapshot)
    fleet, policy, now = snapshot.fleet, snapshot.policy, snapshot.now
    sight = look(snapshot.cluster, fleet, snapshot.memory, policy, now)
    usage = usage_of(fleet, policy, sight, now)
    found = [each for array in policy.node_arrays for each in _of_array(array, snapshot, usage[array.name])]
    return tuple(sorted(found, key=lambda each: (each.node_array, each.refusal is not None, *_by_price(each.bucket))))


def _of_array(array: NodeArrayPolicy, snapshot: Snapshot, usage: Usage) -> Iterator[Prospect]:
    fleet, policy, memory, now = snapshot.fleet, snapshot.policy, snapshot.memory, snapshot.now
    stopped = stopped_arrays(memory, fleet, policy, snapshot.wishes.resumed_at)
    rests = resting(memory, fleet.failures, policy, now)
    options, refused = options_for(array, fleet.buckets, rests, usage, snapshot.cluster.complexes)
    usable = {bucket.key for option in options for bucket in option.buckets}
    refusals = {verdict.bucket: verdict.reason for verdict in refused}
    an_hour = launches_left(array.limits, memory.launches, family_of(array), now)
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
            yield _allowed(array, bucket, usage, an_hour)


def _allowed(array: NodeArrayPolicy, bucket: Bucket, usage: Usage, an_hour: Room | None) -> Prospect:
    rooms = [room_for(bucket, array.limits, usage), *([an_hour] if an_hour is not None else [])]
    room = min(rooms, key=lambda each: each.count)
    if room.count <= 0:
        return Prospect(array.name, bucket, 0, room.cap)
    return Prospect(array.name, bucket, room.count if bucket.available is None else min(room.count, bucket.available))


def _by_price(bucket: Bucket) -> tuple[float, object]:
    return (float("inf") if bucket.price_per_hour is None else bucket.price_per_hour), bucket.key
