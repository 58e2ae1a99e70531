"""Watches what the loop sees, pass by pass: the state of one look holds until the next, and is added to the history."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.cluster import Cluster
from autoscaler.core.model import Plan, Snapshot
from autoscaler.core.sample import Sample, sample_of, starts
from autoscaler.store.samples import SampleTable


@dataclass(slots=True)
class Monitor:
    """One for the life of a process. What it saw last is not carried over to the next process: the time in between is
    not known.
    """

    table: SampleTable
    _last: Sample | None = None
    _cluster: Cluster | None = None

    def see(self, snapshot: Snapshot, plan: Plan) -> None:
        """Add what held since the last look. Raises StateNotKept."""
        if self._last is not None and self._cluster is not None:
            self.table.add(self._last, snapshot.now, starts(self._cluster, snapshot.cluster))
        self._last, self._cluster = sample_of(snapshot, plan), snapshot.cluster
