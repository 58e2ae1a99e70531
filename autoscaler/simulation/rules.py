"""Simple rules that `plan` is compared with: a fixed cluster, one machine a job, and how two known autoscalers choose.

They decide on the simulated cell itself. Each rule says in its docstring what it leaves out of the original.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import ClassVar

from autoscaler.core.model.fleet import Bucket, BucketKey, InstanceType, MachineState
from autoscaler.core.placement.hosts import host_values_of
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.simulation.cloud import Machine
from autoscaler.simulation.hosts import Run, SimulatedHost
from autoscaler.simulation.run import FINEST, Simulation
from autoscaler.simulation.scheduler import PendingCategory
from autoscaler.simulation.workload import SPREAD

BATCH = 10.0
"""Seconds until a rule decides again after it did something, as it may not be done yet."""
TRIED_AGAIN = 180.0
"""Seconds for which an offer that could not be had is left out by rules that try others."""


Size = tuple[float, ...]
"""Slots, and how much of each consumable that is counted: of a machine, or what is left on a host."""
EXACT = 1e-6
"""Below it, an amount of a consumable is nothing: sums of fractions are not exact."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a waiting task asks for."""

    slots: int
    needs: tuple[float, ...] = ()
    """Of each consumable that is counted, each slot."""
    spreads: bool = False
    """Whether it may have its slots on several hosts."""

    def most_of(self, size: Size) -> int:
        """How many of its slots there is room for."""
        most = int(size[0])
        for have, each in zip(size[1:], self.needs, strict=True):
            if each > 0:
                most = min(most, int((have + EXACT) // each))
        return max(most, 0)

    def of(self, slots: int) -> Size:
        """What so many of its slots take."""
        return (slots, *(each * slots for each in self.needs))

    def fits(self, size: Size) -> bool:
        """Whether there is room for all of it on one host."""
        return self.most_of(size) >= self.slots


class Room:
    """What hosts have left, to see what waiting tasks leave over."""

    def __init__(self, free: Iterable[Size]) -> None:
        self._free = sorted(free)

    def takes(self, task: Task) -> bool:
        """Place a task: on the host with the least room that has enough, or spread; False: there is no room."""
        if task.spreads:
            return self._spread(task)
        first = bisect_left(self._free, (task.slots,))
        at = next((at for at in range(first, len(self._free)) if task.fits(self._free[at])), None)
        if at is not None:
            self._take(at, task, task.slots)
        return at is not None

    def _spread(self, task: Task) -> bool:
        if sum(map(task.most_of, self._free)) < task.slots:
            return False
        left = task.slots
        while left > 0:
            most, at = max((task.most_of(size), at) for at, size in enumerate(self._free))
            share = min(left, most)
            self._take(at, task, share)
            left -= share
        return True

    def _take(self, at: int, task: Task, slots: int) -> None:
        insort(self._free, less(self._free.pop(at), task.of(slots)))


@dataclass
class Rule:
    """What all rules share: booted machines join at once, idle ones leave after `idle_timeout` seconds, unless a task
    waits that they are large enough for.
    """

    offers: Sequence[Bucket]
    """On-demand offers that may be rented, any order."""
    max_workers: int
    array: NodeArrayPolicy
    """In whose place it decides: what of a machine jobs get."""
    idle_timeout: float = 30.0
    orders_hosts: ClassVar[bool] = False
    tries_others: bool = True
    """Whether it takes another offer where one cannot be had."""
    _idle_since: dict[str, float] = field(default_factory=dict)
    _all: Sequence[Bucket] = ()
    _short_until: dict[BucketKey, float] = field(default_factory=dict)
    """Offers that could not be had a moment ago."""
    _never: dict[Task, bool] = field(default_factory=dict)
    """Whether a task is unsatisfiable, by what there is in the decision in hand."""
    _limited: bool = False
    """Whether its last launch wanted more than `max_workers`."""
    _sizes: dict[str, Size] = field(default_factory=dict)
    """Of machines, by type."""
    _acted: bool = False
    """Whether the decision in hand ordered machines, or put one in or out of service."""

    def decide(self, run: Simulation) -> float | None:
        """It decides again when something has changed, soon after it acted, and when time alone changes something."""
        self._all = self._all or self.offers
        offers = [run.cloud.now_of(offer) for offer in self._all]
        self.offers = [offer for offer in offers if self._short_until.get(offer.key, 0.0) <= run.now]
        self._never.clear()
        if not self._sizes:
            self._sizes = {each.type.name: self._size_of(run, each.type) for each in self._all}
        self._acted = False
        self._forget_lost(run)
        self._give_up(run)
        if not self._join(run) and self.offers:  # else the scheduler has not seen the new room yet
            self._limited = False
            self.launch(run)
        run.measures.limits(frozenset(("max_workers",) if self._limited else ()), run.now)
        due = self.leave(run)
        dues = [due, *(machine.created + self.array.boot_timeout for machine in self._not_joined(run))]
        if run.engine.anything_waits:
            dues += self._dues(run)
        return min((at for at in dues if at is not None), default=None)

    def _dues(self, run: Simulation) -> Iterator[float]:
        """When a decision for what waits may be another one, though nothing else happens."""
        if self._acted:
            yield run.now + BATCH
        yield from (until for until in self._short_until.values() if until > run.now)

    def ended(self, run: Run) -> None:
        """Rules learn nothing."""

    def launch(self, run: Simulation) -> None:
        """Order what the rule wants now."""
        raise NotImplementedError

    def leave(self, run: Simulation) -> float | None:
        """Give idle workers back; returns when the next one will have been idle for long enough."""
        due = float("inf")
        for machine in self.rented(run):
            host = run.engine.hosts.get(machine.worker.name or "")
            if host is None or host.runs or not host.takes_jobs:
                self._idle_since.pop(machine.worker.id, None)
                continue
            since = self._idle_since.setdefault(machine.worker.id, run.now)
            if run.now - since < self.idle_timeout:
                due = min(due, max(since + self.idle_timeout, run.now + BATCH))
            elif not self._is_awaited(run, machine):
                self.give_back(run, machine)
            else:
                run.decide_when_none_waits()
        return None if due == float("inf") else due

    def give_back(self, run: Simulation, machine: Machine) -> None:
        run.remove(machine.worker.name or "")
        run.terminate(machine)
        self._acted = True

    def _is_awaited(self, run: Simulation, machine: Machine) -> bool:
        """Whether a task may be waiting for a worker like it. Other idle ones only take up room below the limit of
        workers.
        """
        there = [*self.booting(run), *(_whole(run, host) for host in open_hosts(run))]
        own = self.size_of(machine.worker.type)
        tasks = {task_of(run, category) for category in run.engine.pending()}
        return any(sum(map(task.most_of, there)) >= task.slots if task.spreads else task.fits(own) for task in tasks)

    @staticmethod
    def _forget_lost(run: Simulation) -> None:
        """Machines that their cloud took: their tasks wait again, and their hosts go, as soon as that is seen."""
        for host in [each for each in run.engine.hosts.values() if each.lost]:
            run.put_back([each.name for each in host.runs])
            run.remove(host.name)

    def _give_up(self, run: Simulation) -> None:
        """Machines that have not joined in time, as the autoscaler gives them up."""
        for machine in self._not_joined(run):
            if run.now - machine.created + FINEST >= self.array.boot_timeout:
                self.give_back(run, machine)

    def _not_joined(self, run: Simulation) -> list[Machine]:
        hosts = run.engine.hosts
        return [
            machine
            for machine in self.rented(run)
            if (host := hosts.get(machine.worker.name or "")) is None or not host.heard
        ]

    def _join(self, run: Simulation) -> bool:
        """Take the next step of each machine on its way in; returns whether one was put into service."""
        enabled = False
        for machine in self.rented(run):
            name = machine.worker.name
            if machine.worker.state is not MachineState.RUNNING or name is None:
                continue
            host = run.engine.hosts.get(name)
            if host is None:
                offer = host_values_of(machine.worker.type, self.array, run.cell.complexes)
                run.engine.add_host(name, offer.slots, dict(offer.complex_values), {})
                run.measures.joins(machine, name)
                run.enrolled(name)
            elif host.heard and host.disabled:
                run.enable(name)
                enabled = self._acted = True
        return enabled

    def _size_of(self, run: Simulation, kind: InstanceType) -> Size:
        offer = host_values_of(kind, self.array, run.cell.complexes)
        amounts = dict(offer.consumables)
        return (offer.slots, *(amounts.get(name, 0.0) for name in run.cell.consumables))

    def size_of(self, kind: InstanceType) -> Size:
        """What jobs get of a machine of this type."""
        return self._sizes[kind.name]

    def most_on(self, offer: Bucket, task: Task) -> int:
        """How many slots of a task a machine has room for."""
        return task.most_of(self.size_of(offer.type))

    def runs(self, offer: Bucket, task: Task) -> bool:
        """Whether a machine holds a task; one that spreads: a slot of it."""
        return self.most_on(offer, task) >= (1 if task.spreads else task.slots)

    def holds(self, offer: Bucket, amounts: Size) -> bool:
        """Whether a machine has room for all of it."""
        size = self.size_of(offer.type)
        return all(have + EXACT >= each for have, each in zip(size, amounts, strict=True))

    @staticmethod
    def rented(run: Simulation) -> list[Machine]:
        return [machine for machine in run.cloud.machines.values() if machine.ending is None]

    def order(self, run: Simulation, offer: Bucket, count: int) -> None:
        room = self.max_workers - len(self.rented(run))
        wanted = min(count, room)
        self._limited = self._limited or wanted < count
        if wanted <= 0:
            return
        made = run.cloud.launch(offer, wanted, "execute", run.now)
        if len(made) < wanted and self.tries_others:
            self._short_until[offer.key] = run.now + TRIED_AGAIN
            self._acted = True  # it tries others
        if made:
            self._acted = True
            run.order(made)

    def room(self, run: Simulation) -> Room:
        """What is free on each host in service, and all of each machine on its way."""
        return Room([*(left_on(run, host) for host in open_hosts(run)), *self.booting(run)])

    def booting(self, run: Simulation) -> list[Size]:
        """The sizes of the machines on their way."""
        names = run.engine.hosts
        return [
            self.size_of(machine.worker.type)
            for machine in self.rented(run)
            if machine.worker.name not in names or names[machine.worker.name].disabled
        ]

    def is_possible(self, task: Task, run: Simulation) -> bool:
        """Whether some offer that can be had now runs it, and all of it has room within the limits."""
        return any(self.runs(offer, task) for offer in self.offers) and not self.is_unsatisfiable(task, run)

    def is_unsatisfiable(self, task: Task, run: Simulation) -> bool:
        """Whether nothing within the limits ever holds it: no worker or persistent host if they were empty, or for a
        task that spreads, all of these and as many of the largest workers as are allowed.
        """
        if task not in self._never:
            self._never[task] = self._most_ever(task, run) < task.slots
        return self._never[task]

    def _most_ever(self, task: Task, run: Simulation) -> int:
        """How many of its slots there is ever room for."""
        quota = run.cell.user_slots
        if quota is not None and task.slots > quota:
            return 0
        rented = {machine.worker.name for machine in run.cloud.machines.values()}
        there = [task.most_of(_whole(run, host)) for host in open_hosts(run) if host.name not in rented]
        largest = max((self.most_on(offer, task) for offer in self._all), default=0) if self.max_workers else 0
        return sum(there) + self.max_workers * largest if task.spreads else max(largest, *there, 0)

    def left_out(self, run: Simulation) -> int:
        """How many waiting tasks it launches nothing for, as they are unsatisfiable."""
        self._never.clear()
        return sum(
            pending.left
            for category in run.engine.pending()
            if self.is_unsatisfiable(task_of(run, category), run)
            for pending in category.jobs
        )

    def cheapest(self, task: Task) -> Bucket:
        """The cheapest offer that holds it, else one that holds most of it."""
        fitting = [offer for offer in self.offers if self.most_on(offer, task) >= task.slots]
        if fitting:
            return min(fitting, key=lambda offer: (_price(offer), offer.type.vcpus))
        return max(self.offers, key=lambda offer: self.most_on(offer, task))


def _price(offer: Bucket) -> float:
    return float("inf") if offer.price_per_hour is None else offer.price_per_hour


def less(size: Size, taken: Size) -> Size:
    """What is left of it."""
    return tuple(have - each for have, each in zip(size, taken, strict=True))


def more(size: Size, added: Size) -> Size:
    """Both together."""
    return tuple(one + other for one, other in zip(size, added, strict=True))


def open_hosts(run: Simulation) -> list[SimulatedHost]:
    return [host for host in run.engine.hosts.values() if not host.disabled]


def _whole(run: Simulation, host: SimulatedHost) -> Size:
    """A host as if empty."""
    return (host.slots, *(host.consumables.get(name, (0.0, ""))[0] for name in run.cell.consumables))


def left_on(run: Simulation, host: SimulatedHost) -> Size:
    """What no job has."""
    return (host.free, *(host.left_of(name) for name in run.cell.consumables))


def task_of(run: Simulation, category: PendingCategory) -> Task:
    ask = category.ask
    return Task(ask.slots_max, needs_in(run, category.needs), ask.pe == SPREAD)


def needs_in(run: Simulation, needs: Mapping[str, float]) -> tuple[float, ...]:
    """Of each consumable that is counted."""
    return tuple(needs.get(name, 0.0) for name in run.cell.consumables)


def waiting_tasks(run: Simulation) -> Iterator[Task]:
    """Each waiting task, category by category."""
    for category in run.engine.pending():
        task = task_of(run, category)
        for pending in category.jobs:
            yield from [task] * pending.left


@dataclass
class Static(Rule):
    """A fixed number of workers from the first job to the end of the last."""

    tries_others: bool = False
    count: int = 1
    offer: Bucket | None = None

    def launch(self, run: Simulation) -> None:
        missing = self.count - len(self.rented(run))
        if missing > 0 and not run.over and self.offer is not None:
            self.order(run, run.cloud.now_of(self.offer), missing)

    def leave(self, run: Simulation) -> float | None:
        if not run.over:
            return None
        for machine in self.rented(run):
            self.give_back(run, machine)
        return None


@dataclass
class OnePerJob(Rule):
    """One machine for each waiting task, the cheapest that holds it; it leaves as soon as it is idle. A job of several
    hosts gets as many of the largest as it needs.
    """

    idle_timeout: float = 0.0

    def launch(self, run: Simulation) -> None:
        room = self.room(run)
        for task in waiting_tasks(run):
            if room.takes(task) or not self.is_possible(task, run):
                continue
            left = task.slots
            while left > 0:
                rest = replace(task, slots=left)
                offer = self.cheapest(rest)
                self.order(run, offer, 1)
                left -= self.most_on(offer, rest)


@dataclass
class OneNodeForTheBatch(Rule):
    """Karpenter's rule: what waits is packed on one virtual node as long as some type holds it, the cheapest type that
    does is launched, and the rest goes on to the next node. Its consolidation is left out.
    """

    def launch(self, run: Simulation) -> None:
        room = self.room(run)
        node = nothing = (0.0,) * (1 + len(run.cell.consumables))
        for task in waiting_tasks(run):
            if room.takes(task) or not self.is_possible(task, run):
                continue
            largest = max(self.most_on(offer, task) for offer in self.offers)
            left = task.slots
            while left > largest:
                self.order(run, self.cheapest(replace(task, slots=largest)), 1)
                left -= largest
            if self._holding(more(node, task.of(left))) is None:
                self._order_node(run, node)
                node = nothing
            node = more(node, task.of(left))
        self._order_node(run, node)

    def _order_node(self, run: Simulation, node: Size) -> None:
        offer = self._holding(node)
        if node[0] and offer is not None:
            self.order(run, offer, 1)

    def _holding(self, node: Size) -> Bucket | None:
        """The cheapest offer that holds all of a node; None: there is none."""
        fitting = [offer for offer in self.offers if self.holds(offer, node)]
        return min(fitting, key=lambda offer: (_price(offer), offer.type.vcpus), default=None)


@dataclass
class CloudPipeline(Rule):
    """The rules of Cloud Pipeline's documentation: a job that waited too long launches one worker, the next one once
    that has joined. Homogeneous: the one type. Hybrid: the smallest that could run all pending jobs at once, else the
    largest. Workers leave, one at a time, once no job has waited for the scale-down timeout.
    """

    tries_others: bool = False
    hybrid: bool = False
    scale_up_timeout: float = 30.0
    scale_down_timeout: float = 30.0
    _waited_at: float = 0.0
    _waited: bool = False
    """Whether any job waited at the last decision."""

    def launch(self, run: Simulation) -> None:
        booting = any(
            machine.worker.name not in run.engine.hosts or run.engine.hosts[machine.worker.name].disabled
            for machine in self.rented(run)
        )
        oldest = run.engine.oldest_submission()
        if booting or oldest is None or run.now - oldest <= self.scale_up_timeout:
            return
        offers = sorted(self.offers, key=lambda offer: offer.type.vcpus) if self.hybrid else self.offers[:1]
        tasks = [
            task
            for task in waiting_tasks(run)
            if any(self.runs(offer, task) for offer in offers) and not self.is_unsatisfiable(task, run)
        ]
        if tasks:
            everything = reduce(more, (task.of(task.slots) for task in tasks))
            holding = (each for each in offers if self.holds(each, everything))
            self.order(run, next(holding, offers[-1]), 1)

    def _dues(self, run: Simulation) -> Iterator[float]:
        yield from super()._dues(run)
        oldest = run.engine.oldest_submission()
        if oldest is not None and oldest + self.scale_up_timeout >= run.now:
            yield oldest + self.scale_up_timeout + FINEST

    def leave(self, run: Simulation) -> float | None:
        waits = run.engine.anything_waits
        if waits or self._waited:
            self._waited_at = run.now
        self._waited = waits
        idle = [
            machine
            for machine in self.rented(run)
            if (host := run.engine.hosts.get(machine.worker.name or "")) is not None
            and host.takes_jobs
            and not host.runs
        ]
        if waits:
            run.decide_when_none_waits()
        if not idle or waits:
            return None
        quiet = self._waited_at + self.scale_down_timeout
        if run.now < quiet:
            return quiet
        self.give_back(run, idle[0])
        return run.now + BATCH if len(idle) > 1 else None
