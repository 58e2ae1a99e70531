"""Estimates for all waiting and running jobs of a cluster, made anew only where something has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.core.estimates.estimates import Estimates, RunTime
from autoscaler.core.estimates.run_times import Likeness, RunTimes
from autoscaler.core.model.cluster import Cluster, HostJob, JobRequest
from autoscaler.core.model.complexes import amount

LIMIT = "h_rt"
OVERDUE = 0.5
"""A job that runs longer than every earlier one like it is estimated to run on for this share of its time so far."""
ANEW_AFTER = 64
"""Ended jobs after which waiting ones are estimated anew."""

LikeWaiting = Callable[[int, JobRequest], Likeness]
LikeRunning = Callable[[HostJob, str, int], Likeness]
"""Of a job, its queue, and its slots on all hosts."""


def like_waiting(_: int, ask: JobRequest) -> Likeness:
    """What a listing shows of a waiting job; its name is not among it."""
    return Likeness(ask.owner, project=ask.project or "", slots=ask.slots_min, requested=requested(ask.hard))


def like_running(job: HostJob, queue: str, slots: int) -> Likeness:
    """What a listing shows of a running job."""
    return Likeness(job.owner, queue=queue, slots=slots, requested=requested(job.hard))


def requested(hard: tuple[tuple[str, str], ...]) -> float | None:
    """The run time that a job requests, seconds."""
    text = next((text for name, text in hard if name == LIMIT), None)
    return None if text is None else amount(text, "TIME")


@dataclass(slots=True)
class Estimator:
    """Of one cell. `times`: what ended, which others add to."""

    times: RunTimes
    like_waiting: LikeWaiting = like_waiting
    like_running: LikeRunning = like_running
    _waiting: dict[Likeness, RunTime | None] = field(default_factory=dict, init=False)
    _known: int = field(default=0, init=False)
    """How many run times there were when the waiting ones were estimated."""
    _ends: dict[str, float] = field(default_factory=dict, init=False)
    """Of running jobs. An estimate holds until it has passed."""

    def estimates(self, cluster: Cluster, now: float) -> Estimates:
        """For all jobs of this reading."""
        if self.times.added >= self._known + ANEW_AFTER or not self._known:
            self._waiting.clear()
            self._known = self.times.added
        seconds: dict[int, RunTime] = {}
        for category in cluster.job_categories:
            for job in category.jobs:
                found = self._of_waiting(self.like_waiting(job, category.ask))
                if found is not None:
                    seconds[job] = found
        self._ends = self._of_running(cluster, now)
        return Estimates(seconds, dict(self._ends))

    def _of_waiting(self, like: Likeness) -> RunTime | None:
        if like not in self._waiting:
            found = self.times.estimate(like)
            self._waiting[like] = None if found is None else RunTime(found.median, found.high, found.mean)
        return self._waiting[like]

    def _of_running(self, cluster: Cluster, now: float) -> dict[str, float]:
        runs: dict[str, tuple[HostJob, str, int]] = {}
        for host in cluster.hosts:
            for instance in host.instances:
                for job in instance.jobs:
                    slots = runs[job.name][2] if job.name in runs else 0
                    runs[job.name] = job, instance.queue, slots + job.slots
        ends: dict[str, float] = {}
        for name, (job, queue, slots) in runs.items():
            known = self._ends.get(name)
            if known is not None and known > now:
                ends[name] = known
            elif job.started is not None:
                running = max(now - job.started, 0.0)
                found = self.times.estimate(self.like_running(job, queue, slots), running)
                if found is not None:
                    ends[name] = job.started + found.median
                elif self.times.added:
                    ends[name] = now + running * OVERDUE
        return ends
