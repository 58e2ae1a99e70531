"""`plan`: from everything that was read to what is to be done and why. Pure; equal snapshots give equal plans.

Reads as the list of policies in the order in which they speak. Each step takes values and returns values; only this
module takes the whole snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from autoscaler.core.brake import pressed
from autoscaler.core.deadlock import Judgement
from autoscaler.core.demand import Reading, details_wanted, read_demand
from autoscaler.core.doubts import judge_doubts
from autoscaler.core.due import next_due
from autoscaler.core.grow import Ground, Growth, grow
from autoscaler.core.hearing import expected_back, listen
from autoscaler.core.joining import join
from autoscaler.core.leaving import depart
from autoscaler.core.life import Life, Machine, Sight, look, same_host
from autoscaler.core.limits import Usage
from autoscaler.core.memory import Disabling, Memory
from autoscaler.core.model import BucketVerdict, Plan, Snapshot, Wanted, WorkerVerdict
from autoscaler.core.outlook import Outlook, foresee
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.quarantine import Suspect, find_suspects, noted
from autoscaler.core.reach import Reach
from autoscaler.core.reasons import Code, Reason, because
from autoscaler.core.recovery import Recovery, aftermath, in_recovery, recover_workers
from autoscaler.core.remembering import quiet_since, remember, remember_doubts
from autoscaler.core.rests import resting, stopped_arrays
from autoscaler.core.returning import returning
from autoscaler.core.ruled_supply import under_rules
from autoscaler.core.rules.ruleset import NONE_KEPT
from autoscaler.core.shrink import Floor, needed_hosts, shrink
from autoscaler.core.steps import Moment, Step, disable, keep, wait
from autoscaler.core.supply import Supply, counts_as_coming, outstanding, supply_of, usage_of
from autoscaler.core.swap import Scene, Swaps, swap_workers, under_way
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
    snapshot = under_rules(snapshot)
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
    # Workers that fell silent, are about to be taken, or are gone; and what of their work will wait again.
    after = aftermath(sight, cluster, memory, policy, now)
    recovery = recover_workers(sight, cluster, memory, moment, after)
    again = returning(sight, cluster, policy, after, now)
    reading = reading.offering(want.demand for want in again)
    # What is there and what is coming: ordered and booting workers are supply, so the same need never launches twice.
    # So are hosts that fell silent a moment ago, as all do when the queue master starts.
    silent = expected_back(listen(cluster, memory.hearing, now), cluster, now)
    # What fits is nobody's need any more; what no allowed configuration could ever run must not launch anything.
    supply, outlook = _outlook(snapshot, sight, reading, moment, silent, under_way(memory.swaps))
    # Where the limits are reached and what waits needs stronger workers, a weaker one makes room, while that helps.
    rests = resting(memory, fleet.failures, policy, now)
    stopped = stopped_arrays(memory, fleet.failures, policy, snapshot.wishes.resumed_at)
    ground = Ground(policy, fleet.buckets, rests, stopped, memory.launches, cluster.complexes, now)
    usage = usage_of(fleet, policy, sight, now)
    floors = _floors(sight, policy, moment)
    # Workers that seem broken leave, few at a time: where all fail alike it is hardly the hosts.
    suspects = find_suspects(sight, snapshot.evidence, memory.quarantines, policy, now)
    serving = _shrink(sight, reading, again, supply, outlook, moment, memory, policy, Swaps(), suspects)
    gone = frozenset(step.machine.worker.id for step in serving if step.action is not None)
    scene = Scene(sight, cluster, reading.wanted, reading.names, supply, outlook, usage, floors, gone, ground, moment)
    swaps = swap_workers(scene, memory.swaps, allowed=policy.swap)
    if swaps.called_off or swaps.leaving:
        supply, outlook = _outlook(snapshot, sight, reading, moment, silent, under_way(swaps.notes))
    # Nobody is kept for work that only has room once they are gone.
    if swaps.called_off or swaps.leaving or swaps.hopeless:
        serving = _shrink(sight, reading, again, supply, outlook, moment, memory, policy, swaps, suspects)
    # Workers on their way in go on, whatever is paused: they cost already.
    steps = [join(machine, moment) for machine in sight.machines if machine.coming]
    # Workers on their way out go on, unless demand would use them after all: cheaper than a launch.
    leaving = [machine for machine in sight.machines if machine.life in _LEAVING and not in_recovery(machine, after)]
    steps += [_depart(machine, moment, outlook, swaps) for machine in leaving]
    # Workers in service leave only when idle, unneeded and above the floor, or where a stronger one is to come.
    steps += serving
    # Those that Grid Engine or their cloud lost: closed, ended, buried, their jobs pushed back.
    steps += recovery.steps
    # Everything else is only told.
    steps += [_stand(machine, moment) for machine in sight.machines if machine.life in _STANDING]
    # Launches last: they cover only what nothing else does.
    growth = _grow(snapshot, sight, reading.wanted, again, outlook, moment, ground, usage, swaps)
    kept = remember(snapshot, sight, reading, steps, growth.launches, swaps.notes, recovery, rests, stopped, brake)
    # What nothing allowed could ever run is doubted, asked about, and only on proof deleted or held.
    doubts = judge_doubts(snapshot, sight, reading, outlook.fates, moment.held_back or _stopping(moment))
    kept = remember_doubts(kept, doubts, snapshot)
    arrays = {machine.worker.id: machine.worker.node_array for machine in sight.machines}
    due = next_due(reading.wanted, kept.workers, arrays, kept.launches, policy, cluster.schedule_interval, now)
    return Plan(
        actions=_actions(steps, growth, recovery, doubts),
        memory=kept,
        due=min((moment for moment in (due, swaps.due, recovery.due, doubts.due) if moment is not None), default=None),
        shapes=shape_verdicts(reading, outlook.fates, policy, growth.told, doubts.told, now),
        workers=(*(step.verdict for step in steps), *_persistent(sight, policy)),
        buckets=growth.buckets,
        notes=(*_notes(snapshot, moment, growth), *noted(sight, suspects)),
        waiting=reading.waiting,
        counted=sum(
            want.count if fate.refusal is None else fate.now + fate.coming
            for want, fate in zip(reading.wanted, outlook.fates, strict=True)
        ),
        fitting=sum(fate.now + fate.coming for fate in outlook.fates),
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
    )


def _outlook(
    snapshot: Snapshot,
    sight: Sight,
    reading: Reading,
    moment: Moment,
    silent: frozenset[str],
    making_room: frozenset[str],
) -> tuple[Supply, Outlook]:
    """The supply, without those that make room for a stronger worker, and how demand fares with it."""
    cluster, fleet, policy = snapshot.cluster, snapshot.fleet, snapshot.policy
    supply = supply_of(sight, cluster, fleet, policy, moment, reading.names, silent, making_room)
    reach = Reach(policy, fleet.buckets, supply.persistent_emptied, cluster.complexes)
    return supply, foresee(reading.wanted, supply, reach)


def _depart(machine: Machine, moment: Moment, outlook: Outlook, swaps: Swaps) -> Step:
    needed = because(Code.NEEDED_AGAIN) if machine.name in outlook.again else None
    return depart(machine, moment, needed=swaps.called_off.get(machine.worker.id, needed))


def _shrink(
    sight: Sight,
    reading: Reading,
    again: Sequence[Wanted],
    supply: Supply,
    outlook: Outlook,
    moment: Moment,
    memory: Memory,
    policy: Policy,
    swaps: Swaps,
    suspects: Mapping[str, Suspect],
) -> list[Step]:
    serving = [machine for machine in sight.machines if machine.life is Life.IN_SERVICE]
    dispensable = {host.name for _, host in supply.dispensable}
    fixed = [host for host in outlook.supply if host.name not in dispensable]
    since = quiet_since(sight, reading, memory, policy, moment.now)

    def quiet(array: NodeArrayPolicy) -> Reason | None:
        queue = policy.queue(array.queue)
        timeout = queue.scale_down_timeout if queue else None
        if timeout is None or (since is not None and moment.now - since >= timeout):
            return None
        return because(Code.QUEUE_NOT_EMPTY, limit_s=timeout)

    return shrink(
        serving,
        moment,
        needed=needed_hosts([*outlook.possible(reading.wanted), *again], fixed, supply.dispensable, swaps.hopeless),
        floors=_floors(sight, policy, moment, swaps.leaving),
        quiet=quiet,
        under_way=Counter(
            machine.array.name
            for machine in sight.machines
            if machine.array is not None and machine.life is Life.DRAINING and not machine.note.seen_disabled
        ),
        making_room=swaps.leaving,
        suspects=suspects,
    )


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


def _stand(machine: Machine, moment: Moment) -> Step:
    """A worker that nothing is done about, and why; unless a person wants it gone."""
    asked_away = moment.let_go(machine)
    match machine.life:
        case Life.DISABLED_BY_HAND:
            if asked_away is not None and asked_away.code is Code.DRAINED_BY_COMMAND:
                return disable(machine, moment, Disabling.COMMAND, asked_away, by_person=True)
            return keep(machine, because(Code.DISABLED_BY_HAND))
        case Life.NAME_TAKEN:
            return wait(machine, because(Code.NAME_TAKEN))
        case _:
            return keep(machine, because(Code.UNKNOWN_ARRAY, node_array=machine.worker.node_array))


@dataclass(frozen=True, slots=True)
class Grown:
    """What all node arrays do together."""

    launches: tuple[Launch, ...]
    buckets: tuple[BucketVerdict, ...]
    notes: tuple[Reason, ...]
    told: Mapping[str, Reason]
    """By queue: the launch's reason, or why there is none."""


def _grow(
    snapshot: Snapshot,
    sight: Sight,
    waiting: Sequence[Wanted],
    again: Sequence[Wanted],
    outlook: Outlook,
    moment: Moment,
    ground: Ground,
    usage: Mapping[str, Usage],
    swaps: Swaps,
) -> Grown:
    """Array after array, in policy order; what one array brings the next need not. `again` will wait, so it is last."""
    policy, wanted = snapshot.policy, (*waiting, *again)
    board = outlook.board
    lacking = [*outlook.lacking(waiting), *board.place([(want.demand, want.count) for want in again]).unmet]
    found: list[tuple[NodeArrayPolicy, Growth]] = []
    blocked = moment.held_back or _stopping(moment)
    for array in policy.node_arrays:
        queue = policy.queue(array.queue)
        default = queue is not None and queue.node_array == array.name
        mine = [
            count if default and want.expired and array.queue in want.launches else 0
            for want, count in zip(wanted, lacking, strict=True)
        ]
        short = _short_of_floor(array, sight, snapshot, moment)
        if blocked is not None:
            found.append((array, Growth(note=blocked) if any(mine) or short > 0 else Growth()))
            continue
        replacement = swaps.replacements.get(array.name)
        if replacement is None:
            growth = grow(array, wanted, mine, board, usage[array.name], ground, short_of_floor=short)
        else:
            growth = replacement.grow(array, wanted, mine, board, usage[array.name], ground, short_of_floor=short)
        found.append((array, growth.besides(swaps.told.get(array.name))))
        board = growth.board or board
        if growth.covered:
            lacking = [count - covered for count, covered in zip(lacking, growth.covered, strict=True)]
    told = {array.queue: growth.launch.reason if growth.launch else growth.note for array, growth in found}
    return Grown(
        launches=tuple(growth.launch for _, growth in found if growth.launch is not None),
        buckets=tuple(verdict for _, growth in found for verdict in growth.buckets),
        notes=tuple(growth.note for _, growth in found if growth.note is not None and growth.note is not blocked),
        told={queue: reason for queue, reason in told.items() if reason is not None},
    )


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


def _actions(steps: Sequence[Step], growth: Grown, recovery: Recovery, doubts: Judgement) -> tuple[Action, ...]:
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


def _notes(snapshot: Snapshot, moment: Moment, growth: Grown) -> tuple[Reason, ...]:
    first = [reason for reason in (moment.held_back, _stopping(moment)) if reason is not None]
    return (*first, *growth.notes, *snapshot.cluster.set_aside)
