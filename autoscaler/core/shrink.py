"""Which workers in service may leave: a ladder of early returns, a verdict for every worker.

A worker is needed when some waiting demand would use it, found by placing all counted demand with those that could
leave last, and checked by placing it once more without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.grouping.bonds import Bond, bond_of, stand
from autoscaler.core.leaving import busy_reason
from autoscaler.core.life import Life, Machine
from autoscaler.core.memory import Disabling
from autoscaler.core.model import Host, Wanted
from autoscaler.core.placement import Want, as_shares, place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.quarantine import Suspect
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.steps import Moment, Step, disable, keep, wait


@dataclass(frozen=True, slots=True)
class Floor:
    """How many workers of an array must stay, and how many stay if nobody leaves."""

    min_workers: int
    staying: int


def idle_for(machine: Machine, now: float) -> float | None:
    """Seconds since it was last seen busy; None while it is not in service and empty."""
    return None if machine.note.idle_since is None else now - machine.note.idle_since


def could_leave(machine: Machine, moment: Moment) -> bool:
    """Whether idle time alone, its own asking or its cloud's advice would let it go."""
    if machine.life is not Life.IN_SERVICE or machine.array is None:
        return False
    idle = idle_for(machine, moment.now)
    asked = moment.winding_down is not None or machine.worker.id in moment.asking
    long_enough = idle is not None and (idle >= machine.array.idle_timeout or asked)
    return long_enough or machine.advised


def let_go_order(machine: Machine, asking: Set[str]) -> tuple[bool, bool, float, float, str]:
    """Sorting key of whom to let go first: who asks to stop, whom its cloud may take, then the dearest, then the
    longest idle.
    """
    since = machine.note.idle_since
    price = machine.worker.price_per_hour or 0.0
    return (
        machine.worker.id not in asking,
        not machine.advised,
        -price,
        since if since is not None else 0.0,
        machine.worker.id,
    )


def needed_hosts(
    wanted: Sequence[Wanted],
    fixed: Sequence[Host],
    leaving: Sequence[tuple[Machine, Host]],
    hopeless: frozenset[int] = frozenset(),
    last: Sequence[Host] = (),
) -> frozenset[str]:
    """Names among `leaving` that waiting demand would use, `fixed` capacity coming first, and `last` what comes for
    others than jobs.

    Demand over several hosts that does not fit as a whole yet holds what it could use of them: it may be waiting for
    the rest. Not so at the `hopeless` positions: the rest has no room beside those who are there.
    """
    if not leaving:
        return frozenset()
    wants: tuple[Want, ...] = tuple((want.demand, want.count) for want in wanted)
    hosts = [*fixed, *(host for _, host in leaving), *last]
    full = place(wants, hosts)
    spread = [
        (demand, unmet)
        for at, ((demand, _), unmet) in enumerate(zip(wants, full.unmet, strict=True))
        if unmet and not demand.one_host and not demand.together and at not in hopeless
    ]
    names = frozenset(host.name for _, host in leaving)
    needed = full.used & names
    if spread:
        fitting = [(demand, placed) for (demand, _), placed in zip(wants, full.placed, strict=True)]
        needed |= place((*fitting, *as_shares(spread)), hosts).used & names
    without = place(wants, [host for host in hosts if host.name not in names or host.name in needed])
    return needed if sum(without.unmet) <= sum(full.unmet) else names


def shrink(
    machines: Sequence[Machine],
    moment: Moment,
    *,
    needed: frozenset[str],
    floors: dict[str, Floor],
    quiet: Callable[[NodeArrayPolicy], Reason | None],
    under_way: Mapping[str, int],
    making_room: Mapping[str, Reason],
    suspects: Mapping[str, Suspect],
    held: Mapping[str, Reason] = MappingProxyType({}),
    bonds: Mapping[str, Bond] = MappingProxyType({}),
) -> list[Step]:
    """One step for every worker in service. `quiet` says why the rule of empty queues speaks against an array's
    leaving; `under_way` counts disablings of idle workers, by array, whose effect no look has shown yet;
    `making_room`: by worker id, who leaves for a stronger one, which no floor or batch speaks against; `suspects`: by
    worker id, who seems broken; `held`: by worker id, who stays for a request; `bonds`: by group id, what
    holds for all workers of it.
    """
    steps: list[Step] = []
    disabled, stopped = dict.fromkeys(floors, 0), dict.fromkeys(floors, 0)
    for machine in sorted(machines, key=lambda machine: let_go_order(machine, moment.asking)):
        array = machine.array
        if array is None:
            continue
        gone = disabled[array.name]
        floor = floors[array.name]
        batch = array.scale_down_batch - under_way.get(array.name, 0) - gone
        step = _judge(
            machine,
            array,
            moment,
            needed=needed,
            floor=replace(floor, staying=floor.staying - gone - stopped[array.name]),
            batch=batch,
            quiet=quiet,
            making_room=making_room.get(machine.worker.id),
            suspect=suspects.get(machine.worker.id),
            held=held.get(machine.worker.id),
            bond=bond_of(machine, bonds),
        )
        if step.action is not None and step.note.disabling is Disabling.IDLE:
            disabled[array.name] += 1
        if step.action is not None and step.note.disabling is Disabling.AUTO_STOP:
            stopped[array.name] += 1
        steps.append(told_of(step, suspects.get(machine.worker.id)))
    return steps


def told_of(step: Step, suspect: Suspect | None) -> Step:
    """That step, with the suspicion that nothing is done about."""
    if suspect is None or suspect.acts:
        return step
    return replace(step, verdict=replace(step.verdict, reason=step.verdict.reason.then(suspect.reason)))


def _judge(
    machine: Machine,
    array: NodeArrayPolicy,
    moment: Moment,
    *,
    needed: frozenset[str],
    floor: Floor,
    batch: int,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
    making_room: Reason | None,
    suspect: Suspect | None,
    held: Reason | None,
    bond: Bond,
) -> Step:
    asked_away = moment.let_go(machine)
    if asked_away is not None:
        mark = Disabling.STOP if asked_away.code is Code.STOPPING else Disabling.COMMAND
        return disable(machine, moment, mark, asked_away, by_person=True)
    kept = moment.kept(machine)
    if kept is not None:
        return keep(machine, kept)
    if suspect is not None and suspect.acts:
        return _quarantine(machine, moment, suspect.reason)
    if making_room is not None:
        return disable(machine, moment, Disabling.SWAP, making_room)
    if machine.advised and machine.name not in needed and not machine.enabled_by_hand:
        return disable(machine, moment, Disabling.ADVISED, because(Code.ADVISED_TO_LEAVE))
    if not machine.empty:
        return keep(machine, busy_reason(machine))
    if moment.winding_down is not None and machine.name not in needed:
        return disable(machine, moment, Disabling.STOP, moment.winding_down, by_person=True)
    idle = idle_for(machine, moment.now)
    if machine.enabled_by_hand:
        return keep(machine, because(Code.ENABLED_BY_HAND))
    if held is not None:
        return keep(machine, held)
    for_its_group = stand(machine, moment, bond)
    if for_its_group is not None:
        return for_its_group
    asks = machine.worker.id in moment.asking
    if idle is None or (idle < array.idle_timeout and not asks):
        return keep(machine, because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle or 0.0, limit_s=array.idle_timeout))
    if machine.name in needed:
        return keep(machine, because(Code.NEEDED))
    busy = quiet(array)
    if busy is not None and not asks:
        return keep(machine, busy)
    if floor.staying <= floor.min_workers:
        return keep(machine, because(Code.MIN_WORKERS, min_workers=floor.min_workers))
    if asks:
        return disable(machine, moment, Disabling.AUTO_STOP, because(Code.ASKED_TO_STOP))
    if batch <= 0:
        return wait(machine, because(Code.SHRINK_BATCH, batch=array.scale_down_batch))
    return disable(machine, moment, Disabling.IDLE, because(Code.IDLE, idle_s=idle, limit_s=array.idle_timeout))


def _quarantine(machine: Machine, moment: Moment, reason: Reason) -> Step:
    """Let no further job in; what runs there runs on, and the worker leaves when it is empty."""
    step = disable(machine, moment, Disabling.BROKEN, reason)
    return step if step.action is None else replace(step, note=replace(step.note, quarantined=reason))
