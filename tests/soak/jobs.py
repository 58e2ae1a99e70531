"""Jobs of a simulated Grid Engine and where they fit: the truth that the rules are checked against.

Written from what Grid Engine does, apart from `autoscaler.core`, so that an error there is not repeated here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

MAIN, OTHER = "main.q", "other.q"
"""The autoscaled queue, and one that is not but has slots on the same hosts."""
Instance = tuple[str, str]
"""Queue and host."""
SPREAD, ONE_HOST, PAIRS = "mpi", "smp", "two"
"""PEs: `$fill_up`, `$pe_slots`, and two slots on every host."""
PES = {SPREAD: "$fill_up", ONE_HOST: "$pe_slots", PAIRS: "2"}
GROUPED = "grp"
"""A PE of which every group of workers has one of its own."""
IN_GROUP = f"{GROUPED}*"
"""What jobs request that need all their hosts in one group."""
OTHER_SLOTS = 1
"""Slots that the other queue has on every host of the group."""


@dataclass(slots=True)
class Run:
    """One task that occupies queue instances, in whatever state."""

    task: int
    on: dict[Instance, int]
    began: float
    left: float
    """Seconds of work that are left; none is done while suspended or deleted."""
    suspended: bool = False
    leaves_at: float | None = None
    """Deleted: when its processes will have ended."""
    delivered: dict[str, str] = field(default_factory=dict)
    """By host: the machine that got its part of the run."""

    @property
    def hosts(self) -> set[str]:
        return {host for _, host in self.on}


@dataclass(slots=True)
class Job:
    """A job; one that is no array has the single task 0. Memory in GiB per slot."""

    number: int
    submitted: float
    seconds: float
    slots: int = 1
    pe: str | None = None
    queue: str | None = None
    memory: int = 0
    waiting: list[int] = field(default_factory=lambda: [0])
    array: bool = False
    concurrency: int | None = None
    start_after: float | None = None
    held: bool = False
    held_by_operator: bool = False
    rerun: bool | None = None
    """`-r`; None: the queue decides, and ours say no."""
    owner: str = "ann"
    context: str = ""
    waits_for: int | None = None
    failed: bool = False
    foreign_host: str | None = None
    runs: list[Run] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    """How often each task was started."""
    rescheduled: dict[int, int] = field(default_factory=dict)
    """How often each task was put back among the waiting."""

    @property
    def over(self) -> bool:
        return not self.waiting and not self.runs

    @property
    def pools(self) -> tuple[str, ...]:
        if self.queue is not None:
            return (self.queue,)
        return (MAIN,) if self.pe else (MAIN, OTHER)

    def able(self, now: float, alive: Collection[int | None]) -> list[int]:
        """Tasks that would start if a host were there. `alive`: numbers of jobs that are not over."""
        held = self.held or self.held_by_operator or self.waits_for in alive
        if held or self.failed or (self.start_after or 0) > now:
            return []
        room = len(self.waiting) if self.concurrency is None else max(self.concurrency - len(self.runs), 0)
        return self.waiting[:room]


@dataclass(slots=True)
class Room:
    """What is free: slots by queue instance; slots and GiB by host."""

    slots: dict[Instance, int] = field(default_factory=dict)
    of_host: dict[str, int] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    group: dict[str, str] = field(default_factory=dict)
    """By host that jobs may have as one of a group: the group."""

    def copy(self) -> Room:
        return Room(dict(self.slots), dict(self.of_host), dict(self.memory), dict(self.group))

    def add(self, host: str, slots: int, memory: float, queues: Iterable[tuple[str, int]], group: str = "") -> None:
        self.of_host[host], self.memory[host] = slots, memory
        if group:
            self.group[host] = group
        self.slots.update({(queue, host): count for queue, count in queues})

    def take(self, job: Job, on: dict[Instance, int]) -> None:
        for instance, count in on.items():
            self.slots[instance] = self.slots.get(instance, 0) - count
            self.of_host[instance[1]] = self.of_host.get(instance[1], 0) - count
            self.memory[instance[1]] = self.memory.get(instance[1], 0) - count * job.memory

    def place(self, job: Job) -> dict[Instance, int] | None:
        """Where one task would start now; None: nowhere."""
        if job.foreign_host is not None:
            return None
        free = {at: self._most(job, at) for at in self.slots if at[0] in job.pools}
        if job.pe == PAIRS:
            hosts = [at for at, count in free.items() if count >= 2][: job.slots // 2]
            return dict.fromkeys(hosts, 2) if len(hosts) * 2 == job.slots else None
        if job.pe == SPREAD:
            return _filled(free, job.slots)
        if job.pe == IN_GROUP:
            inside = [
                {at: count for at, count in free.items() if self.group.get(at[1]) == group}
                for group in sorted(set(self.group.values()))
            ]
            return next((on for some in inside if (on := _filled(some, job.slots)) is not None), None)
        return next(({at: job.slots} for at, count in free.items() if count >= job.slots), None)

    def _most(self, job: Job, at: Instance) -> int:
        most = min(self.slots[at], self.of_host[at[1]])
        return max(min(most, int(self.memory[at[1]] // job.memory)) if job.memory else most, 0)


def _filled(free: Mapping[Instance, int], slots: int) -> dict[Instance, int] | None:
    """One host after the other, as far as they go."""
    on: dict[Instance, int] = {}
    for at, count in free.items():
        if share := min(count, slots - sum(on.values())):
            on[at] = share
    return on if sum(on.values()) == slots else None
