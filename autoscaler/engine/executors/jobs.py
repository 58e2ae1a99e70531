"""Actions on jobs: hold, release, annotate, delete and reschedule them.

All of them first write the reason into the job's context, and combine the results of all jobs into one outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.actions import Annotate, Hold, JobAction, Kill, Release, Reschedule
from autoscaler.core.model.reasons import Reason
from autoscaler.engine.execution import ExecutionContext
from autoscaler.errors import GridEngineRefused
from autoscaler.report.wording import text
from autoscaler.sge.admin import JobsOutcome
from autoscaler.store.journal import Outcome, Result

CONTEXT = "autoscaler"
"""The variable of a job's context with our last sentence about the job; `qstat -j` shows it."""


def explain(jobs: Sequence[str], reason: Reason, context: ExecutionContext) -> JobsOutcome:
    """Write the reason's sentence into each job's context; returns the jobs that are gone or refuse it.

    For a single task it is the context of the whole job: Grid Engine has none for tasks.
    """
    numbers = {job: job.partition(".")[0] for job in jobs}
    written = context.grid_engine.set_context(tuple(dict.fromkeys(numbers.values())), CONTEXT, text(reason))
    return JobsOutcome(
        gone=tuple(job for job in jobs if numbers[job] in written.gone),
        refused={job: written.refused[numbers[job]] for job in jobs if numbers[job] in written.refused},
    )


def unchanged(action: Hold | Kill, context: ExecutionContext) -> JobsOutcome:
    """Which of its jobs still wait with exactly the requests that they were judged by (rule 6); the others with the
    words for each. May raise GridEngineNotObservable: then nobody knows.
    """
    now = context.jobs()
    judged = dict(zip(action.jobs, action.asks, strict=False))
    known = now.running | {int(name.partition(".")[0]) for name in now.waiting}
    done: list[str] = []
    gone: list[str] = []
    refused: dict[str, str] = {}
    for job in action.jobs:
        number, ask = int(job.partition(".")[0]), judged.get(job)
        if number in now.running:
            refused[job] = "it runs now: left alone"
        elif number not in known:
            gone.append(job)
        elif ask is None or now.waiting.get(job) != ask:
            refused[job] = "it was changed meanwhile: left alone"
        else:
            done.append(job)
    return JobsOutcome(tuple(done), tuple(gone), refused)


def outcome_of(action: JobAction, came: JobsOutcome, *more: str) -> Outcome:
    """DONE unless Grid Engine refused any; a job that is gone already needs nothing more."""
    words = [f"{job}: {why}" for job, why in came.refused.items()]
    words += [f"gone already: {', '.join(came.gone)}"] if came.gone else []
    return Outcome(action, Result.REFUSED if came.refused else Result.DONE, "; ".join([*words, *filter(None, more)]))


def hold(action: Hold, context: ExecutionContext) -> Outcome:
    """The hold is an operator's, to distinguish it from the owner's own.

    A failure to write the context does not matter. The jobs are observed again right before, and only those are held
    that have not changed.
    """
    left = unchanged(action, context) if action.asks else JobsOutcome(action.jobs)
    explain(left.done, action.reason, context)
    held = context.grid_engine.hold(left.done)
    notified = context.owners.notify([job for job in left.done if job in held.done], "held", action.reason)
    came = JobsOutcome(held.done, (*left.gone, *held.gone), {**held.refused, **left.refused})
    return outcome_of(action, came, notified)


def release(action: Release, context: ExecutionContext) -> Outcome:
    explain(action.jobs, action.reason, context)
    return outcome_of(action, context.grid_engine.release(action.jobs))


def annotate(action: Annotate, context: ExecutionContext) -> Outcome:
    return outcome_of(action, explain(action.jobs, action.reason, context))


def kill(action: Kill, context: ExecutionContext) -> Outcome:
    """Delete the jobs: by force if their machine is gone (`lost`), otherwise only as they were judged (rule 6).

    Since the observation its owner may have changed a job, and it may have started, so it is observed again right
    before. The notice is written before the deletion, because afterwards nobody knows where the job's output was.
    """
    left = JobsOutcome(action.jobs) if action.lost else unchanged(action, context)
    written = explain(left.done, action.reason, context)
    notified = context.owners.notify([job for job in left.done if job not in written.gone], "deleted", action.reason)
    deleted = context.grid_engine.delete(left.done, forced=action.lost)
    came = JobsOutcome(deleted.done, (*left.gone, *deleted.gone), {**deleted.refused, **left.refused})
    return outcome_of(action, came, notified)


def reschedule(action: Reschedule, context: ExecutionContext) -> Outcome:
    """Grid Engine refuses a job that may not be started again, unless forced; one refusal does not hide the others."""
    explain(action.jobs, action.reason, context)
    gone: list[str] = []
    refused: dict[str, str] = {}
    for job in action.jobs:
        try:
            came = context.grid_engine.reschedule(job, forced=action.forced)
        except GridEngineRefused as error:
            refused[job] = str(error)
            continue
        gone += came.gone
        refused |= came.refused
    return outcome_of(action, JobsOutcome(gone=tuple(gone), refused=refused))
