"""Workers that fell silent, that their cloud takes, or that are gone: one step each, always with a reason.

Silence is not death: a silent worker is closed and watched, and after a while *fenced*: its end is asked for, although
it is an execution host and may run jobs. Its jobs are touched only when its provider says that it is gone (rule 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.actions import Action, Hold, Kill, PushBack, Release
from autoscaler.core.cluster import Cluster, HostJob, JobDetail
from autoscaler.core.fleet import Ending
from autoscaler.core.leaving import busy_reason, leave
from autoscaler.core.life import Life, Machine, disabled
from autoscaler.core.lost.hearing import grace_of
from autoscaler.core.lost.lost_jobs import (
    Restart,
    Salvage,
    Whereabouts,
    holding,
    let_go,
    name_of,
    salvage,
    standing,
    whereabouts,
)
from autoscaler.core.lost.matching import older_jobs
from autoscaler.core.memory import Disabling, HeldBack, Memory
from autoscaler.core.model import Snapshot, WorkerVerdict
from autoscaler.core.policy import Policy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.sight import Sight
from autoscaler.core.steps import Moment, Step, disable, enable, keep, remove, terminate, wait
from autoscaler.core.supply import outstanding

NOTICE_MARGIN = 30.0
"""Seconds before its cloud takes it that a worker is ended by us, where all that it runs may start again."""
TRIES = 3
"""A job that still stands on its lost host after so many tries is one that Grid Engine does not push back."""
TRY_AGAIN = 600.0
"""Seconds after which it is tried once more all the same: what stood in the way may have passed."""

RECOVERING = frozenset(
    {Life.UNHEARD, Life.SILENT, Life.INTERRUPTED, Life.FENCED, Life.ENDING, Life.GONE, Life.UNLISTED}
)
_JOBS_MATTER = RECOVERING - {Life.UNHEARD}
"""Where it is good to know in time whether what runs there may start again."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What recovery rests on besides the worker itself."""

    policy: Policy
    where: Whereabouts
    grace: float
    """Seconds for which a silent host may just not have reported again yet."""
    all_silent: bool
    """No host at all is heard."""
    awaited: bool
    """Machines were ordered that no listing shows yet: one of them may bear the name of one that is gone."""

    @property
    def patience(self) -> float:
        """Seconds of silence after which a worker is closed."""
        return min(self.grace, self.policy.silence_timeout / 2)


def aftermath(sight: Sight, snapshot: Snapshot) -> Aftermath:
    cluster, memory, policy, now = snapshot.cluster, snapshot.memory, snapshot.policy, snapshot.now
    gone = frozenset(m.host.name for m in sight.known if m.life is Life.GONE and m.host is not None and m.heir is None)
    return Aftermath(
        policy=policy,
        where=whereabouts(cluster, memory, gone, now - policy.detail_age),
        grace=grace_of(cluster),
        all_silent=not any(host.heard for host in cluster.hosts),
        awaited=bool(outstanding(snapshot.fleet, policy, now)),
    )


@dataclass(frozen=True, slots=True)
class Recovery:
    """What all workers in these states do, and what to remember of their jobs."""

    steps: tuple[Step, ...]
    release: Release | None
    """Jobs that were held while they were pushed back, and may start now."""
    asked: tuple[int, ...]
    details: Mapping[int, JobDetail]
    held_back: Mapping[str, HeldBack]
    due: float | None
    """When time alone brings a next step."""


def recover_workers(sight: Sight, cluster: Cluster, memory: Memory, moment: Moment, after: Aftermath) -> Recovery:
    """One step for every worker in one of these states."""
    steps = [recover(machine, moment, after) for machine in sight.known if in_recovery(machine, after)]
    asked = to_ask(sight, after)
    releases = let_go(cluster, memory, after.where, moment.retry_after, moment.now)
    actions = [step.action for step in steps]
    return Recovery(
        steps=tuple(steps),
        release=releases.action,
        asked=asked,
        details=details_to_keep(sight, after),
        held_back=holding(releases.held_back, (*actions, releases.action), after.where, moment.now),
        due=next_recovery(sight, asked, after, moment.now),
    )


def in_recovery(machine: Machine, after: Aftermath) -> bool:
    """Whether its step is found here: its state says so, or it can never run dry because it fell silent."""
    dying = machine.life is Life.DRAINING and not machine.empty and silent_too_long(machine, after)
    return machine.life in RECOVERING or dying


def recover(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """The next step of a worker in one of the states above."""
    match machine.life:
        case Life.GONE:
            return _bury(machine, moment, after)
        case Life.ENDING:
            return _see_off(machine, moment, after)
        case Life.INTERRUPTED:
            return _yield(machine, moment, after)
        case Life.FENCED:
            return _fenced(machine, moment, after)
        case Life.UNLISTED:
            return _search(machine, moment, after)
        case Life.DRAINING:
            return fence(machine, moment, after)
        case _:
            return _silent(machine, moment, after)


def silent_too_long(machine: Machine, after: Aftermath) -> bool:
    """Whether it has been silent for so long that its end is to be made certain."""
    silent = machine.note.silent_s
    return silent is not None and silent >= after.policy.silence_timeout and not after.all_silent


# -- silence ------------------------------------------------------------------------------------------------------


def _silent(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """Not heard: closed after a while, heard again: opened again, not heard for too long: fenced."""
    host, silent = machine.host, machine.note.silent_s or 0.0
    if host is None:
        return wait(machine, because(Code.SETTLING))
    asked_away = moment.let_go(machine)
    if host.heard:
        if asked_away is not None:
            return leave(machine, moment, asked_away, by_person=True)
        return enable(machine, moment, because(Code.HEARD_AGAIN))
    reason = because(Code.SILENT, silent_s=silent, limit_s=after.policy.silence_timeout)
    leaving = asked_away or moment.winding_down
    if not disabled(host) and leaving is not None:
        mark = Disabling.STOP if leaving.code is Code.STOPPING else Disabling.COMMAND
        return disable(machine, moment, mark, leaving, by_person=True)
    if after.all_silent:
        return wait(machine, because(Code.UNHEARD).then(because(Code.ALL_SILENT)))
    if not disabled(host):
        if silent < after.patience:
            return wait(machine, because(Code.UNHEARD))
        return _close(machine, moment, Disabling.SILENT, reason)
    if not host.busy and (leaving is not None or silent_too_long(machine, after)):
        return leave(machine, moment, reason, by_person=leaving is not None)
    if silent_too_long(machine, after):
        return fence(machine, moment, after)
    return wait(machine, reason)


def fence(machine: Machine, moment: Moment, after: Aftermath, reason: Reason | None = None) -> Step:
    """End the machine though it is an execution host that may be busy: the one exception to rule 1 (decision 17).

    Only ever after a silence that was too long, or where its cloud is about to take it.
    """
    kept = moment.kept(machine)
    if kept is not None:
        return keep(machine, kept)
    silent = machine.note.silent_s or 0.0
    reason = reason or because(Code.FENCED, silent_s=silent, limit_s=after.policy.silence_timeout)
    retired_at = machine.note.retired_at
    step = terminate(machine, moment, reason)
    if step.action is None:
        return step
    note = replace(step.note, retired_at=retired_at, fenced_at=machine.note.fenced_at or moment.now)
    return replace(step, note=note)


def _fenced(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """Its end was asked for. Asked again while it is silent; called off where it evidently runs on."""
    host, note = machine.host, machine.note
    if host is None or note.fenced_at is None:
        return wait(machine, because(Code.ENDING))
    if not host.heard:
        return fence(machine, moment, after)
    if machine.notice is None and moment.now - note.fenced_at >= after.policy.order_grace:
        called_off = replace(machine, note=replace(note, fenced_at=None, terminated_at=None))
        return enable(called_off, moment, because(Code.FENCE_CALLED_OFF))
    return wait(machine, because(Code.ENDING))


def _search(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """Its listing leaves it out. Where nothing is heard of it either, or another machine has its name, its end is asked
    for: done already counts as done, and then it is certain.
    """
    note, host = machine.note, machine.host
    missing = moment.now - note.missing_since if note.missing_since is not None else 0.0
    reason = because(Code.NOT_LISTED)
    silent = silent_too_long(machine, after) or machine.heir is not None
    if host is None or missing < after.policy.order_grace or not silent:
        return wait(machine, reason)
    if note.disabling is None and disabled(host):
        return keep(machine, because(Code.DISABLED_BY_HAND))
    return fence(machine, moment, after, because(Code.UNLISTED_AND_SILENT, missing_s=missing))


# -- notices -------------------------------------------------------------------------------------------------------


def _yield(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """Its cloud takes it: no further job enters; it is ended in time where all that it runs may start again."""
    host, notice = machine.host, machine.notice
    if notice is None:
        if host is None or not host.heard or moment.let_go(machine) is not None:
            return _silent(machine, moment, after)
        return enable(machine, moment, because(Code.NOTICE_WITHDRAWN))
    jobs = tuple(name_of(job) for job, _ in standing(host)) if host is not None else ()
    reason = because(Code.INTERRUPTED, ends_at=notice.at, kind=notice.kind, jobs=jobs)
    if host is None:
        return terminate(machine, moment, reason)
    if not disabled(host):
        return _close(machine, moment, Disabling.INTERRUPTED, reason)
    if not host.busy:
        return leave(machine, moment, reason)
    if moment.now >= notice.at - NOTICE_MARGIN and _all_may_restart(machine, after):
        return fence(machine, moment, after, because(Code.ENDED_BEFORE_TAKEN, ends_at=notice.at, jobs=jobs))
    if silent_too_long(machine, after):
        return fence(machine, moment, after)
    return wait(machine, reason)


def _all_may_restart(machine: Machine, after: Aftermath) -> bool:
    """Whether nothing is lost by ending it now: no reservation, and every job may start again and runs only there."""
    host = machine.host
    if host is None or any(instance.reserved for instance in host.instances):
        return False
    return all(
        restart_known(job, queue, after) and after.where.alive(job) == (host.name,) for job, queue in standing(host)
    )


def restart_known(job: HostJob, queue: str, after: Aftermath) -> bool:
    """Whether it is certain that a job may start again."""
    known = job.number in after.where.details
    return known and after.where.restart(job, queue) in (Restart.YES, Restart.BY_FORCE)


# -- gone ------------------------------------------------------------------------------------------------------------


def _see_off(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """Its machine is ending. Where we did not ask for it, no further job enters; and no end hangs for ever."""
    host = machine.host
    ending = because(Code.ENDING)
    if host is None or _closed_by_hand(machine):
        return wait(machine, ending)
    if not disabled(host):
        return _close(machine, moment, Disabling.LOST, ending)
    return fence(machine, moment, after) if silent_too_long(machine, after) else wait(machine, ending)


def _bury(machine: Machine, moment: Moment, after: Aftermath) -> Step:
    """Its end is certain: its jobs are pushed back, and its host is taken out of Grid Engine."""
    host, reason = machine.host, _how_it_ended(machine)
    if host is None:
        return wait(machine, reason)
    if not disabled(host) and not _closed_by_hand(machine):
        return _close(machine, moment, Disabling.LOST, reason)
    lost = _lost_jobs(machine)
    if lost and host.heard and machine.heir is None and after.awaited:
        return wait(machine, because(Code.NAMESAKE_AWAITED, jobs=tuple(name_of(job) for job, _ in lost)).then(reason))
    if lost:
        return _salvage(machine, lost, moment, after, reason)
    if host.busy:
        return wait(machine, reason.then(busy_reason(machine)))
    retired = machine.note.retired_at
    if retired is not None and moment.now - retired < moment.retry_after:
        return wait(machine, reason)
    step = remove(machine, moment, reason)
    return step if step.action is None else replace(step, note=replace(step.note, disabling=Disabling.LOST))


def _closed_by_hand(machine: Machine) -> bool:
    """Whether a person disabled it, be it in part: ours on top would hide that from the next machine of its name."""
    host = machine.host
    return (
        machine.note.disabling is None
        and host is not None
        and any("d" in instance.states for instance in host.instances)
    )


def _how_it_ended(machine: Machine) -> Reason:
    match machine.worker.ending:
        case Ending.RELEASED:
            return because(Code.RELEASED)
        case Ending.INTERRUPTED:
            return because(Code.TAKEN)
        case _:
            return because(Code.GONE)


def jobs_in_doubt(sight: Sight) -> tuple[Reason, ...]:
    """Jobs that are left alone though perhaps nothing runs them any more (rule 7)."""
    return tuple(
        because(Code.JOBS_IN_DOUBT, jobs=machine.note.in_doubt, host=machine.name)
        for machine in sight.machines
        if machine.note.in_doubt
    )


def _lost_jobs(machine: Machine) -> list[tuple[HostJob, str]]:
    """What ran on it. Where a newer machine already reports under its name, only what began before that existed."""
    if machine.host is None:
        return []
    if machine.heir is None:
        return standing(machine.host)
    old = {name_of(job) for job in older_jobs(machine.host, machine.heir, machine.note.on_their_way)}
    return [(job, queue) for job, queue in standing(machine.host) if name_of(job) in old]


def _salvage(
    machine: Machine, lost: Sequence[tuple[HostJob, str]], moment: Moment, after: Aftermath, ended: Reason
) -> Step:
    note = machine.note
    recently = note.moved_at is not None and moment.now - note.moved_at < moment.retry_after
    tried = frozenset(note.moved) if recently else frozenset()
    lately = note.moved_at is not None and moment.now - note.moved_at < TRY_AGAIN
    refused = frozenset(note.moved) if note.moves >= TRIES and lately else frozenset()
    where = _as_gone(machine, lost, after.where)
    found: Salvage = salvage(lost, where, after.policy.lost_jobs, tried, refused)
    reason = found.reason.then(ended)
    if found.kind is None:
        return wait(machine, reason)
    if moment.held_back is not None:
        return wait(machine, reason.then(moment.held_back))
    action: Action
    if found.kind is PushBack:
        host = machine.host.name if machine.host else machine.name
        action = PushBack(found.jobs, machine.worker.id, host, reason, found.forced)
    else:
        action = Hold(found.jobs, reason) if found.kind is Hold else Kill(found.jobs, reason, lost=True)
    again = set(found.jobs) <= set(note.moved)
    moved = tuple(sorted({*tried, *found.jobs}))
    note = replace(note, moved=moved, moved_at=moment.now, moves=note.moves + 1 if again else 1)
    verdict = WorkerVerdict(machine.name, machine.worker.id, "wait", reason)
    return Step(machine, verdict, note, action)


def _as_gone(machine: Machine, lost: Iterable[tuple[HostJob, str]], where: Whereabouts) -> Whereabouts:
    """Where a newer machine has taken the name over, the older jobs are gone from this host all the same."""
    if machine.heir is None or machine.host is None:
        return where
    name = machine.host.name
    places = {name_of(job): where.places[name_of(job)] - {name} for job, _ in lost}
    return replace(where, places={**where.places, **places})


def _close(machine: Machine, moment: Moment, mark: Disabling, reason: Reason) -> Step:
    """Let no further job in, also while paused: that harms nobody, and is taken back where it was wrong."""
    note = machine.note
    recent = note.disabled_at is not None and moment.now - note.disabled_at < moment.retry_after
    if note.disabling is not None and not note.seen_disabled and recent:
        return wait(machine, reason)
    return disable(machine, moment, mark, reason, by_person=True)


# -- what to ask and when to look again -----------------------------------------------------------------------------


def to_ask(sight: Sight, after: Aftermath) -> tuple[int, ...]:
    """Jobs on workers that may be lost, of which nobody knows yet whether they may start again.

    No more than one look asks about: of a job that was not asked about nothing follows from having no answer.
    """
    jobs = {
        job.number
        for machine in sight.known
        if machine.life in _JOBS_MATTER and machine.host is not None
        for job in machine.host.jobs
    }
    return tuple(sorted(jobs - after.where.details.keys())[: after.policy.detail_lookups])


def details_to_keep(sight: Sight, after: Aftermath) -> Mapping[int, JobDetail]:
    """Answers about jobs that run on workers that may be lost."""
    details = after.where.details
    return {
        job.number: details[job.number]
        for machine in sight.known
        if machine.life in _JOBS_MATTER and machine.host is not None
        for job in machine.host.jobs
        if job.number in details
    }


def next_recovery(sight: Sight, asked: Sequence[int], after: Aftermath, now: float) -> float | None:
    """When time alone brings a next step: a notice comes close, a silence becomes too long, an answer is there."""
    moments: list[float] = [now + 1.0] if set(asked) - after.where.asked else []
    for machine in sight.known:
        if machine.notice is not None and machine.life is Life.INTERRUPTED:
            moments.append(machine.notice.at - NOTICE_MARGIN)
        silent = machine.note.silent_s
        if silent is not None and not after.all_silent:
            moments += [now + limit - silent for limit in (after.patience, after.policy.silence_timeout)]
    return min((moment for moment in moments if moment > now), default=None)
