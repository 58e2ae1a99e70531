"""Empty workers on which nothing starts yet: in alarm (`load_thresholds`, `suspend_thresholds`), or on a queue that its
calendar opens soon. They are supply, because another worker would be no better.

An alarm is transient unless it lasts longer than a boot may take. If it lasts while another worker of the queue is
without alarm, the host itself is the cause, and it is no longer supply. A worker that has just joined proves this only
once a job runs there or a boot time has passed, because its own alarm may come later. If an alarm lasts and no worker
is without, nothing further is launched for the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.capacity.closed_queues import BY_CALENDAR, Closed
from autoscaler.core.model.demand_vector import CategoryDemand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.requests.arrays import GROUPS
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.phases import ALARM, in_alarm
from autoscaler.core.workers.worker_state import WorkerState


@dataclass(frozen=True, slots=True)
class Delayed:
    """Hosts that will serve waiting jobs, only not now."""

    hosts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """By name: the state letters that prevent it for a while."""
    reasons: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By queue: why its hosts start nothing yet."""
    enough: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By queue for which no further worker is launched: why. All its workers stay in alarm, it opens later, or
    it closes before they could be there.
    """

    def launchable(self, counts: Sequence[int], demands: Sequence[CategoryDemand]) -> Sequence[int]:
        """Of these numbers of tasks without room, those that a further worker could run."""
        if not self.enough:
            return counts
        return [
            0 if want.launches and all(queue in self.enough for queue in want.launches) else count
            for count, want in zip(counts, demands, strict=True)
        ]

    def unless_others_come(self, coming: Iterable[Host]) -> Mapping[str, Reason]:
        """The reasons of queues for which no other worker is coming."""
        others = {pool for host in coming for pool in host.slots}
        return {queue: reason for queue, reason in self.reasons.items() if queue not in others}

    def added_to(self, reasons: Mapping[str, Reason]) -> Mapping[str, Reason]:
        """The same reasons, with those of queues for which no further worker is launched."""
        groups = {f"{queue}{GROUPS}": reason for queue, reason in self.enough.items()}
        return {**reasons, **self.enough, **groups}


def delayed(observed: ObservedWorkers, closed: Closed, now: float) -> Delayed:
    """Find delayed hosts. Only empty workers count: a busy one may be in alarm because of its own jobs, for as long as
    they run.
    """
    hosts: dict[str, str] = {}
    reasons: dict[str, Reason] = dict(closed.opening)
    for host in observed.hosts if closed.opening else ():
        for instance in host.instances:
            if instance.queue in closed.opening and BY_CALENDAR & set(instance.states):
                hosts[host.name] = "".join(sorted(BY_CALENDAR))
    enough = {**closed.closing, **{queue: why for queue, why in closed.opening.items() if queue in closed.early}}
    for queue, machines in observed.by_queue.items():
        alarmed = [worker for worker in machines if worker.note.alarm_since is not None]
        any_without_alarm = any(_without_alarm(worker, queue, now) for worker in machines)
        counting = [worker for worker in alarmed if not any_without_alarm or not stays(worker, now)]
        if not counting:
            continue
        for worker in counting:
            hosts[worker.name] = hosts.get(worker.name, "") + "".join(sorted(ALARM))
        reasons[queue] = alarm_of(counting)
        if not any_without_alarm and any(stays(worker, now) for worker in alarmed):
            enough[queue] = reasons[queue]
    return Delayed(hosts, reasons, enough)


def alarm_of(machines: Iterable[WorkerState]) -> Reason:
    """The reason that these workers of one queue are in alarm, with since when the first of them is."""
    by_name = sorted(machines, key=lambda worker: worker.name)
    since = min((worker.note.alarm_since for worker in by_name if worker.note.alarm_since is not None), default=None)
    queue = next((worker.array.queue for worker in by_name if worker.array is not None), "")
    hosts = tuple(worker.name for worker in by_name)
    return because(Code.IN_ALARM, queue=queue, since_at=since, hosts=hosts)


def stays(worker: WorkerState, now: float) -> bool:
    """Whether it has been in alarm for longer than boots and jobs that just began may cause."""
    since, array = worker.note.alarm_since, worker.array
    return since is not None and array is not None and now - since >= array.boot_timeout


def _without_alarm(worker: WorkerState, queue: str, now: float) -> bool:
    """Whether it proves that hosts of the queue need not be in alarm."""
    if worker.host is None or in_alarm(worker.host, queue):
        return False
    joined, array = worker.note.joined_at, worker.array
    return not worker.empty or (array is not None and joined is not None and now - joined >= array.boot_timeout)
