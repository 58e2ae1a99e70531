"""What an autoscaler would estimate in the simulated cell: by jobs that ended there, and by what listings show."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from autoscaler.core.estimates.estimates import Estimates
from autoscaler.core.estimates.estimator import Estimator
from autoscaler.core.estimates.run_times import Likeness, RunTimes
from autoscaler.core.model.cluster import Cluster, HostJob, JobRequest
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import WorkloadJob


class SimulatedEstimates:
    """Of one run. Listings show neither names nor, of running jobs, projects."""

    def __init__(self, earlier: Iterable[WorkloadJob] = ()) -> None:
        """`earlier`: jobs that ran before the first one of the run. Their waits are not known."""
        self._times = RunTimes()
        self._jobs: dict[int, WorkloadJob] = {}
        """Jobs that wait or run, by number: their category does not tell the owner."""
        self._ending = deque(sorted(earlier, key=lambda job: job.submitted + job.seconds))
        """Of the earlier ones those that have not ended yet."""
        self._estimator = Estimator(self._times, self._like_waiting, self._like_running)

    def add(self, job: WorkloadJob) -> None:
        """A job that has ended."""
        self._times.add(Likeness(job.owner, job.name, job.project, "", job.slots, job.requested), job.seconds)

    def read(self, run: Simulation, cluster: Cluster, now: float) -> Estimates:
        """As of now."""
        while self._ending and self._ending[0].submitted + self._ending[0].seconds <= run.now:
            self.add(self._ending.popleft())
        waiting = (each.job for category in run.engine.pending() for each in category.jobs)
        running = (task.job for host in run.engine.hosts.values() for task in host.runs)
        self._jobs = {job.number: job for job in (*waiting, *running)}
        return self._estimator.estimates(cluster, now)

    def _like_waiting(self, number: int, _: JobRequest) -> Likeness:
        job = self._jobs.get(number)
        return Likeness() if job is None else Likeness(job.owner, "", job.project, "", job.slots, job.requested)

    def _like_running(self, running: HostJob, _: str, slots: int) -> Likeness:
        job = self._jobs[running.number]
        return Likeness(job.owner, slots=slots, requested=job.requested)
