"""How a machine becomes a worker in service: booted, enrolled disabled, heard, enabled. Or given back when it takes too
long.
"""

from __future__ import annotations

from autoscaler.core.actions import Enrol
from autoscaler.core.capacity import offer_of
from autoscaler.core.grouping.bonds import NO_BOND, Bond, give_back
from autoscaler.core.grouping.names import COMPLEX
from autoscaler.core.lacking import Values
from autoscaler.core.leaving import leave
from autoscaler.core.life import Life, Machine
from autoscaler.core.memory import Disabling
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.steps import Moment, Step, complete, enable, enrol, terminate, wait


def join(machine: Machine, moment: Moment, bond: Bond = NO_BOND, *, needless: Reason | None = None) -> Step:
    """The next step of a machine that is on its way into service. `bond`: of the group that it is one of. `needless`:
    why nobody will need any that joins now.
    """
    asked_away = moment.let_go(machine) or (needless if moment.kept(machine) is None else None)
    for_its_group = give_back(machine, moment, bond) if asked_away is None else None
    if for_its_group is not None:
        return for_its_group
    # One that a person keeps may come up as late as it likes.
    late = None if machine.host is None and moment.kept(machine) is not None else overdue(machine, moment.now)
    if machine.host is None:
        if machine.life is Life.NAME_AWAITED and late is None and asked_away is None:
            return wait(machine, because(Code.NAME_AWAITED))
        if asked_away is not None:
            return terminate(machine, moment, asked_away, by_person=True)
        if late is not None:
            failure = None if machine.life is Life.NAME_AWAITED else machine.worker.failure or "boot"
            return terminate(machine, moment, late, failure=failure)
        return _enrol_when_up(machine, moment)
    if asked_away is not None:
        return leave(machine, moment, asked_away, by_person=True)
    if machine.life is Life.READY and bond.hold is not None:
        return wait(machine, bond.hold)
    if machine.life is Life.READY:
        return enable(machine, moment, because(Code.JOINED, after_s=moment.now - machine.worker.created_at))
    if late is not None:
        return leave(machine, moment, late)
    if machine.lacks:
        return _complete(machine, moment)
    if machine.life is Life.ENROLLABLE:
        return _enrol_when_up(machine, moment)
    return wait(machine, because(Code.JOINING))


def overdue(machine: Machine, now: float) -> Reason | None:
    """Why a machine on its way is given up. One that was already late when we first saw it (the store was lost) gets
    its time anew: nothing ends at the first look (rule 8). One that its provider says will never come up gets none: it
    never ran a job, and may be paid for until it is ended.
    """
    array, note = machine.array, machine.note
    if machine.worker.failure is not None and machine.host is None:
        return because(Code.BOOT_FAILED, message=machine.worker.message)
    if array is None or machine.life is Life.READY:
        return None
    since = machine.worker.created_at
    if note.first_seen - since >= array.boot_timeout:
        since = note.first_seen
    if note.heard_at is not None:  # joined once and was taken out of Grid Engine by a person: it begins anew
        since = note.disabled_at if note.disabled_at is not None else now
    if now - since < array.boot_timeout:
        return None
    if machine.lacks:
        return because(Code.LACKING_TIMEOUT, limit_s=array.boot_timeout, lacks=_told(machine.lacks))
    enrolled = note.disabling is Disabling.ENROL
    code = Code.JOIN_TIMEOUT if enrolled else Code.BOOT_TIMEOUT
    return because(code, limit_s=array.boot_timeout, message=machine.worker.message)


def _enrol_when_up(machine: Machine, moment: Moment) -> Step:
    array, note = machine.array, machine.note
    if machine.life is Life.BOOTING or array is None or not machine.worker.name:
        limit = array.boot_timeout if array else None
        return wait(machine, because(Code.BOOTING, type=machine.worker.type.name, limit_s=limit))
    tried = note.disabled_at if note.disabling is Disabling.ENROL else None
    if tried is not None and moment.now - tried < moment.retry_after:
        return wait(machine, because(Code.JOINING))
    offer = offer_of(machine.worker.type, array, moment.complexes, machine.worker.bucket)
    action = Enrol(
        worker_id=machine.worker.id,
        host=machine.worker.name,
        node_array=array.name,
        queue=array.queue,
        host_group=array.host_group,
        slots=offer.slots,
        complex_values=offer.complex_values,
        reason=because(Code.BOOTED, after_s=moment.now - machine.worker.created_at),
        group_id=machine.worker.group_id or "",
        group_pes=moment.group_pes if machine.worker.group_id else (),
    )
    return enrol(machine, moment, action)


def _complete(machine: Machine, moment: Moment) -> Step:
    """Give a host that its own image made what that lacks. It stays disabled until a look shows it has it all."""
    worker, host, array, tried = machine.worker, machine.host, machine.array, machine.note.completed_at
    reason = because(Code.LACKING, lacks=_told(machine.lacks))
    if host is None or array is None or (tried is not None and moment.now - tried < moment.retry_after):
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
        group_pes=moment.group_pes if worker.group_id else (),
        joined=True,
    )
    return complete(machine, moment, action)


def _told(lacks: Values) -> str:
    return ", ".join(f"{name}={value}" for name, value in lacks)
