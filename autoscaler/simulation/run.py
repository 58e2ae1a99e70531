"""The simulation: events in the order of their time, and passes of the autoscaler when the service makes them.

`engine.pass_timing` and `engine.qmaster_guard` say when, as in the service. A pass takes time: what happens meanwhile
is seen by the next one, and actions take effect one after the other.

A pass decides nothing and costs only its time if nothing that a decision depends on has changed since the last one, and
nothing is due: jobs that come and start, or end on hosts that stay busy, while no task waits, change no decision.
`every_pass` decides in all of them; a test compares both.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Protocol

from autoscaler.core.actions import Enrol
from autoscaler.core.snapshot import WorkerVerdict
from autoscaler.engine.arrivals import look_after
from autoscaler.engine.pass_timing import SOON, PassTiming, Wait
from autoscaler.engine.qmaster_guard import QmasterGuard
from autoscaler.process import Completed
from autoscaler.simulation.cell import CellConfiguration, HostChange
from autoscaler.simulation.cloud import Cloud, Machine
from autoscaler.simulation.grid_engine import GridEngine
from autoscaler.simulation.hosts import Run
from autoscaler.simulation.measures import Measures
from autoscaler.simulation.workload import Workload, WorkloadJob

MAX_UNHEARD = 300.0
"""Seconds without a load report after which qmaster takes a host for silent (Grid Engine's default)."""
LISTED_AFTER_END = 60.0
"""Seconds for which a terminated machine is still listed."""
STUCK_AFTER = 2 * 86_400.0
"""Seconds after which tasks that still wait will never start, if none runs and none comes."""
EDITS_APART = 60.0
"""Seconds between two passes for the order of hosts alone."""
FINEST = 1e-6
"""Seconds below which times are equal: those of a decision are Unix times, which have no finer parts."""
EVENTS_EVERY = 1.0
"""Seconds between two deliveries of events by qmaster to `qevent`; it delivers at whole seconds."""
EPOCH = 1_700_000_000.0
"""Unix time of second 0 where the workload says none: a Tuesday in November 2023."""


class Kind(IntEnum):
    """What happens, in the order in which events of one second happen."""

    END = 0
    HOST = 1
    MARKET = 2
    BOOT = 3
    REPORT = 4
    NOTICE = 5
    TAKEN = 6
    SILENT = 7
    GONE = 8
    FORGET = 9
    SUBMIT = 10
    SCHEDULE = 11
    ACT = 12
    PASS = 13


@dataclass(frozen=True, slots=True)
class PassDurations:
    """When passes happen and how long they take, seconds."""

    polling_delay: float = 10.0
    observing: float = 0.2
    """From the beginning of a pass to its actions."""
    acting: float = 0.05
    """Each action."""
    asking: float = 0.7
    """Share of that time in which Grid Engine's commands run."""
    every_pass: bool = False
    """Decide also in the passes that decide nothing."""
    of_kind: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By kind of action, where it is known: in place of `acting`. A launch takes much longer than an enabling."""

    def of(self, kind: str) -> float:
        """An action of this kind."""
        return self.of_kind.get(kind, self.acting)

    def until_joined(self, boot: float) -> float:
        """From a machine's boot of so many seconds until a pass sees its host report, if that reports at once: half of
        the time between two looks, the pass that enrols it, and the wait for the next one.
        """
        enrolling = self.observing + self.of(Enrol.kind)
        look = min(self.polling_delay, look_after(boot, self.observing))
        return look / 2 + enrolling + min(SOON, look_after(0.0, enrolling))


class Decider(Protocol):
    """What decides: the landed `plan`, or a rule that it is compared with."""

    def decide(self, run: Simulation) -> float | None:
        """One pass: act on the simulated cell and cloud. Returns the second at which time alone would change the
        decision; None: never.
        """

    @property
    def orders_hosts(self) -> bool:
        """Whether it decides by what runs where."""

    def ended(self, run: Run) -> None:
        """A task ended by itself."""


@dataclass
class Simulation:
    """One run of a workload under one decider. Equal arguments give equal results."""

    workload: Workload
    cell: CellConfiguration
    cloud: Cloud
    decider: Decider
    durations: PassDurations = field(default_factory=PassDurations)
    progress: Callable[[float, int], None] | None = None
    """Called now and then with the simulated second and the jobs submitted so far."""

    def __post_init__(self) -> None:
        self.now = 0.0
        self.measures = Measures()
        self.engine = GridEngine(
            self.cell, self.cloud.epoch, self._started, lambda host: self.measures.host_changes(host, self.now)
        )
        self.passes = 0
        self.skipped = 0
        self.pass_cpu = 0.0
        self.stopped = False
        self._events: list[tuple[float, Kind, int, Any]] = []
        self._numbers = 0
        self._next_schedule: float | None = None
        self._scheduled_at = 0.0
        self._clock = 0.0
        """The time by which passes are timed: within a pass, that of its end."""
        self._guard = QmasterGuard(_nobody, lambda: self._clock)
        self._timing = PassTiming()
        self._wait = Wait(0.0, 0.0, 0.0)
        """Between the last pass and the next."""
        self._passed_at = 0.0
        """When that wait began."""
        self._next_pass: float | None = None
        self._rings: list[float] = []
        """When qmaster and cloud tell the service of what no pass has seen yet."""
        self._last_progress = 0.0
        """When a job was last submitted, started or ended."""
        self._needed = True
        """Whether anything has changed that a decision depends on, or time alone changes it."""
        self._jobs_changed = False
        """Whether jobs came, started or ended, on which a decision depends while any task waits."""
        self._order_changed = False
        """Whether jobs started or ended since the last decision of a decider that orders hosts by them."""
        self._until_none_waits = False
        """Whether a decision is due as soon as no task waits any more."""
        self._decided_at = float("-inf")
        self.arriving: Sequence[WorkerVerdict] = ()
        """The workers on their way of the last decision, which the service looks at more often."""
        self._planned: list[tuple[Callable[[], None], str]] = []
        """What the pass in hand decided, with the kind of each action."""
        self._continues = False
        self.needless_acts = 0
        """Passes that acted although nothing had changed that a decision depends on; only `every_pass` makes any."""
        self._acted = self._changed = False
        self._due: float | None = None

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self, until: float = float("inf")) -> Measures:
        """Until all jobs have ended and no worker is rented, nothing can happen any more, `stop` was called, or the
        second `until` is reached.
        """
        jobs = iter(self.workload)
        self._submit_next(jobs)
        for moment in self.cloud.market.moments:
            self._at(moment, Kind.MARKET)
        for change in self.cell.host_changes:
            self._at(change.at, Kind.HOST, change)
        self._pass_at(0.0)
        handlers = self._handlers(jobs)
        while self._events and not self.stopped and self.now < until:
            at, kind, _, what = heapq.heappop(self._events)
            if at > self.now:
                self.now = self.engine.now = at
            if kind is Kind.PASS and self._is_stuck:
                self.now = self._last_progress  # what followed would not have been waited for
                break
            handlers[kind](what)
            self._show()
            if self.over and not self.cloud.machines:
                break
        self._settle()
        return self.measures

    @property
    def over(self) -> bool:
        """Whether all jobs have been submitted and have ended."""
        return not self._submitting and not self.engine.unfinished

    @property
    def _is_stuck(self) -> bool:
        """Whether all jobs have been submitted, none runs, and nothing has come of passes for long."""
        if self._submitting or self.now - self._last_progress <= STUCK_AFTER:
            return False
        return not any(host.runs for host in self.engine.hosts.values())

    def stop(self) -> None:
        """End before the next event; what was gathered stays true for the time so far."""
        self.stopped = True

    def _handlers(self, jobs: Iterator[WorkloadJob]) -> Mapping[Kind, Callable[[Any], None]]:
        """What each kind of event does with what it is about."""
        return {
            Kind.SUBMIT: lambda job: self._submit(job, jobs),
            Kind.END: self._end,
            Kind.BOOT: self._boot,
            Kind.REPORT: self._report,
            Kind.HOST: self._host_changes,
            Kind.MARKET: self._market_changes,
            Kind.NOTICE: self._notice,
            Kind.TAKEN: self._taken,
            Kind.SILENT: self._silent,
            Kind.GONE: self._gone,
            Kind.FORGET: self.cloud.forget,
            Kind.SCHEDULE: self._schedule,
            Kind.ACT: lambda effect: effect(),
            Kind.PASS: self._pass,
        }

    def _host_changes(self, change: HostChange) -> None:
        """A persistent host comes, or has another number of slots."""
        self.engine.change_host(change)
        self._schedule_soon()
        self._change()

    def _market_changes(self, _: None) -> None:
        self.cloud.market_changes(self.now)
        self._change()

    def _silent(self, name: str) -> None:
        """Qmaster takes a host for silent."""
        self.engine.change(name, heard=False)
        self._change()

    def _at(self, at: float, kind: Kind, what: object = None) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (at, kind, self._numbers, what))

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def _submit_next(self, jobs: Iterator[WorkloadJob]) -> None:
        job = next(jobs, None)
        self._submitting = job is not None
        if job is not None:
            self._at(job.submitted, Kind.SUBMIT, job)

    def _submit(self, job: WorkloadJob, jobs: Iterator[WorkloadJob]) -> None:
        self._last_progress = self.now
        self.measures.submitted += job.tasks
        self.engine.submit(job)
        self._jobs_changed = True
        self._ring()
        self._schedule_soon(self.cell.flush_after(end=False))
        self._submit_next(jobs)
        if self.progress is not None and self.measures.submitted % 500 < job.tasks:
            self.progress(self.now, self.measures.submitted)

    def _schedule_soon(self, flush: float = 0.0) -> None:
        """The scheduler runs at its interval, counted from its last run; and sooner where it is told so, after
        submissions and ends: with a flush of 1 s at once, as Grid Engine counts them.
        """
        interval = self.cell.schedule_interval
        if flush:
            at = self.now if flush <= 1 else math.floor(self.now) + flush - 1
        else:
            at = self._scheduled_at + (max(0.0, self.now - self._scheduled_at) // interval + 1) * interval
        if self._next_schedule is None or at < self._next_schedule:
            self._next_schedule = at
            self._at(at, Kind.SCHEDULE)

    def _schedule(self, _: None) -> None:
        if self._next_schedule is None or self.now < self._next_schedule:
            return
        self._next_schedule, self._scheduled_at = None, self.now
        if self.engine.schedule():
            self._jobs_changed = True
            self._order_changed = self.decider.orders_hosts
            self._ring()

    def _started(self, run: Run) -> None:
        self._last_progress = self.now
        self.measures.starts(run, self.now)
        self._at(run.ends, Kind.END, run)

    def _end(self, run: Run) -> None:
        if run.lost_at is not None:
            return
        self._last_progress = self.now
        self.engine.end(run)
        self.measures.ends(run, self.now)
        self.decider.ended(run)
        self._schedule_soon(self.cell.flush_after(end=True))
        self._jobs_changed = True
        self._order_changed = self.decider.orders_hosts
        self._needed = self._needed or self.over or any(not host.runs for host, _ in run.shares)
        self._ring()

    # -- workers -------------------------------------------------------------------------------------------------------

    def order(self, machines: list[Machine]) -> None:
        """Machines were ordered."""
        for machine in machines:
            self.measures.launches(machine, self.now)
            if machine.boots is not None:
                self._at(machine.boots, Kind.BOOT, machine)
            if machine.taken is not None:
                self._at(max(self.now, machine.taken - self.cloud.market.notice), Kind.NOTICE, machine)
                self._at(machine.taken, Kind.TAKEN, machine)
        self._needed = True
        self._ring_at(self.now)  # the cloud's answer

    def _boot(self, machine: Machine) -> None:
        if self.cloud.boot(machine):
            self._change(soon=not self.arriving)

    def enrolled(self, name: str) -> None:
        """A machine became an execution host: its first load report comes."""
        self._at(self.now + self.cloud.draw(self.cloud.delays.join), Kind.REPORT, name)

    def _report(self, name: str) -> None:
        if self.engine.change(name, heard=True):
            self._change(soon=not self.arriving)

    def enable(self, name: str) -> None:
        """The scheduler may use a host."""
        if self.engine.change(name, disabled=False):
            self._schedule_soon()

    def remove(self, name: str) -> None:
        """Take a host out of Grid Engine, if it is empty."""
        host = self.engine.hosts.get(name)
        if host is not None:
            self.measures.host_changes(host, self.now)
            self.engine.remove_host(name)

    def terminate(self, machine: Machine) -> None:
        """Order a machine's end."""
        host = self.engine.hosts.get(machine.worker.name or "")
        if self.cloud.terminate(machine, self.now):
            self.measures.loses(self.engine.lose(machine.worker.name or ""), self.now)
            self.measures.ends_worker(machine, host, self.now, self.cloud)
            self._at(self.now + self.cloud.draw(self.cloud.delays.end), Kind.GONE, machine)

    def _notice(self, machine: Machine) -> None:
        """The cloud says that it will take a machine."""
        if machine.ending is None:
            machine.noticed = True
            self.measures.interrupted += 1
            self.engine.may_lose(machine.worker.name or "")
            self._change()

    def _taken(self, machine: Machine) -> None:
        """The cloud takes a machine: what ran there has to run again."""
        name = machine.worker.name or ""
        host = self.engine.hosts.get(name)
        if not self.cloud.take(machine, self.now):
            return
        lost = self.engine.lose(name)
        self.measures.loses(lost, self.now)
        self.measures.ends_worker(machine, host, self.now, self.cloud)
        if host is not None:
            self._at(self.now + MAX_UNHEARD, Kind.SILENT, name)
        self._at(self.now + LISTED_AFTER_END, Kind.FORGET, machine)
        self._change()

    def put_back(self, names: Iterable[str]) -> None:
        """Let running tasks wait again."""
        self.engine.reschedule(names)
        self._schedule_soon()

    def release(self, names: Iterable[str]) -> None:
        """Let rescheduled tasks on hold start."""
        self.engine.release(names)
        self._schedule_soon()

    def _gone(self, machine: Machine) -> None:
        self.cloud.end(machine, self.now)
        self._at(self.now + LISTED_AFTER_END, Kind.FORGET, machine)
        self._change()

    # -- passes --------------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        """Grid Engine has an event for the service."""
        self._ring_at((self.now // EVENTS_EVERY + 1) * EVENTS_EVERY)

    def _ring_at(self, at: float) -> None:
        if at not in self._rings:
            self._rings.append(at)
            self._wait_on()

    def _change(self, *, soon: bool = False) -> None:
        """Something changed that a decision depends on, and no event tells of it: the next look sees it. `soon`: a
        decider that has no workers on their way looks at those of the cloud all the time.
        """
        self._needed = True
        self._wait_on(SOON if soon else None)

    def _wait_on(self, within: float | None = None) -> None:
        """Until the next pass: by the wait in hand, or if that was a poll that nobody played, by the next one."""
        if self._wait.until < self.now:
            self._polls()
        rung = min(self._rings, default=None)
        if rung is not None and rung < self._wait.ends:
            self._wait.ring(max(rung, self._passed_at))
        until = self._wait.until if within is None else min(self._wait.until, self.now + within)
        if rung is not None or self._needed or self.durations.every_pass or self.arriving or self._due is not None:
            self._pass_at(max(self.now, until))
        elif self._order_changed:
            self._pass_at(max(self.now, self._decided_at + EDITS_APART))

    def _polls(self) -> None:
        """The polls until now that changed nothing were left out: the last one was this long ago."""
        each = self.durations.polling_delay + self.durations.observing
        ended = self._wait.until + self.durations.observing
        self._passed_at = ended + max(0.0, (self.now - ended) // each) * each
        self._wait = Wait(self._passed_at + self.durations.polling_delay, self._passed_at, self._passed_at)

    def _pass_at(self, at: float) -> None:
        if self._next_pass != at:
            self._next_pass = at
            self._at(at, Kind.PASS, at)

    def _pass(self, planned: float) -> None:
        if self._next_pass != planned:
            return  # an earlier or later one is made instead
        self._next_pass = None
        needed = self._needed or (self._due is not None and self.now + FINEST >= self._due)
        needed = needed or (self._jobs_changed and (self.engine.anything_waits or self._until_none_waits))
        needed = needed or (self._order_changed and self.now + FINEST >= self._decided_at + EDITS_APART)
        self._acted = self._changed = self._needed = self._jobs_changed = self._continues = False
        if needed or self.durations.every_pass:
            self._decide()
            self.needless_acts += self._changed and not needed
        else:
            self.skipped += 1
        self._rest(self._carry_out())

    def _decide(self) -> None:
        began = time.process_time()
        self._decided_at, self._order_changed, self._until_none_waits = self.now, False, False
        self._due = self.decider.decide(self)
        self.pass_cpu += time.process_time() - began
        self.passes += 1

    def _carry_out(self) -> float:
        """What was decided happens while the pass goes on; returns how long the pass takes."""
        took = self.durations.observing
        for effect, kind in self._planned:
            self._at(self.now + took, Kind.ACT, effect)
            took += self.durations.of(kind)
        self._planned = []
        return took

    def _rest(self, took: float) -> None:
        """From the pass that begins now and takes so long to the next one."""
        self._rings = [at for at in self._rings if at > self.now]
        self._clock = self._passed_at = ended = self.now + took
        self._guard.spend(took * self.durations.asking)
        pause = self._timing.pause_after(
            self.arriving,
            now=ended,
            took=took,
            delay=self.durations.polling_delay,
            due=self._due,
            acted=self._acted,
            continues=self._continues,
        )
        alone = self._guard.pause(self.durations.polling_delay)
        at_least = min(took, self.durations.polling_delay)
        self._wait = self._timing.wait(ended, pause, at_least=at_least, alone=alone)
        self._wait_on()

    def decide_when_none_waits(self) -> None:
        """The decision in hand holds while any task waits: the next one is due, at the latest, when none does."""
        self._until_none_waits = True

    def plan(self, effect: Callable[[], None], kind: str) -> None:
        """One action of the pass in hand: it takes effect when those before it are done."""
        self._planned.append((effect, kind))

    def acted(self, *, changed: bool = True, continues: bool = False) -> None:
        """A pass did something: the next one sees the result soon. `changed`: something of cell or cloud; `continues`:
        it ordered machines, or disabled or took out a host whose machine waits for its end.
        """
        self._acted = self._needed = True
        self._changed, self._continues = changed, continues

    def _show(self) -> None:
        """What charts show from now on."""
        workers, price = self.cloud.rented
        self.measures.series.change(self.now, (self.engine.waiting, workers, self.engine.busy_slots, price))

    def _settle(self) -> None:
        """What is still rented is paid until now."""
        self.measures.limits(frozenset(), self.now)
        for machine in self.measures.still_rented():
            host = self.engine.hosts.get(machine.worker.name or "")
            self.measures.ends_worker(machine, host, self.now, self.cloud)


def _nobody(argv: Sequence[str], **options: object) -> Completed:
    """No command is run here: `QmasterGuard` is told how long each would take."""
    raise NotImplementedError
