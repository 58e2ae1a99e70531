"""How a disabled worker leaves Grid Engine, one guarded step a pass: observed empty twice, then removed (rule 1)."""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.actions import Disable, Remove
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.phases import Condition, Phase, disabled, is_whole
from autoscaler.core.workers.step import (
    PassContext,
    Rule,
    Transition,
    WorkerStep,
    always,
    disable,
    first_step,
    keep,
    remove,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState


def may_be_enabled(worker: WorkerState, pass_context: PassContext) -> bool:
    """Whether a draining worker may be enabled again if demand needs it: not one that is quarantined, that got the
    answer that it stops, or that a person drains.
    """
    return (
        worker.draining
        and Condition.FOR_GOOD not in worker.conditions
        and worker.host is not None
        and Condition.SILENT not in worker.conditions
        and disabled(worker.host)
        and not worker.stays_disabled
        and pass_context.drained_by_person(worker) is None
    )


@dataclass(frozen=True, slots=True)
class Drain:
    """A worker whose execution host is to be removed."""

    worker: WorkerState
    pass_context: PassContext
    reason: Reason
    by_person: bool


def leave(worker: WorkerState, pass_context: PassContext, reason: Reason, *, by_person: bool = False) -> WorkerStep:
    """One more step out of Grid Engine for a host that we disabled (rule 1)."""
    return first_step(WAY_OUT, Drain(worker, pass_context, reason, by_person))


def _await_observation(drain: Drain) -> WorkerStep:
    return wait(drain.worker, because(Code.SECOND_OBSERVATION))


def _disable_again(drain: Drain) -> WorkerStep:
    mark = drain.worker.note.disabling or Disabling.IDLE
    return disable(drain.worker, drain.pass_context, mark, drain.reason, by_person=drain.by_person)


def _kept(drain: Drain) -> Reason | None:
    """Why it is kept. If it leaves for good, only a person's `keep` counts: nothing else would enable it again, so it
    would stay disabled.
    """
    kept, for_good = drain.pass_context.kept(drain.worker), Condition.FOR_GOOD in drain.worker.conditions
    return None if for_good and kept is not None and kept.code is not Code.KEPT_BY_COMMAND else kept


def _keep(drain: Drain) -> WorkerStep:
    kept = _kept(drain)
    assert kept is not None  # the row holds only then
    return keep(drain.worker, kept)


def _remove(drain: Drain) -> WorkerStep:
    reason = because(Code.EMPTY).then(drain.reason)
    return remove(drain.worker, drain.pass_context, reason, by_person=drain.by_person)


WAY_OUT: tuple[Rule[Drain], ...] = (
    Rule(
        "disable",
        "An observation has to show it disabled, so that no further job starts there.",
        lambda drain: drain.worker.enabled,
        (
            Transition(
                "It was disabled a moment ago.",
                lambda drain: drain.pass_context.recent(drain.worker.note.disabled_at),
                _await_observation,
            ),
            Transition(
                "A host has its name already.",
                always,
                _disable_again,
                Disable,
                Phase.DRAINING,
                sources=frozenset({Phase.BOOTING}),
            ),
            Transition("Its host is enabled.", always, _disable_again, Disable),
        ),
    ),
    Rule(
        "run_dry",
        "Its jobs run to their end.",
        lambda drain: not drain.worker.empty,
        (
            Transition(
                "It is busy.", always, lambda drain: wait(drain.worker, busy_reason(drain.worker, draining=True))
            ),
        ),
    ),
    Rule(
        "stay",
        "It was enabled a moment ago, which no observation shows yet, or something keeps it.",
        always,
        (
            Transition(
                "It was enabled a moment ago.",
                lambda drain: drain.pass_context.recent(drain.worker.note.enabled_at),
                _await_observation,
            ),
            Transition("A person, a request set or a rule keeps it.", lambda drain: _kept(drain) is not None, _keep),
        ),
    ),
    Rule(
        "leave_empty",
        "Two observations, a scheduler interval apart, have to show it disabled and empty.",
        always,
        (
            Transition(
                "Two observations have not yet shown it disabled and empty.",
                lambda drain: Condition.DRAINED not in drain.worker.conditions,
                _await_observation,
            ),
            Transition(
                "Its removal was planned a moment ago.",
                lambda drain: drain.pass_context.recent(drain.worker.note.retired_at),
                _await_observation,
            ),
            Transition(
                "Two observations showed it disabled and empty, and its host lacks its queue or its slots.",
                lambda drain: (
                    not (Condition.FENCED in drain.worker.conditions or is_whole(drain.worker.host, drain.worker.array))
                ),
                _remove,
                Remove,
                Phase.LEAVING,
                reasons=(Code.EMPTY,),
            ),
            Transition(
                "Two observations showed it disabled and empty.",
                always,
                _remove,
                Remove,
                reasons=(Code.EMPTY,),
            ),
        ),
    ),
)
"""The way out of Grid Engine, which every worker with an execution host goes."""


def busy_reason(worker: WorkerState, *, draining: bool = False) -> Reason:
    """Why a busy host is left alone: its jobs, or slots reserved without a job."""
    host = worker.host
    jobs = tuple(dict.fromkeys(str(job.number) for job in host.jobs)) if host else ()
    reason = because(Code.RUNS_JOBS, jobs=jobs) if jobs else because(Code.RESERVED)
    return reason.then(because(Code.DRAINING)) if draining else reason
