"""How a full node array stands: what there, were it empty, could run what waits, who could make room, and how soon.

Reads one look into the words of `change`. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.capacity import emptied_host, offer_of
from autoscaler.core.cluster import Cluster
from autoscaler.core.grow import Ground
from autoscaler.core.growth.options import options_for
from autoscaler.core.life import Life, Machine
from autoscaler.core.limits import Usage
from autoscaler.core.memory import Disabling
from autoscaler.core.model import Host, Wanted
from autoscaler.core.outlook import Outlook
from autoscaler.core.placement import Want, place
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.shrink import Floor
from autoscaler.core.sight import Sight
from autoscaler.core.steps import Moment
from autoscaler.core.supply import Supply, price_of
from autoscaler.core.swapping.change import Leaver, Readiness, Standing
from autoscaler.core.swapping.soon import dry_at, freed_host

_ENDING = frozenset({Life.REMOVING, Life.RETIRED, Life.ENDING, Life.INTERRUPTED, Life.FENCED})
"""On their way out whatever still runs there."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a swap is judged by, of every array alike."""

    sight: Sight
    cluster: Cluster
    wanted: Sequence[Wanted]
    names: frozenset[str]
    """Complexes that demand asks for."""
    supply: Supply
    outlook: Outlook
    usage: Mapping[str, Usage]
    floors: Mapping[str, Floor]
    disabled: frozenset[str]
    """Ids of the workers in service that leave from now on in any case, such as idle ones."""
    ground: Ground
    moment: Moment
    held: frozenset[str] = frozenset()
    """Ids of workers that requests keep: no swap takes them."""

    def price_of(self, machine: Machine) -> float | None:
        return price_of(machine.worker, self.ground.buckets)


def boot_time(array: NodeArrayPolicy, sight: Sight) -> float:
    """How long a worker of this array took at most from its making until it was heard; the timeout where none tells."""
    taken = [
        machine.note.heard_at - machine.worker.created_at
        for machine in sight.machines
        if machine.array == array and machine.note.heard_at is not None
    ]
    return max((time for time in taken if 0 < time <= array.boot_timeout), default=array.boot_timeout)


def leavers_of(array: NodeArrayPolicy, scene: Scene, spared: Sequence[str], soon: float) -> Iterator[Leaver]:
    """Workers in service that may make room: not those that a person keeps, sends away or has enabled, that broke, or
    that hold reserved slots.
    """
    moment = scene.moment
    for machine in scene.sight.machines:
        if machine.array != array or machine.life is not Life.IN_SERVICE or machine.host is None:
            continue
        if (
            machine.before is None
            or machine.enabled_by_hand
            or machine.worker.id in {*spared, *scene.disabled, *scene.held}
        ):
            continue
        if moment.kept(machine) is not None or moment.let_go(machine) is not None:
            continue
        if any("E" in instance.states or instance.reserved for instance in machine.host.instances):
            continue
        yield leaver(machine, scene, soon)


def leaver(machine: Machine, scene: Scene, soon: float) -> Leaver:
    end, since = dry_at(machine.host, scene.cluster), machine.note.idle_since
    if since is not None and machine.before is not None and machine.before.idle_since is not None:
        idle = scene.moment.now - since >= scene.moment.schedule_interval
    else:
        idle = False
    return Leaver(
        machine=machine,
        emptied=emptied_host(machine.host, scene.cluster.complexes, scene.names) if machine.host else None,
        readiness=Readiness.IDLE if idle else Readiness.SOON if end <= soon else Readiness.LATER,
        dry_at=end,
        price=scene.price_of(machine),
    )


def standing_of(array: NodeArrayPolicy, scene: Scene, making_room: Sequence[str]) -> Standing | None:
    """How an array stands that has stuck demand; None where it has none. `making_room`: ids of those that do so now."""
    ground, outlook, usage = scene.ground, scene.outlook, scene.usage[array.name]
    queue = ground.policy.queue(array.queue)
    lacking = outlook.lacking(scene.wanted)
    waiting = [
        at
        for at, (want, count) in enumerate(zip(scene.wanted, lacking, strict=True))
        if count and want.expired and array.queue in want.launches
    ]
    if not waiting or queue is None or queue.node_array != array.name:
        return None
    soon = scene.moment.now + boot_time(array, scene.sight)
    workers = dict(_emptied(array, scene, making_room))
    others = (*_others(scene, soon), *scene.supply.coming)
    hosts = (*others, *workers.values())
    stuck = [at for at in waiting if not place(((scene.wanted[at].demand, 1),), hosts).complete]
    if not stuck:
        return None
    options, _ = options_for(array, ground.buckets, ground.rests, usage, ground.complexes)
    fits = [fate.now + fate.coming for fate in outlook.fates]
    return Standing(
        array=array,
        options=options,
        positions=frozenset(stuck),
        stuck=tuple((scene.wanted[at].demand, lacking[at]) for at in stuck),
        lacking=_wants(scene.wanted, lacking),
        fitting=_wants(scene.wanted, fits),
        supply=outlook.supply,
        workers=workers,
        others=others,
        usage=usage,
        soon=_usage_soon(array, usage, scene, soon),
        floor=scene.floors[array.name],
        present=frozenset(
            machine.worker.type.name
            for machine in scene.sight.machines
            if machine.array == array and machine.life is Life.IN_SERVICE
        ),
    )


def _wants(wanted: Sequence[Wanted], counts: Sequence[int]) -> tuple[Want, ...]:
    return tuple((want.demand, count) for want, count in zip(wanted, counts, strict=True) if count)


def _emptied(array: NodeArrayPolicy, scene: Scene, making_room: Sequence[str]) -> Iterator[tuple[str, Host]]:
    """Every worker that jobs can come to, or will when it is heard again, as if empty; and those that make room, until
    they are gone: what only they could run is not stuck, their successors will.
    """
    coming = {host.name for host in scene.supply.coming}
    complexes = scene.cluster.complexes
    for machine in scene.sight.machines:
        host, worker = machine.host, machine.worker
        if worker.id in making_room and machine.life is not Life.GONE:
            bare = offer_of(worker.type, array, complexes, worker.bucket).host(worker.id, array.queue)
            yield worker.id, emptied_host(host, complexes, scene.names) if host is not None else bare
            continue
        if host is None or machine.name in coming or scene.moment.let_go(machine) is not None:
            continue
        if any("E" in instance.states for instance in host.instances):
            continue
        if machine.life in (Life.IN_SERVICE, Life.UNHEARD) or machine.name in scene.outlook.again:
            yield worker.id, emptied_host(host, complexes, scene.names)


def _others(scene: Scene, soon: float) -> Iterator[Host]:
    """Hosts that are not ours, as they will be when the jobs have ended that end soon."""
    for host in (*scene.sight.others, *scene.sight.missing_hosts.values()):
        freed = freed_host(host, soon, scene.cluster, scene.names) if host.heard else None
        if freed is not None:
            yield freed


def _usage_soon(array: NodeArrayPolicy, usage: Usage, scene: Scene, soon: float) -> Usage:
    """Without the workers that leave anyway, and for no swap, before a new one would be up."""
    for machine in scene.sight.machines:
        if machine.array != array or machine.note.disabling is Disabling.SWAP:
            continue
        leaves = machine.worker.id in scene.disabled
        leaves |= machine.life is Life.DRAINING and machine.name not in scene.outlook.again
        if machine.life in _ENDING or (leaves and dry_at(machine.host, scene.cluster) <= soon):
            usage = usage.plus(machine.worker.type.vcpus, scene.price_of(machine), -1)
    return usage


def revocable(machine: Machine) -> bool:
    """Whether it was disabled for a swap and could be enabled again."""
    return machine.life is Life.DRAINING and machine.note.disabling is Disabling.SWAP
