"""What actions on jobs share: they write the reason into the job's context first, and combine the results of all jobs
into one outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from autoscaler.core.model.actions import Hold, JobAction, Kill
from autoscaler.core.model.reasons import Reason
from autoscaler.engine.execution import ExecutionContext
from autoscaler.report.wording import text
from autoscaler.store.journal import Outcome, Result
from sge.admin import JobsOutcome

CONTEXT = "autoscaler"
"""The variable of a job's context with our last sentence about the job; `qstat -j` shows it."""


def explain(jobs: Sequence[str], reason: Reason, context: ExecutionContext) -> JobsOutcome:
    """Write the reason's sentence into each job's context.

    A job that is gone or refuses it is reported, not raised. For a single task it is the context of the whole job: Grid
    Engine has none for tasks.
    """
    done: list[str] = []
    gone: list[str] = []
    refused: dict[str, str] = {}
    told: dict[str, JobsOutcome] = {}
    for job in jobs:
        number = job.partition(".")[0]
        if number not in told:
            told[number] = context.grid_engine.set_context(number, CONTEXT, text(reason))
        if told[number].done:
            done.append(job)
        elif told[number].gone:
            gone.append(job)
        else:
            refused[job] = told[number].refused.get(number, "Grid Engine said nothing")
    return JobsOutcome(tuple(done), tuple(gone), refused)


def unchanged(action: Hold | Kill, context: ExecutionContext) -> JobsOutcome:
    """Which of its jobs still wait, asking for exactly what they were judged by (rule 6); the others with the words for
    each. May raise GridEngineNotObservable: then nobody knows.
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
    words = [f"{job}: {said}" for job, said in came.refused.items()]
    words += [f"gone already: {', '.join(came.gone)}"] if came.gone else []
    return Outcome(action, Result.REFUSED if came.refused else Result.DONE, "; ".join([*words, *filter(None, more)]))
