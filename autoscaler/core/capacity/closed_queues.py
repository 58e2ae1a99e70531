"""Queues that start nothing now, and why: off by calendar, disabled or suspended by a person, suspended for another
queue. Workers launched for them would be idle, leave, and be launched again.

A queue that its calendar opens within the longest boot time no longer counts as closed: its jobs count, and its hosts
will serve them. The real boot time, known from the first worker on, is not used for this, because workers launched by
the longest time would leave again. If hosts show the queue, their state letters count; if none does, the calendar
itself does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from autoscaler.core.demand.eligibility import WAITING_STATES
from autoscaler.core.model.calendars import CalendarState
from autoscaler.core.model.cluster import Cluster, ExecutionHost, Queue, QueueInstance
from autoscaler.core.model.complexes import matches
from autoscaler.core.model.reasons import Code, Reason, because
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.worker_state import same_host

BY_CALENDAR = frozenset("DC")
_BY_HAND = frozenset("ds")
# Slotwise subordination shows `P` instead of `S`.
_FOR_ANOTHER = frozenset("SP")
_LATE = 60.0
"""For this many seconds after an opening hosts may still show `D`, because qmaster's timer and clock differ from ours.
"""


@dataclass(frozen=True, slots=True)
class Closed:
    """The autoscaled queues that start nothing now."""

    reasons: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By queue: why jobs that wait for it alone do not count."""
    by_hand: frozenset[str] = frozenset()
    """The closed queues that a person disabled or suspended: no worker is enabled there."""
    opening: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By queue that opens within the longest boot time: the reason. Its jobs count and keep its hosts."""
    early: frozenset[str] = frozenset()
    """The opening queues for which it is too early to launch."""
    due: float | None = None
    """When one opens, or when launches for it may begin."""


def closed_queues(
    observed: ObservedWorkers, cluster: Cluster, policy: Policy, boot_times: Mapping[str, float], now: float
) -> Closed:
    """Judge every autoscaled queue. `boot_times`: by node array."""
    reasons: dict[str, Reason] = {}
    opening: dict[str, Reason] = {}
    by_hand: set[str] = set()
    early: set[str] = set()
    due: list[float] = []
    for queue in map(cluster.queues.get, (queue.name for queue in policy.queues)):
        array = next((array for array in policy.node_arrays if queue is not None and array.queue == queue.name), None)
        if queue is None or array is None:
            continue
        hand = _by_hand(queue.name, observed, policy)
        boot = boot_times.get(array.name, array.boot_timeout)
        off, opens = _off(queue, array, observed, cluster, now)
        if opens is not None:
            due += [time for time in (opens - array.boot_timeout, opens - boot, opens) if time > now]
        if hand is not None:
            reasons[queue.name] = hand
            by_hand.add(queue.name)
        elif off is not None and opens is not None and opens - now <= array.boot_timeout:
            name = off["calendar"]
            opening[queue.name] = because(
                Code.QUEUE_OPENS_SOON, queue=queue.name, calendar=name, opens_at=opens, boot_s=boot
            )
            if opens - now > boot:
                early.add(queue.name)
        elif (why := off or _suspended_for_another(queue.name, observed, cluster)) is not None:
            reasons[queue.name] = why
    return Closed(reasons, frozenset(by_hand), opening, frozenset(early), min(due, default=None))


def _off(
    queue: Queue, array: NodeArrayPolicy, observed: ObservedWorkers, cluster: Cluster, now: float
) -> tuple[Reason | None, float | None]:
    """Why a queue is off by its calendar on hosts of this array, and until when."""
    places = cluster.places_of(array.host_group)
    name = next((queue.calendar_by_host[at] for at in places if at in queue.calendar_by_host), queue.calendar)
    if not name:
        return None, None
    calendar = cluster.calendars.get(name)
    off = calendar is not None and calendar.state(now, cluster.zone) is not CalendarState.ON
    shown = [
        bool(BY_CALENDAR & set(instance.states))
        for host, instance in _instances(queue.name, _hosts(observed))
        if _calendar_of(queue, host.name, cluster) == name
    ]
    if not (all(shown) if shown else off):
        return None, None
    opens = None
    if calendar is not None and off:
        opens = calendar.opens(now, cluster.zone)
    elif calendar is not None and calendar.state(now - _LATE, cluster.zone) is not CalendarState.ON:
        opens = now
    return because(Code.QUEUE_OFF_BY_CALENDAR, queue=queue.name, calendar=name, opens_at=opens), opens


def _calendar_of(queue: Queue, host: str, cluster: Cluster) -> str:
    """The calendar of the queue on a host: that of the host, of one of its groups, or the queue's."""
    if host in queue.calendar_by_host:
        return queue.calendar_by_host[host]
    groups = (name for name in queue.calendar_by_host if host in cluster.host_groups.get(name, ()))
    group = next(groups, None)
    return queue.calendar if group is None else queue.calendar_by_host[group]


def _by_hand(queue: str, observed: ObservedWorkers, policy: Policy) -> Reason | None:
    """Why a person closed the queue. `qmod -d` or `-sq` of a queue changes its present instances only. So the queue
    counts as closed if all persistent instances are, and no worker of ours is enabled. The master's instance alone
    proves nothing, because many masters are kept free of jobs in this way.
    """
    persistent = [
        (host, instance)
        for host, instance in _instances(queue, observed.others)
        if instance.slots > 0 and not same_host(host.name, policy.master)
    ]
    # A worker that was in service and will be disabled still shows whether a person closed the queue, until it is.
    ours = [
        instance
        for worker in observed.known
        if worker.host is not None and not worker.gone and (worker.note.disabling is None or worker.note.opened)
        for _, instance in _instances(queue, (worker.host,))
        if worker.note.disabling is None or not _BY_HAND & set(instance.states)
    ]
    if not persistent or not all(_BY_HAND & set(instance.states) for instance in ours):
        return None
    if not all(_BY_HAND & set(instance.states) for _, instance in persistent):
        return None
    disabled = all("d" in instance.states for _, instance in persistent)
    code = Code.QUEUE_DISABLED_BY_HAND if disabled else Code.QUEUE_SUSPENDED_BY_HAND
    return because(code, queue=queue, hosts=tuple(host.name for host, _ in persistent))


def _suspended_for_another(queue: str, observed: ObservedWorkers, cluster: Cluster) -> Reason | None:
    """Why another worker would be suspended like the present ones: jobs of a superior queue occupy them all, and more
    jobs that name that queue wait.
    """
    superiors = tuple(name for name, other in cluster.queues.items() if queue in other.subordinates)
    hosts = [worker.host for worker in observed.workers if worker.in_service and worker.host]
    shown = list(_instances(queue, hosts))
    if not superiors or not shown or not all(_FOR_ANOTHER & set(instance.states) for _, instance in shown):
        return None
    named = {
        name
        for category in cluster.job_categories
        if category.ask.state in WAITING_STATES
        for pattern in (*category.ask.queues, *(text for what, text in category.ask.hard if what in ("q", "qname")))
        for name in superiors
        if matches(pattern.partition("@")[0], name)
    }
    if not named:
        return None
    there = tuple(host.name for host, _ in shown)
    return because(Code.QUEUE_SUBORDINATE, queue=queue, hosts=there, superior=tuple(sorted(named)))


def _hosts(observed: ObservedWorkers) -> Iterator[ExecutionHost]:
    """Persistent hosts, and the workers that joined."""
    yield from observed.others
    yield from (worker.host for worker in observed.workers if worker.host is not None)


def _instances(
    queue: str, hosts: Sequence[ExecutionHost] | Iterator[ExecutionHost]
) -> Iterator[tuple[ExecutionHost, QueueInstance]]:
    for host in hosts:
        yield from ((host, instance) for instance in host.instances if instance.queue == queue)
