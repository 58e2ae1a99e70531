"""How a worker leaves: disabled, seen empty twice, removed from Grid Engine, ended. Every step may still be taken back
but the last two.
"""

from __future__ import annotations

from autoscaler.core.life import Life, Machine, disabled
from autoscaler.core.memory import Disabling
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.steps import Moment, Step, disable, enable, keep, remove, terminate, wait

_BY_MARK = {
    Disabling.ENROL: because(Code.JOIN_TIMEOUT),
    Disabling.IDLE: because(Code.IDLE),
    Disabling.COMMAND: because(Code.DRAINED_BY_COMMAND),
    Disabling.STOP: because(Code.STOPPING),
    Disabling.BROKEN: because(Code.INSTANCE_IN_ERROR),
    Disabling.SILENT: because(Code.UNHEARD),
    Disabling.INTERRUPTED: because(Code.TAKEN),
    Disabling.ADVISED: because(Code.ADVISED_TO_LEAVE),
    Disabling.LOST: because(Code.ENDING),
    Disabling.SWAP: because(Code.SWAP),
    Disabling.GROUP: because(Code.IDLE),
    Disabling.AUTO_STOP: because(Code.ASKED_TO_STOP),
}


_FOR_GOOD = frozenset({Disabling.BROKEN, Disabling.AUTO_STOP, Disabling.GROUP})
"""Marks of workers that nothing but a person lets in again."""


def wanted_back(machine: Machine, moment: Moment) -> bool:
    """Whether a draining worker may be let in again when demand wants it: not one that broke, that was told that it
    stops, or that a person wants gone.
    """
    return (
        machine.life is Life.DRAINING
        and machine.note.disabling not in _FOR_GOOD
        and machine.host is not None
        and machine.host.heard
        and disabled(machine.host)
        and moment.let_go(machine) is None
    )


def depart(machine: Machine, moment: Moment, *, needed: Reason | None) -> Step:
    """The next step of a worker on its way out. `needed`: waiting demand would use it."""
    if machine.life is Life.RETIRED:
        never_joined = machine.note.disabling is Disabling.ENROL and not _by_person(machine, moment)
        failure = "boot" if never_joined else None
        reason = because(Code.REMOVED_FROM_GRID_ENGINE)
        return terminate(machine, moment, reason, failure=failure, by_person=_by_person(machine, moment))
    asked_away = moment.let_go(machine)
    if machine.life is Life.DRAINING and asked_away is None and machine.note.disabling not in _FOR_GOOD:
        kept = moment.kept(machine)
        if kept is not None:
            return enable(machine, moment, kept)
        if needed is not None:
            return enable(machine, moment, needed)
    return leave(machine, moment, asked_away or _why(machine), by_person=_by_person(machine, moment))


def _why(machine: Machine) -> Reason:
    """Why it leaves, as far as its note tells."""
    mark, quarantined = machine.note.disabling or Disabling.IDLE, machine.note.quarantined
    return quarantined if mark is Disabling.BROKEN and quarantined is not None else _BY_MARK[mark]


def _by_person(machine: Machine, moment: Moment) -> bool:
    return moment.let_go(machine) is not None or moment.winding_down is not None


def leave(machine: Machine, moment: Moment, reason: Reason, *, by_person: bool = False) -> Step:
    """One more step out of Grid Engine for a host that we disabled (rule 1)."""
    host, note = machine.host, machine.note
    if host is None:
        return wait(machine, because(Code.SETTLING))
    if not disabled(host):
        if note.disabled_at is not None and moment.now - note.disabled_at < moment.retry_after:
            return wait(machine, because(Code.SETTLING))
        return disable(machine, moment, note.disabling or Disabling.IDLE, reason, by_person=by_person)
    if host.busy:
        return wait(machine, busy_reason(machine, draining=True))
    # It may be enabled by now: what was decided a moment ago is seen first, also where nothing needs it any more.
    if note.enabled_at is not None and moment.now - note.enabled_at < moment.retry_after:
        return wait(machine, because(Code.SETTLING))
    kept = moment.kept(machine)
    # Nothing but a person lets those in again that leave for good: kept by anything else they would stand closed.
    if kept is not None and (kept.code is Code.KEPT_BY_COMMAND or note.disabling not in _FOR_GOOD):
        return keep(machine, kept)
    if not seen_empty_twice(machine, moment):
        return wait(machine, because(Code.SETTLING))
    if note.retired_at is not None and moment.now - note.retired_at < moment.retry_after:
        return wait(machine, because(Code.SETTLING))
    return remove(machine, moment, because(Code.EMPTY).then(reason), by_person=by_person)


def stand_aside(machine: Machine, moment: Moment) -> Step:
    """A worker that nothing is done about, and why; unless a person wants it gone."""
    asked_away = moment.let_go(machine)
    match machine.life:
        case Life.DISABLED_BY_HAND:
            if asked_away is not None and asked_away.code is Code.DRAINED_BY_COMMAND:
                return disable(machine, moment, Disabling.COMMAND, asked_away, by_person=True)
            return keep(machine, because(Code.DISABLED_BY_HAND))
        case Life.NAME_TAKEN:
            return wait(machine, because(Code.NAME_TAKEN))
        case _:
            if asked_away is not None and asked_away.code is Code.DRAINED_BY_COMMAND:
                return _drain(machine, moment, asked_away)
            return keep(machine, because(Code.UNKNOWN_ARRAY, node_array=machine.worker.node_array))


def _drain(machine: Machine, moment: Moment, asked_away: Reason) -> Step:
    """A worker of a node array that is not known (any more) leaves by a person's word alone, as any other does."""
    if machine.host is None:
        return terminate(machine, moment, asked_away, by_person=True)
    if machine.note.disabling is None:
        return disable(machine, moment, Disabling.COMMAND, asked_away, by_person=True)
    return leave(machine, moment, asked_away, by_person=True)


def seen_empty_twice(machine: Machine, moment: Moment) -> bool:
    """Whether two looks, a scheduler interval apart, showed it disabled by us and empty: none may have been dispatched
    in between.
    """
    before, since = machine.before, machine.note.empty_since
    if before is None or before.empty_since is None or since is None or not machine.note.seen_disabled:
        return False
    return moment.now - since >= moment.schedule_interval


def busy_reason(machine: Machine, *, draining: bool = False) -> Reason:
    """Why a busy host is left alone: its jobs, or slots reserved without a job."""
    host = machine.host
    jobs = tuple(dict.fromkeys(str(job.number) for job in host.jobs)) if host else ()
    reason = because(Code.RUNS_JOBS, jobs=jobs) if jobs else because(Code.RESERVED)
    return reason.then(because(Code.DRAINING)) if draining else reason
