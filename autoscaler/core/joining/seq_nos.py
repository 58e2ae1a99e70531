"""Sequence numbers of new workers, so that the scheduler fills hosts in one order (`queue_sort_method seqno`).

Grid Engine spreads jobs over hosts by load, which keeps all of them busy. With a number for each worker, larger workers
and later ones higher, jobs go to small workers first and of these to the longest serving one. So large workers and the
last ones become empty and leave: of a large one, most is paid for nothing while a single job holds it. Workers with a
consumable that others lack, as GPUs, come after all others: jobs without need of it would take their slots.

A worker gets its number once, as it joins, and loses it as it leaves. Nothing else is written: what a person gives to a
worker holds, and the entries of other hosts and of host groups stay as they are, before or after all workers as they
were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autoscaler.core.joining.scarce import kind_of_worker, scarce_kinds
from autoscaler.core.model.cluster import Cluster, Queue
from autoscaler.core.model.fleet import Fleet, Worker
from autoscaler.core.policy import PACK_OFF, Policy
from autoscaler.core.requests.instance_types import allowed_types

HIGHEST = 9_999_999
"""The highest number that Grid Engine takes."""
BAND = 10_000
"""Workers of one size have numbers within so many."""
SCARCE = 500
"""Workers with what is scarce have the numbers of workers with so many cores more."""


def seq_nos_of(policy: Policy, cluster: Cluster, fleet: Fleet) -> Mapping[str, int]:
    """By id, the number of each worker of an array with `pack` that has a name and no number yet."""
    found: dict[str, int] = {}
    for name in dict.fromkeys(array.queue for array in policy.node_arrays if array.pack != PACK_OFF):
        queue = cluster.queues.get(name)
        arrays = {array.name: array for array in policy.node_arrays if array.queue == name and array.pack != PACK_OFF}
        ours = [worker for worker in fleet.workers if worker.name and worker.node_array in arrays]
        if queue is None:
            continue
        has = _places(queue, ours)
        if any(worker.id not in has for worker in ours):
            kinds = {kind_of_worker(worker): (worker.type, arrays[worker.node_array]) for worker in ours}
            for array in arrays.values():
                allowed = allowed_types(array, fleet.buckets)
                kinds |= {(array.name, type_.name): (type_, array) for type_ in allowed.values()}
            found |= _numbers(queue, ours, has, scarce_kinds(kinds, cluster.complexes))
    return found


def _places(queue: Queue, ours: Sequence[Worker]) -> Mapping[str, str]:
    """By id of a worker that has a number in the queue, the entry of it."""
    by_short = {place.partition(".")[0].lower(): place for place in queue.seq_no_by_host}
    places = {worker.id: by_short.get((worker.name or "").partition(".")[0].lower()) for worker in ours}
    return {key: place for key, place in places.items() if place is not None}


def _numbers(
    queue: Queue, ours: Sequence[Worker], has: Mapping[str, str], scarce: frozenset[tuple[str, str]]
) -> Mapping[str, int]:
    """Higher than the queue's own number, lower than other hosts' that are higher; in the band of each size, higher
    than those of our workers. If other hosts leave no room for bands, all sizes are one band, of which workers with
    what is scarce have the upper half.
    """
    taken = [queue.seq_no_by_host[place] for place in set(has.values())]
    mine = set(has.values())
    others = [number for place, number in queue.seq_no_by_host.items() if place not in mine]
    limit = min((number for number in others if number > queue.seq_no), default=HIGHEST + 1)
    found: dict[str, int] = {}
    for worker in sorted(ours, key=lambda each: (each.created_at, each.id)):
        if worker.id in has:
            continue
        last = kind_of_worker(worker) in scarce if scarce else None
        begin, end = _band(worker.type.vcpus, queue.seq_no, limit, last)
        number = max((each for each in (*taken, *found.values()) if begin < each < end), default=begin) + 1
        if number < end:
            found[worker.id] = number
    return found


def _band(cores: int, default: int, limit: int, last: bool | None) -> tuple[int, int]:
    """The numbers between which those of workers of so many cores are. `last`: whether they have what is scarce; None:
    nothing is.
    """
    begin = default + (cores + (SCARCE if last else 0)) * BAND
    if begin + BAND <= limit:
        return begin, begin + BAND
    middle = (default + limit) // 2
    return (default, limit) if last is None else (middle, limit) if last else (default, middle + 1)
