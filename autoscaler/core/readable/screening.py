"""Makes a snapshot that a pass can use: an unreadable value of a worker, bucket, host, queue, request or note is
replaced by one that allows nothing more, and reported.

A host with an unreadable count is taken for busy: it gets no job, and is not removed. A bucket of unreadable size is
not launched. A worker always counts as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import Any, TypeVar

from autoscaler.core.model.changed import changed
from autoscaler.core.model.cluster import Cluster, Complex, ExecutionHost, JobCategory, QueueInstance
from autoscaler.core.model.complexes import TOO_MUCH, by_any_name, task_count
from autoscaler.core.model.evidence import Evidence
from autoscaler.core.model.fleet import Bucket, Fleet, InstanceType, Order, Worker
from autoscaler.core.model.host_limits import is_dynamic
from autoscaler.core.model.memory import Event, Memory, WorkerNote
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.readable.numbers import LAST, all_times, fault, mended, odd_numbers, shown, times
from autoscaler.core.readable.remembered import LastValue, PerArguments, PerCategory, PerObject
from autoscaler.core.readable.values import fault_of_offer
from autoscaler.core.snapshot import Snapshot

_UNDATED = attrgetter("undated")
Key = TypeVar("Key")
Value = TypeVar("Value")
_MOST_ORDERED = 100_000
_INTERVALS = {"schedule_interval": 15.0, "load_report_time": 40.0, "max_unheard": 300.0}
"""Grid Engine's defaults."""


def readable(snapshot: Snapshot) -> Snapshot:
    """The same snapshot if all of it can be read. A second call changes nothing."""
    faults: list[Reason] = []
    now = snapshot.now
    cluster = _cluster(_first_seen(snapshot.cluster, snapshot.memory), now, faults)
    fleet = _fleet(snapshot.fleet, snapshot.memory, now, faults)
    requests = _requests(snapshot.requests, now, faults)
    memory = _memory(snapshot.memory, now, faults)
    evidence = _evidence(snapshot.evidence, now, faults)
    problems = tuple(dict.fromkeys((*_odd_values(cluster), *faults)))
    problems = tuple(one for one in problems if one not in cluster.set_aside)
    cluster = changed(cluster, set_aside=(*cluster.set_aside, *problems))
    return replace(snapshot, cluster=cluster, fleet=fleet, requests=requests, memory=memory, evidence=evidence)


# -- Grid Engine ---------------------------------------------------------------------------------------------------


def _cluster(cluster: Cluster, now: float, faults: list[Reason]) -> Cluster:
    odd = {name: value for name, value in odd_numbers(cluster) if name in _INTERVALS}
    faults += [fault("the configuration", name, value) for name, value in odd.items()]
    hosts = cluster.hosts
    fine_hosts = _FINE_HOSTS.each(hosts, map(_NAME, hosts), _is_fine_host)
    if not all(fine_hosts):
        each = zip(hosts, fine_hosts, strict=True)
        hosts = tuple(host if is_fine else _host(host, now, faults) for host, is_fine in each)
    job_categories = cluster.job_categories
    fine = _FINE.each(job_categories, _is_fine)
    if not all(fine):
        pairs = zip(job_categories, fine, strict=True)
        job_categories = tuple(category if is_fine else _category(category, now, faults) for category, is_fine in pairs)
    queues = _all(cluster.queues, "queue", now, faults)
    for name, queue in queues.items():
        bad = {host: slots for host, slots in queue.slots_by_host.items() if not 0 <= slots <= 10**9}
        if bad:
            faults += [fault(f"queue {name}", f"slots of {host}", slots) for host, slots in bad.items()]
            queues = {**queues, name: replace(queue, slots_by_host={**queue.slots_by_host, **dict.fromkeys(bad, 0)})}
    intervals: dict[str, Any] = {name: _INTERVALS[name] for name in odd}
    if not _is_duration(cluster.default_duration):
        faults.append(fault("the configuration", "default_duration", cluster.default_duration))
        intervals["default_duration"] = inf
    return changed(
        cluster,
        hosts=hosts,
        job_categories=job_categories,
        queues=queues,
        pes=_all(cluster.pes, "parallel environment", now, faults),
        complexes=_complexes(cluster.complexes, faults),
        details=_all(cluster.details, "qstat -j of job", now, faults),
        **intervals,
    )


def _is_duration(seconds: float) -> bool:
    """Whether it is a time, or INFINITY."""
    return 0 <= seconds <= TOO_MUCH or seconds == inf


def _complexes(complexes: Mapping[str, Complex], faults: list[Reason]) -> Mapping[str, Complex]:
    """Each with its own name: with another name inside, it would be counted under a name that nothing else uses."""
    odd = [name for name, entry in complexes.items() if entry.name != name]
    faults += [
        because(Code.CANNOT_BE_READ, what=f"the complex {name}", value=complexes[name].name[:60], why="not its name")
        for name in odd
    ]
    return {**complexes, **{name: replace(complexes[name], name=name) for name in odd}} if odd else complexes


def _first_seen(cluster: Cluster, memory: Memory) -> Cluster:
    """The same, with the time of the pass that saw them first for jobs without a known submission time."""
    if not any(map(_UNDATED, cluster.job_categories)):
        return cluster
    return replace(
        cluster,
        job_categories=tuple(
            replace(
                category,
                submitted=tuple(
                    memory.able_since.get(job, at) if job in category.undated else at
                    for job, at in zip(category.jobs, category.submitted, strict=True)
                ),
            )
            for category in cluster.job_categories
        ),
    )


def _is_fine_host(host: ExecutionHost) -> bool:
    return not any(odd_numbers(each) or any(map(odd_numbers, each.jobs)) for each in host.instances)


def _is_fine_worker(worker: Worker) -> bool:
    """Whether all of it can be read, whatever is remembered of it."""
    return not odd_numbers(worker) and not odd_numbers(worker.type) and worker.type.vcpus > 0


def _host(host: ExecutionHost, now: float, faults: list[Reason]) -> ExecutionHost:
    instances = tuple(_instance(one, now, faults) for one in host.instances)
    return host if instances == host.instances else replace(host, instances=instances)


def _instance(instance: QueueInstance, now: float, faults: list[Reason]) -> QueueInstance:
    """Unreadable slots count as used."""
    odd = odd_numbers(instance)
    if odd:
        faults += [fault(f"host {instance.host}", f"{name} of {instance.queue}", value) for name, value in odd]
        instance = replace(instance, slots=0, used=1, reserved=0)
    if any(odd_numbers(job) for job in instance.jobs):
        jobs = tuple(mended(job, f"job {shown(job.number)} on {instance.host}", now, faults) for job in instance.jobs)
        instance = replace(instance, jobs=jobs)
    return instance


_REQUEST_NAMES = {"slots_min": "slots (least)", "slots_max": "slots (most)"}
"""Words for the numbers of a request."""
NOT_COUNTED = "it is outside of what is counted with"
_NAME, _ID = attrgetter("name"), attrgetter("id")
_FINE = PerCategory[bool]()
_FINE_HOSTS = PerObject[ExecutionHost, bool]()
_FINE_WORKERS = PerObject[Worker, bool]()


def _is_fine(category: JobCategory) -> bool:
    return not odd_numbers(category.ask) and all_times(category.submitted) and not odd_numbers(category)


def _category(category: JobCategory, now: float, faults: list[Reason]) -> JobCategory:
    """Waiting jobs; if one of their numbers cannot be read, they do not count."""
    odd = odd_numbers(category.ask)
    if odd:
        name, value = odd[0]
        value_asked = f"{_REQUEST_NAMES.get(name, name)} {shown(value)}"
        cause = because(Code.CANNOT_BE_READ, what="its request", value=value_asked, why=NOT_COUNTED)
        category = replace(category, ask=replace(category.ask, slots_min=1, slots_max=1, fault=cause))
    if not all_times(category.submitted):
        late = [str(job) for job, at in zip(category.jobs, category.submitted, strict=True) if not 0 <= at <= LAST]
        faults.append(because(Code.CANNOT_BE_READ, what=f"job {late[0]}", value="when it was submitted", why="no time"))
        category = replace(category, submitted=times(category.submitted, now))
    if odd_numbers(category):
        faults.append(fault(f"job {category.jobs[0]}", "count", category.count))
        category = replace(category, count=sum(map(task_count, category.tasks)))
    return category


def _odd_values(cluster: Cluster) -> Iterator[Reason]:
    """Values of hosts, queues and quotas that their complexes cannot have: they neither offer nor limit anything."""
    complexes = by_any_name(cluster.complexes)
    places: list[tuple[str, Mapping[str, str]]] = [("the global host", cluster.global_consumables)]
    hosts = cluster.hosts
    sound = _SOUND_HOSTS.each(hosts, map(_NAME, hosts), lambda each: _is_sound(each, complexes), cluster.complexes)
    places += [
        (f"host {host.name}", {**host.consumables, **host.fixed})
        for host, is_sound in zip(hosts, sound, strict=True)
        if not is_sound
    ]
    places += [(f"queue {queue.name}", {**queue.complex_values, **queue.limits}) for queue in cluster.queues.values()]
    places += [(f"quota {quota.name}", rule.limits) for quota in cluster.quotas for rule in quota.rules]
    for what, values in places:
        for name, text in values.items():
            entry = complexes.get(name)
            counts = entry is not None and not (what.startswith("quota ") and is_dynamic(text))
            why = fault_of_offer(entry, text) if entry is not None and counts else None
            if why is not None:
                yield because(Code.CANNOT_BE_READ, what=what, value=f"{name}={text[:60]}", why=why)


_SOUND_HOSTS = PerObject[ExecutionHost, bool]()


def _is_sound(host: ExecutionHost, complexes: Mapping[str, Complex]) -> bool:
    """Whether its complexes can have all of its values."""
    given = ((complexes.get(name), text) for name, text in {**host.consumables, **host.fixed}.items())
    return all(entry is None or fault_of_offer(entry, text) is None for entry, text in given)


# -- the provider --------------------------------------------------------------------------------------------------


def _fleet(fleet: Fleet, memory: Memory, now: float, faults: list[Reason]) -> Fleet:
    sizes = {bucket.type.name: bucket.type for bucket in fleet.buckets if _is_size(bucket.type)}
    workers = fleet.workers
    fine = _FINE_WORKERS.each(workers, map(_ID, workers), _is_fine_worker)
    if not all(fine):
        each = zip(workers, fine, strict=True)
        workers = tuple(worker if is_fine else _worker(worker, sizes, memory, now, faults) for worker, is_fine in each)
    return changed(
        fleet,
        workers=workers,
        buckets=_buckets(fleet.buckets, now, faults),
        orders=_orders(fleet.orders, sizes, now, faults),
        failures=_each(fleet.failures, lambda _: "a failed launch", now, faults),
        interruptions=_each(fleet.interruptions, lambda one: f"notice to {one.worker_id}", now, faults),
    )


_FINE_BUCKETS = LastValue[bool]()


def _buckets(buckets: tuple[Bucket, ...], now: float, faults: list[Reason]) -> tuple[Bucket, ...]:
    if _FINE_BUCKETS.value_of(buckets, lambda: all(_is_size(each.type) and not odd_numbers(each) for each in buckets)):
        return buckets
    return tuple(_bucket(bucket, now, faults) for bucket in buckets)


_FINE_ORDERS = PerObject[Order, bool]()


def _orders(
    orders: tuple[Order, ...], sizes: Mapping[str, InstanceType], now: float, faults: list[Reason]
) -> tuple[Order, ...]:
    fine = _FINE_ORDERS.each(orders, map(_ID, orders), _is_fine_order)
    if all(fine):
        return orders
    each = zip(orders, fine, strict=True)
    return tuple(order if is_fine else _order(order, sizes, now, faults) for order, is_fine in each)


def _is_fine_order(order: Order) -> bool:
    """Whether all of it can be read, whatever the catalogue has."""
    size = order.type
    return order.count <= _MOST_ORDERED and not odd_numbers(order) and not odd_numbers(size) and size.vcpus > 0


def _order(order: Order, sizes: Mapping[str, InstanceType], now: float, faults: list[Reason]) -> Order:
    """Each worker of an order gets a name of its own in the supply, so a wrong count in the millions would cost too
    much.
    """
    what = f"order {order.id}"
    count = order.count
    order = changed(mended(order, what, now, faults), type=_size(order.type, what, sizes, 1, faults))
    if order.count <= _MOST_ORDERED:
        return order
    if count == order.count:
        faults.append(fault(what, "count", count))
    return replace(order, count=_MOST_ORDERED)


def _is_size(type_: InstanceType) -> bool:
    """Whether it is a possible size: a machine has at least one core."""
    return type_.vcpus >= 1 and not odd_numbers(type_)


def _bucket(bucket: Bucket, now: float, faults: list[Reason]) -> Bucket:
    """A bucket of unreadable size is not launched; an unreadable price becomes unknown."""
    what = f"bucket {bucket.key.instance_type}"
    if not _is_size(bucket.type):
        odd = odd_numbers(bucket.type) or (("vcpus", bucket.type.vcpus),)
        faults += [fault(what, name, value) for name, value in odd]
        text = ", ".join(f"{name}={shown(value)}" for name, value in odd)
        harmless = replace(bucket.type, vcpus=1, memory=0, gpus=0)
        bucket = replace(bucket, type=harmless, available=0, problem=f"its size cannot be read: {text}")
    if any(name == "available" for name, _ in odd_numbers(bucket)):
        faults.append(fault(what, "available", bucket.available or 0))
        bucket = replace(bucket, available=0)
    return mended(bucket, what, now, faults)


def _worker(
    worker: Worker, sizes: Mapping[str, InstanceType], memory: Memory, now: float, faults: list[Reason]
) -> Worker:
    what = f"worker {worker.name or worker.id}"
    note = memory.workers.get(worker.id)
    seen = note.first_seen if note is not None and 0 <= note.first_seen <= LAST else now
    size = _size(worker.type, what, sizes, note.vcpus if note is not None else 1, faults)
    return replace(mended(worker, what, seen, faults), type=size)


def _size(
    type_: InstanceType, what: str, sizes: Mapping[str, InstanceType], vcpus: int, faults: list[Reason]
) -> InstanceType:
    """Its own size if it can be read, else that of the catalogue, else `vcpus` cores and nothing else."""
    if not odd_numbers(type_) and (type_.vcpus or type_.name not in sizes):
        return type_
    faults += [fault(what, name, value) for name, value in odd_numbers(type_) or (("vcpus", type_.vcpus),)]
    known = sizes.get(type_.name)
    return known if known is not None else replace(type_, vcpus=min(max(vcpus, 1), 10**6), memory=0, gpus=0)


# -- what callers ask for, and what is remembered ------------------------------------------------------------------


def _requests(requests: Requests, now: float, faults: list[Reason]) -> Requests:
    return changed(
        requests,
        sets=tuple(
            changed(
                mended(one, f"request set {one.name}", now, faults),
                targets=tuple(mended(target, f"request set {one.name}", now, faults) for target in one.targets),
            )
            for one in requests.sets
        ),
        arrays=_each(requests.arrays, lambda one: f"node array {one.name}", now, faults),
        nodes=_each(requests.nodes, lambda one: f"node {one.name}", now, faults),
    )


def _memory(memory: Memory, now: float, faults: list[Reason]) -> Memory:
    events = ("launches", "removals", "kills", "quarantines", "unhelpful")
    counted: dict[str, Any] = {
        name: _each(values, lambda event: f"an event of {event.node_array}", now, faults)
        for name, values in ((name, getattr(memory, name)) for name in events)
        if not _fine_events(name, values)
    }
    able, silent_since = memory.able_since, memory.silent_since
    if not all_times(tuple(able.values())):
        faults.append(because(Code.CANNOT_BE_READ, what="the memory", value="able_since", why="no time"))
        able = dict(zip(able, times(tuple(able.values()), now), strict=True))
    if not all_times(tuple(since for since in silent_since.values() if since is not None)):
        faults.append(because(Code.CANNOT_BE_READ, what="the memory", value="silent_since", why="no time"))
        silent_since = {
            name: now if since is not None and not 0 <= since <= LAST else since for name, since in silent_since.items()
        }
    return changed(
        mended(memory, "the memory", now, faults),
        workers=_notes(memory.workers, now, faults),
        details=_all(memory.details, "memory of job", now, faults),
        unsatisfiable_jobs=_all(memory.unsatisfiable_jobs, "memory of job", now, faults),
        held_back=_all(memory.held_back, "memory of job", now, faults),
        swaps=_all(memory.swaps, "memory of node array", now, faults),
        backoffs=_each(memory.backoffs, lambda one: f"a backoff of {one.bucket.instance_type}", now, faults),
        able_since=able,
        silent_since=silent_since,
        **counted,
    )


_FINE_EVENTS = PerArguments[bool]()


def _fine_events(name: str, events: Sequence[Event]) -> bool:
    return _FINE_EVENTS.of(name, (events,), lambda: not any(map(odd_numbers, events)))


_FINE_NOTES = PerObject[WorkerNote, bool]()


def _notes(notes: Mapping[str, WorkerNote], now: float, faults: list[Reason]) -> Mapping[str, WorkerNote]:
    fine = _FINE_NOTES.each([*notes.values()], notes, lambda each: not odd_numbers(each))
    if all(fine):
        return notes
    odd = {name: note for (name, note), is_fine in zip(notes.items(), fine, strict=True) if not is_fine}
    return {**notes, **_all(odd, "memory of worker", now, faults)}


def _evidence(evidence: Evidence, now: float, faults: list[Reason]) -> Evidence:
    return changed(
        evidence,
        answers=_all(evidence.answers, "answer about job", now, faults),
        failures=_each(evidence.failures, lambda one: f"a failed job on {one.host}", now, faults),
        successes=_each(evidence.successes, lambda one: f"a job on {one.host}", now, faults),
        health=_all(evidence.health, "health of worker", now, faults),
    )


def _each(values: Sequence[Value], what: Callable[[Value], str], now: float, faults: list[Reason]) -> tuple[Value, ...]:
    """All of them mended; the same tuple if nothing is odd."""
    if any(map(odd_numbers, values)):
        return tuple(mended(one, what(one), now, faults) for one in values)
    return tuple(values)


def _all(values: Mapping[Key, Value], what: str, now: float, faults: list[Reason]) -> Mapping[Key, Value]:
    """A mapping with every value mended; the same one if nothing is odd."""
    odd = {key: value for key, value in values.items() if odd_numbers(value)}
    if not odd:
        return values
    return {**values, **{key: mended(value, f"{what} {key}", now, faults) for key, value in odd.items()}}
