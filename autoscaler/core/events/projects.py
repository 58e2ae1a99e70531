"""The project of a job: some dialects list it, others show it in `qstat -j` only, and none for a running job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from autoscaler.core.model.cluster import JobCategory, JobDetail, JobRequest


@dataclass(frozen=True)
class Projects:
    """The projects that this pass and the one before know."""

    details: Sequence[Mapping[int, JobDetail]]
    """Details of this pass first."""
    job_categories: Sequence[JobCategory]
    """The waiting jobs of the pass before."""

    def of(self, job: int) -> str:
        """'': it has none, or it is not known."""
        return self._in_details(job) or self._listed.get(job, "")

    def of_pending(self, job: int, request: JobRequest) -> str:
        """The same for a job that is listed now: the last listing cannot know more."""
        return request.project or self._in_details(job)

    def _in_details(self, job: int) -> str:
        found = next((details[job] for details in self.details if job in details), None)
        return found.project if found is not None else ""

    @cached_property
    def _listed(self) -> Mapping[int, str]:
        return {
            job: category.ask.project
            for category in self.job_categories
            if category.ask.project
            for job in category.jobs
        }
