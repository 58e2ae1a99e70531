"""How a worker leaves: it is disabled, observed empty twice, removed from Grid Engine, terminated. All steps but the
last two can be undone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoscaler.core.actions import Disable, Enable, Terminate
from autoscaler.core.model.fleet import FailureKind
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.drain import leave
from autoscaler.core.workers.marks import MARKS
from autoscaler.core.workers.phases import Condition, Phase, down
from autoscaler.core.workers.step import (
    PassContext,
    Rule,
    Transition,
    WorkerStep,
    always,
    disable,
    enable,
    first_step,
    keep,
    terminate,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Departure:
    """A worker on its way out."""

    worker: WorkerState
    pass_context: PassContext
    needed: Reason | None = None
    """Why it is needed again: waiting demand, a request, or a swap that was cancelled."""

    @property
    def drained_by_person(self) -> Reason | None:
        """Why a person drains it."""
        return self.pass_context.drained_by_person(self.worker)

    @property
    def by_person(self) -> bool:
        return self.drained_by_person is not None or self.pass_context.winding_down is not None

    @property
    def revocable(self) -> bool:
        """Whether anything but a person may enable it again."""
        return (
            self.worker.draining and self.drained_by_person is None and Condition.FOR_GOOD not in self.worker.conditions
        )

    @property
    def reopens(self) -> bool:
        """Whether the autoscaler may enable it."""
        return self.revocable and not self.worker.stays_disabled

    @property
    def kept(self) -> Reason | None:
        """Why it stays after all."""
        return self.pass_context.kept(self.worker) if self.reopens else None

    @property
    def undone(self) -> bool:
        """Whether it was disabled for a `drain` or a `stop` that a person has taken back. A worker that never reported
        may lack values, so that it leaves all the same; groups decide themselves which of their workers return.
        """
        worker, context = self.worker, self.pass_context
        by_command = worker.note.disabling in (Disabling.COMMAND, Disabling.STOP) and context.stopping is None
        return self.revocable and by_command and worker.note.joined_at is not None and not worker.worker.group_id


def leave_further(worker: WorkerState, pass_context: PassContext, *, needed: Reason | None) -> WorkerStep:
    """The next step of a worker on its way out. `needed`: why it is needed again, as in `Departure`."""
    return first_step(RULES, Departure(worker, pass_context, needed))


def _end_removed(departure: Departure) -> WorkerStep:
    worker, by_person = departure.worker, departure.by_person
    never_joined = worker.note.disabling is Disabling.ENROL and not worker.note.stopped
    failure = FailureKind.BOOT if never_joined and not by_person else None
    removed = because(Code.REMOVED_FROM_GRID_ENGINE)
    return terminate(worker, departure.pass_context, removed, failure=failure, by_person=by_person)


def _enable_undone(departure: Departure) -> WorkerStep:
    return enable(departure.worker, departure.pass_context, because(Code.COMMAND_UNDONE))


def _disabled_before(departure: Departure) -> WorkerStep:
    """It belongs to the person who had disabled it before the command: without our mark, it counts so again."""
    step = keep(departure.worker, because(Code.DISABLED_BY_HAND))
    note = replace(step.note, disabling=None, disabled_at=None, seen_disabled=False, empty_since=None)
    return replace(step, note=replace(note, left_disabled=()))


def _enable(departure: Departure) -> WorkerStep:
    reason = departure.kept or departure.needed
    assert reason is not None  # a rule applies only then
    return enable(departure.worker, departure.pass_context, reason)


def _drain_further(departure: Departure) -> WorkerStep:
    worker, reason = departure.worker, departure.drained_by_person or _why(departure.worker)
    return leave(worker, departure.pass_context, reason, by_person=departure.by_person)


def _why(worker: WorkerState) -> Reason:
    """Why it leaves, as far as its mark shows."""
    mark, quarantined = worker.note.disabling or Disabling.IDLE, worker.note.quarantined
    return quarantined if mark is Disabling.BROKEN and quarantined is not None else MARKS[mark].reason


RULES: tuple[Rule[Departure], ...] = (
    Rule(
        "end_removed",
        "It is no execution host any more: only the machine is left.",
        lambda departure: departure.worker.host is None,
        (Transition("", always, _end_removed, Terminate, reasons=(Code.REMOVED_FROM_GRID_ENGINE,)),),
        sources=frozenset({Phase.LEAVING}),
    ),
    Rule(
        "enable_kept",
        "A person, a request set or a rule keeps it after all.",
        lambda departure: departure.kept is not None,
        (Transition("", always, _enable, Enable, Phase.READY),),
        sources=frozenset({Phase.DRAINING}),
    ),
    Rule(
        "enable_needed",
        "It is needed again: enabling it is cheaper than a launch.",
        lambda departure: departure.reopens and departure.needed is not None,
        (Transition("", always, _enable, Enable, Phase.READY),),
        sources=frozenset({Phase.DRAINING}),
    ),
    Rule(
        "undo_command",
        "It was disabled for a `drain` or a `stop` that a person has taken back.",
        lambda departure: departure.undone,
        (
            Transition(
                "A person had disabled all of it before.",
                lambda departure: departure.worker.stays_disabled,
                _disabled_before,
            ),
            Transition(
                "Nobody had, or a part of it only.",
                always,
                _enable_undone,
                Enable,
                Phase.READY,
                reasons=(Code.COMMAND_UNDONE,),
            ),
        ),
        sources=frozenset({Phase.DRAINING}),
    ),
    Rule(
        "drain_further",
        "It is disabled, or about to be.",
        always,
        (Transition("", always, _drain_further, way_out=True),),
    ),
)
"""The transitions of a worker on its way out."""


def leave_alone(worker: WorkerState, pass_context: PassContext) -> WorkerStep:
    """The step of a worker that is left alone unless a person drains it."""
    return first_step(SET_ASIDE, Departure(worker, pass_context))


def _drained_by_command(departure: Departure) -> bool:
    """Whether a person drains a worker that is set aside. Only `drain` does that, not `stop --now`."""
    known = departure.worker.decisive in (Condition.DISABLED_BY_HAND, Condition.UNKNOWN_ARRAY)
    return known and departure.pass_context.drained_by_command(departure.worker)


def _disable(departure: Departure) -> WorkerStep:
    reason = departure.pass_context.drain_command(departure.worker)
    return disable(departure.worker, departure.pass_context, Disabling.COMMAND, reason, by_person=True)


def _open_in_part(departure: Departure) -> bool:
    """Whether `stop --now` is in force, and a person disabled its own queue there, but not another one."""
    by_hand, context = departure.worker.decisive is Condition.DISABLED_BY_HAND, departure.pass_context
    stops = context.overrides.stop == "now" and context.drained_by_person(departure.worker) is not None
    return stops and by_hand and departure.worker.enabled


def _stop(departure: Departure) -> WorkerStep:
    reason = departure.drained_by_person
    assert reason is not None  # the rule applies only then
    return disable(departure.worker, departure.pass_context, Disabling.STOP, reason, by_person=True)


def _terminate(departure: Departure) -> WorkerStep:
    reason = departure.pass_context.drain_command(departure.worker)
    return terminate(departure.worker, departure.pass_context, reason, by_person=True)


def _leave(departure: Departure) -> WorkerStep:
    reason = departure.pass_context.drain_command(departure.worker)
    return leave(departure.worker, departure.pass_context, reason, by_person=True)


def _set_aside(departure: Departure) -> WorkerStep:
    worker = departure.worker
    match worker.decisive:
        case Condition.DISABLED_BY_HAND:
            return keep(worker, because(Code.DISABLED_BY_HAND))
        case Condition.NAME_TAKEN:
            return wait(worker, because(Code.NAME_TAKEN))
        case _:
            return keep(worker, because(Code.UNKNOWN_NODE_ARRAY, node_array=worker.worker.node_array))


_DRAINED = (Code.DRAINED_BY_COMMAND,)
SET_ASIDE: tuple[Rule[Departure], ...] = (
    Rule(
        "drain_by_command",
        "A person drains it: nothing else removes a worker that is set aside.",
        _drained_by_command,
        (
            Transition(
                "It is no execution host.",
                lambda departure: departure.worker.host is None,
                _terminate,
                Terminate,
                Phase.LEAVING,
                sources=frozenset({Phase.BOOTING, Phase.JOINING, Phase.LEAVING}),
                reasons=_DRAINED,
            ),
            Transition(
                "The autoscaler did not disable it, and its provider says that the machine is down for good.",
                lambda departure: departure.worker.note.disabling is None and down(departure.worker.worker),
                _disable,
                Disable,
                Phase.ENDING,
                sources=frozenset({Phase.READY, Phase.ENDING}),
                reasons=_DRAINED,
            ),
            Transition(
                "The autoscaler did not disable it.",
                lambda departure: departure.worker.note.disabling is None,
                _disable,
                Disable,
                Phase.DRAINING,
                sources=frozenset({Phase.READY}),
                reasons=_DRAINED,
            ),
            Transition(
                "The autoscaler did not disable it, and it is an execution host on its way in or out.",
                lambda departure: departure.worker.note.disabling is None and departure.worker.host is not None,
                _disable,
                Disable,
                reasons=_DRAINED,
            ),
            Transition(
                "The autoscaler disabled it.",
                lambda departure: departure.worker.host is not None,
                _leave,
                reasons=_DRAINED,
                way_out=True,
            ),
        ),
    ),
    Rule(
        "stop_in_part",
        "`stop --now`, and a person disabled a part of it only: jobs would still start there.",
        _open_in_part,
        (Transition("", always, _stop, Disable, Phase.DRAINING, reasons=(Code.STOPPING,)),),
        sources=frozenset({Phase.READY}),
    ),
    Rule("left_alone", "Only a person decides on it.", always, (Transition("", always, _set_aside),)),
)
"""The transitions of a worker on which only a person decides."""
