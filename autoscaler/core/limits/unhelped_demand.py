"""Waiting jobs that no launch has helped: they fit on workers but never start there, for a cause that no listing shows.
They do not keep a worker that has been free for them for long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autoscaler.core.categories import category_key
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.memory import Disabling
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class UnhelpedDemand:
    """The demands that no launch has helped, as known before this observation."""

    failed: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By position of a demand that no launch has helped and for which none is under way: when the last launch turned
    out not to help, and since when its oldest task waits.
    """
    now: float = 0.0
    protected_after: float = 0.0

    def without(self, demands: Sequence[CategoryDemand]) -> list[CategoryDemand]:
        """The same demands, with no task of those counted."""
        return [replace(want, count=0) if at in self.failed else want for at, want in enumerate(demands)]

    def free_for_long(self, worker: WorkerState) -> bool:
        """Whether a worker in service has been free for as long as a launch has time to help."""
        since = worker.note.idle_since
        return (
            since is not None
            and self.now - since >= self.protected_after
            and self._known_by(self.now - self.protected_after)
        )

    def disabled_while_they_waited(self, worker: WorkerState) -> bool:
        """Whether a worker was disabled as idle although they waited."""
        note = worker.note
        idle = note.disabling is Disabling.IDLE and note.disabled_at is not None
        return idle and any(max(known) <= (note.disabled_at or 0.0) for known in self.failed.values())

    def _known_by(self, then: float) -> bool:
        return any(waiting <= then for _, waiting in self.failed.values())


def unhelped_demand(snapshot: Snapshot, demands: Sequence[CategoryDemand]) -> UnhelpedDemand:
    memory, tried_again = snapshot.memory, snapshot.overrides.tried_again_at
    found: dict[str, float] = {}
    for array in memory.protected.values():
        for key, one in array.categories.items():
            if one.failed_at > tried_again and not one.at_start:
                found[key] = max(found.get(key, 0.0), one.failed_at)
    if not found:
        return UnhelpedDemand()
    under_way = {key for trial in memory.trials.values() if not trial.closed for key, _ in trial.assignment}
    keys = {at: category_key(want.demand) for at, want in enumerate(demands) if want.count}
    failed = {at: (found[key], demands[at].oldest) for at, key in keys.items() if key in found and key not in under_way}
    return UnhelpedDemand(failed, snapshot.now, snapshot.policy.protected_after)
