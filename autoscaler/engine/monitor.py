"""Takes a sample of each pass for the history: the state of one observation holds until the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autoscaler.core.model.cluster import Cluster
from autoscaler.core.outcome.sample import Running, Sample, Starts, arrived, running, sample_of, starts
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.store.samples import HELD, SampleTable


@dataclass(slots=True)
class Monitor(PassListener):
    """One for the life of a process. The state of the last observation holds for the next process as well, for as long
    as it would for this one: machines cost also while no process runs.
    """

    title = "the history"
    in_dry_run = True

    table: SampleTable
    on_sample: Callable[[Sample, Starts, float], None] | None = None
    """Called with each sample, the jobs that began since the one before, and what machines cost since then."""
    _last: _LastPass | None = None

    def keep(self, done: Pass) -> None:
        self.note(done.snapshot, done.plan, done.observed)

    def note(self, snapshot: Snapshot, plan: Plan, observed: ObservedWorkers) -> None:
        """Add the state since the last observation. `observed`: the states of the snapshot's workers. Raises
        StateNotKept.
        """
        last, runs, begun, cost = self._last, running(snapshot.cluster), Starts(), 0.0
        if last is not None:
            begun = starts(last.cluster, last.sample.at, last.runs, runs, last.able_since)
        before = self.table.last() if last is None else last.sample
        if before is not None:
            cost = self.table.add(arrived(before, snapshot, min(snapshot.now, before.at + HELD)), snapshot.now, begun)
        sample = sample_of(snapshot, plan, observed, runs)
        self._last = _LastPass(sample, snapshot.cluster, runs, plan.memory.able_since)
        self.table.keep_last(sample)
        if self.on_sample is not None:
            self.on_sample(sample, begun, cost)


@dataclass(frozen=True, slots=True)
class _LastPass:
    """The last pass, with which the next sample is compared."""

    sample: Sample
    cluster: Cluster
    runs: Running
    able_since: Mapping[int, float]
