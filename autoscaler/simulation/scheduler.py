"""Grid Engine's scheduler, in memory: which waiting task starts where, highest priority first.

Modelled: priorities, urgency by slots, the order of submission, backfilling without reservations, allocation rules,
consumables a slot, `-tc`, `-hold_jid`, and the order of hosts by load or by `seq_no`. docs/simulate.md lists what is
not.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autoscaler.core.model.cluster import Complex, Consumable, JobCategory, JobRequest, ParallelEnvironment
from autoscaler.core.model.complexes import amount
from autoscaler.simulation.cell import Weights
from autoscaler.simulation.hosts import SimulatedHost
from autoscaler.simulation.workload import WorkloadJob

PRIORITIES = 2048.0
"""`qsub -p` ranges over so many values."""
SLOT_URGENCY = 1000.0
"""Of each slot of a job: `urgency` of `slots` in `qconf -sc` as shipped."""
Shares = tuple[tuple[SimulatedHost, int], ...]
PE_SLOTS, FILL_UP, ROUND_ROBIN = "$pe_slots", "$fill_up", "$round_robin"


@dataclass(slots=True)
class Pending:
    """Waiting tasks of one job."""

    job: WorkloadJob
    left: int
    """Tasks that have not started."""
    next_task: int
    """0 for a job that is no array."""
    running: int = 0
    again: bool = False
    """Whether it ran before, on a machine that was lost."""
    ranks: bool = True
    """Whether its `-p` counts."""

    @property
    def key(self) -> tuple[float, float, int]:
        return (-self.job.priority if self.ranks else 0.0, self.job.submitted, self.job.number)

    @property
    def may_start(self) -> bool:
        return self.left > 0 and (self.job.concurrency is None or self.running < self.job.concurrency)


@dataclass(slots=True)
class PendingCategory:
    """All waiting jobs that ask for the same, in the order in which they start."""

    ask: JobRequest
    needs: Mapping[str, float]
    """Consumables besides slots, a slot."""
    jobs: deque[Pending] = field(default_factory=deque)
    held: dict[int, Pending] = field(default_factory=dict)
    """Arrays of which as many tasks run as `-tc` allows; by job."""
    _shown: JobCategory | None = None

    def add(self, pending: Pending) -> None:
        """Behind all that start before it; nearly always that is the end."""
        self._shown = None
        if not self.jobs or self.jobs[-1].key <= pending.key:
            self.jobs.append(pending)
            return
        ordered = sorted((*self.jobs, pending), key=lambda each: each.key)
        self.jobs = deque(ordered)

    def changed(self) -> None:
        self._shown = None

    def shown(self, epoch: float) -> JobCategory | None:
        """As `qstat` would list it; None: nothing of it waits."""
        if not self.jobs and not self.held:
            return None
        if self._shown is None:
            every = sorted((*self.jobs, *self.held.values()), key=lambda each: each.job.number)
            self._shown = JobCategory(
                self.ask,
                jobs=tuple([each.job.number for each in every]),
                tasks=tuple([_tasks(each) for each in every]),
                submitted=tuple([epoch + each.job.submitted for each in every]),
                count=sum(each.left for each in every),
            )
        return self._shown


def _tasks(pending: Pending) -> str:
    if not pending.next_task:
        return ""
    last = pending.next_task + pending.left - 1
    return f"{pending.next_task}" if last == pending.next_task else f"{pending.next_task}-{last}:1"


def needs_of(ask: JobRequest, complexes: Mapping[str, Complex]) -> dict[str, float]:
    """The consumables that a job takes, a slot."""
    found = {}
    for name, text in ask.hard:
        known = complexes.get(name)
        if known is not None and known.consumable is Consumable.PER_SLOT and name != "slots":
            found[name] = amount(text, known.type) or 0.0
    return found


class HostOrder:
    """The order in which the scheduler fills hosts: the least loaded first, or by `seq_no` and then by load. Hosts
    without a load value are equal: the one that has been left alone for longest is first.
    """

    def __init__(self, *, fixed: bool, loads: bool = True) -> None:
        self._fixed, self._loads = fixed, loads

    def key(self, host: SimulatedHost) -> tuple[float, ...]:
        if not self._loads:
            return (host.seq_no, host.order)
        load = host.used / host.slots if host.slots else 1.0
        return (host.seq_no, host.order) if self._fixed else (load, host.seq_no, host.order)

    def best(self, hosts: Iterable[SimulatedHost]) -> SimulatedHost:
        return min(hosts, key=self.key)

    def sorted(self, hosts: Iterable[SimulatedHost]) -> list[SimulatedHost]:
        return sorted(hosts, key=self.key)


@dataclass(frozen=True, slots=True)
class Ranking:
    """How the scheduler ranks what waits: by `qsub -p`, and by urgency, which grows with slots and with time."""

    per_priority: float
    """What each step of `-p` adds."""
    per_urgency: float
    waiting_time: float
    """Urgency for each second of waiting."""

    def of(self, category: PendingCategory) -> tuple[float, float, int]:
        """Of the first of its jobs: the lowest starts first."""
        job = category.jobs[0].job
        urgency = SLOT_URGENCY * category.ask.slots_max - self.waiting_time * job.submitted
        return (-self.per_priority * job.priority - self.per_urgency * urgency, job.submitted, job.number)


BY_PRIORITY = Ranking(1.0, 0.0, 0.0)


def ranking_of(weights: Weights, sizes: Collection[int], longest_wait: float) -> Ranking:
    """`sizes`: slots of all jobs that wait or run; urgency counts in relation to theirs. `longest_wait`: seconds."""
    if not weights.priority:
        return Ranking(0.0, 1.0, weights.waiting_time)  # one of them alone orders by its own numbers
    if not weights.urgency:
        return BY_PRIORITY
    between = SLOT_URGENCY * (max(sizes) - min(sizes)) + weights.waiting_time * longest_wait
    return Ranking(weights.priority / PRIORITIES, weights.urgency / between if between else 0.0, weights.waiting_time)


def schedule(
    categories: Iterable[PendingCategory],
    hosts: Sequence[SimulatedHost],
    pes: Mapping[str, ParallelEnvironment],
    order: HostOrder,
    start: Callable[[PendingCategory, Pending, Shares], None],
    may_start: Callable[[PendingCategory], bool] = lambda _: True,
    ranking: Ranking = BY_PRIORITY,
) -> int:
    """Start all that fits now, the highest priority first; returns how many tasks started. `may_start`: whether quotas
    allow another task of a category.

    A category of which a task does not fit is passed over until the next run: all its tasks ask for the same.
    """
    waiting = [(ranking.of(each), number, each) for number, each in enumerate(categories) if each.jobs]
    heapq.heapify(waiting)
    started = 0
    while waiting:
        _, number, category = heapq.heappop(waiting)
        shares = place(category, hosts, pes, order) if may_start(category) else None
        if shares is None:
            continue
        pending = category.jobs[0]
        start(category, pending, shares)
        started += 1
        if not pending.may_start:
            category.jobs.popleft()
            if pending.left:
                category.held[pending.job.number] = pending
        category.changed()
        if category.jobs:
            heapq.heappush(waiting, (ranking.of(category), number, category))
    return started


def place(
    category: PendingCategory,
    hosts: Sequence[SimulatedHost],
    pes: Mapping[str, ParallelEnvironment],
    order: HostOrder,
) -> Shares | None:
    """The hosts on which one task of a category can start now, with its slots on each; None: nowhere."""
    slots, needs = category.ask.slots_max, category.needs
    rule = PE_SLOTS if category.ask.pe is None else pes[category.ask.pe].allocation_rule
    if rule == PE_SLOTS:
        fitting = [host for host in hosts if host.slots - host.used >= slots]
        if needs:
            fitting = [host for host in fitting if _most(host, needs, slots) >= slots]
        return ((order.best(fitting), slots),) if fitting else None
    room = [(host, _most(host, needs, host.free)) for host in hosts if host.free > 0]
    usable = {host: most for host, most in room if most > 0}
    if rule == ROUND_ROBIN:
        return _round_robin(order.sorted(usable), usable, slots)
    fixed = int(rule) if rule.isdecimal() else 0
    return _filled(order.sorted(usable), usable, slots, fixed)


def _most(host: SimulatedHost, needs: Mapping[str, float], slots: int) -> int:
    """How many slots with their consumables the host has room for, at most `slots`."""
    most = min(slots, host.free)
    for name, each in needs.items():
        if each > 0:
            most = min(most, int((host.left_of(name) + 1e-6) // each))
    return max(most, 0)


def _filled(hosts: Sequence[SimulatedHost], room: Mapping[SimulatedHost, int], slots: int, each: int) -> Shares | None:
    shares, left = [], slots
    for host in hosts:
        share = min(left, room[host]) if not each else each if room[host] >= each else 0
        if share:
            shares.append((host, share))
            left -= share
        if left <= 0:
            return tuple(shares)
    return None


def _round_robin(hosts: Sequence[SimulatedHost], room: Mapping[SimulatedHost, int], slots: int) -> Shares | None:
    if sum(room.values()) < slots:
        return None
    shares, left = dict.fromkeys(hosts, 0), slots
    while left:
        for host in hosts:
            if left and shares[host] < room[host]:
                shares[host] += 1
                left -= 1
    return tuple((host, share) for host, share in shares.items() if share)
