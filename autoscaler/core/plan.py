"""`plan`: from everything that was read to what is to be done and why. Pure; equal snapshots give equal plans.

Reads as the list of policies in the order in which they speak. Each step takes values and returns values; only this
module takes the whole snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    Kill,
    Launch,
    PushBack,
    Release,
    Remove,
    Terminate,
)
from autoscaler.core.asking.asked import Asked, asking_to_stop, called_for, hold_for, read_asked
from autoscaler.core.asking.auto_stop import answers, remembering_who_asks, told_to_stop
from autoscaler.core.asking.targets import Holding, unknown_arrays, unknown_types
from autoscaler.core.brake import pressed
from autoscaler.core.demand import Reading, details_wanted, read_demand
from autoscaler.core.due import next_due
from autoscaler.core.grouping.bonds import Bond, bond_of
from autoscaler.core.grouping.groups import group_ids
from autoscaler.core.grouping.growth import Grouping, group_up, grow_groups
from autoscaler.core.grouping.verdicts import bonds_of
from autoscaler.core.grow import Ground
from autoscaler.core.impossible.deadlock import Judgement
from autoscaler.core.impossible.doubts import judge_doubts
from autoscaler.core.joining import join
from autoscaler.core.launching import Calls, Launches, launch_all
from autoscaler.core.leaving import depart, stand_aside
from autoscaler.core.life import Life, Machine, same_host
from autoscaler.core.lost.hearing import expected_back, listen
from autoscaler.core.lost.recovery import Recovery, aftermath, in_recovery, jobs_in_doubt, recover_workers
from autoscaler.core.lost.returning import returning
from autoscaler.core.model import Plan, Snapshot, Wanted, WorkerVerdict
from autoscaler.core.outlook import Outlook, foresee
from autoscaler.core.placement import place
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.quarantine import Suspect, find_suspects, noted
from autoscaler.core.reach import Reach
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.remembering import quiet_since, remember, remember_doubts
from autoscaler.core.rests import forgiven, last_setbacks, resting, stopped_arrays
from autoscaler.core.ruled.supply import under_rules
from autoscaler.core.rules.ruleset import NONE_KEPT
from autoscaler.core.shrink import Floor, needed_hosts, shrink
from autoscaler.core.sight import Sight, look
from autoscaler.core.steps import Moment, Step
from autoscaler.core.supply import Supply, counts_as_coming, outstanding, supply_of, usage_of
from autoscaler.core.swapping.swap import Scene, Swaps, swap_workers, under_way
from autoscaler.core.verdicts import shape_verdicts

__all__ = ["details_wanted", "plan"]

_ORDER = (
    *(Enable, Enrol, Release, PushBack, Launch, Annotate, Hold, Kill, Terminate, Remove, Disable),
    AskGridEngine,
)
"""What brings capacity goes first; what takes it away last."""


def plan(snapshot: Snapshot) -> Plan:
    """What to do in this pass, why, and what to remember.

    Where the pass would do more than the brake allows, it is planned again with the brake on, and the brake stays on.
    """
    snapshot = under_rules(forgiven(snapshot))
    decided = _decide(snapshot, snapshot.memory.brake)
    if snapshot.memory.brake is not None:
        return decided
    memory = decided.memory
    limits, resumed_at = snapshot.policy.brake, snapshot.wishes.resumed_at
    brake = pressed(limits, memory.launches, memory.removals, snapshot.now, resumed_at, kills=memory.kills)
    return decided if brake is None else _decide(snapshot, brake)


def _decide(snapshot: Snapshot, brake: Reason | None) -> Plan:
    cluster, fleet, policy, memory, now = (
        snapshot.cluster,
        snapshot.fleet,
        snapshot.policy,
        snapshot.memory,
        snapshot.now,
    )
    moment = _moment(snapshot, brake)
    # Who is who: machines matched with hosts, and what this look adds to what we remember of them.
    sight = look(cluster, fleet, memory, policy, now)
    # What waits, and what of it could run if a host were there.
    reading = read_demand(cluster, memory, policy, now, frozenset(machine.name for machine in sight.machines))
    reading = reading if policy.queue_demand else reading.launching_nothing()
    # Workers that fell silent, are about to be taken, or are gone; and what of their work will wait again.
    after = aftermath(sight, snapshot)
    recovery = recover_workers(sight, cluster, memory, moment, after)
    again = returning(sight, cluster, policy, after, now) if policy.queue_demand else ()
    reading = reading.offering(want.demand for want in again)
    # What is there and what is coming: ordered and booting workers are supply, so the same need never launches twice.
    # So are hosts that fell silent a moment ago, as all do when the queue master starts.
    silent = expected_back(listen(cluster, memory.hearing, now), cluster, now)
    # What may be launched at all, and what counts against limits.
    rests = resting(memory, fleet.failures, policy, now)
    stopped = stopped_arrays(memory, fleet, policy, snapshot.wishes.resumed_at)
    setbacks = last_setbacks(fleet.orders, fleet.failures, memory.launches, now - policy.batch_delay)
    ground = Ground(policy, fleet.buckets, rests, stopped, memory.launches, cluster.complexes, now, setbacks)
    usage = usage_of(fleet, policy, sight, now)
    # Groups of workers stand, come and go as a whole; one that can never be completed is no supply.
    grouping = group_up(sight, fleet, group_ids(fleet, memory), snapshot.requests, moment, ground, usage)
    # What fits is nobody's need any more; what no allowed configuration could ever run must not launch anything.
    given_up = frozenset(grouping.given_up)
    supply, outlook = _outlook(snapshot, sight, reading, moment, silent, under_way(memory.swaps), given_up)
    # Where the limits are reached and what waits needs stronger workers, a weaker one makes room, while that helps.
    floors = _floors(sight, policy, moment)
    # Workers that seem broken leave, few at a time: where all fail alike it is hardly the hosts.
    suspects = find_suspects(sight, snapshot.evidence, memory.quarantines, policy, now)
    # What callers ask for beside the queues' demand, and who serves it: no one else's idle worker is let go for it.
    asked = read_asked(snapshot)
    serving = _shrink(
        snapshot, sight, reading, again, supply, outlook, moment, silent, asked, grouping, Swaps(), suspects
    )
    gone = frozenset(step.machine.worker.id for step in serving.steps if step.action is not None)
    scene = Scene(sight, cluster, reading.wanted, reading.names, supply, outlook, usage, floors, gone, ground, moment)
    scene = replace(scene, held=frozenset((*serving.holding.held, *asked.service.by_worker)))
    swaps = swap_workers(scene, memory.swaps, allowed=policy.swap)
    if swaps.called_off or swaps.leaving:
        supply, outlook = _outlook(snapshot, sight, reading, moment, silent, under_way(swaps.notes), given_up)
    # Nobody is kept for work that only has room once they are gone.
    if swaps.called_off or swaps.leaving or swaps.hopeless:
        serving = _shrink(
            snapshot, sight, reading, again, supply, outlook, moment, silent, asked, grouping, swaps, suspects
        )
    # Workers on their way in go on, whatever is paused: they cost already. Not where all are given back in the end, and
    # nothing waits that they could serve first.
    bonds = serving.bonds
    needless = None if any(want.count for want in (*outlook.possible(reading.wanted), *again)) else moment.winding_down
    steps = [join(each, moment, bond_of(each, bonds), needless=needless) for each in sight.machines if each.coming]
    # Workers on their way out go on, unless demand would use them after all: cheaper than a launch.
    leaving = [machine for machine in sight.machines if machine.life in _LEAVING and not in_recovery(machine, after)]
    steps += [_depart(machine, moment, outlook, swaps, serving.holding) for machine in leaving]
    # Workers in service leave only when idle, unneeded and above the floor, or where a stronger one is to come.
    steps += serving.steps
    # Those that Grid Engine or their cloud lost: closed, ended, buried, their jobs pushed back.
    steps += recovery.steps
    # Everything else is only told.
    steps += [stand_aside(machine, moment) for machine in sight.machines if machine.life in _STANDING]
    steps = [remembering_who_asks(step, snapshot.requests.auto_stops, now) for step in steps]
    # Launches last: they cover only what nothing else does.
    lacking = [*outlook.lacking(reading.wanted), *_place(outlook, again)]
    short = _short_of_floors(snapshot, floors)
    calls = Calls((*reading.wanted, *again), lacking, outlook.board, short, asked.service.unserved)
    calls = replace(calls, needs=asked.needs, holding=serving.holding)
    blocked = moment.held_back or _stopping(moment)
    growth = launch_all(calls, ground, usage, swaps, blocked)
    if blocked is None:
        growth = growth.besides(grow_groups(grouping, bonds, calls.wanted, lacking, outlook.board, growth.launches))
    kept = remember(snapshot, sight, reading, steps, growth.launches, swaps.notes, recovery, rests, stopped, brake)
    # What nothing allowed could ever run is doubted, asked about, and only on proof deleted or held.
    doubts = judge_doubts(snapshot, sight, reading, outlook.fates, moment.held_back or _stopping(moment))
    kept = remember_doubts(kept, doubts, snapshot)
    arrays = {machine.worker.id: machine.worker.node_array for machine in sight.machines}
    due = next_due(reading.wanted, kept.workers, arrays, kept.launches, snapshot, now)
    return Plan(
        actions=_actions(steps, growth, recovery, doubts),
        memory=kept,
        due=min((moment for moment in (due, swaps.due, recovery.due, doubts.due) if moment is not None), default=None),
        shapes=shape_verdicts(reading, outlook.fates, policy, growth.told, doubts.told, now),
        workers=(*(step.verdict for step in steps), *_persistent(sight, policy)),
        buckets=growth.buckets,
        notes=(*_notes(snapshot, moment, growth), *noted(sight, suspects), *jobs_in_doubt(sight)),
        waiting=reading.waiting,
        counted=sum(
            want.count if fate.refusal is None else fate.now + fate.coming
            for want, fate in zip(reading.wanted, outlook.fates, strict=True)
        ),
        fitting=sum(fate.now + fate.coming for fate in outlook.fates),
        auto_stops=answers(steps, snapshot.requests.auto_stops),
        withheld=growth.withheld,
    )


_LEAVING = frozenset({Life.DRAINING, Life.REMOVING, Life.RETIRED})
_STANDING = frozenset({Life.DISABLED_BY_HAND, Life.NAME_TAKEN, Life.UNKNOWN_ARRAY})


def _moment(snapshot: Snapshot, brake: Reason | None) -> Moment:
    wishes, interval = snapshot.wishes, snapshot.cluster.schedule_interval
    paused = because(Code.PAUSED, by=wishes.paused_by) if wishes.paused else None
    return Moment(
        now=snapshot.now,
        wishes=wishes,
        schedule_interval=interval,
        retry_after=max(interval, snapshot.policy.batch_delay),
        complexes=snapshot.cluster.complexes,
        held_back=brake or paused,
        keep_alive=snapshot.policy.rules.keep_alive if snapshot.policy.rules is not None else NONE_KEPT,
        asking=asking_to_stop(snapshot),
        group_pes=snapshot.policy.group_pes,
    )


def _outlook(
    snapshot: Snapshot,
    sight: Sight,
    reading: Reading,
    moment: Moment,
    silent: frozenset[str],
    making_room: frozenset[str],
    given_up: frozenset[str],
) -> tuple[Supply, Outlook]:
    """The supply, without those that make room for a stronger worker, and how demand fares with it."""
    cluster, fleet, policy = snapshot.cluster, snapshot.fleet, snapshot.policy
    supply = supply_of(sight, cluster, fleet, policy, moment, reading.names, silent, making_room, given_up)
    reach = Reach(policy, fleet.buckets, supply.persistent_emptied, cluster.complexes)
    return supply, foresee(reading.wanted, supply, reach)


def _depart(machine: Machine, moment: Moment, outlook: Outlook, swaps: Swaps, holding: Holding) -> Step:
    needed = because(Code.NEEDED_AGAIN) if machine.name in outlook.again else holding.back.get(machine.worker.id)
    step = depart(machine, moment, needed=swaps.called_off.get(machine.worker.id, needed))
    return told_to_stop(step, moment.asking)


@dataclass(frozen=True, slots=True)
class _Serving:
    """A step for every worker in service, and whom requests keep."""

    steps: list[Step]
    holding: Holding
    bonds: Mapping[str, Bond]


def _shrink(
    snapshot: Snapshot,
    sight: Sight,
    reading: Reading,
    again: Sequence[Wanted],
    supply: Supply,
    outlook: Outlook,
    moment: Moment,
    silent: frozenset[str],
    asked: Asked,
    grouping: Grouping,
    swaps: Swaps,
    suspects: Mapping[str, Suspect],
) -> _Serving:
    policy, memory = snapshot.policy, snapshot.memory
    serving = [machine for machine in sight.machines if machine.life is Life.IN_SERVICE]
    dispensable = {host.name for _, host in supply.dispensable}
    called = called_for(asked, snapshot, sight)
    fixed = [host for host in outlook.supply if host.name not in dispensable and host.name not in called]
    last = [host for host in supply.coming if host.name in called]
    since = quiet_since(sight, reading, memory, policy, moment.now)

    def quiet(array: NodeArrayPolicy) -> Reason | None:
        queue = policy.queue(array.queue)
        timeout = queue.scale_down_timeout if queue else None
        if timeout is None or (since is not None and moment.now - since >= timeout):
            return None
        return because(Code.QUEUE_NOT_EMPTY, limit_s=timeout)

    wanted = [*outlook.possible(reading.wanted), *again]
    needed = needed_hosts(wanted, fixed, supply.dispensable, swaps.hopeless, last)
    used = frozenset[str]()
    if asked.needs or grouping.groups:
        wants = [(want.demand, want.count) for want in wanted]
        used = place(wants, [*fixed, *(host for _, host in supply.dispensable), *last]).used | needed
    bonds = bonds_of(grouping.groups, used, grouping.targets, grouping.given_up, moment, quiet=quiet, policy=policy)
    holding = hold_for(
        asked,
        snapshot,
        sight,
        moment,
        used=used,
        silent=silent,
        again=outlook.again,
        going={*swaps.leaving, *(worker_id for worker_id, suspect in suspects.items() if suspect.acts)},
    )
    steps = shrink(
        serving,
        moment,
        needed=needed,
        floors=_floors(sight, policy, moment, swaps.leaving),
        quiet=quiet,
        under_way=Counter(
            machine.array.name
            for machine in sight.machines
            if machine.array is not None and machine.life is Life.DRAINING and not machine.note.seen_disabled
        ),
        making_room=swaps.leaving,
        suspects=suspects,
        held={**holding.held, **asked.nodes},
        bonds=bonds,
    )
    return _Serving(steps, holding, bonds)


def _floors(
    sight: Sight, policy: Policy, moment: Moment, making_room: Mapping[str, Reason] = MappingProxyType({})
) -> dict[str, Floor]:
    """The floor of every array, and who stays there if nobody leaves but those that make room for a stronger worker."""
    return {
        array.name: Floor(
            array.limits.min_workers,
            sum(
                machine.array == array and (machine.life is Life.IN_SERVICE or counts_as_coming(machine, moment))
                for machine in sight.machines
                if machine.worker.id not in making_room
            ),
        )
        for array in policy.node_arrays
    }


def _stopping(moment: Moment) -> Reason | None:
    return because(Code.STOPPING, how=moment.wishes.stop) if moment.wishes.stop is not None else None


def _short_of_floor(array: NodeArrayPolicy, sight: Sight, snapshot: Snapshot, moment: Moment) -> int:
    """How many workers are lacking to `min_workers`, ordered ones included."""
    ordered = sum(
        count
        for order, count in outstanding(snapshot.fleet, snapshot.policy, snapshot.now)
        if order.node_array == array.name
    )
    return array.limits.min_workers - _floors(sight, snapshot.policy, moment)[array.name].staying - ordered


def _place(outlook: Outlook, again: Sequence[Wanted]) -> tuple[int, ...]:
    """What of the work that will wait again fits nowhere beside what waits."""
    return outlook.board.place([(want.demand, want.count) for want in again]).unmet


def _short_of_floors(snapshot: Snapshot, floors: Mapping[str, Floor]) -> dict[str, int]:
    """By node array: how many workers are lacking to `min_workers`, ordered ones included."""
    short = {name: floor.min_workers - floor.staying for name, floor in floors.items()}
    for order, count in outstanding(snapshot.fleet, snapshot.policy, snapshot.now):
        if order.node_array in short:
            short[order.node_array] -= count
    return short


def _actions(steps: Sequence[Step], growth: Launches, recovery: Recovery, doubts: Judgement) -> tuple[Action, ...]:
    actions: list[Action] = [step.action for step in steps if step.action is not None]
    actions += growth.launches
    actions += [recovery.release] if recovery.release is not None else []
    actions += doubts.actions
    return tuple(sorted(actions, key=lambda action: _ORDER.index(type(action))))


def _persistent(sight: Sight, policy: Policy) -> tuple[WorkerVerdict, ...]:
    """Hosts that are not ours are never touched."""
    return tuple(
        WorkerVerdict(
            host.name, None, "keep", because(Code.MASTER if same_host(host.name, policy.master) else Code.PERSISTENT)
        )
        for host in sight.others
    )


def _notes(snapshot: Snapshot, moment: Moment, growth: Launches) -> tuple[Reason, ...]:
    first = [reason for reason in (moment.held_back, _stopping(moment)) if reason is not None]
    unknown = unknown_arrays(snapshot.requests, snapshot.policy)
    unknown += unknown_types(snapshot.requests, snapshot.policy)
    return (*first, *growth.notes, *unknown, *snapshot.cluster.set_aside)
