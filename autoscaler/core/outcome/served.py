"""Which jobs a plan's launches are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.actions import Launch
from autoscaler.core.demand.categories import category_key
from autoscaler.core.demand.demand import PendingDemand


def served(launches: Sequence[Launch], demand: PendingDemand) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """By category, its jobs. Launches serve the first demands first, so most keys need not be made."""
    keys = {key for launch in launches for key, _ in launch.assignment}
    left, found = set(keys), dict[str, tuple[tuple[int, ...], ...]]()
    for want, parts in zip(demand.wanted, demand.counted, strict=True):
        if not left:
            break
        if want.launches and (key := category_key(want.demand)) in keys:
            found[key] = (*found.get(key, ()), *(part.jobs for part in parts))
            left.discard(key)
    return found
