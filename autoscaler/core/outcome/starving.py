"""Large jobs that wait at a cap although the present hosts could run them if they were empty at the same time.

Smaller jobs take each host as it becomes free. Only a reservation by Grid Engine keeps hosts for the large job. Here it
is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autoscaler.core.capacity.forecast import PlacementResult
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import emptied_host
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.workers.observed import ObservedWorkers

Smallest = Callable[[CategoryDemand], int]
MOST = 20
"""How many demands are checked, the hardest to place first: a hint is not worth a long pass."""


def starving(
    demands: Sequence[CategoryDemand],
    results: Sequence[PlacementResult],
    observed: ObservedWorkers,
    cluster: Cluster,
    names: frozenset[str],
) -> Mapping[int, Reason]:
    """By position of a wanted demand of several slots of which nothing fits: the reason, if the hosts could run it when
    empty, and smaller jobs of its queues wait too.
    """
    large = [
        position
        for position, (want, result) in enumerate(zip(demands, results, strict=True))
        if want.demand.slots > 1 and not result.now and not result.coming
    ]
    small = _smallest(demands)
    large = [position for position in large[:MOST] if demands[position].demand.slots > small(demands[position])]
    if not large:
        return {}
    serving = [each.host for each in observed.workers if each.host is not None and each.in_service]
    hosts = [emptied_host(host, cluster.complexes, names) for host in (*serving, *observed.others) if host.heard]
    reason = because(Code.OTHERS_FIRST, max_reservation=cluster.max_reservation)
    empty = OpenPlacement(hosts)
    return {position: reason for position in large if empty.takes(demands[position].demand)}


def _smallest(demands: Sequence[CategoryDemand]) -> Smallest:
    """A function from a demand to the fewest slots that a task of its queues requests."""
    least: dict[str, int] = {}
    for want in demands:
        for pool in want.demand.pools if want.count else ():
            least[pool] = min(least.get(pool, want.demand.slots), want.demand.slots)
    return lambda want: min((least[pool] for pool in want.demand.pools if pool in least), default=want.demand.slots)
