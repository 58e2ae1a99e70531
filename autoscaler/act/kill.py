"""Kill: delete jobs. The owner is told first, since a job's context goes with it; and nothing that runs is deleted."""

from __future__ import annotations

from autoscaler.act.jobs import explain, outcome_of
from autoscaler.act.means import Means
from autoscaler.core.actions import Kill
from autoscaler.store.journal import Outcome
from sge.admin import JobsOutcome


def kill(action: Kill, means: Means) -> Outcome:
    """A job of a machine that is gone (`lost`) is deleted by force; any other only while no task of it runs (rule 6).

    Between the plan's look and now its owner may have changed it, and it may have started: it is looked at again right
    before. The notice is written before the deletion, because afterwards nobody knows where the job's output was.
    """
    spared = {} if action.lost else _running(action, means)
    doomed = [job for job in action.jobs if job not in spared]
    said = explain(doomed, action.reason, means)
    told = means.owners.tell([job for job in doomed if job not in said.gone], "deleted", action.reason)
    deleted = means.grid_engine.delete(doomed, forced=action.lost)
    came = JobsOutcome(deleted.done, deleted.gone, {**deleted.refused, **spared})
    return outcome_of(action, came, told)


def _running(action: Kill, means: Means) -> dict[str, str]:
    """The jobs with a task that runs, is being started or suspended, with the words for each."""
    running = means.running()
    return {job: "it runs now, and was left alone" for job in action.jobs if int(job.partition(".")[0]) in running}
