"""How a disabled worker leaves Grid Engine, one guarded step a pass: seen empty twice, then removed (rule 1)."""

from __future__ import annotations

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.phases import Condition, disabled
from autoscaler.core.workers.step import PassContext, WorkerStep, disable, keep, remove, wait
from autoscaler.core.workers.worker_state import WorkerState


def wanted_back(machine: WorkerState, pass_context: PassContext) -> bool:
    """Whether a draining worker may be enabled again if demand needs it: not one that is quarantined, that got the
    answer that it stops, or that a person drains.
    """
    return (
        machine.draining
        and Condition.FOR_GOOD not in machine.conditions
        and machine.host is not None
        and Condition.SILENT not in machine.conditions
        and disabled(machine.host)
        and pass_context.let_go(machine) is None
    )


def leave(machine: WorkerState, pass_context: PassContext, reason: Reason, *, by_person: bool = False) -> WorkerStep:
    """One more step out of Grid Engine for a host that we disabled (rule 1)."""
    host, note = machine.host, machine.note
    if host is None:
        return wait(machine, because(Code.SECOND_OBSERVATION))
    if not disabled(host):
        if pass_context.recent(note.disabled_at):
            return wait(machine, because(Code.SECOND_OBSERVATION))
        return disable(machine, pass_context, note.disabling or Disabling.IDLE, reason, by_person=by_person)
    if host.busy:
        return wait(machine, busy_reason(machine, draining=True))
    # It may be enabled by now: what was decided a moment ago is seen first, also where nothing needs it any more.
    if pass_context.recent(note.enabled_at):
        return wait(machine, because(Code.SECOND_OBSERVATION))
    kept = pass_context.kept(machine)
    # Nothing but a person lets those in again that leave for good: kept by anything else they would stand closed.
    if kept is not None and (kept.code is Code.KEPT_BY_COMMAND or Condition.FOR_GOOD not in machine.conditions):
        return keep(machine, kept)
    if Condition.DRAINED not in machine.conditions:
        return wait(machine, because(Code.SECOND_OBSERVATION))
    if pass_context.recent(note.retired_at):
        return wait(machine, because(Code.SECOND_OBSERVATION))
    return remove(machine, pass_context, because(Code.EMPTY).then(reason), by_person=by_person)


def busy_reason(machine: WorkerState, *, draining: bool = False) -> Reason:
    """Why a busy host is left alone: its jobs, or slots reserved without a job."""
    host = machine.host
    jobs = tuple(dict.fromkeys(str(job.number) for job in host.jobs)) if host else ()
    reason = because(Code.RUNS_JOBS, jobs=jobs) if jobs else because(Code.RESERVED)
    return reason.then(because(Code.DRAINING)) if draining else reason
