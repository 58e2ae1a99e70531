"""The last observation with its plan. Commands show the cell from this, the store and the accounting, whether the
running autoscaler answers or a command observes by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoscaler.core.snapshot import Plan, Snapshot


@dataclass(frozen=True, slots=True)
class ObservedPlan:
    """A snapshot, the plan for it, and how long the observation took."""

    snapshot: Snapshot
    plan: Plan
    timings: Mapping[str, float]
    zone: tzinfo | None

    def document(self, *, by_job: bool = False) -> dict[str, Any]:
        """The document of schema 1 for a plan that is not carried out."""
        from autoscaler.report.document import document

        return document(self.snapshot, self.plan, self.timings, by_job=by_job, zone=self.zone)

    def lazy_document(self, *, by_job: bool = False) -> dict[str, Any]:
        """The same with iterators in place of the long lists."""
        from autoscaler.report.document import lazy_document

        return lazy_document(self.snapshot, self.plan, self.timings, by_job=by_job, zone=self.zone)

    def assignment(self) -> dict[str, Any]:
        """What each worker of the launches is meant for, as a part of the document; empty: the plan was not asked."""
        from autoscaler.report.document import assignment_part

        if not self.snapshot.policy.assigns:
            return {}
        return {"assignment": [assignment_part(each) for each in self.plan.assigned]}

    def jobs(self) -> dict[str, Any]:
        """A row for each waiting job."""
        document = self.document(by_job=True)
        parts = {name: document[name] for name in ("schema", "now", "notes")}
        return parts | {"jobs": document["job_categories"]}

    def running(self, owner: str | None = None) -> list[dict[str, Any]]:
        """A row for each running job. `owner`: the only owner whose jobs are shown; None: all."""
        from autoscaler.report.running import running_rows

        return running_rows(self.snapshot, owner)

    def workers(self) -> dict[str, Any]:
        """A row for each worker and persistent host."""
        from autoscaler.report.document import worker_part
        from autoscaler.report.fleet import worker_rows

        rows = worker_rows(self.snapshot, map(worker_part, self.plan.workers), self.zone)
        return {name: self._head[name] for name in ("schema", "now")} | {"workers": rows}

    def queue(self, owner: str | None = None) -> dict[str, Any]:
        """Waiting tasks, by reason. `owner`: the only owner whose jobs are shown; None: all."""
        from autoscaler.report.queue import queue_rows

        rows, hidden = queue_rows(self.snapshot, self.plan, owner)
        return self._head | {"reasons": rows, "not_shown": hidden}

    def waiting(
        self, query: Mapping[str, str], asker: str, only: str | None = None, named: Mapping[int, str] | None = None
    ) -> dict[str, Any]:
        """A page of the waiting job categories. `only`: the only owner whose jobs are shown; None: all. `named`: names
        of jobs that have the text that is searched for; None: not known. Raises SettingsError.
        """
        from autoscaler.report.waiting_list import read_waiting_query, waiting_rows

        rows = waiting_rows(self.snapshot, self.plan, read_waiting_query(query), asker=asker, only=only, named=named)
        return self._head | rows

    @property
    def _head(self) -> dict[str, Any]:
        """What these answers begin with; not the sentence of the pass, which is longer to make than they are."""
        from autoscaler.report import SCHEMA
        from autoscaler.report.events import at_zone

        plan = self.plan
        counts = {"waiting": plan.waiting, "counted": plan.counted, "fitting": plan.fitting}
        return {"schema": SCHEMA, "now": at_zone(self.snapshot.now, self.zone)} | counts

    def owners(self) -> dict[int, str]:
        """The owner of each waiting or running job."""
        cluster = self.snapshot.cluster
        running = {job.number: job.owner for host in cluster.hosts for job in host.jobs}
        return {job: category.ask.owner for category in cluster.job_categories for job in category.jobs} | running
