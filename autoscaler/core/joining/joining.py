"""How a machine becomes a worker in service: it boots, is enrolled disabled, sends a load report, is enabled. If that
takes too long, it is terminated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autoscaler.core.model.actions import Enrol
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.requests.group_names import COMPLEX
from autoscaler.core.workers.drain import leave
from autoscaler.core.workers.group_verdict import NO_GROUP, GroupVerdict, give_back
from autoscaler.core.workers.missing_values import values_text
from autoscaler.core.workers.overdue import overdue
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.step import (
    PassContext,
    WorkerStep,
    complete,
    disable,
    enable,
    enrol,
    first_step,
    terminate,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Arrival:
    """A machine that is coming into service, with the other facts that its next step needs."""

    machine: WorkerState
    pass_context: PassContext
    group_verdict: GroupVerdict = NO_GROUP
    needless: Reason | None = None
    """Why nobody will need any that joins now."""
    closed: Reason | None = None
    """That a person closed its queue, so that it must not be enabled."""
    wanted: bool = True
    """It stays then: others than that queue's jobs need it, too."""

    @property
    def asked_away(self) -> Reason | None:
        """Why it is given back, whatever its own state is."""
        if (asked := self.pass_context.let_go(self.machine)) is not None:
            return asked
        return self.needless if self.pass_context.kept(self.machine) is None else None

    @property
    def late(self) -> Reason | None:
        """Why it is given up. A worker that a person keeps has no time limit."""
        if self.machine.host is None and self.pass_context.kept(self.machine) is not None:
            return None
        return overdue(self.machine)


def join(
    machine: WorkerState,
    pass_context: PassContext,
    group_verdict: GroupVerdict = NO_GROUP,
    *,
    needless: Reason | None = None,
    closed: Reason | None = None,
    wanted: bool = True,
) -> WorkerStep:
    """The next step of a machine that is on its way into service."""
    return first_step(RULES, Arrival(machine, pass_context, group_verdict, needless, closed, wanted))


def give_back_for_group(arrival: Arrival) -> WorkerStep | None:
    if arrival.asked_away is not None:
        return None
    return give_back(arrival.machine, arrival.pass_context, arrival.group_verdict)


def give_back_unneeded(arrival: Arrival) -> WorkerStep | None:
    asked_away = arrival.asked_away
    if asked_away is None:
        return None
    if arrival.machine.host is None:
        return terminate(arrival.machine, arrival.pass_context, asked_away, by_person=True)
    return leave(arrival.machine, arrival.pass_context, asked_away, by_person=True)


def give_up(arrival: Arrival) -> WorkerStep | None:
    machine, late = arrival.machine, arrival.late
    if late is None:
        return None
    if machine.host is not None:
        return leave(machine, arrival.pass_context, late)
    failure = None if machine.decisive is Condition.NAME_AWAITED else machine.worker.failure or "boot"
    return terminate(machine, arrival.pass_context, late, failure=failure)


def await_name(arrival: Arrival) -> WorkerStep | None:
    machine = arrival.machine
    if machine.decisive is not Condition.NAME_AWAITED or machine.host is not None:
        return None
    return wait(machine, because(Code.NAME_STILL_USED))


def hold_for_group(arrival: Arrival) -> WorkerStep | None:
    hold = arrival.group_verdict.hold
    return wait(arrival.machine, hold) if arrival.machine.joined and hold is not None else None


def stand_closed(arrival: Arrival) -> WorkerStep | None:
    """It was never enabled. It leaves like an idle one: it did not fail, so its bucket gets no backoff."""
    machine, closed = arrival.machine, arrival.closed
    if not machine.joined or closed is None:
        return None
    array, since = machine.array, machine.since(Condition.EMPTY)
    if arrival.wanted or array is None or since is None or arrival.pass_context.now - since < array.idle_timeout:
        return wait(machine, closed)
    return disable(machine, arrival.pass_context, Disabling.IDLE, closed)


def enable_joined(arrival: Arrival) -> WorkerStep | None:
    machine, pass_context = arrival.machine, arrival.pass_context
    if not machine.joined:
        return None
    return enable(machine, pass_context, because(Code.JOINED, after_s=pass_context.now - machine.worker.created_at))


def complete_host(arrival: Arrival) -> WorkerStep | None:
    """Complete a host that its own image made. It stays disabled until an observation shows it complete."""
    return _complete(arrival.machine, arrival.pass_context) if arrival.machine.lacks else None


def enrol_when_up(arrival: Arrival) -> WorkerStep | None:
    machine = arrival.machine
    unfinished = machine.host is None or Condition.INCOMPLETE in machine.conditions
    return _enrol_when_up(machine, arrival.pass_context) if unfinished else None


def wait_for_execd(arrival: Arrival) -> WorkerStep:
    return wait(arrival.machine, because(Code.JOINING))


RULES: tuple[Callable[[Arrival], WorkerStep | None], ...] = (
    # A group comes and goes as a whole; that is no failure of one of its workers.
    give_back_for_group,
    # A person wants it gone, or nothing will need it.
    give_back_unneeded,
    # It takes too long, or its provider says that it never comes up.
    give_up,
    # Its name still belongs to an older machine's execution host, which recovery removes.
    await_name,
    # It is complete. Its group is not: it takes jobs only with all others.
    hold_for_group,
    # A person closed its queue: enabling it would open that.
    stand_closed,
    enable_joined,
    # Its own image enrolled it, and not with all that it is to have.
    complete_host,
    # Ours to enrol, or to enrol again where that was cut short.
    enrol_when_up,
    # Enrolled; qmaster has not heard its execd yet.
    wait_for_execd,
)
"""Read from the top; the first rule that has a step decides."""


def _enrol_when_up(machine: WorkerState, pass_context: PassContext) -> WorkerStep:
    array, note = machine.array, machine.note
    if machine.phase is Phase.BOOTING or array is None or not machine.worker.name:
        limit = array.boot_timeout if array else None
        return wait(machine, because(Code.BOOTING, type=machine.worker.type.name, limit_s=limit))
    tried = note.disabled_at if note.disabling is Disabling.ENROL else None
    if pass_context.recent(tried):
        return wait(machine, because(Code.JOINING))
    offer = host_values_of(machine.worker.type, array, pass_context.complexes, machine.worker.bucket)
    action = Enrol(
        worker_id=machine.worker.id,
        host=machine.worker.name,
        node_array=array.name,
        queue=array.queue,
        host_group=array.host_group,
        slots=offer.slots,
        complex_values=offer.complex_values,
        reason=because(Code.BOOTED, after_s=pass_context.now - machine.worker.created_at),
        group_id=machine.worker.group_id or "",
        group_pes=pass_context.group_pes if machine.worker.group_id else (),
    )
    return enrol(machine, pass_context, action)


def _complete(machine: WorkerState, pass_context: PassContext) -> WorkerStep:
    worker, host, array, tried = machine.worker, machine.host, machine.array, machine.note.completed_at
    reason = because(Code.INCOMPLETE, lacks=values_text(machine.lacks))
    if host is None or array is None or pass_context.recent(tried):
        return wait(machine, reason)
    action = Enrol(
        worker_id=worker.id,
        host=host.name,
        node_array=array.name,
        queue=array.queue,
        host_group=array.host_group,
        slots=sum(instance.slots for instance in host.instances if instance.queue == array.queue),
        complex_values=tuple((name, value) for name, value in machine.lacks if name != COMPLEX),
        reason=reason,
        group_id=worker.group_id or "",
        group_pes=pass_context.group_pes if worker.group_id else (),
        joined=True,
    )
    return complete(machine, pass_context, action)
