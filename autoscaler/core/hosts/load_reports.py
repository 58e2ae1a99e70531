"""Which execution hosts report, and since when others are silent.

Right after a qmaster starts, every host is silent until its execd reports again. A host that reported before is
therefore still expected for a short while: it takes no job now, but nothing is launched in its place either.
"""

from __future__ import annotations

from collections.abc import Mapping

from autoscaler.core.model.cluster import Cluster

SHORTEST_GRACE = 60.0
"""Seconds. Execds that had lost their qmaster reported again 31 s after it came back."""
LONGEST_GAP = 120.0
"""At most this many seconds between two observations count as silence: what happened in a longer gap is unknown."""


def track_silence(cluster: Cluster, before: Mapping[str, float | None], now: float) -> dict[str, float | None]:
    """By name of each host that ever reported: None if it reports, else since when it has been silent."""
    return {
        host.name: None if host.heard else silent_since(before.get(host.name), now)
        for host in cluster.hosts
        if host.heard or host.name in before
    }


def silent_since(before: float | None, now: float) -> float:
    return now if before is None else before


def grace_of(cluster: Cluster) -> float:
    """Seconds for which silence is normal: the host may just not have reported again yet."""
    return max(SHORTEST_GRACE, 2 * cluster.load_report_time)


def counted_silence(before: float | None, observed_at: float | None, now: float, *, any_reporting: bool) -> float:
    """Seconds of silence of one host after this observation, given those before it (None: it reported then).

    Only time between two observations counts, at most LONGEST_GAP of each gap. None counts if no host at all reports:
    then the qmaster's own network is the likely cause.
    """
    if before is None or observed_at is None:
        return before or 0.0
    return before + (min(max(now - observed_at, 0.0), LONGEST_GAP) if any_reporting else 0.0)


def expected_back(silent_since: Mapping[str, float | None], cluster: Cluster, now: float) -> frozenset[str]:
    """Silent hosts that are expected to report again."""
    grace = grace_of(cluster)
    return frozenset([name for name, since in silent_since.items() if since is not None and now - since < grace])
