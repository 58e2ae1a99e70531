"""How a worker leaves: it is disabled, observed empty twice, removed from Grid Engine, terminated. All steps but the
last two can be undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.workers.drain import leave
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.step import PassContext, WorkerStep, disable, enable, first_step, keep, terminate, wait
from autoscaler.core.workers.worker_state import WorkerState

_BY_MARK = {
    Disabling.ENROL: because(Code.JOIN_TIMEOUT),
    Disabling.IDLE: because(Code.IDLE),
    Disabling.COMMAND: because(Code.DRAINED_BY_COMMAND),
    Disabling.STOP: because(Code.STOPPING),
    Disabling.BROKEN: because(Code.INSTANCE_IN_ERROR),
    Disabling.SILENT: because(Code.NO_LOAD_REPORT),
    Disabling.INTERRUPTED: because(Code.RECLAIMED),
    Disabling.ADVISED: because(Code.REBALANCE_RECOMMENDED),
    Disabling.LOST: because(Code.ENDING),
    Disabling.SWAP: because(Code.SWAP),
    Disabling.GROUP: because(Code.IDLE),
    Disabling.AUTO_STOP: because(Code.ASKED_TO_STOP),
}


@dataclass(frozen=True, slots=True)
class Departure:
    """A worker on its way out."""

    machine: WorkerState
    pass_context: PassContext
    needed: Reason | None = None
    """Why it is needed again: waiting demand, a request, or a swap that was cancelled."""

    @property
    def revocable(self) -> bool:
        """Whether anything but a person may enable it again."""
        asked_away = self.pass_context.let_go(self.machine)
        return self.machine.draining and asked_away is None and Condition.FOR_GOOD not in self.machine.conditions


def leave_further(machine: WorkerState, pass_context: PassContext, *, needed: Reason | None) -> WorkerStep:
    """The next step of a worker on its way out. `needed`: waiting demand would use it."""
    return first_step(RULES, Departure(machine, pass_context, needed))


def end_removed(departure: Departure) -> WorkerStep | None:
    machine, pass_context = departure.machine, departure.pass_context
    if machine.phase is not Phase.LEAVING or machine.host is not None:
        return None
    by_person = _by_person(machine, pass_context)
    failure = "boot" if machine.note.disabling is Disabling.ENROL and not by_person else None
    return terminate(
        machine, pass_context, because(Code.REMOVED_FROM_GRID_ENGINE), failure=failure, by_person=by_person
    )


def enable_kept(departure: Departure) -> WorkerStep | None:
    kept = departure.pass_context.kept(departure.machine) if departure.revocable else None
    return None if kept is None else enable(departure.machine, departure.pass_context, kept)


def enable_needed(departure: Departure) -> WorkerStep | None:
    needed = departure.needed if departure.revocable else None
    return None if needed is None else enable(departure.machine, departure.pass_context, needed)


def drain_further(departure: Departure) -> WorkerStep:
    machine, pass_context = departure.machine, departure.pass_context
    reason = pass_context.let_go(machine) or _why(machine)
    return leave(machine, pass_context, reason, by_person=_by_person(machine, pass_context))


RULES: tuple[Callable[[Departure], WorkerStep | None], ...] = (
    # Out of Grid Engine: only the machine is left.
    end_removed,
    # A person, a request set or a rule keeps it after all.
    enable_kept,
    # Cheaper than a launch.
    enable_needed,
    # Disabled, seen empty twice, then removed (rule 1).
    drain_further,
)
"""Read from the top; the first rule that has a step decides."""


def _why(machine: WorkerState) -> Reason:
    """Why it leaves, as far as its mark shows."""
    mark, quarantined = machine.note.disabling or Disabling.IDLE, machine.note.quarantined
    return quarantined if mark is Disabling.BROKEN and quarantined is not None else _BY_MARK[mark]


def _by_person(machine: WorkerState, pass_context: PassContext) -> bool:
    return pass_context.let_go(machine) is not None or pass_context.winding_down is not None


def leave_alone(machine: WorkerState, pass_context: PassContext) -> WorkerStep:
    """A worker that is left alone, and why; unless a person drains it."""
    return first_step(SET_ASIDE, Departure(machine, pass_context))


def drain_by_command(departure: Departure) -> WorkerStep | None:
    machine, pass_context = departure.machine, departure.pass_context
    asked_away = pass_context.let_go(machine)
    if asked_away is None or asked_away.code is not Code.DRAINED_BY_COMMAND:
        return None
    if machine.decisive is Condition.DISABLED_BY_HAND:
        return disable(machine, pass_context, Disabling.COMMAND, asked_away, by_person=True)
    return _drain(machine, pass_context, asked_away) if machine.decisive is Condition.UNKNOWN_ARRAY else None


def stand_aside(departure: Departure) -> WorkerStep:
    machine = departure.machine
    match machine.decisive:
        case Condition.DISABLED_BY_HAND:
            return keep(machine, because(Code.DISABLED_BY_HAND))
        case Condition.NAME_TAKEN:
            return wait(machine, because(Code.NAME_TAKEN))
        case _:
            return keep(machine, because(Code.UNKNOWN_NODE_ARRAY, node_array=machine.worker.node_array))


SET_ASIDE: tuple[Callable[[Departure], WorkerStep | None], ...] = (
    # A person's word alone lets go what is set aside.
    drain_by_command,
    stand_aside,
)


def _drain(machine: WorkerState, pass_context: PassContext, asked_away: Reason) -> WorkerStep:
    """A worker of an unknown node array leaves only on a person's command, by the same steps as any other."""
    if machine.host is None:
        return terminate(machine, pass_context, asked_away, by_person=True)
    if machine.note.disabling is None:
        return disable(machine, pass_context, Disabling.COMMAND, asked_away, by_person=True)
    return leave(machine, pass_context, asked_away, by_person=True)
