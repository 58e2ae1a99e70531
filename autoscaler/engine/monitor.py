"""Watches what the loop sees, pass by pass: the state of one look holds until the next, and is added to the history."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.model.cluster import Cluster
from autoscaler.core.outcome.sample import Running, Sample, running, sample_of, starts
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.store.samples import SampleTable


@dataclass(slots=True)
class Monitor:
    """One for the life of a process. What it saw last is not carried over to the next process: the time in between is
    not known.
    """

    table: SampleTable
    _last: _Look | None = None

    def see(self, snapshot: Snapshot, plan: Plan, observed: ObservedWorkers) -> None:
        """Add what held since the last look. `observed`: how the snapshot's machines stand. Raises StateNotKept."""
        last, runs = self._last, running(snapshot.cluster)
        if last is not None:
            self.table.add(last.sample, snapshot.now, starts(last.cluster, last.sample.at, last.runs, runs))
        self._last = _Look(sample_of(snapshot, plan, observed, runs), snapshot.cluster, runs)


@dataclass(frozen=True, slots=True)
class _Look:
    """What the next one is compared with."""

    sample: Sample
    cluster: Cluster
    runs: Running
