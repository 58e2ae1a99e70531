"""Workers that are silent, interrupted or gone: one step each, always with a reason.

A silent worker may still run jobs: it is disabled and watched, and after a while *fenced*: its machine is terminated
although it is an execution host and may run jobs. Its jobs are rescheduled or deleted only after its provider confirms
that the machine is gone (rule 7).
"""

from __future__ import annotations

from dataclasses import replace

from autoscaler.core.actions import Disable, Enable, Hold, Kill, Remove, Reschedule, Terminate
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.recovery.recovery_context import RecoveryContext
from autoscaler.core.recovery.recovery_steps import (
    Lost,
    cancel_fence,
    disabled_by_person,
    disabled_for,
    drain_silent,
    ending,
    fence,
    fence_before_interruption,
    how_it_ended,
    may_run_on,
    move_jobs,
    name_may_be_reused,
    not_vouched,
    remove_gone,
    runs_on,
    taken_soon,
    waiting,
)
from autoscaler.core.workers.drain import busy_reason, leave
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.step import (
    BY_A_PERSON,
    PassContext,
    Rule,
    Transition,
    WorkerStep,
    always,
    enable,
    first_step,
    keep,
    terminate,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState

_COMING = frozenset({Phase.BOOTING, Phase.JOINING})
_WITH_HOST = frozenset({Phase.JOINING, Phase.READY, Phase.DRAINING})
_INTERRUPTED = _COMING | _WITH_HOST
_READY, _ENDING = frozenset({Phase.READY}), frozenset({Phase.ENDING})
_UNLISTED = frozenset(Phase) - {Phase.ORDERED, Phase.GONE}
_NOT_VOUCHED: Transition[Lost] = Transition(
    "It is silent for too long, and no other worker vouches for its network.",
    lambda lost: lost.too_long and lost.unvouched is not None,
    not_vouched,
)
_FENCED: Transition[Lost] = Transition(
    "It is silent for too long.", lambda lost: lost.too_long, fence, Terminate, Phase.ENDING, reasons=(Code.FENCED,)
)
RULES: tuple[Rule[Lost], ...] = (
    Rule(
        "remove_gone",
        "Its end is certain: its jobs start again elsewhere, and its host is removed.",
        lambda lost: lost.worker.gone,
        (
            Transition("It is no execution host.", lambda lost: lost.worker.host is None, waiting(how_it_ended)),
            Transition(
                "Its host is enabled.",
                lambda lost: lost.worker.enabled and not disabled_by_person(lost.worker),
                disabled_for(Disabling.LOST, how_it_ended),
                Disable,
            ),
            Transition(
                "It reports with its jobs, and machines were ordered that no listing shows yet: one may have its name.",
                lambda lost: bool(lost.jobs) and lost.heard and lost.worker.successor is None and lost.context.awaited,
                name_may_be_reused,
            ),
            Transition(
                "Its jobs are to be held before they start again.",
                lambda lost: bool(lost.jobs) and lost.for_jobs.kind is Hold,
                move_jobs,
                Hold,
            ),
            Transition(
                "Its jobs may start again elsewhere.",
                lambda lost: bool(lost.jobs) and lost.for_jobs.kind is Reschedule,
                move_jobs,
                Reschedule,
            ),
            Transition(
                "Its jobs may not start again, and the settings delete such jobs.",
                lambda lost: bool(lost.jobs) and lost.for_jobs.kind is Kill,
                move_jobs,
                Kill,
            ),
            Transition(
                "Its jobs stay for now, or Grid Engine is asked about them.", lambda lost: bool(lost.jobs), move_jobs
            ),
            Transition(
                "A newer machine's jobs run on its host.",
                lambda lost: not lost.worker.empty,
                lambda lost: wait(lost.worker, how_it_ended(lost).then(busy_reason(lost.worker))),
            ),
            Transition(
                "Its removal was planned a moment ago.",
                lambda lost: lost.pass_context.recent(lost.worker.note.retired_at),
                waiting(how_it_ended),
            ),
            Transition("Nothing is on its host any more.", always, remove_gone, Remove),
        ),
        sources=frozenset({Phase.GONE}),
    ),
    Rule(
        "confirm_end",
        "Its provider's listing leaves it out: if it sends no load report either, its end is made certain.",
        lambda lost: lost.worker.decisive is Condition.UNLISTED,
        (
            Transition(
                "It has not been left out for `order_grace`, or it reports under its own name.",
                may_run_on,
                waiting(lambda _: because(Code.NOT_LISTED)),
            ),
            Transition(
                "A person disabled it.",
                lambda lost: lost.worker.note.disabling is None and not lost.worker.enabled,
                lambda lost: keep(lost.worker, because(Code.DISABLED_BY_HAND)),
            ),
            Transition(
                "It has been left out for `order_grace`, and is silent for too long.",
                lambda lost: lost.too_long,
                lambda lost: fence(lost, because(Code.UNLISTED_AND_SILENT, missing_s=lost.missing_s)),
                Terminate,
                Phase.ENDING,
                reasons=(Code.UNLISTED_AND_SILENT,),
            ),
            Transition(
                "It has been left out for `order_grace`, and a newer machine has its name.",
                always,
                lambda lost: fence(lost, because(Code.UNLISTED_AND_REPLACED, missing_s=lost.missing_s)),
                Terminate,
                Phase.ENDING,
                reasons=(Code.UNLISTED_AND_REPLACED,),
            ),
        ),
        sources=_UNLISTED,
    ),
    Rule(
        "watch_fenced",
        "Its end was requested: again if it is still silent, but cancelled if it evidently runs on.",
        lambda lost: lost.worker.decisive is Condition.FENCED,
        (
            Transition("It is still silent.", lambda lost: not lost.heard, fence, Terminate, reasons=(Code.FENCED,)),
            Transition(
                "It reports, `order_grace` after its end was requested, and has no notice.",
                runs_on,
                cancel_fence,
                Enable,
                Phase.READY,
                reasons=(Code.FENCE_CANCELLED,),
            ),
            Transition("Its end takes its time.", always, waiting(ending)),
        ),
        sources=_ENDING,
    ),
    Rule(
        "disable_ending",
        "Its provider ends it: no job starts there any more.",
        lambda lost: lost.worker.phase is Phase.ENDING,
        (
            Transition(
                "It is no execution host, or a person disabled it.",
                lambda lost: lost.worker.host is None or disabled_by_person(lost.worker),
                waiting(ending),
            ),
            Transition(
                "Its host is enabled.",
                lambda lost: lost.worker.enabled,
                disabled_for(Disabling.LOST, ending),
                Disable,
                reasons=(Code.ENDING,),
            ),
            Transition(
                "Its end hangs: it is silent for too long.",
                lambda lost: lost.too_long,
                fence,
                Terminate,
                reasons=(Code.FENCED,),
            ),
            Transition("Its end takes its time.", always, waiting(ending)),
        ),
        sources=_ENDING,
    ),
    Rule(
        "withdrawn_notice",
        "Its cloud withdrew the notice.",
        lambda lost: lost.worker.decisive is Condition.INTERRUPTED and lost.worker.notice is None,
        (
            Transition(
                "It reports, and no person drains it.",
                lambda lost: lost.heard and lost.drained_by_person is None,
                lambda lost: enable(lost.worker, lost.pass_context, because(Code.INTERRUPTION_WITHDRAWN)),
                Enable,
                Phase.READY,
                reasons=(Code.INTERRUPTION_WITHDRAWN,),
            ),
        ),
        sources=_READY,
    ),
    Rule(
        "leave_before_interruption",
        "Its cloud takes it soon: no job starts there, and it is terminated in time if all its jobs may start again.",
        lambda lost: lost.worker.decisive is Condition.INTERRUPTED and lost.worker.notice is not None,
        (
            Transition(
                "It is no execution host.",
                lambda lost: lost.worker.host is None,
                lambda lost: terminate(lost.worker, lost.pass_context, lost.interrupted),
                Terminate,
                Phase.LEAVING,
                sources=_COMING,
                reasons=(Code.INTERRUPTED,),
            ),
            Transition(
                "Its host is enabled.",
                lambda lost: lost.worker.enabled,
                disabled_for(Disabling.INTERRUPTED, lambda lost: lost.interrupted),
                Disable,
                Phase.READY,
                sources=_WITH_HOST,
                reasons=(Code.INTERRUPTED,),
            ),
            Transition(
                "Nothing runs there.",
                lambda lost: lost.worker.empty,
                lambda lost: leave(lost.worker, lost.pass_context, lost.interrupted),
                sources=_WITH_HOST,
                way_out=True,
            ),
            Transition(
                "Its cloud takes it in seconds, and all its jobs may start again.",
                taken_soon,
                fence_before_interruption,
                Terminate,
                Phase.ENDING,
                sources=_WITH_HOST,
                reasons=(Code.TERMINATED_BEFORE_INTERRUPTION,),
            ),
            replace(_NOT_VOUCHED, sources=_WITH_HOST),
            replace(_FENCED, sources=_WITH_HOST),
            Transition("Its jobs may end before it does.", always, waiting(lambda lost: lost.interrupted)),
        ),
        sources=_INTERRUPTED,
    ),
    Rule(
        "fence_cut_off",
        "It drains and fell silent: it would never be seen empty.",
        lambda lost: lost.worker.decisive is Condition.CUT_OFF,
        (
            _NOT_VOUCHED,
            Transition(
                "Another worker vouches for its network.",
                always,
                fence,
                Terminate,
                Phase.ENDING,
                reasons=(Code.FENCED,),
            ),
        ),
        sources=frozenset({Phase.DRAINING}),
    ),
    Rule(
        "watch_silent",
        "It is silent, or was disabled for that: it is disabled, enabled again, or fenced if that takes too long.",
        always,
        (
            Transition(
                "It reports again, and a person drains it.",
                lambda lost: lost.heard and lost.drained_by_person is not None,
                lambda lost: leave(
                    lost.worker, lost.pass_context, lost.drained_by_person or lost.silent, by_person=True
                ),
                reasons=BY_A_PERSON,
                sources=_READY,
                way_out=True,
            ),
            Transition(
                "It reports again.",
                lambda lost: lost.heard,
                lambda lost: enable(lost.worker, lost.pass_context, because(Code.LOAD_REPORTS_AGAIN)),
                Enable,
                Phase.READY,
                sources=_READY,
                reasons=(Code.LOAD_REPORTS_AGAIN,),
            ),
            Transition(
                "Its host is enabled, and a person drains it or stops the autoscaler.",
                lambda lost: lost.worker.enabled and lost.leaving is not None,
                drain_silent,
                Disable,
                Phase.DRAINING,
                sources=_READY,
                reasons=BY_A_PERSON,
            ),
            Transition(
                "All hosts are silent.",
                lambda lost: lost.context.all_silent,
                waiting(lambda _: because(Code.NO_LOAD_REPORT).then(because(Code.ALL_SILENT))),
                sources=_READY,
            ),
            Transition(
                "Its host is enabled, and it has been silent for a short time only.",
                lambda lost: lost.worker.enabled and (lost.worker.note.silent_s or 0.0) < lost.context.disable_after,
                waiting(lambda _: because(Code.NO_LOAD_REPORT)),
                sources=_READY,
            ),
            Transition(
                "Its host is enabled.",
                lambda lost: lost.worker.enabled,
                disabled_for(Disabling.SILENT, lambda lost: lost.silent),
                Disable,
                Phase.READY,
                sources=_READY,
                reasons=(Code.SILENT,),
            ),
            Transition(
                "Nothing runs there, and it is silent for too long or would leave anyway.",
                lambda lost: lost.worker.empty and (lost.leaving is not None or lost.too_long),
                lambda lost: leave(lost.worker, lost.pass_context, lost.silent, by_person=lost.leaving is not None),
                sources=_READY,
                way_out=True,
            ),
            replace(_NOT_VOUCHED, sources=_READY),
            replace(_FENCED, sources=_READY),
            Transition("It may report again.", always, waiting(lambda lost: lost.silent)),
        ),
    ),
)
"""The transitions of a worker that may be lost."""


def recover(worker: WorkerState, pass_context: PassContext, context: RecoveryContext) -> WorkerStep:
    """The next step of such a worker."""
    return first_step(RULES, Lost(worker, pass_context, context))
