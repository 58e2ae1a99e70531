"""Recovery of all workers that are silent, interrupted or gone: their steps (`lost_workers.py`), what is remembered and
asked about their jobs, and when to observe again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from autoscaler.core.actions import Release
from autoscaler.core.model.cluster import Cluster, JobDetail
from autoscaler.core.model.memory import HeldJob, Memory
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.owners import in_turn
from autoscaler.core.recovery.failure_domains import vouched_s
from autoscaler.core.recovery.lost_jobs import (
    holding,
    release_jobs,
)
from autoscaler.core.recovery.lost_workers import recover
from autoscaler.core.recovery.recovery_context import RecoveryContext
from autoscaler.core.recovery.recovery_steps import NOTICE_MARGIN
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import (
    PassContext,
    WorkerStep,
)
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Recovery:
    """The steps of all workers in these states, and what to remember about their jobs."""

    steps: tuple[WorkerStep, ...]
    release: Release | None
    """Jobs that were held while they were rescheduled, and may start now."""
    asked: tuple[int, ...]
    details: Mapping[int, JobDetail]
    held_back: Mapping[str, HeldJob]
    due: float | None
    """When time alone leads to the next step."""


def recover_workers(
    observed: ObservedWorkers, cluster: Cluster, memory: Memory, pass_context: PassContext, context: RecoveryContext
) -> Recovery:
    """One step for every worker in one of these states."""
    steps = [recover(worker, pass_context, context) for worker in observed.in_recovery]
    queried = to_ask(observed, context)
    releases = release_jobs(cluster, memory, context.where, pass_context.retry_after, pass_context.now)
    actions = [step.action for step in steps]
    return Recovery(
        steps=tuple(steps),
        release=releases.action,
        asked=queried,
        details=details_to_keep(observed, context),
        held_back=holding(releases.held_back, (*actions, releases.action), context.where, pass_context.now),
        due=next_recovery(observed, queried, context, pass_context.now),
    )


def uncertain_jobs(observed: ObservedWorkers) -> tuple[Reason, ...]:
    """Jobs that are left alone although perhaps no process of theirs lives any more (rule 7)."""
    return tuple(
        because(Code.JOBS_UNCERTAIN, jobs=worker.note.uncertain_jobs, host=worker.name) for worker in observed.uncertain
    )


# -- what to ask and when to observe again -----------------------------------------------------------------------------


def _jobs_matter(worker: WorkerState) -> bool:
    """Whether one in recovery may be lost, so that it should be known in time if its jobs may start again."""
    return worker.decisive not in (Condition.SILENT, Condition.CUT_OFF)


def to_ask(observed: ObservedWorkers, context: RecoveryContext) -> tuple[int, ...]:
    """Jobs on workers that may be lost, if it is not known yet whether they may start again.

    No more than one observation can ask about, of each owner in turn: for a job beyond that, the missing answer proves
    nothing, and there may never be one about those of another.
    """
    jobs = {
        (job.number, job.owner)
        for worker in observed.in_recovery
        if _jobs_matter(worker) and worker.host is not None
        for job in worker.host.jobs
    }
    unknown = ((owner, job) for job, owner in sorted(jobs) if job not in context.where.details)
    return tuple(islice(in_turn(unknown), context.policy.detail_lookups))


def details_to_keep(observed: ObservedWorkers, context: RecoveryContext) -> Mapping[int, JobDetail]:
    """Answers about jobs that run on workers that may be lost."""
    details = context.where.details
    return {
        job.number: details[job.number]
        for worker in observed.in_recovery
        if _jobs_matter(worker) and worker.host is not None
        for job in worker.host.jobs
        if job.number in details
    }


def next_recovery(
    observed: ObservedWorkers, queried: Sequence[int], context: RecoveryContext, now: float
) -> float | None:
    """When time alone leads to the next step: an interruption comes close, a silence becomes too long, an answer is
    there.
    """
    times: list[float] = [now + 1.0] if set(queried) - context.where.queried else []
    for worker in observed.watched:
        if worker.notice is not None and worker.decisive is Condition.INTERRUPTED:
            times.append(worker.notice.at - NOTICE_MARGIN)
        silent, limit = worker.note.silent_s, context.policy.silence_timeout
        if silent is not None and not context.all_silent:
            times += [now + context.disable_after - silent, now + limit - silent, now + limit - vouched_s(worker.note)]
    return min((time for time in times if time > now), default=None)
