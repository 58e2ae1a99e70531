"""Groups of workers near each other: which there are, what they lack, and what becomes of each as a whole.

All of a group or none: no worker of it takes jobs before all are ready; what can never be completed is given back;
once it served, what it loses is replaced in the same instance type, zone and group; idle, it leaves as a whole.
A group is no more than the workers and orders that carry its id: nothing of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from autoscaler.core.bonds import Bond
from autoscaler.core.fleet import Fleet, InstanceType, LaunchFailure, Order, PriceType
from autoscaler.core.life import Life, Machine, Sight
from autoscaler.core.memory import Disabling, Memory
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.request_sets import Requests
from autoscaler.core.shrink import could_leave, idle_for
from autoscaler.core.steps import Moment
from autoscaler.core.supply import counts_as_coming, outstanding

NO_MORE = frozenset({"capacity", "quota"})
"""Failures that say that its cloud has no further worker of that kind."""
_STANDS = frozenset({Life.IN_SERVICE, Life.UNHEARD, Life.SILENT, Life.DISABLED_BY_HAND})
"""The worker is there, whether it takes jobs just now or not."""
_NEVER_SERVED = frozenset({Life.BOOTING, Life.ENROLLABLE, Life.JOINING, Life.READY, Life.NAME_AWAITED})


@dataclass(frozen=True, slots=True)
class Group:
    """One group, with all that carries its id."""

    id: str
    array: NodeArrayPolicy
    type: InstanceType
    price_type: PriceType
    zone: str
    placement_group: str
    want: int
    """Workers that make it whole."""
    machines: tuple[Machine, ...] = ()
    """Those that its provider lists and that are not gone."""
    staying: tuple[Machine, ...] = ()
    """Of these, those that are there or on their way in."""
    ordered: tuple[str, ...] = ()
    """Names under which ordered workers that no listing shows yet stand in the supply."""
    missing: int = 0
    """Workers that the listing leaves out now, and whose end nobody confirmed."""
    orders: frozenset[str] = frozenset()
    """Ids of the orders it came from, as far as they are known."""

    @property
    def have(self) -> int:
        return len(self.staying) + len(self.ordered) + self.missing

    @property
    def lacking(self) -> int:
        return max(self.want - self.have, 0)

    @property
    def surplus(self) -> frozenset[str]:
        """Ids of workers on their way in that are more than make it whole: one was given up as late, replaced, and came
        after all. Who is furthest stays.
        """
        furthest = sorted(
            self.staying,
            key=lambda each: (each.life is not Life.IN_SERVICE, each.life is not Life.READY, each.worker.created_at),
        )
        return frozenset(machine.worker.id for machine in furthest[self.want :] if machine.coming)

    @property
    def served(self) -> bool:
        """Whether any worker of it ever took jobs."""
        return self.missing > 0 or any(_served(machine) for machine in self.machines)

    @property
    def leaving(self) -> bool:
        """Whether it was let go: nothing of that is taken back."""
        return any(machine.note.disabling is Disabling.GROUP for machine in self.machines)

    @property
    def busy(self) -> bool:
        return any(not machine.empty for machine in self.machines)

    @property
    def serving(self) -> tuple[Machine, ...]:
        return tuple(machine for machine in self.staying if machine.life is Life.IN_SERVICE)

    @property
    def ready(self) -> int:
        return sum(machine.life is Life.READY for machine in self.staying)

    @property
    def preference(self) -> tuple[object, ...]:
        """Sorting key of what to keep: what served, what lacks least, and then always the same."""
        return not self.served, self.lacking, len(self.id), self.id

    def used(self, names: frozenset[str]) -> bool:
        """Whether any worker of it is among these names of the supply."""
        own = {name for machine in self.staying for name in (machine.name, machine.worker.id)}
        return not names.isdisjoint(own.union(self.ordered))


def workers_of(array: NodeArrayPolicy, type_: InstanceType) -> int | None:
    """How many workers of this type make one group of that array; None where it is no array of groups."""
    if array.group_count is not None:
        return array.group_count
    return None if array.group_cores is None else -(-array.group_cores // type_.vcpus)


# -- which there are -------------------------------------------------------------------------------------------------


def groups_of(sight: Sight, fleet: Fleet, policy: Policy, moment: Moment) -> tuple[Group, ...]:
    """Every group that a worker carries or an order is to bring, in the order of node arrays and then of their ids."""
    machines: dict[str, list[Machine]] = {}
    for machine in sight.machines:
        if machine.worker.group_id and machine.array is not None and machine.life is not Life.GONE:
            machines.setdefault(machine.worker.group_id, []).append(machine)
    coming: dict[str, list[tuple[Order, int]]] = {}
    for order, count in outstanding(fleet, policy, moment.now):
        if order.group_id and policy.node_array(order.node_array) is not None:
            coming.setdefault(order.group_id, []).append((order, count))
    missing = _missing(sight, coming)
    found = [
        _with_unlisted(group, coming.get(name, ()), missing.count(name), fleet)
        for name in {*machines, *coming}
        if (group := _listed(name, machines.get(name, ()), moment) or _to_come(name, coming[name], policy)) is not None
    ]
    positions = {array.name: position for position, array in enumerate(policy.node_arrays)}
    return tuple(sorted(found, key=lambda group: (positions[group.array.name], len(group.id), group.id)))


def group_ids(fleet: Fleet, memory: Memory) -> frozenset[str]:
    """Every id that something of ours carries: none of them is given to another group."""
    carried = (*(worker.group_id for worker in fleet.workers), *(order.group_id for order in fleet.orders))
    remembered = (note.group_id for note in memory.workers.values())
    return frozenset(name for name in (*carried, *remembered) if name)


def _listed(name: str, machines: Sequence[Machine], moment: Moment) -> Group | None:
    """A group by its listed workers: the oldest tells what it is made of."""
    if not machines:
        return None
    first = min(machines, key=lambda machine: (machine.worker.created_at, machine.worker.id))
    array, worker = first.array, first.worker
    if array is None:
        return None
    staying = tuple(machine for machine in machines if machine.life in _STANDS or counts_as_coming(machine, moment))
    return Group(
        name,
        array,
        worker.type,
        worker.price_type,
        worker.zone,
        worker.placement_group,
        want=workers_of(array, worker.type) or len(staying),
        machines=tuple(machines),
        staying=staying,
    )


def _to_come(name: str, coming: Sequence[tuple[Order, int]], policy: Policy) -> Group | None:
    """A group of which only orders are known."""
    order, count = coming[0]
    array, key = policy.node_array(order.node_array), order.bucket
    if array is None:
        return None
    want = workers_of(array, order.type) or count
    return Group(name, array, order.type, key.price_type, key.zone, key.placement_group, want)


def _with_unlisted(group: Group, coming: Iterable[tuple[Order, int]], missing: int, fleet: Fleet) -> Group:
    orders = {order.id for order in fleet.orders if order.group_id == group.id}
    return replace(
        group,
        ordered=tuple(f"{order.id}#{number}" for order, count in coming for number in range(count)),
        missing=missing,
        orders=frozenset(orders | {machine.worker.order_id or "" for machine in group.machines}),
    )


def _missing(sight: Sight, coming: Mapping[str, Sequence[tuple[Order, int]]]) -> list[str]:
    """The group of every worker that the listing leaves out, unless its order still counts for it."""
    waited_for = {order.id for orders in coming.values() for order, _ in orders}
    return [
        note.group_id
        for note in sight.missing.values()
        if note.group_id and not note.gone and note.terminated_at is None and note.order_id not in waited_for
    ]


def _served(machine: Machine) -> bool:
    """Whether it ever took jobs: it was heard, and is not in Grid Engine for the first time still."""
    note = machine.note
    return machine.life not in _NEVER_SERVED and note.heard_at is not None and note.disabling is not Disabling.ENROL


# -- what becomes of each --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """Groups that all live sets together want of one node array."""

    count: int
    reason: Reason


def group_targets(requests: Requests, policy: Policy, now: float) -> dict[str, GroupTarget]:
    """By node array, in the policy's order: the groups that live sets want, added up."""
    found: dict[str, GroupTarget] = {}
    for array in policy.node_arrays:
        asked = [
            (live.name, target.groups)
            for live in requests.sets
            if live.expires_at is None or live.expires_at > now
            for target in live.targets
            if target.node_array == array.name and target.groups
        ]
        if asked and array.wanted:
            count, sets = sum(groups for _, groups in asked), tuple(sorted({name for name, _ in asked}))
            reason = because(Code.REQUESTED, node_array=array.name, sets=sets, groups=count)
            found[array.name] = GroupTarget(count, reason)
    return found


def hopeless(
    groups: Sequence[Group], failures: Sequence[LaunchFailure], can_complete: Callable[[Group], bool]
) -> Mapping[str, Reason]:
    """Groups that never served and cannot be completed: they are given back, and their workers are no supply.

    `can_complete`: whether what a group lacks could be ordered now, of the same kind.
    """
    found: dict[str, Reason] = {}
    for group in groups:
        if group.served or group.leaving or not group.lacking:
            continue
        short = [failure for failure in failures if failure.order_id in group.orders and failure.kind in NO_MORE]
        if short or not can_complete(group):
            found[group.id] = because(
                Code.GROUP_GIVEN_BACK,
                group=group.id,
                have=group.have,
                want=group.want,
                message=short[-1].message if short else None,
            )
    return found


def bonds_of(
    groups: Sequence[Group],
    used: frozenset[str],
    targets: Mapping[str, GroupTarget],
    given_up: Mapping[str, Reason],
    moment: Moment,
    *,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
    policy: Policy,
) -> Mapping[str, Bond]:
    """By group id. `used`: names of the supply that waiting demand would use. A group that demand leaves over meets a
    target; where the queues' demand is off, every group does.
    """
    targeted = _targeted(groups, used, targets, given_up, queue_demand=policy.queue_demand)
    found: dict[str, Bond] = {}
    for group in groups:
        bond = _bond(group, group.used(used), targeted.get(group.id), given_up.get(group.id), moment, quiet)
        found[group.id] = replace(bond, targeted=group.id in targeted, surplus=group.surplus)
    return found


def _targeted(
    groups: Sequence[Group],
    used: frozenset[str],
    targets: Mapping[str, GroupTarget],
    given_up: Mapping[str, Reason],
    *,
    queue_demand: bool,
) -> dict[str, Reason]:
    """Which groups meet the targets, and whose."""
    spare = [
        group
        for group in sorted(groups, key=lambda group: group.preference)
        if not group.leaving and group.id not in given_up
        if not queue_demand or not (group.busy or group.used(used))
    ]
    if not queue_demand:
        spare.sort(key=lambda group: not group.busy)
    found: dict[str, Reason] = {}
    for name, target in targets.items():
        mine = [group for group in spare if group.array.name == name]
        found |= {group.id: target.reason for group in mine[: target.count]}
    return found


def _bond(
    group: Group,
    used: bool,
    target: Reason | None,
    given_up: Reason | None,
    moment: Moment,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
) -> Bond:
    """A ladder: the first that speaks decides."""
    wanted = used or target is not None
    if group.leaving:
        return Bond(back=because(Code.GROUP_LEAVES, group=group.id))
    if given_up is not None:
        return Bond(back=given_up)
    if not group.served:
        if group.lacking and not wanted:
            return Bond(back=because(Code.GROUP_NOT_WANTED, group=group.id))
        if group.ready < group.want:
            hold = because(Code.GROUP_INCOMPLETE, group=group.id, ready=group.ready, want=group.want)
            return Bond(hold=hold, wanted=wanted)
        return Bond(keep=target, wanted=wanted)
    keep = _why_kept(group, used, target, moment, quiet)
    if keep is not None:
        return Bond(keep=keep, wanted=wanted)
    idle = min(idle_for(machine, moment.now) or 0.0 for machine in group.serving)
    reason = because(Code.IDLE, idle_s=idle, limit_s=group.array.idle_timeout)
    return Bond(back=reason.then(because(Code.GROUP_LEAVES, group=group.id)))


def _why_kept(
    group: Group,
    used: bool,
    target: Reason | None,
    moment: Moment,
    quiet: Callable[[NodeArrayPolicy], Reason | None],
) -> Reason | None:
    """Why a group that served stays; None: nothing speaks for it."""
    if group.busy:
        return because(Code.GROUP_IN_USE, group=group.id)
    if used:
        return because(Code.NEEDED)
    if target is not None:
        return target
    kept = next((why for machine in group.machines if (why := moment.kept(machine)) is not None), None)
    if kept is not None:
        return kept
    if any(machine.enabled_by_hand for machine in group.serving):
        return because(Code.ENABLED_BY_HAND)
    if not group.serving or not all(could_leave(machine, moment) for machine in group.serving):
        idle = min((idle_for(machine, moment.now) or 0.0 for machine in group.serving), default=0.0)
        return because(Code.IDLE_NOT_LONG_ENOUGH, idle_s=idle, limit_s=group.array.idle_timeout)
    return quiet(group.array)
