"""How long the tasks of counted demand are estimated to run."""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.estimates.estimates import Estimates, RunTime
from autoscaler.core.model.cluster import Cluster, JobCategory, JobRequest
from autoscaler.core.model.complexes import task_count
from autoscaler.core.model.demand_vector import CategoryDemand


def run_times(
    wanted: Sequence[CategoryDemand], cluster: Cluster, estimates: Estimates
) -> tuple[tuple[RunTime, ...], ...]:
    """Parallel to the demands: of each task, as submitted. Empty: of some task nothing is known."""
    categories: dict[JobRequest, list[JobCategory]] = {}
    for category in cluster.job_categories:
        categories.setdefault(category.ask, []).append(category)
    return tuple(
        _of_categories([category for ask in want.asks for category in categories.get(ask, ())], estimates)
        for want in wanted
    )


def _of_categories(categories: Sequence[JobCategory], estimates: Estimates) -> tuple[RunTime, ...]:
    found: list[tuple[float, int, int, RunTime]] = []
    for category in categories:
        for job, tasks, submitted in zip(category.jobs, category.tasks, category.submitted, strict=True):
            seconds = estimates.seconds.get(job)
            if seconds is None:
                return ()
            found.append((submitted, job, task_count(tasks) if tasks else 1, seconds))
    found.sort(key=lambda each: each[:2])
    return tuple(seconds for _, _, tasks, seconds in found for _ in range(tasks))
