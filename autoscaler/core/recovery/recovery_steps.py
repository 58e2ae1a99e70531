"""The steps of workers that are silent, interrupted or gone; `lost_workers.py` says when each is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autoscaler.core.actions import Action, Hold, Kill, Reschedule
from autoscaler.core.hosts.host_owners import older_jobs
from autoscaler.core.model.cluster import HostJob
from autoscaler.core.model.fleet import Ending
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.recovery.failure_domains import vouched_s
from autoscaler.core.recovery.lost_jobs import (
    JobPlaces,
    JobsStep,
    jobs_on,
    next_for_jobs,
)
from autoscaler.core.recovery.recovery_context import RecoveryContext, restart_known
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.core.workers.failed_launches import why_failed
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import (
    PassContext,
    WorkerStep,
    disable,
    enable,
    keep,
    remove,
    terminate,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState

NOTICE_MARGIN = 30.0
"""The autoscaler terminates an interrupted worker this many seconds before its cloud takes it, if all its jobs may
start again.
"""
TRIES = 3
"""After this many attempts a job that is still on its lost host counts as one that Grid Engine does not reschedule."""
TRY_AGAIN = 600.0
"""Seconds after which it is tried once more, because the obstacle may have passed."""


@dataclass(frozen=True)
class Lost:
    """A worker that is silent, taken by its cloud, ending or gone."""

    worker: WorkerState
    pass_context: PassContext
    context: RecoveryContext

    @property
    def heard(self) -> bool:
        return self.worker.host is not None and self.worker.host.heard

    @property
    def too_long(self) -> bool:
        """It has been silent for too long."""
        return Condition.SILENT_TOO_LONG in self.worker.conditions

    @property
    def unvouched(self) -> Reason | None:
        """Why its silence does not show that its machine is lost. If a person drains it, that person answers for it."""
        if self.pass_context.drained_by_command(self.worker):
            return None
        return self.context.unvouched.get(self.worker.worker.id) or self._vouched_lately

    @property
    def _vouched_lately(self) -> Reason | None:
        """Only silence while another worker vouches for its network counts."""
        counted, limit = vouched_s(self.worker.note), self.context.policy.silence_timeout
        return because(Code.VOUCHED_LATELY, vouched_s=counted, limit_s=limit) if counted < limit else None

    @property
    def drained_by_person(self) -> Reason | None:
        """Why a person drains it."""
        return self.pass_context.drained_by_person(self.worker)

    @property
    def leaving(self) -> Reason | None:
        """Why it would leave if it were not silent."""
        return self.drained_by_person or self.pass_context.winding_down

    @property
    def silent(self) -> Reason:
        return because(
            Code.SILENT, silent_s=self.worker.note.silent_s or 0.0, limit_s=self.context.policy.silence_timeout
        )

    @property
    def interrupted(self) -> Reason:
        notice, host = self.worker.notice, self.worker.host
        assert notice is not None  # its rule applies only then
        jobs = tuple(job.name for job, _ in jobs_on(host)) if host is not None else ()
        return because(Code.INTERRUPTED, ends_at=notice.at, kind=notice.kind, jobs=jobs)

    @property
    def missing_s(self) -> float:
        """Seconds since its provider's listing first left it out."""
        since = self.worker.note.missing_since
        return 0.0 if since is None else self.pass_context.now - since

    @cached_property
    def jobs(self) -> Sequence[tuple[HostJob, str]]:
        """Its jobs. If a newer machine already reports under its name, only jobs that began before that one existed."""
        host, successor = self.worker.host, self.worker.successor
        if host is None or successor is None:
            return jobs_on(host) if host is not None else ()
        note = self.context.notes.get(successor.id)
        old = {job.name for job in older_jobs(host, successor, note, self.worker.note.on_their_way)}
        return [(job, queue) for job, queue in jobs_on(host) if job.name in old]

    @cached_property
    def for_jobs(self) -> JobsStep:
        """The next action for these jobs."""
        note, context = self.worker.note, self.context
        tried = frozenset(note.moved) if self.pass_context.recent(note.moved_at) else frozenset()
        lately = note.moved_at is not None and self.pass_context.now - note.moved_at < TRY_AGAIN
        refused = frozenset(note.moved) if note.moves >= TRIES and lately else frozenset()
        where = _as_gone(self.worker, self.jobs, context.where)
        return next_for_jobs(self.jobs, where, context.policy.lost_jobs, tried, refused)


def waiting(reason: Callable[[Lost], Reason]) -> Callable[[Lost], WorkerStep]:
    return lambda lost: wait(lost.worker, reason(lost))


def disabled_for(mark: Disabling, reason: Callable[[Lost], Reason]) -> Callable[[Lost], WorkerStep]:
    """Disable it, even if the autoscaler is paused: that does no harm, and can be undone."""

    def disabled(lost: Lost) -> WorkerStep:
        note = lost.worker.note
        planned = note.disabling is not None and note.disabling is not Disabling.ENROL and not note.seen_disabled
        if planned and lost.pass_context.recent(note.disabled_at):
            return wait(lost.worker, reason(lost))
        return disable(lost.worker, lost.pass_context, mark, reason(lost), by_person=True)

    return disabled


def fence(lost: Lost, reason: Reason | None = None) -> WorkerStep:
    """Terminate the machine although it is an execution host that may be busy: the one exception to rule 1 (decision
    17).

    Only after it was silent for too long, or when its cloud is about to take it.
    """
    worker, pass_context = lost.worker, lost.pass_context
    kept = pass_context.kept(worker)
    if kept is not None:
        return keep(worker, kept)
    limit = lost.context.policy.silence_timeout
    reason = reason or because(Code.FENCED, silent_s=worker.note.silent_s or 0.0, limit_s=limit)
    step = terminate(worker, pass_context, reason)
    if step.action is None:
        return step
    fenced_at = worker.note.fenced_at or pass_context.now
    return replace(step, note=replace(step.note, retired_at=worker.note.retired_at, fenced_at=fenced_at))


def ending(lost: Lost) -> Reason:
    if lost.worker.note.stopped:
        return because(Code.STOPPED_FROM_OUTSIDE, message=lost.worker.worker.message)
    return because(Code.ENDING)


# -- gone ------------------------------------------------------------------------------------------------------------


def disabled_by_person(worker: WorkerState) -> bool:
    """Whether a person disabled it. If we disabled the rest of it too, that would no longer show for the next machine
    of its name.
    """
    return Condition.DISABLED_BY_HAND in worker.conditions


def how_it_ended(lost: Lost) -> Reason:
    worker = lost.worker
    if (failed := why_failed(worker)) is not None:
        return failed
    if worker.note.stopped:
        return because(Code.STOPPED_FROM_OUTSIDE, message=worker.worker.message)
    match worker.worker.ending:
        case Ending.RELEASED:
            return because(Code.SHUT_ITSELF_DOWN)
        case Ending.INTERRUPTED:
            return because(Code.RECLAIMED)
        case _:
            return because(Code.GONE)


def name_may_be_reused(lost: Lost) -> WorkerStep:
    jobs = tuple(job.name for job, _ in lost.jobs)
    return wait(lost.worker, because(Code.NAME_MAY_BE_REUSED, jobs=jobs).then(how_it_ended(lost)))


def move_jobs(lost: Lost) -> WorkerStep:
    worker, pass_context, found = lost.worker, lost.pass_context, lost.for_jobs
    note, reason = worker.note, found.reason.then(how_it_ended(lost))
    if found.kind is None:
        return wait(worker, reason)
    if pass_context.paused is not None:
        return wait(worker, reason.then(pass_context.paused))
    action: Action
    if found.kind is Reschedule:
        action = Reschedule(found.jobs, worker.worker.id, worker.name, reason, found.forced)
    else:
        action = Hold(found.jobs, reason) if found.kind is Hold else Kill(found.jobs, reason, lost=True)
    tried = note.moved if pass_context.recent(note.moved_at) else ()
    repeated = set(found.jobs) <= set(note.moved)
    moved = tuple(sorted({*tried, *found.jobs}))
    note = replace(note, moved=moved, moved_at=pass_context.now, moves=note.moves + 1 if repeated else 1)
    return WorkerStep(worker, WorkerVerdict(worker.name, worker.worker.id, "wait", reason), note, action)


def _as_gone(worker: WorkerState, jobs: Iterable[tuple[HostJob, str]], where: JobPlaces) -> JobPlaces:
    """If a newer machine has taken over the name, the older machine's jobs count as gone from this host."""
    if worker.successor is None or worker.host is None:
        return where
    name = worker.host.name
    places = {job.name: where.places[job.name] - {name} for job, _ in jobs}
    return replace(where, places={**where.places, **places})


def remove_gone(lost: Lost) -> WorkerStep:
    step = remove(lost.worker, lost.pass_context, how_it_ended(lost))
    return step if step.action is None else replace(step, note=replace(step.note, disabling=Disabling.LOST))


# -- not in the listing, or its end is requested ---------------------------------------------------------------------


def may_run_on(lost: Lost) -> bool:
    silent = lost.too_long or lost.worker.successor is not None
    return lost.missing_s < lost.context.policy.order_grace or not silent


def runs_on(lost: Lost) -> bool:
    fenced_at = lost.worker.note.fenced_at or 0.0
    return lost.worker.notice is None and lost.pass_context.now - fenced_at >= lost.context.policy.order_grace


def cancel_fence(lost: Lost) -> WorkerStep:
    worker = replace(lost.worker, note=replace(lost.worker.note, fenced_at=None, terminated_at=None))
    return enable(worker, lost.pass_context, because(Code.FENCE_CANCELLED))


# -- notices -------------------------------------------------------------------------------------------------------


def taken_soon(lost: Lost) -> bool:
    """Its cloud takes it in seconds, and all that it runs may start again."""
    notice = lost.worker.notice
    return notice is not None and lost.pass_context.now >= notice.at - NOTICE_MARGIN and _all_may_restart(lost)


def fence_before_interruption(lost: Lost) -> WorkerStep:
    known = lost.interrupted
    return fence(lost, because(Code.TERMINATED_BEFORE_INTERRUPTION, ends_at=known["ends_at"], jobs=known["jobs"]))


def _all_may_restart(lost: Lost) -> bool:
    """Whether nothing is lost if it ends now: no reservation, and every job may start again and runs only there."""
    host, context = lost.worker.host, lost.context
    if host is None or any(instance.reserved for instance in host.instances):
        return False
    return all(
        restart_known(job, queue, context) and context.where.alive(job.name) == (host.name,)
        for job, queue in jobs_on(host)
    )


# -- silence -------------------------------------------------------------------------------------------------------


def not_vouched(lost: Lost) -> WorkerStep:
    assert lost.unvouched is not None  # the row holds only then
    kept = lost.pass_context.kept(lost.worker)
    if kept is not None:
        return keep(lost.worker, kept)
    return wait(lost.worker, lost.unvouched.then(lost.silent))


def drain_silent(lost: Lost) -> WorkerStep:
    leaving = lost.leaving
    assert leaving is not None  # the row holds only then
    mark = Disabling.STOP if leaving.code is Code.STOPPING else Disabling.COMMAND
    return disable(lost.worker, lost.pass_context, mark, leaving, by_person=True)
