"""Simple rules that `plan` is compared with: a fixed cluster, one machine a job, and how two known autoscalers choose.

They decide on the simulated cell itself. Each rule says in its docstring what it leaves out of the original.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autoscaler.core.model.fleet import Bucket, BucketKey, MachineState
from autoscaler.simulation.cloud import Machine
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import SPREAD

BATCH = 10.0
"""Seconds between two decisions of a rule."""
TRIED_AGAIN = 180.0
"""Seconds for which an offer that could not be had is left out by rules that try others."""


class Room:
    """Free slots by host, to see what waiting tasks leave over."""

    def __init__(self, free: list[int]) -> None:
        self._free = sorted(free)

    def takes(self, slots: int, *, spreads: bool) -> bool:
        """Place a task: on the host with the least room that has enough, or spread; False: there is no room."""
        if spreads:
            return self._spread(slots)
        at = bisect_left(self._free, slots)
        if at == len(self._free):
            return False
        insort(self._free, self._free.pop(at) - slots)
        return True

    def _spread(self, slots: int) -> bool:
        if sum(self._free) < slots:
            return False
        while slots > 0:
            largest = self._free.pop()
            insort(self._free, max(0, largest - slots))
            slots -= largest
        return True


@dataclass
class Rule:
    """What all rules share: booted machines join at once, idle ones leave after `idle_timeout` seconds, unless a task
    waits that they are large enough for.
    """

    offers: Sequence[Bucket]
    """On-demand offers that may be rented, any order."""
    max_workers: int
    idle_timeout: float = 30.0
    orders_hosts: ClassVar[bool] = False
    tries_others: bool = True
    """Whether it takes another offer where one cannot be had."""
    _idle_since: dict[str, float] = field(default_factory=dict)
    _all: Sequence[Bucket] = ()
    _short_until: dict[BucketKey, float] = field(default_factory=dict)
    """Offers that could not be had a moment ago."""
    _limited: bool = False
    """Whether its last launch wanted more than `max_workers`."""

    def decide(self, run: Simulation) -> float | None:
        self._all = self._all or self.offers
        offers = [run.cloud.now_of(offer) for offer in self._all]
        self.offers = [offer for offer in offers if self._short_until.get(offer.key, 0.0) <= run.now]
        self._forget_lost(run)
        if not self._join(run) and self.offers:  # else the scheduler has not seen the new room yet
            self._limited = False
            self.launch(run)
        run.measures.limits(frozenset(("max_workers",) if self._limited else ()), run.now)
        due = self.leave(run)
        if run.engine.anything_waits:
            due = min(due or float("inf"), run.now + BATCH)
        return due

    def ended(self, run: Run) -> None:
        """Rules learn nothing."""

    def launch(self, run: Simulation) -> None:
        """Order what the rule wants now."""
        raise NotImplementedError

    def leave(self, run: Simulation) -> float | None:
        """Give idle workers back; returns when the next one will have been idle for long enough."""
        due, least = float("inf"), self._least_awaited(run)
        for machine in self.rented(run):
            host = run.engine.hosts.get(machine.worker.name or "")
            if host is None or host.runs or not host.takes_jobs:
                self._idle_since.pop(machine.worker.id, None)
                continue
            since = self._idle_since.setdefault(machine.worker.id, run.now)
            if run.now - since >= self.idle_timeout and machine.worker.type.vcpus < least:
                run.remove(host.name)
                run.terminate(machine)
            else:
                due = min(due, max(since + self.idle_timeout, run.now + BATCH))
        return None if due == float("inf") else due

    def _least_awaited(self, run: Simulation) -> float:
        """The least slots of a worker that a task may be waiting for; infinite: none is. Smaller idle ones only take up
        room below the limit of workers.
        """
        together = sum(self.booting(run)) + sum(host.slots for host in run.engine.hosts.values() if not host.disabled)
        asks = [category.ask for category in run.engine.pending()]
        if any(ask.pe == SPREAD and ask.slots_max <= together for ask in asks):
            return 1
        return min((ask.slots_max for ask in asks if ask.pe != SPREAD), default=float("inf"))

    @staticmethod
    def _forget_lost(run: Simulation) -> None:
        """Machines that their cloud took: their tasks wait again, and their hosts go, as soon as that is seen."""
        for host in [each for each in run.engine.hosts.values() if each.lost]:
            run.put_back([each.name for each in host.runs])
            run.remove(host.name)

    def _join(self, run: Simulation) -> bool:
        """Take the next step of each machine on its way in; returns whether one was put into service."""
        enabled = False
        for machine in self.rented(run):
            name = machine.worker.name
            if machine.worker.state is not MachineState.RUNNING or name is None:
                continue
            host = run.engine.hosts.get(name)
            if host is None:
                run.engine.add_host(name, machine.worker.type.vcpus, self.values(run, machine), {})
                run.measures.joins(machine, name)
                run.enrolled(name)
            elif host.heard and host.disabled:
                run.enable(name)
                enabled = True
        return enabled

    @staticmethod
    def values(run: Simulation, machine: Machine) -> Mapping[str, str]:
        """`complex_values` of its host."""
        name = run.cell.memory_complex
        return {name: f"{machine.worker.type.memory}"} if name else {}

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
        run.order(made)

    @staticmethod
    def room(run: Simulation) -> Room:
        """Free slots of each host in service, and all slots of each machine on its way."""
        free = [host.free for host in run.engine.hosts.values() if not host.disabled]
        return Room([*free, *Rule.booting(run)])

    @staticmethod
    def booting(run: Simulation) -> list[int]:
        """The slots of each machine on its way."""
        names = run.engine.hosts
        return [
            machine.worker.type.vcpus
            for machine in Rule.rented(run)
            if machine.worker.name not in names or names[machine.worker.name].disabled
        ]

    def cheapest(self, slots: int) -> Bucket:
        """The cheapest offer with so many slots, else the largest."""
        fitting = [offer for offer in self.offers if offer.type.vcpus >= slots]
        if fitting:
            return min(fitting, key=lambda offer: (_price(offer), offer.type.vcpus))
        return max(self.offers, key=lambda offer: offer.type.vcpus)


def _price(offer: Bucket) -> float:
    return float("inf") if offer.price_per_hour is None else offer.price_per_hour


def waiting_tasks(run: Simulation) -> Iterator[tuple[int, bool]]:
    """Slots of each waiting task, and whether it spreads over hosts; category by category."""
    for category in run.engine.pending():
        spreads = category.ask.pe == SPREAD
        for pending in category.jobs:
            yield from [(category.ask.slots_max, spreads)] * pending.left


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
            return None if len(self.rented(run)) >= self.count else run.now + BATCH
        for machine in self.rented(run):
            run.remove(machine.worker.name or "")
            run.terminate(machine)
        return None


@dataclass
class OnePerJob(Rule):
    """One machine for each waiting task, the cheapest that holds it; it leaves as soon as it is idle. A job of several
    hosts gets as many of the largest as it needs.
    """

    idle_timeout: float = 0.0

    def launch(self, run: Simulation) -> None:
        room = self.room(run)
        for slots, spreads in waiting_tasks(run):
            if room.takes(slots, spreads=spreads):
                continue
            left = slots
            while left > 0:
                offer = self.cheapest(left)
                self.order(run, offer, 1)
                left -= offer.type.vcpus


@dataclass
class OneNodeForTheBatch(Rule):
    """Karpenter's rule: what waits is packed on one virtual node as long as some type holds it, the cheapest type that
    does is launched, and the rest goes on to the next node. Its consolidation is left out.
    """

    def launch(self, run: Simulation) -> None:
        room, largest = self.room(run), max(offer.type.vcpus for offer in self.offers)
        node = 0
        for slots, spreads in waiting_tasks(run):
            if room.takes(slots, spreads=spreads):
                continue
            while slots > largest:
                self.order(run, self.cheapest(largest), 1)
                slots -= largest
            if node + slots > largest:
                self.order(run, self.cheapest(node), 1)
                node = 0
            node += slots
        if node:
            self.order(run, self.cheapest(node), 1)


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

    def launch(self, run: Simulation) -> None:
        if run.engine.anything_waits:
            self._waited_at = run.now
        booting = any(
            machine.worker.name not in run.engine.hosts or run.engine.hosts[machine.worker.name].disabled
            for machine in self.rented(run)
        )
        oldest = run.engine.oldest_submission()
        if booting or oldest is None or run.now - oldest <= self.scale_up_timeout:
            return
        pending = sum(slots for slots, _ in waiting_tasks(run))
        offer = self._smallest(pending) if self.hybrid else self.offers[0]
        self.order(run, offer, 1)

    def _smallest(self, slots: int) -> Bucket:
        ordered = sorted(self.offers, key=lambda offer: offer.type.vcpus)
        return next((offer for offer in ordered if offer.type.vcpus >= slots), ordered[-1])

    def leave(self, run: Simulation) -> float | None:
        idle = [
            machine
            for machine in self.rented(run)
            if (host := run.engine.hosts.get(machine.worker.name or "")) is not None
            and host.takes_jobs
            and not host.runs
        ]
        if not idle:
            return None
        quiet = self._waited_at + self.scale_down_timeout
        if run.engine.anything_waits or run.now < quiet:
            return max(quiet, run.now + BATCH)
        run.remove(idle[0].worker.name or "")
        run.terminate(idle[0])
        return run.now + BATCH if len(idle) > 1 else None
