"""Whether a demand could ever be served by the best that is allowed: what no allowed configuration can run launches
nothing.

Asked only of demand that does not fit now. Types that rest or are sold out still count (that passes), those a
provider rules out do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.capacity import offer_of
from autoscaler.core.cluster import Complex
from autoscaler.core.fleet import ANY, Bucket
from autoscaler.core.growth.options import allowed_types
from autoscaler.core.limits import most_ever
from autoscaler.core.model import Demand, Host, Wanted
from autoscaler.core.placement import place
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.reasons import Code, Reason, because


class Reach:
    """The best allowed cluster, per node array."""

    def __init__(
        self, policy: Policy, buckets: Sequence[Bucket], persistent: Sequence[Host], complexes: Mapping[str, Complex]
    ) -> None:
        self._persistent = persistent
        self._best = {array.queue: _best(array, buckets, complexes) for array in policy.node_arrays}

    def refusal(self, wanted: Wanted) -> Reason | None:
        """Why no allowed number of any allowed type could serve this demand, with all persistent hosts empty; None:
        some could.
        """
        best = [entry for queue in wanted.launches for entry in self._best.get(queue, ())]
        want = ((wanted.demand, 1),)
        for host, most in best:
            if place(want, (), host, most).complete:
                return None
        if not wanted.demand.one_host and any(
            place(want, self._persistent, host, most).complete for host, most in best
        ):
            return None
        slots = [max(host.slots.values()) for host, _ in best]
        return because(
            Code.NO_TYPE_FITS,
            slots=wanted.demand.slots,
            where="one host" if wanted.demand.one_host else None,
            largest=max(slots, default=0),
            workers=max((most for _, most in best), default=0),
            besides=_besides(wanted.demand),
        )


def _besides(demand: Demand) -> tuple[str, ...]:
    """What it asks for besides slots, as may be what no type has."""
    amounts = (f"{name}={amount:g}" for name, amount in (*demand.per_slot, *demand.per_job))
    properties = (f"{asked.name}{asked.relop}{asked.value}" for asked in demand.properties)
    return (*amounts, *properties, *(("the host for itself",) if demand.exclusive else ()))


def _best(
    array: NodeArrayPolicy, buckets: Sequence[Bucket], complexes: Mapping[str, Complex]
) -> tuple[tuple[Host, int], ...]:
    """For every allowed type a worker of it, largest first, and how many the limits would ever allow."""
    allowed = allowed_types(array, buckets)
    most: dict[str, int] = {}
    for bucket in buckets:
        ours = bucket.key.node_array in (ANY, array.name) and bucket.key.price_type in array.price_types
        if ours and bucket.type.name in allowed and bucket.problem is None:
            most[bucket.type.name] = max(most.get(bucket.type.name, 0), most_ever(bucket, array.limits))
    hosts = ((offer_of(allowed[name], array, complexes).host("", array.queue), count) for name, count in most.items())
    return tuple(sorted(hosts, key=lambda pair: -max(pair[0].slots.values())))
