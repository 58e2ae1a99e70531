"""The numbers of one observation for the history: waiting and running tasks, and coming, busy, idle and leaving workers
by node array.

A `Sample` of one observation has its numbers. A `Sample` of a period has means over the seconds that were observed;
times the observed hours they give totals: `price_per_hour` becomes a cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from autoscaler.core.capacity.supply import price_of
from autoscaler.core.model.cluster import Cluster
from autoscaler.core.model.fleet import Worker
from autoscaler.core.model.request_sets import RequestSet
from autoscaler.core.requests.orders import outstanding
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import Condition
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class ArraySample:
    """The workers of one node array, and its targets of request sets."""

    coming: float = 0.0
    """Ordered, booting or joining."""
    busy: float = 0.0
    """In service, with a job or a reserved slot."""
    idle: float = 0.0
    """In service, with nothing on them."""
    leaving: float = 0.0
    """Draining, being removed or ending."""
    aside: float = 0.0
    """Silent, disabled by a person, or with a name that another machine has."""
    cores: float = 0.0
    """vCPUs of all machines that exist."""
    price_per_hour: float = 0.0
    """Price of all existing machines whose price is known."""
    unknown_prices: float = 0.0
    """Machines whose price is not known."""
    target_workers: float = 0.0
    """Σ over live request sets that count workers."""
    target_cores: float = 0.0
    """Σ over live request sets that count vCPUs, whole groups included."""
    most: float = 0.0
    """Most machines at a time."""

    @property
    def workers(self) -> float:
        """All present and coming workers."""
        return self.coming + self.busy + self.idle + self.leaving + self.aside


@dataclass(frozen=True, slots=True)
class Starts:
    """Jobs and tasks that began between two observations, and how long they had waited since submission."""

    count: int = 0
    waited: float = 0.0
    """Seconds of all of them together."""
    longest: float = 0.0
    able: tuple[float, ...] = ()
    """For each one, the seconds for which it had been able to run."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One observation, or a period of many."""

    at: float
    """Time of the observation, or begin of the period, in Unix seconds."""
    seconds: float = 0.0
    """The observed seconds; 0 for one observation. Less than the period if the autoscaler did not run or could not
    observe.
    """
    waiting: float = 0.0
    """Tasks that wait, counted or not."""
    counted: float = 0.0
    fitting: float = 0.0
    """Counted tasks that fit on what is there or coming."""
    running: float = 0.0
    """Jobs and tasks on any host whose machine exists."""
    slots: float = 0.0
    """Slots of the autoscaled queues."""
    slots_used: float = 0.0
    persistent: float = 0.0
    """Persistent hosts."""
    longest_wait: float = 0.0
    """The longest time for which a waiting counted task has been able to run, in seconds."""
    most_waiting: float = 0.0
    started: float = 0.0
    """Jobs and tasks that began: a total, not a mean. Those that began and ended between two observations are missing.
    """
    waited: float = 0.0
    """Seconds from their submission, all together."""
    longest_waited: float = 0.0
    arrays: Mapping[str, ArraySample] = field(default_factory=lambda: MappingProxyType({}))
    """By node array that has a worker or a target."""

    @property
    def price_per_hour(self) -> float:
        return sum(array.price_per_hour for array in self.arrays.values())

    @property
    def cost(self) -> float:
        """What the machines of known price cost in the observed time, by their price an hour."""
        return self.price_per_hour * self.seconds / 3600

    @property
    def mean_wait(self) -> float | None:
        """Mean wait of the jobs that began; None: none did."""
        return self.waited / self.started if self.started else None


Running = Mapping[tuple[int, str], float | None]
"""Job and task → when it started; None: not known (yet)."""
_SECOND = 1.0
"""Grid Engine's times are cut to whole seconds."""
_SUMMED = tuple(one.name for one in fields(ArraySample))


def sample_of(snapshot: Snapshot, plan: Plan, observed: ObservedWorkers, runs: Running) -> Sample:
    """The numbers of one pass. `plan`: the plan for `snapshot`; `observed`: its workers; `runs`: its running jobs."""
    cluster, queues = snapshot.cluster, {queue.name for queue in snapshot.policy.queues}
    instances = [one for host in cluster.hosts for one in host.instances if one.queue in queues]
    arrays = _targets(snapshot.requests.sets)
    for worker in observed.workers:
        if not worker.gone:
            _add(arrays, worker.worker.node_array, _of_machine(worker, snapshot))
    for order, count in outstanding(snapshot.fleet, snapshot.policy, snapshot.now):
        _add(arrays, order.node_array, {"coming": count})
    return Sample(
        at=snapshot.now,
        waiting=plan.waiting,
        counted=plan.counted,
        fitting=plan.fitting,
        running=len(runs.keys() - _lost(observed)),
        slots=sum(instance.slots for instance in instances),
        slots_used=sum(instance.used for instance in instances),
        persistent=len(observed.others),
        longest_wait=max((category.waited for category in plan.job_categories if category.counted), default=0.0),
        most_waiting=plan.waiting,
        arrays={name: ArraySample(**numbers) for name, numbers in sorted(arrays.items())},
    )


def arrived(last: Sample, snapshot: Snapshot, until: float) -> Sample:
    """The last sample with the cost of machines that came after it, so that its price by the hour is the mean until
    then. `snapshot`: the next observation, with the memory that the last one left.

    A machine costs from its creation, and shows in a listing some seconds later or, if no pass followed, minutes.
    """
    seconds, arrays = until - last.at, dict(last.arrays)
    if not snapshot.memory.passes:  # it is lost, and does not say which machines are new
        return last
    for worker in snapshot.fleet.workers if seconds > 0 else ():
        if worker.id in snapshot.memory.workers:
            continue
        price = _price(worker, snapshot)
        began = max(worker.created_at, last.at - seconds)  # a clock or a listing may be far off
        if price is None or began >= until:
            continue
        array = arrays.get(worker.node_array, ArraySample())
        cost = array.price_per_hour + price * (until - began) / seconds
        arrays[worker.node_array] = replace(array, price_per_hour=cost)
    return replace(last, arrays=arrays)


def _lost(observed: ObservedWorkers) -> set[tuple[int, str]]:
    """Jobs and tasks that qmaster lists as running on hosts whose machines are gone."""
    hosts = [worker.host for worker in observed.known if worker.gone and worker.host is not None]
    return {(job.number, job.task) for host in hosts for one in host.instances for job in one.jobs}


def running(cluster: Cluster) -> Running:
    """Every job and task that occupies a host."""
    return {(job.number, job.task): job.started for host in cluster.hosts for one in host.instances for job in one.jobs}


def starts(
    before: Cluster,
    at: float,
    ran: Running,
    runs: Running,
    able_since: Mapping[int, float] = MappingProxyType({}),
) -> Starts:
    """Jobs that began between an observation (`before`, made at `at`) and the next. `ran`, `runs`: the jobs that ran at
    each of them. `able_since`: from the memory.

    A job that was not seen waiting came after the first observation; its wait is taken to begin then.
    """
    new = {key: began for key, began in runs.items() if key not in ran and began is not None}
    if not new:
        return Starts()
    jobs = {number for number, _ in new}
    submitted = {
        number: when
        for category in before.job_categories
        for number, when in zip(category.jobs, category.submitted, strict=True)
        if number in jobs
    }
    begun = [
        (began, submitted.get(number, at), number)
        for (number, _), began in new.items()
        if number in submitted or began > at - _SECOND
    ]
    waits = [max(0.0, began - since) for began, since, _ in begun]
    able = tuple(max(0.0, began - max(since, able_since.get(number, since))) for began, since, number in begun)
    return Starts(len(waits), sum(waits), max(waits, default=0.0), able)


def merged(samples: Sequence[Sample], at: float) -> Sample:
    """One sample for several that do not overlap. `at`: the begin of their time."""
    seconds = sum(sample.seconds for sample in samples)

    def mean(name: str) -> float:
        return sum(getattr(sample, name) * sample.seconds for sample in samples) / seconds if seconds else 0.0

    def array_mean(array: str, name: str) -> float:
        parts = (getattr(s.arrays[array], name) * s.seconds for s in samples if array in s.arrays)
        return sum(parts) / seconds if seconds else 0.0

    names = sorted({name for sample in samples for name in sample.arrays})
    return Sample(
        at=at,
        seconds=seconds,
        **{name: mean(name) for name in MEANS},
        **{name: max((getattr(sample, name) for sample in samples), default=0.0) for name in MOSTS},
        **{name: sum(getattr(sample, name) for sample in samples) for name in SUMS},
        arrays={
            array: ArraySample(
                **{name: array_mean(array, name) for name in ARRAY_MEANS},
                most=max(sample.arrays[array].most for sample in samples if array in sample.arrays),
            )
            for array in names
        },
    )


MEANS = ("waiting", "counted", "fitting", "running", "slots", "slots_used", "persistent")
MOSTS = ("longest_wait", "most_waiting", "longest_waited")
SUMS = ("started", "waited")
"""Fields of a Sample by how a period's value follows from its observations: as mean, maximum or sum."""
ARRAY_MEANS = tuple(name for name in _SUMMED if name != "most")


def _of_machine(worker: WorkerState, snapshot: Snapshot) -> dict[str, float]:
    price = _price(worker.worker, snapshot)
    numbers = {"cores": float(worker.worker.type.vcpus), "most": 1.0, _stage(worker): 1.0}
    return {**numbers, **({"unknown_prices": 1.0} if price is None else {"price_per_hour": price})}


def _stage(worker: WorkerState) -> str:
    if worker.coming:
        return "coming"
    if worker.in_service:
        return "idle" if worker.empty else "busy"
    leaving = worker.draining or worker.going or worker.decisive is Condition.INTERRUPTED
    return "leaving" if leaving else "aside"


def _price(worker: Worker, snapshot: Snapshot) -> float | None:
    return worker.price_per_hour if worker.price_per_hour is not None else price_of(worker, snapshot.fleet.buckets)


def _targets(sets: Sequence[RequestSet]) -> dict[str, dict[str, float]]:
    arrays: dict[str, dict[str, float]] = {}
    for target in (target for one in sets for target in one.targets):
        groups = target.groups or 0
        workers = (target.count or 0) + groups * (target.group_count or 0)
        cores = (target.cores or 0) + groups * (target.group_cores or 0)
        if workers or cores:
            _add(arrays, target.node_array, {"target_workers": workers, "target_cores": cores})
    return arrays


def _add(arrays: dict[str, dict[str, float]], name: str, numbers: Mapping[str, float]) -> None:
    sums = arrays.setdefault(name, {})
    for key, value in numbers.items():
        sums[key] = sums.get(key, 0.0) + value
