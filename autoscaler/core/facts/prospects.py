"""What could be launched now for each node array, whatever waits: for people who ask before they submit a job.

From the same facts as launches, for every bucket that the provider reported. Which offer is the cheapest for a job, to
which a spent budget may restrict launches, depends on the job and is not considered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.capacity.offers import cheapest_first
from autoscaler.core.facts.facts import Facts, facts_of, prepared
from autoscaler.core.limits.limits import Room, Usage, room_for
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.snapshot import Snapshot


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
    facts = facts_of(prepared(snapshot))
    found = [each for array in facts.policy.node_arrays for each in _of_array(array, facts)]
    return tuple(
        sorted(found, key=lambda each: (each.node_array, each.refusal is not None, *cheapest_first(each.bucket)))
    )


def _of_array(array: NodeArrayPolicy, facts: Facts) -> Iterator[Prospect]:
    context, usage = facts.launch_context, facts.usage[array.name]
    options, refused = context.offers(array, usage)
    usable = {bucket.key for option in options for bucket in option.buckets}
    refusals = {verdict.bucket: verdict.reason for verdict in refused}
    for_all = facts.blocked or context.stopped_by(array) or context.throttled
    in_a_time = [room for room in (context.room_in_hour(array), context.room_in_window()) if room is not None]
    for bucket in context.buckets:
        if not array.takes(bucket.key):
            continue
        if bucket.key not in usable:
            other = because(Code.BUCKET_NOT_ALLOWED, type=bucket.type.name)
            yield Prospect(array.name, bucket, 0, refusals.get(bucket.key, other))
        elif for_all is not None:
            yield Prospect(array.name, bucket, 0, for_all)
        else:
            yield _allowed(array, bucket, usage, in_a_time)


def _allowed(array: NodeArrayPolicy, bucket: Bucket, usage: Usage, in_a_time: Sequence[Room]) -> Prospect:
    rooms = [room_for(bucket, array.limits, usage), *in_a_time]
    room = min(rooms, key=lambda each: each.count)
    if room.count <= 0:
        return Prospect(array.name, bucket, 0, room.cap)
    return Prospect(array.name, bucket, room.count if bucket.available is None else min(room.count, bucket.available))
