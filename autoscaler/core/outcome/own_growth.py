"""Why no worker comes for one demand, where that differs from what holds for its queue as a whole.

A queue's launch is for the demands that its offers serve. A demand that none of these can serve waits for another
cause: the type that could run it is in backoff, refused or not to be had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.model.cluster import Complex
from autoscaler.core.model.demand_vector import CategoryDemand, Demand
from autoscaler.core.model.fleet import Bucket, BucketKey
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.placement.placement import takes_part
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.readable.remembered import LastValue
from autoscaler.core.snapshot import BucketVerdict

_WHOLE_QUEUE = frozenset({Code.DEMAND, Code.NOTHING_TO_LAUNCH})
"""Reasons of a queue that rest on which offers serve some of its demands."""
_SOON = frozenset({Code.BUCKET_CHOSEN, Code.BUCKET_NOT_PREFERRED, Code.CAPPED, Code.AUTOSCALING_OFF})
"""Verdicts on offers that could be launched for it now or next: what holds for the queue holds for it, too."""
_NEVER = frozenset({Code.BUCKET_NOT_ALLOWED, Code.BUCKET_TOO_SMALL, Code.BUCKET_AGAINST_RULES})
MOST_DEMANDS = 65_536


@dataclass(slots=True)
class OwnGrowth:
    """Remembers the hosts that it made, and which of them a demand could use."""

    policy: Policy
    buckets: Sequence[Bucket]
    verdicts: Sequence[BucketVerdict]
    """On the buckets of all arrays that needed workers."""
    complexes: Mapping[str, Complex]
    _hosts: dict[str, tuple[tuple[Host, Reason], ...]] = field(default_factory=dict)
    """By node array: a new worker of each bucket that was judged, and the verdict."""
    _against: dict[tuple[Demand, str], tuple[NodeArrayPolicy, Reason] | None] = field(default_factory=dict)
    """By demand and queue, as `_first_against` finds it."""

    def of(self, want: CategoryDemand, queue: str, found: Reason) -> Reason:
        """`found`: what the queue launches, or why nothing. The reason for this demand."""
        if found.code not in _WHOLE_QUEUE or want.demand.together:
            return found
        key, known = (want.demand, queue), self._against
        if key not in known:
            if len(known) >= MOST_DEMANDS:
                known = self._against = {}
            known[key] = self._first_against(want.demand, queue)
        against = known[key]
        return found if against is None else _nothing(against[0], found, against[1])

    def _first_against(self, demand: Demand, queue: str) -> tuple[NodeArrayPolicy, Reason] | None:
        """The first verdict on a bucket that could run it, with its array; None: some such bucket could be launched now
        or next, or there is none.
        """
        first: tuple[NodeArrayPolicy, Reason] | None = None
        for array in self.policy.node_arrays:
            if array.queue != queue or array.extends is not None:
                continue
            for host, verdict in self._judged(array):
                if takes_part(demand, host):
                    if verdict.code in _SOON:
                        return None
                    first = first or (array, verdict)
        return first

    def _judged(self, array: NodeArrayPolicy) -> tuple[tuple[Host, Reason], ...]:
        """The offers that could be launched first, so that most demands need one look."""
        if array.name not in self._hosts:
            by_key: dict[BucketKey, Reason] = {}
            for each in sorted(self.verdicts, key=_hopeful):  # several arrays may have judged one bucket
                by_key.setdefault(each.bucket, each.reason)
            found = [
                (host_values_of(bucket.type, array, self.complexes, bucket.key).host("", array.queue), verdict)
                for bucket in self.buckets
                if array.takes(bucket.key)
                and (verdict := by_key.get(bucket.key)) is not None
                and verdict.code not in _NEVER
            ]
            found.sort(key=lambda each: each[1].code not in _SOON)
            self._hosts[array.name] = tuple(found)
        return self._hosts[array.name]


_LAST = LastValue[OwnGrowth]()


def own_growth(
    policy: Policy, buckets: Sequence[Bucket], verdicts: Sequence[BucketVerdict], complexes: Mapping[str, Complex]
) -> OwnGrowth:
    """The one of the last pass, if the verdicts on buckets are the same."""
    arguments = policy, tuple(buckets), tuple(verdicts), complexes
    return _LAST.value_of(arguments, lambda: OwnGrowth(*arguments))


def _hopeful(verdict: BucketVerdict) -> int:
    return 0 if verdict.reason.code in _SOON else 2 if verdict.reason.code in _NEVER else 1


def _nothing(array: NodeArrayPolicy, found: Reason, verdict: Reason) -> Reason:
    """That nothing is launched because of this verdict; what else was added to the queue's reason stays."""
    if found.code is not Code.NOTHING_TO_LAUNCH:
        return because(Code.NOTHING_TO_LAUNCH, node_array=array.name, requested=None).then(verdict)
    return replace(found, trail=(verdict, *(link for link in found.trail if not link.code.startswith("BUCKET_"))))
