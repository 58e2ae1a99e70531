"""The state of a full node array: which workers could run the waiting jobs if they were empty, which could be replaced,
and how soon.

Turns one observation into the values of `change`. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.core.capacity.forecast import Forecast
from autoscaler.core.capacity.supply import Supply, price_of
from autoscaler.core.limits.limits import Usage
from autoscaler.core.model.cluster import Cluster, ExecutionHost
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.hosts import emptied_host, host_values_of
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.readable.remembered import LastObjects, PerArguments, PerObject
from autoscaler.core.replace.change import ArrayState, Readiness, ReplacedWorker
from autoscaler.core.replace.free_soon import empty_at, freed_host
from autoscaler.core.scale_down.floors import Floor
from autoscaler.core.sizing.sizing import LaunchContext
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.step import PassContext
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class SwapContext:
    """What swaps of all arrays depend on."""

    observed: ObservedWorkers
    cluster: Cluster
    wanted: Sequence[CategoryDemand]
    names: frozenset[str]
    """Complexes that demand requests."""
    supply: Supply
    forecast: Forecast
    usage: Mapping[str, Usage]
    floors: Mapping[str, Floor]
    disabled: frozenset[str]
    """Ids of the workers in service that leave in any case, such as idle ones."""
    launch_context: LaunchContext
    pass_context: PassContext
    held: frozenset[str] = frozenset()
    """Ids of workers that requests keep: no swap takes them."""

    def price_of(self, worker: WorkerState) -> float | None:
        return price_of(worker.worker, self.launch_context.buckets)


def boot_time(array: NodeArrayPolicy, observed: ObservedWorkers) -> float:
    """The longest boot of a worker of this array that was seen; the timeout if none was."""
    seen = seen_boot_time(array, observed)
    return array.boot_timeout if seen is None else seen


def seen_boot_time(array: NodeArrayPolicy, observed: ObservedWorkers) -> float | None:
    """The longest time from the creation of a worker of this array to its first load report; None: none is known."""
    return _BOOT_TIMES.value_of((observed,), lambda: _boot_times(observed)).get(array.name)


_BOOT_TIMES = LastObjects[dict[str, float]]()


def _boot_times(observed: ObservedWorkers) -> dict[str, float]:
    """By node array of which a boot was seen."""
    found: dict[str, float] = {}
    for name, workers in observed.by_array.items():
        taken = [w.note.joined_at - w.made_at for w in workers if w.note.joined_at is not None]
        times = [time for time in taken if 0 < time <= observed.arrays[name].boot_timeout]
        if times:
            found[name] = max(times)
    return found


def replaceable_workers(
    array: NodeArrayPolicy, context: SwapContext, spared: Sequence[str], soon: float
) -> Iterator[ReplacedWorker]:
    """Workers in service that may be replaced: none that a person keeps, drains or has enabled, that is quarantined, or
    that has reserved slots.
    """
    pass_context, staying = context.pass_context, {*spared, *context.disabled, *context.held}
    for worker in context.observed.by_array.get(array.name, ()):
        if not worker.in_service or worker.host is None:
            continue
        if worker.before is None or worker.enabled_by_hand or worker.worker.id in staying:
            continue
        if pass_context.kept(worker) is not None or pass_context.drained_by_person(worker) is not None:
            continue
        if worker.host.in_error or any(instance.reserved for instance in worker.host.instances):
            continue
        yield replaced_worker(worker, context, soon)


def replaced_worker(worker: WorkerState, context: SwapContext, soon: float) -> ReplacedWorker:
    end, since = empty_at(worker.host, context.cluster), worker.note.idle_since
    if since is not None and worker.before is not None and worker.before.idle_since is not None:
        idle = context.pass_context.now - since >= context.pass_context.schedule_interval
    else:
        idle = False
    return ReplacedWorker(
        worker=worker,
        emptied=emptied_host(worker.host, context.cluster.complexes, context.names) if worker.host else None,
        readiness=Readiness.IDLE if idle else Readiness.SOON if end <= soon else Readiness.LATER,
        empty_at=end,
        price=context.price_of(worker),
    )


def array_state_of(array: NodeArrayPolicy, context: SwapContext, swapped_out: Sequence[str]) -> ArrayState | None:
    """The state of an array with stuck demand; None: it has none. `swapped_out`: ids of workers that are being
    replaced.
    """
    launch_context, forecast, usage = context.launch_context, context.forecast, context.usage[array.name]
    queue = launch_context.policy.queue(array.queue)
    unmet = forecast.unmet(context.wanted)
    waiting = _WAITING.of(
        array.queue,
        (context.wanted, unmet),
        lambda: [
            at
            for at, (want, count) in enumerate(zip(context.wanted, unmet, strict=True))
            if count and want.expired and array.queue in want.launches
        ],
    )
    if not waiting or queue is None or queue.node_array != array.name:
        return None
    soon = context.pass_context.now + boot_time(array, context.observed)
    workers = _emptied(array, context, swapped_out)
    others = (*_others(context, soon), *context.supply.coming)
    hosts = (*others, *workers.values())
    empty, wanted = OpenPlacement(hosts), context.wanted
    stuck = _STUCK.of(array.queue, (wanted, unmet, waiting, empty.state), lambda: _stuck(wanted, unmet, waiting, empty))
    if not stuck.positions:
        return None
    options, _ = launch_context.offers(array, usage)
    return ArrayState(
        array=array,
        options=options,
        positions=stuck.positions,
        stuck=stuck.wants,
        unmet=_wants(wanted, unmet),
        fitting=_wants(wanted, forecast.fitting),
        supply=forecast.supply,
        workers=workers,
        others=others,
        usage=usage,
        soon=_usage_soon(array, usage, context, soon),
        floor=context.floors[array.name],
        present=frozenset(
            [each.worker.type.name for each in context.observed.by_array.get(array.name, ()) if each.in_service]
        ),
    )


@dataclass(frozen=True, slots=True)
class _Stuck:
    """The demand of an array that would not fit if all running jobs had ended."""

    positions: frozenset[int]
    wants: tuple[Want, ...]


_WAITING, _STUCK = PerArguments[list[int]](256), PerArguments[_Stuck](256)


def _stuck(
    wanted: Sequence[CategoryDemand], unmet: Sequence[int], waiting: Sequence[int], empty: OpenPlacement
) -> _Stuck:
    found = [at for at in waiting if not empty.takes(wanted[at].demand)]
    return _Stuck(frozenset(found), tuple([(wanted[at].demand, unmet[at]) for at in found]))


_WANTS = LastObjects[tuple[Want, ...]](4)


def _wants(demands: Sequence[CategoryDemand], counts: Sequence[int]) -> tuple[Want, ...]:
    """Those demands of which there are any tasks."""
    return _WANTS.value_of(
        (demands, counts),
        lambda: tuple([(want.demand, count) for want, count in zip(demands, counts, strict=True) if count]),
    )


_EMPTIED = PerObject[ExecutionHost, Host]()


def _emptied(array: NodeArrayPolicy, context: SwapContext, swapped_out: Sequence[str]) -> dict[str, Host]:
    """By id, every worker that takes jobs, or will when it reports again, as if empty. Workers that are being replaced
    are included until they are gone: demand that only they could run is not stuck, because their successors will run
    it.
    """
    if swapped_out:
        return _emptied_for(array, context, swapped_out)
    return _EMPTIED_HOSTS.value_of(
        (context.observed, context.cluster.complexes),
        lambda: _emptied_for(array, context, ()),
        (context.names, context.supply.coming, context.forecast.to_enable, context.pass_context.overrides),
    )


_EMPTIED_HOSTS = LastObjects[dict[str, Host]]()


def _emptied_for(array: NodeArrayPolicy, context: SwapContext, swapped_out: Sequence[str]) -> dict[str, Host]:
    observed, complexes, names = context.observed, context.cluster.complexes, context.names
    closed = {host.name for host in context.supply.coming} | {worker.name for worker in observed.in_error}
    hosts = {
        worker.worker.id: worker.host
        for worker in context.pass_context.undrained(observed.workers)
        if worker.host is not None and worker.name not in closed
        if worker.in_service or worker.unheard or worker.name in context.forecast.to_enable
    }
    emptied = _EMPTIED.each(
        [*hosts.values()], hosts, lambda each: emptied_host(each, complexes, names), (complexes, names)
    )
    found = dict(zip(hosts, emptied, strict=True))
    for worker in observed.workers if swapped_out else ():
        host, machine = worker.host, worker.worker
        if machine.id in swapped_out and not worker.gone:
            bare = host_values_of(machine.type, array, complexes, machine.bucket).host(machine.id, array.queue)
            found[machine.id] = emptied_host(host, complexes, names) if host is not None else bare
    return {each.worker.id: found[each.worker.id] for each in observed.workers if each.worker.id in found}


def _others(context: SwapContext, soon: float) -> Iterator[Host]:
    """Persistent hosts as they will be once the jobs that end soon have ended."""
    for host in (*context.observed.others, *context.observed.missing_hosts.values()):
        freed = freed_host(host, soon, context.cluster, context.names) if host.heard else None
        if freed is not None:
            yield freed


def _usage_soon(array: NodeArrayPolicy, usage: Usage, context: SwapContext, soon: float) -> Usage:
    """The usage without workers that leave before a new one would be up, for a cause other than a swap."""
    for worker in context.observed.workers if context.disabled else context.observed.departing:
        if worker.note.disabling is Disabling.SWAP:
            continue
        leaves = worker.worker.id in context.disabled
        leaves |= worker.draining and worker.name not in context.forecast.to_enable
        ends = worker.going or worker.decisive is Condition.INTERRUPTED
        if ends or (leaves and empty_at(worker.host, context.cluster) <= soon):
            vcpus, price = worker.worker.type.vcpus, context.price_of(worker)
            if worker.array == array:
                usage = usage.plus(vcpus, price, -1)
            else:
                usage = usage.plus_elsewhere(Usage().plus(vcpus, price, -1))
    return usage


def revocable(worker: WorkerState) -> bool:
    """Whether it was disabled for a swap and could be enabled again."""
    return worker.draining and worker.note.disabling is Disabling.SWAP
