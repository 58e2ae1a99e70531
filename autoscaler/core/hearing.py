"""Which execution hosts report, and since when others are silent.

Right after a queue master starts, every host is silent until its execd reports again. A host that was heard before is
therefore still expected for a short while: it takes no job now, but nothing is launched in its place either.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.cluster import Cluster

SHORTEST_GRACE = 60.0
"""Seconds. Execds that lost their queue master were heard again 31 s after it came back."""


def listen(cluster: Cluster, before: Mapping[str, float | None], now: float) -> dict[str, float | None]:
    """By name of every host ever heard: None while it reports, else since when it is silent."""
    return {
        host.name: None if host.heard else silent_since(before.get(host.name), now)
        for host in cluster.hosts
        if host.heard or host.name in before
    }


def silent_since(before: float | None, now: float) -> float:
    return now if before is None else before


def expected_back(hearing: Mapping[str, float | None], cluster: Cluster, now: float) -> frozenset[str]:
    """Silent hosts that may just not have reported again yet."""
    grace = max(SHORTEST_GRACE, 2 * cluster.load_report_time)
    return frozenset(name for name, since in hearing.items() if since is not None and now - since < grace)
