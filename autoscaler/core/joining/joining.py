"""How a machine becomes a worker in service: it boots, is enrolled disabled, sends a load report, is enabled. If that
takes too long, it is terminated.
"""

from __future__ import annotations

from dataclasses import dataclass

from autoscaler.core.actions import Disable, Enable, Enrol, Terminate
from autoscaler.core.hosts.missing_values import values_text
from autoscaler.core.model.fleet import FailureKind
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.requests.group_names import COMPLEX
from autoscaler.core.workers.drain import leave
from autoscaler.core.workers.group_verdict import NO_GROUP, GroupVerdict
from autoscaler.core.workers.overdue import overdue
from autoscaler.core.workers.phases import Condition, Phase
from autoscaler.core.workers.step import (
    BY_A_PERSON,
    PassContext,
    Rule,
    Transition,
    WorkerStep,
    always,
    complete,
    disable,
    enable,
    enrol,
    first_step,
    keep,
    terminate,
    wait,
)
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Arrival:
    """A machine on its way into service, with the other facts that its next step needs."""

    worker: WorkerState
    pass_context: PassContext
    group_verdict: GroupVerdict = NO_GROUP
    needless: Reason | None = None
    """Why no worker that joins now will be needed."""
    closed: Reason | None = None
    """Why it must not be enabled: a person disabled or suspended its queue."""
    wanted: bool = True
    """Whether something besides that queue's jobs needs it, so that it stays although its queue is closed."""

    @property
    def end_requested(self) -> Reason | None:
        """Why it is given back, whatever its own state."""
        if (reason := self.pass_context.drained_by_person(self.worker)) is not None:
            return reason
        return self.needless if self.pass_context.kept(self.worker) is None else None

    @property
    def surplus(self) -> Reason | None:
        """Its group is complete without it."""
        group = self.worker.worker.group_id
        surplus = self.worker.worker.id in self.group_verdict.surplus
        return because(Code.GROUP_COMPLETE, group=group) if surplus else None

    @property
    def late(self) -> Reason | None:
        """Why it is given up. A worker that a person keeps has no time limit until it is an execution host."""
        if self.worker.host is None and self.pass_context.kept(self.worker) is not None:
            return None
        return overdue(self.worker)


def join(
    worker: WorkerState,
    pass_context: PassContext,
    group_verdict: GroupVerdict = NO_GROUP,
    *,
    needless: Reason | None = None,
    closed: Reason | None = None,
    wanted: bool = True,
) -> WorkerStep:
    """The next step of a machine that is on its way into service."""
    return first_step(RULES, Arrival(worker, pass_context, group_verdict, needless, closed, wanted))


def _host(arrival: Arrival) -> bool:
    return arrival.worker.host is not None


def _disable_for_group(arrival: Arrival) -> WorkerStep:
    leaves, surplus = arrival.group_verdict.leave, arrival.surplus
    mark = Disabling.GROUP if leaves is not None else Disabling.IDLE
    return disable(arrival.worker, arrival.pass_context, mark, _given(leaves or surplus))


def _terminate_for_group(arrival: Arrival) -> WorkerStep:
    kept = arrival.pass_context.kept(arrival.worker)
    if kept is not None and kept.code is Code.KEPT_BY_COMMAND:
        return keep(arrival.worker, kept)
    return terminate(arrival.worker, arrival.pass_context, _given(arrival.group_verdict.leave or arrival.surplus))


def _give_up(arrival: Arrival) -> WorkerStep:
    worker = arrival.worker
    excused = worker.decisive is Condition.NAME_AWAITED or worker.note.stopped
    failure = None if excused else worker.worker.failure or FailureKind.BOOT
    return terminate(worker, arrival.pass_context, _given(arrival.late), failure=failure)


def _awaits_name(arrival: Arrival) -> bool:
    return arrival.worker.decisive is Condition.NAME_AWAITED and arrival.worker.host is None


def _held_up(arrival: Arrival) -> Reason | None:
    """Why a complete worker must not take jobs yet."""
    return arrival.group_verdict.hold or arrival.closed


def _dispensable(arrival: Arrival) -> bool:
    array, since = arrival.worker.array, arrival.worker.conditions.get(Condition.EMPTY)
    empty_s = None if since is None else arrival.pass_context.now - since
    return not arrival.wanted and array is not None and empty_s is not None and empty_s >= array.idle_timeout


def _enable(arrival: Arrival) -> WorkerStep:
    worker, pass_context = arrival.worker, arrival.pass_context
    return enable(worker, pass_context, because(Code.JOINED, after_s=pass_context.now - worker.made_at))


def _unfinished(arrival: Arrival) -> bool:
    return arrival.worker.host is None or Condition.INCOMPLETE in arrival.worker.conditions


def _given(reason: Reason | None) -> Reason:
    assert reason is not None  # the rule applies only if there is one
    return reason


def _await_boot(arrival: Arrival) -> WorkerStep:
    worker, array = arrival.worker, arrival.worker.array
    limit = array.boot_timeout if array else None
    return wait(worker, because(Code.BOOTING, type=worker.worker.type.name, limit_s=limit))


def _enrol(worker: WorkerState, pass_context: PassContext) -> WorkerStep:
    array, note = worker.array, worker.note
    tried = note.disabled_at if note.disabling is Disabling.ENROL else None
    if array is None or pass_context.recent(tried):
        return wait(worker, because(Code.JOINING))
    offer = host_values_of(worker.worker.type, array, pass_context.complexes, worker.worker.bucket)
    action = Enrol(
        worker_id=worker.worker.id,
        host=worker.worker.name or worker.name,
        node_array=array.name,
        queue=array.queue,
        host_group=array.host_group,
        slots=offer.slots,
        complex_values=offer.complex_values,
        reason=because(Code.BOOTED, after_s=pass_context.now - worker.made_at),
        group_id=worker.worker.group_id or "",
        group_pes=pass_context.group_pes if worker.worker.group_id else (),
        seq_no=pass_context.seq_nos.get(worker.worker.id),
    )
    return enrol(worker, pass_context, action)


def _complete(worker: WorkerState, pass_context: PassContext) -> WorkerStep:
    machine, host, array, tried = worker.worker, worker.host, worker.array, worker.note.completed_at
    reason = because(Code.INCOMPLETE, lacks=values_text(worker.missing_values))
    if host is None or array is None or pass_context.recent(tried):
        return wait(worker, reason)
    action = Enrol(
        worker_id=machine.id,
        host=host.name,
        node_array=array.name,
        queue=array.queue,
        host_group=array.host_group,
        slots=sum(instance.slots for instance in host.instances if instance.queue == array.queue),
        complex_values=tuple((name, value) for name, value in worker.missing_values if name != COMPLEX),
        reason=reason,
        group_id=machine.group_id or "",
        group_pes=pass_context.group_pes if machine.group_id else (),
        joined=True,
    )
    return complete(worker, pass_context, action)


_JOINING = frozenset({Phase.JOINING})
RULES: tuple[Rule[Arrival], ...] = (
    Rule(
        "give_back_for_group",
        "Its group leaves, or is complete without it: that is no failure of the worker.",
        lambda arrival: arrival.end_requested is None and (arrival.group_verdict.leave or arrival.surplus) is not None,
        (
            Transition("It is an execution host.", _host, _disable_for_group, Disable, Phase.DRAINING),
            Transition("It is no execution host.", always, _terminate_for_group, Terminate, Phase.LEAVING),
        ),
    ),
    Rule(
        "give_back_unneeded",
        "A person wants it gone, or nothing will need it.",
        lambda arrival: arrival.end_requested is not None,
        (
            Transition(
                "It is an execution host.",
                _host,
                lambda arrival: leave(
                    arrival.worker, arrival.pass_context, _given(arrival.end_requested), by_person=True
                ),
                reasons=BY_A_PERSON,
                way_out=True,
            ),
            Transition(
                "It is no execution host.",
                always,
                lambda arrival: terminate(
                    arrival.worker, arrival.pass_context, _given(arrival.end_requested), by_person=True
                ),
                Terminate,
                Phase.LEAVING,
                reasons=BY_A_PERSON,
            ),
        ),
    ),
    Rule(
        "give_up",
        "It takes too long, or its provider says that it never comes up, or was stopped.",
        lambda arrival: arrival.late is not None,
        (
            Transition(
                "It is an execution host.",
                _host,
                lambda arrival: leave(arrival.worker, arrival.pass_context, _given(arrival.late)),
                reasons=(Code.BOOT_TIMEOUT, Code.JOIN_TIMEOUT, Code.INCOMPLETE_TIMEOUT),
                way_out=True,
            ),
            Transition(
                "It is no execution host.",
                always,
                _give_up,
                Terminate,
                Phase.LEAVING,
                reasons=(Code.BOOT_FAILED, Code.STOPPED_FROM_OUTSIDE, Code.BOOT_TIMEOUT, Code.JOIN_TIMEOUT),
            ),
        ),
    ),
    Rule(
        "await_name",
        "Its name still belongs to an older machine's execution host, which recovery removes.",
        _awaits_name,
        (Transition("", always, lambda arrival: wait(arrival.worker, because(Code.NAME_STILL_USED))),),
        sources=frozenset({Phase.BOOTING}),
    ),
    Rule(
        "disable_again",
        "A queue that has come to it since its enrolment is enabled, and it must not take jobs yet.",
        lambda arrival: arrival.worker.joined and arrival.worker.enabled and _held_up(arrival) is not None,
        (
            Transition(
                "It was disabled a moment ago.",
                lambda arrival: arrival.pass_context.recent(arrival.worker.note.disabled_at),
                lambda arrival: wait(arrival.worker, _given(_held_up(arrival))),
            ),
            Transition(
                "It was not.",
                always,
                lambda arrival: disable(
                    arrival.worker, arrival.pass_context, Disabling.ENROL, _given(_held_up(arrival))
                ),
                Disable,
            ),
        ),
        sources=_JOINING,
    ),
    Rule(
        "hold_for_group",
        "It is complete. Its group is not: it takes jobs only with all others.",
        lambda arrival: arrival.worker.joined and arrival.group_verdict.hold is not None,
        (Transition("", always, lambda arrival: wait(arrival.worker, _given(arrival.group_verdict.hold))),),
        sources=_JOINING,
    ),
    Rule(
        "stay_disabled",
        "A person closed its queue: enabling it would open that. It leaves like an idle one: it did not fail, so its "
        "bucket gets no backoff.",
        lambda arrival: arrival.worker.joined and arrival.closed is not None,
        (
            Transition(
                "It has been empty for `idle_timeout`, and nothing else needs it.",
                _dispensable,
                lambda arrival: disable(arrival.worker, arrival.pass_context, Disabling.IDLE, _given(arrival.closed)),
                Disable,
                Phase.DRAINING,
            ),
            Transition(
                "It has not been empty for that long, or something else needs it.",
                always,
                lambda arrival: wait(arrival.worker, _given(arrival.closed)),
            ),
        ),
        sources=_JOINING,
    ),
    Rule(
        "enable_joined",
        "It is complete and up, and reports.",
        lambda arrival: arrival.worker.joined,
        (Transition("", always, _enable, Enable, Phase.READY, reasons=(Code.JOINED,)),),
        sources=_JOINING,
    ),
    Rule(
        "complete_host",
        "Its own image enrolled it without all the values that it needs. It stays disabled until an observation shows "
        "it complete.",
        lambda arrival: bool(arrival.worker.missing_values),
        (
            Transition(
                "",
                always,
                lambda arrival: _complete(arrival.worker, arrival.pass_context),
                Enrol,
                reasons=(Code.INCOMPLETE,),
            ),
        ),
        sources=_JOINING,
    ),
    Rule(
        "enrol_when_up",
        "The autoscaler enrols it, or enrols it again if that was cut short.",
        _unfinished,
        (
            Transition(
                "It is not up, or has no name.",
                lambda arrival: (
                    arrival.worker.phase is Phase.BOOTING
                    or arrival.worker.array is None
                    or not arrival.worker.worker.name
                ),
                _await_boot,
            ),
            Transition(
                "It is up and has a name.",
                always,
                lambda arrival: _enrol(arrival.worker, arrival.pass_context),
                Enrol,
                sources=_JOINING,
                reasons=(Code.BOOTED,),
            ),
        ),
    ),
    Rule(
        "wait_for_execd",
        "It is enrolled, and qmaster has no load report from it yet.",
        always,
        (Transition("", always, lambda arrival: wait(arrival.worker, because(Code.JOINING))),),
    ),
)
"""The transitions of a worker on its way into service."""
