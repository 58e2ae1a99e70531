"""Queues that start nothing now, and why: missing, off by calendar, disabled or suspended by a person, suspended for
another queue. Workers launched for them would be idle, leave, and be launched again.

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
from autoscaler.core.placement.queue_instances import calendar_at
from autoscaler.core.policy import NodeArrayPolicy, Policy
from autoscaler.core.rights.open_hours import OpenHours, Window
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.worker_state import same_host

BY_CALENDAR = frozenset("DC")
_BY_HAND = frozenset("ds")
# Slotwise subordination shows `P` instead of `S`.
_FOR_ANOTHER = frozenset("SP")
SEVERAL = 2
"""If a queue has no persistent host, this many workers must be disabled, and no other, before the queue is meant."""
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
    closing: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By queue that its calendar closes before a worker launched now could be there: why none is launched."""
    hours: OpenHours = field(default_factory=OpenHours)
    """When calendars let jobs start, if the scheduler looks ahead."""
    due: float | None = None
    """When one opens or closes, or when launches for it may begin or end."""
    missing: Mapping[str, Reason] = field(default_factory=lambda: MappingProxyType({}))
    """By queue that workers could not join: why nothing at all is launched for it."""


def closed_queues(
    observed: ObservedWorkers, cluster: Cluster, policy: Policy, boot_times: Mapping[str, float], now: float
) -> Closed:
    """Judge every autoscaled queue. `boot_times`: by node array."""
    reasons: dict[str, Reason] = {}
    opening: dict[str, Reason] = {}
    by_hand: set[str] = set()
    early: set[str] = set()
    closing: dict[str, Reason] = {}
    windows: dict[tuple[str, str], Window] = {}
    due: list[float] = []
    missing = missing_queues(cluster, policy)
    for queue in map(cluster.queues.get, (queue.name for queue in policy.queues)):
        array = next((array for array in policy.node_arrays if queue is not None and array.queue == queue.name), None)
        if queue is None or array is None:
            continue
        boot = boot_times.get(array.name, array.boot_timeout)
        for calendar in sorted({queue.calendar, *queue.calendar_by_host.values()} - {""}):
            window = _window(calendar, cluster, now, boot)
            if window is None:
                continue
            windows[queue.name, calendar] = window
            due += [time for time in (window.closes - boot, window.closes) if time > now]
            if calendar == _calendar_of_workers(queue, array, cluster) and window.closes <= window.ready:
                closing[queue.name] = because(
                    Code.QUEUE_CLOSES_SOON, queue=queue.name, calendar=calendar, closes_at=window.closes, boot_s=boot
                )
        hand = _by_hand(queue.name, observed, policy)
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
    hours = OpenHours(windows, cluster.default_duration) if cluster.max_reservation else OpenHours()
    return Closed(
        {**reasons, **missing},
        frozenset(by_hand),
        opening,
        frozenset(early),
        closing,
        hours,
        min(due, default=None),
        missing,
    )


def missing_queues(cluster: Cluster, policy: Policy) -> Mapping[str, Reason]:
    """Autoscaled queues that no worker could join, as they or their host groups do not exist or are not connected."""
    found: dict[str, Reason] = {}
    for array in policy.node_arrays if cluster.configuration_read else ():
        queue = cluster.queues.get(array.queue)
        if queue is None:
            what = f"queue {array.queue}"
        elif array.host_group not in cluster.host_groups:
            what = f"host group {array.host_group}"
        elif not {*queue.hostlist}.intersection(cluster.places_of(array.host_group)):
            what = f"host group {array.host_group} in the hostlist of {array.queue}"
        else:
            continue
        found.setdefault(array.queue, because(Code.QUEUE_MISSING, what=what))
    return found


def _window(name: str, cluster: Cluster, now: float, boot: float) -> Window | None:
    """The time in which a calendar lets jobs start, from now or its next opening on; None: it is not known, or has no
    end.
    """
    calendar = cluster.calendars.get(name)
    if calendar is None:
        return None
    is_on = calendar.state(now, cluster.zone) is CalendarState.ON
    opens = now if is_on else calendar.opens(now, cluster.zone)
    closes = None if opens is None else calendar.closes(opens, cluster.zone)
    return None if opens is None or closes is None else Window(opens, max(opens, now + boot), closes, boot)


def _calendar_of_workers(queue: Queue, array: NodeArrayPolicy, cluster: Cluster) -> str:
    """The calendar of the queue on hosts of this array."""
    return calendar_at(queue, cluster.places_of(array.host_group))


def _off(
    queue: Queue, array: NodeArrayPolicy, observed: ObservedWorkers, cluster: Cluster, now: float
) -> tuple[Reason | None, float | None]:
    """Why a queue is off by its calendar on hosts of this array, and until when."""
    name = _calendar_of_workers(queue, array, cluster)
    if not name:
        return None, None
    calendar = cluster.calendars.get(name)
    off = calendar is not None and calendar.state(now, cluster.zone) is not CalendarState.ON
    shown = [
        bool(BY_CALENDAR & set(instance.states))
        for host, instance in _instances(queue.name, observed.hosts)
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
    counts as closed if all persistent instances are, and no worker of ours is enabled. With workers only, one that is
    disabled may be meant itself; several, and no other, are the queue. The master's instance alone proves nothing if
    it has slots, because many masters are kept free of jobs in this way; without slots nothing else is meant by it.
    """
    persistent: list[tuple[ExecutionHost, QueueInstance]] = []
    ours: list[tuple[ExecutionHost, QueueInstance]] = []
    for host, instance in _instances(queue, observed.others):
        if (instance.slots > 0) is not same_host(host.name, policy.master):
            if _BY_HAND.isdisjoint(instance.states):
                return None
            persistent.append((host, instance))
    for worker in observed.known:
        # A worker that was in service and will be disabled still shows whether a person closed the queue, until it is.
        counts = not worker.gone and (worker.note.disabling is None or worker.note.opened)
        for host, instance in _instances(queue, (worker.host,) if worker.host is not None and counts else ()):
            if _BY_HAND.isdisjoint(instance.states):
                return None
            if worker.note.disabling is None:
                ours.append((host, instance))
    if not persistent and len(ours) < SEVERAL:
        return None
    disabled = all("d" in instance.states for _, instance in (*persistent, *ours))
    code = Code.QUEUE_DISABLED_BY_HAND if disabled else Code.QUEUE_SUSPENDED_BY_HAND
    return because(code, queue=queue, hosts=tuple(host.name for host, _ in persistent or ours))


def _suspended_for_another(queue: str, observed: ObservedWorkers, cluster: Cluster) -> Reason | None:
    """Why another worker would be suspended like the present ones: jobs of a superior queue occupy them all, and more
    jobs that name that queue wait.
    """
    superiors = tuple(name for name, other in cluster.queues.items() if queue in other.subordinates)
    if not superiors:
        return None
    shown = list(_instances(queue, [worker.host for worker in observed.in_service if worker.host is not None]))
    if not shown or not all(_FOR_ANOTHER & set(instance.states) for _, instance in shown):
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


def _instances(queue: str, hosts: Sequence[ExecutionHost]) -> Iterator[tuple[ExecutionHost, QueueInstance]]:
    for host in hosts:
        for instance in host.instances:
            if instance.queue == queue:
                yield host, instance
