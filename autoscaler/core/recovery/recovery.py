"""Workers that are silent, that their cloud takes, or that are gone: one step each, always with a reason.

A silent worker may still run jobs: it is disabled and watched, and after a while *fenced*: its machine is terminated
although it is an execution host and may run jobs. Its jobs are rescheduled or deleted only after its provider confirms
that the machine is gone (rule 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.model.actions import Action, Hold, Kill, Release, Reschedule
from autoscaler.core.model.cluster import Cluster, HostJob, JobDetail
from autoscaler.core.model.fleet import Ending
from autoscaler.core.model.memory import Disabling, HeldBack, Memory
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import Policy
from autoscaler.core.recovery.lost_jobs import (
    JobPlaces,
    JobsStep,
    Restart,
    holding,
    job_places,
    jobs_on,
    let_go,
    name_of,
    next_for_jobs,
)
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Snapshot, WorkerVerdict
from autoscaler.core.workers.drain import busy_reason, leave
from autoscaler.core.workers.failed_launches import why_failed
from autoscaler.core.workers.host_owners import older_jobs
from autoscaler.core.workers.load_reports import grace_of
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition, Phase, Procedure, disabled
from autoscaler.core.workers.step import (
    PassContext,
    WorkerStep,
    disable,
    enable,
    first_step,
    keep,
    remove,
    terminate,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState

NOTICE_MARGIN = 30.0
"""How many seconds before its cloud takes it the autoscaler terminates a worker whose jobs may all start again."""
TRIES = 3
"""After this many attempts a job that is still on its lost host counts as one that Grid Engine does not reschedule."""
TRY_AGAIN = 600.0
"""Seconds after which it is tried once more: the obstacle may have passed."""


@dataclass(frozen=True, slots=True)
class RecoveryContext:
    """What recovery needs besides the worker itself."""

    policy: Policy
    where: JobPlaces
    grace: float
    """Seconds without a load report that are still normal."""
    all_silent: bool
    """qmaster has no load report from any host."""
    awaited: bool
    """Machines were ordered that no listing shows yet: one of them may bear the name of one that is gone."""

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is disabled."""
        return min(self.grace, self.policy.silence_timeout / 2)


def recovery_context(observed: ObservedWorkers, snapshot: Snapshot) -> RecoveryContext:
    cluster, memory, policy, now = snapshot.cluster, snapshot.memory, snapshot.policy, snapshot.now
    gone = frozenset(m.host.name for m in observed.known if m.gone and m.host is not None and m.successor is None)
    return RecoveryContext(
        policy=policy,
        where=job_places(cluster, memory, gone, now - policy.detail_age),
        grace=grace_of(cluster),
        all_silent=not any(host.heard for host in cluster.hosts),
        awaited=bool(outstanding(snapshot.fleet, policy, now)),
    )


@dataclass(frozen=True, slots=True)
class Recovery:
    """The steps of all workers in these states, and what to remember about their jobs."""

    steps: tuple[WorkerStep, ...]
    release: Release | None
    """Jobs that were held while they were rescheduled, and may start now."""
    asked: tuple[int, ...]
    details: Mapping[int, JobDetail]
    held_back: Mapping[str, HeldBack]
    due: float | None
    """When time alone brings a next step."""


def recover_workers(
    observed: ObservedWorkers, cluster: Cluster, memory: Memory, pass_context: PassContext, after: RecoveryContext
) -> Recovery:
    """One step for every worker in one of these states."""
    steps = [
        recover(machine, pass_context, after) for machine in observed.known if machine.procedure is Procedure.RECOVERY
    ]
    asked = to_ask(observed, after)
    releases = let_go(cluster, memory, after.where, pass_context.retry_after, pass_context.now)
    actions = [step.action for step in steps]
    return Recovery(
        steps=tuple(steps),
        release=releases.action,
        asked=asked,
        details=details_to_keep(observed, after),
        held_back=holding(releases.held_back, (*actions, releases.action), after.where, pass_context.now),
        due=next_recovery(observed, asked, after, pass_context.now),
    )


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that is silent, taken by its cloud, ending or gone."""

    machine: WorkerState
    pass_context: PassContext
    after: RecoveryContext


def recover(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """The next step of such a worker."""
    return first_step(RULES, Lost(machine, pass_context, after))


# -- silence ------------------------------------------------------------------------------------------------------


def _silent(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """A silent worker: disabled after a while, enabled when it reports again, fenced when it has been silent for too
    long.
    """
    host, silent = machine.host, machine.note.silent_s or 0.0
    if host is None:
        return wait(machine, because(Code.SECOND_OBSERVATION))
    asked_away = pass_context.let_go(machine)
    if host.heard:
        if asked_away is not None:
            return leave(machine, pass_context, asked_away, by_person=True)
        return enable(machine, pass_context, because(Code.LOAD_REPORTS_AGAIN))
    reason = because(Code.SILENT, silent_s=silent, limit_s=after.policy.silence_timeout)
    leaving = asked_away or pass_context.winding_down
    if not disabled(host) and leaving is not None:
        mark = Disabling.STOP if leaving.code is Code.STOPPING else Disabling.COMMAND
        return disable(machine, pass_context, mark, leaving, by_person=True)
    if after.all_silent:
        return wait(machine, because(Code.NO_LOAD_REPORT).then(because(Code.ALL_SILENT)))
    if not disabled(host):
        if silent < after.patience:
            return wait(machine, because(Code.NO_LOAD_REPORT))
        return _close(machine, pass_context, Disabling.SILENT, reason)
    if not host.busy and (leaving is not None or Condition.SILENT_TOO_LONG in machine.conditions):
        return leave(machine, pass_context, reason, by_person=leaving is not None)
    if Condition.SILENT_TOO_LONG in machine.conditions:
        return fence(machine, pass_context, after)
    return wait(machine, reason)


def fence(
    machine: WorkerState, pass_context: PassContext, after: RecoveryContext, reason: Reason | None = None
) -> WorkerStep:
    """Terminate the machine although it is an execution host that may be busy: the one exception to rule 1 (decision
    17).

    Only after it was silent for too long, or when its cloud is about to take it.
    """
    kept = pass_context.kept(machine)
    if kept is not None:
        return keep(machine, kept)
    silent = machine.note.silent_s or 0.0
    reason = reason or because(Code.FENCED, silent_s=silent, limit_s=after.policy.silence_timeout)
    retired_at = machine.note.retired_at
    step = terminate(machine, pass_context, reason)
    if step.action is None:
        return step
    note = replace(step.note, retired_at=retired_at, fenced_at=machine.note.fenced_at or pass_context.now)
    return replace(step, note=note)


def _fenced(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """The autoscaler has requested its end. It repeats that while the worker is silent, and cancels it if the worker
    evidently runs on.
    """
    host, note = machine.host, machine.note
    if host is None or note.fenced_at is None:
        return wait(machine, because(Code.ENDING))
    if not host.heard:
        return fence(machine, pass_context, after)
    if machine.notice is None and pass_context.now - note.fenced_at >= after.policy.order_grace:
        called_off = replace(machine, note=replace(note, fenced_at=None, terminated_at=None))
        return enable(called_off, pass_context, because(Code.FENCE_CANCELLED))
    return wait(machine, because(Code.ENDING))


def _confirm_end(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """Its provider's listing leaves it out. If it is silent as well, or another machine has its name, the autoscaler
    terminates it: if it had ended already, that is then certain.
    """
    note, host = machine.note, machine.host
    missing = pass_context.now - note.missing_since if note.missing_since is not None else 0.0
    reason = because(Code.NOT_LISTED)
    silent = Condition.SILENT_TOO_LONG in machine.conditions or machine.successor is not None
    if host is None or missing < after.policy.order_grace or not silent:
        return wait(machine, reason)
    if note.disabling is None and disabled(host):
        return keep(machine, because(Code.DISABLED_BY_HAND))
    return fence(machine, pass_context, after, because(Code.UNLISTED_AND_SILENT, missing_s=missing))


# -- notices -------------------------------------------------------------------------------------------------------


def _leave_before_interruption(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """Its cloud takes it: it is disabled, and terminated in time if all its jobs may start again."""
    host, notice = machine.host, machine.notice
    if notice is None:
        if host is None or not host.heard or pass_context.let_go(machine) is not None:
            return _silent(machine, pass_context, after)
        return enable(machine, pass_context, because(Code.INTERRUPTION_WITHDRAWN))
    jobs = tuple(name_of(job) for job, _ in jobs_on(host)) if host is not None else ()
    reason = because(Code.INTERRUPTED, ends_at=notice.at, kind=notice.kind, jobs=jobs)
    if host is None:
        return terminate(machine, pass_context, reason)
    if not disabled(host):
        return _close(machine, pass_context, Disabling.INTERRUPTED, reason)
    if not host.busy:
        return leave(machine, pass_context, reason)
    if pass_context.now >= notice.at - NOTICE_MARGIN and _all_may_restart(machine, after):
        return fence(
            machine, pass_context, after, because(Code.TERMINATED_BEFORE_INTERRUPTION, ends_at=notice.at, jobs=jobs)
        )
    if Condition.SILENT_TOO_LONG in machine.conditions:
        return fence(machine, pass_context, after)
    return wait(machine, reason)


def _all_may_restart(machine: WorkerState, after: RecoveryContext) -> bool:
    """Whether nothing is lost by ending it now: no reservation, and every job may start again and runs only there."""
    host = machine.host
    if host is None or any(instance.reserved for instance in host.instances):
        return False
    return all(
        restart_known(job, queue, after) and after.where.alive(job) == (host.name,) for job, queue in jobs_on(host)
    )


def restart_known(job: HostJob, queue: str, after: RecoveryContext) -> bool:
    """Whether it is certain that a job may start again."""
    known = job.number in after.where.details
    return known and after.where.restart(job, queue) in (Restart.YES, Restart.BY_FORCE)


# -- gone ------------------------------------------------------------------------------------------------------------


def _close_ending(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """Its machine is ending. If the autoscaler did not request that, it disables the host; an end that hangs is
    requested.
    """
    host = machine.host
    ending = because(Code.ENDING)
    if host is None or _closed_by_hand(machine):
        return wait(machine, ending)
    if not disabled(host):
        return _close(machine, pass_context, Disabling.LOST, ending)
    return (
        fence(machine, pass_context, after)
        if Condition.SILENT_TOO_LONG in machine.conditions
        else wait(machine, ending)
    )


def _remove_gone(machine: WorkerState, pass_context: PassContext, after: RecoveryContext) -> WorkerStep:
    """Its end is certain: its jobs are rescheduled, and its host is removed from Grid Engine."""
    host, reason = machine.host, _how_it_ended(machine)
    if host is None:
        return wait(machine, reason)
    if not disabled(host) and not _closed_by_hand(machine):
        return _close(machine, pass_context, Disabling.LOST, reason)
    lost = _lost_jobs(machine)
    if lost and host.heard and machine.successor is None and after.awaited:
        return wait(machine, because(Code.NAME_MAY_BE_REUSED, jobs=tuple(name_of(job) for job, _ in lost)).then(reason))
    if lost:
        return _move_jobs(machine, lost, pass_context, after, reason)
    if host.busy:
        return wait(machine, reason.then(busy_reason(machine)))
    retired = machine.note.retired_at
    if pass_context.recent(retired):
        return wait(machine, reason)
    step = remove(machine, pass_context, reason)
    return step if step.action is None else replace(step, note=replace(step.note, disabling=Disabling.LOST))


def _closed_by_hand(machine: WorkerState) -> bool:
    """Whether a person disabled it, even in part: our own disabling would hide that from the next machine of
    its name.
    """
    host = machine.host
    return (
        machine.note.disabling is None
        and host is not None
        and any("d" in instance.states for instance in host.instances)
    )


def _how_it_ended(machine: WorkerState) -> Reason:
    if (failed := why_failed(machine)) is not None:
        return failed
    match machine.worker.ending:
        case Ending.RELEASED:
            return because(Code.SHUT_ITSELF_DOWN)
        case Ending.INTERRUPTED:
            return because(Code.RECLAIMED)
        case _:
            return because(Code.GONE)


def jobs_in_doubt(observed: ObservedWorkers) -> tuple[Reason, ...]:
    """Jobs that are left alone although perhaps no process of them lives any more (rule 7)."""
    return tuple(
        because(Code.JOBS_UNCERTAIN, jobs=machine.note.in_doubt, host=machine.name)
        for machine in observed.machines
        if machine.note.in_doubt
    )


def _lost_jobs(machine: WorkerState) -> list[tuple[HostJob, str]]:
    """Its jobs. If a newer machine already reports under its name, only jobs that began before that machine existed."""
    if machine.host is None:
        return []
    if machine.successor is None:
        return jobs_on(machine.host)
    old = {name_of(job) for job in older_jobs(machine.host, machine.successor, machine.note.on_their_way)}
    return [(job, queue) for job, queue in jobs_on(machine.host) if name_of(job) in old]


def _move_jobs(
    machine: WorkerState,
    lost: Sequence[tuple[HostJob, str]],
    pass_context: PassContext,
    after: RecoveryContext,
    ended: Reason,
) -> WorkerStep:
    note = machine.note
    tried = frozenset(note.moved) if pass_context.recent(note.moved_at) else frozenset()
    lately = note.moved_at is not None and pass_context.now - note.moved_at < TRY_AGAIN
    refused = frozenset(note.moved) if note.moves >= TRIES and lately else frozenset()
    where = _as_gone(machine, lost, after.where)
    found: JobsStep = next_for_jobs(lost, where, after.policy.lost_jobs, tried, refused)
    reason = found.reason.then(ended)
    if found.kind is None:
        return wait(machine, reason)
    if pass_context.held_back is not None:
        return wait(machine, reason.then(pass_context.held_back))
    action: Action
    if found.kind is Reschedule:
        host = machine.host.name if machine.host else machine.name
        action = Reschedule(found.jobs, machine.worker.id, host, reason, found.forced)
    else:
        action = Hold(found.jobs, reason) if found.kind is Hold else Kill(found.jobs, reason, lost=True)
    again = set(found.jobs) <= set(note.moved)
    moved = tuple(sorted({*tried, *found.jobs}))
    note = replace(note, moved=moved, moved_at=pass_context.now, moves=note.moves + 1 if again else 1)
    verdict = WorkerVerdict(machine.name, machine.worker.id, "wait", reason)
    return WorkerStep(machine, verdict, note, action)


def _as_gone(machine: WorkerState, lost: Iterable[tuple[HostJob, str]], where: JobPlaces) -> JobPlaces:
    """Where a newer machine has taken the name over, the older jobs are gone from this host all the same."""
    if machine.successor is None or machine.host is None:
        return where
    name = machine.host.name
    places = {name_of(job): where.places[name_of(job)] - {name} for job, _ in lost}
    return replace(where, places={**where.places, **places})


def _close(machine: WorkerState, pass_context: PassContext, mark: Disabling, reason: Reason) -> WorkerStep:
    """Disable it, also while the autoscaler is paused: that does no harm, and can be undone."""
    note = machine.note
    if note.disabling is not None and not note.seen_disabled and pass_context.recent(note.disabled_at):
        return wait(machine, reason)
    return disable(machine, pass_context, mark, reason, by_person=True)


# -- the rules --------------------------------------------------------------------------------------------------------


def remove_gone(lost: Lost) -> WorkerStep | None:
    return _remove_gone(lost.machine, lost.pass_context, lost.after) if lost.machine.gone else None


def confirm_end(lost: Lost) -> WorkerStep | None:
    unlisted = lost.machine.decisive is Condition.UNLISTED
    return _confirm_end(lost.machine, lost.pass_context, lost.after) if unlisted else None


def watch_fenced(lost: Lost) -> WorkerStep | None:
    fenced = lost.machine.decisive is Condition.FENCED
    return _fenced(lost.machine, lost.pass_context, lost.after) if fenced else None


def close_ending(lost: Lost) -> WorkerStep | None:
    ends = lost.machine.phase is Phase.ENDING
    return _close_ending(lost.machine, lost.pass_context, lost.after) if ends else None


def leave_before_interruption(lost: Lost) -> WorkerStep | None:
    interrupted = lost.machine.decisive is Condition.INTERRUPTED
    return _leave_before_interruption(lost.machine, lost.pass_context, lost.after) if interrupted else None


def fence_cut_off(lost: Lost) -> WorkerStep | None:
    cut_off = lost.machine.decisive is Condition.CUT_OFF
    return fence(lost.machine, lost.pass_context, lost.after) if cut_off else None


def watch_silent(lost: Lost) -> WorkerStep:
    return _silent(lost.machine, lost.pass_context, lost.after)


RULES: tuple[Callable[[Lost], WorkerStep | None], ...] = (
    # Its end is certain: its jobs start again elsewhere, and its host is removed.
    remove_gone,
    # Its provider's listing lacks it: its end is made certain where nothing is heard of it either.
    confirm_end,
    # We asked for its end: again while it is silent, not any more where it evidently runs on.
    watch_fenced,
    # Its provider ends it: no job starts there any more.
    close_ending,
    # Its cloud takes it soon: no job starts there, and it is ended in time where all that it runs may start again.
    leave_before_interruption,
    # It drains and fell silent: it never runs dry.
    fence_cut_off,
    # Silent, or disabled because it was: closed, opened again, or fenced when that takes too long.
    watch_silent,
)
"""Read from the top; the first rule that has a step decides."""


# -- what to ask and when to look again -----------------------------------------------------------------------------


def _jobs_matter(machine: WorkerState) -> bool:
    """Whether it is good to know in time if what runs there may start again: it may be lost."""
    return machine.procedure is Procedure.RECOVERY and machine.decisive not in (Condition.SILENT, Condition.CUT_OFF)


def to_ask(observed: ObservedWorkers, after: RecoveryContext) -> tuple[int, ...]:
    """Jobs on workers that may be lost, of which nobody knows yet whether they may start again.

    No more than one observation asks about: of a job that was not asked about nothing follows from having no answer.
    """
    jobs = {
        job.number
        for machine in observed.known
        if _jobs_matter(machine) and machine.host is not None
        for job in machine.host.jobs
    }
    return tuple(sorted(jobs - after.where.details.keys())[: after.policy.detail_lookups])


def details_to_keep(observed: ObservedWorkers, after: RecoveryContext) -> Mapping[int, JobDetail]:
    """Answers about jobs that run on workers that may be lost."""
    details = after.where.details
    return {
        job.number: details[job.number]
        for machine in observed.known
        if _jobs_matter(machine) and machine.host is not None
        for job in machine.host.jobs
        if job.number in details
    }


def next_recovery(observed: ObservedWorkers, asked: Sequence[int], after: RecoveryContext, now: float) -> float | None:
    """When time alone brings a next step: a notice comes close, a silence becomes too long, an answer is there."""
    times: list[float] = [now + 1.0] if set(asked) - after.where.asked else []
    for machine in observed.known:
        if machine.notice is not None and machine.decisive is Condition.INTERRUPTED:
            times.append(machine.notice.at - NOTICE_MARGIN)
        silent = machine.note.silent_s
        if silent is not None and not after.all_silent:
            times += [now + limit - silent for limit in (after.patience, after.policy.silence_timeout)]
    return min((time for time in times if time > now), default=None)
