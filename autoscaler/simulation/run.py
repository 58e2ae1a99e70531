"""The simulation: events in the order of their time, and a pass of the autoscaler where something it sees has changed.

A pass is skipped if nothing that a decision depends on has changed since the last one and nothing is due: jobs that
come and start, or end on hosts that stay busy, while no task waits, change no decision. `every_pass` makes all of them;
a test compares both.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from autoscaler.simulation.cell import CellConfiguration
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
    PASS = 12


@dataclass(frozen=True, slots=True)
class Pace:
    """When passes happen, seconds."""

    polling_delay: float = 10.0
    """Least time between two passes for changes of jobs."""
    reaction: float = 1.0
    """From a change of a worker to the pass that sees it; and between two steps of a worker."""
    every_pass: bool = False
    """Make also the passes that decide nothing."""


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
    pace: Pace = field(default_factory=Pace)
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
        self._events: list[tuple[float, int, int, Any]] = []
        self._numbers = 0
        self._next_schedule: float | None = None
        self._next_pass: float | None = None
        self._last_pass = float("-inf")
        self._last_progress = 0.0
        """When a job was last submitted, started or ended."""
        self._needed = True
        """Whether anything has changed that a decision depends on, or time alone changes it."""
        self.needless_acts = 0
        """Passes that acted although nothing had changed that a decision depends on; only `every_pass` makes any."""
        self._acted = False
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
        while self._events and not self.stopped and self.now < until:
            at, kind, _, what = heapq.heappop(self._events)
            if at > self.now:
                self.now = self.engine.now = at
            if kind == Kind.PASS and self._is_stuck:
                self.now = self._last_progress  # what followed would not have been waited for
                break
            self._happen(Kind(kind), what, jobs)
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

    def _happen(self, kind: Kind, what: Any, jobs: Iterator[WorkloadJob]) -> None:
        match kind:
            case Kind.SUBMIT:
                self._submit(what, jobs)
            case Kind.END:
                self._end(what)
            case Kind.BOOT:
                self._boot(what)
            case Kind.REPORT:
                self._report(what)
            case Kind.HOST:
                self.engine.change_host(what)
                self._schedule_soon()
                self._change(self.pace.polling_delay)
            case Kind.MARKET:
                self.cloud.market_changes(self.now)
                self._change(self.pace.polling_delay)
            case Kind.NOTICE:
                self._notice(what)
            case Kind.TAKEN:
                self._taken(what)
            case Kind.SILENT:
                self.engine.change(what, heard=False)
                self._change(self.pace.polling_delay)
            case Kind.GONE:
                self._gone(what)
            case Kind.FORGET:
                self.cloud.forget(what)
            case Kind.SCHEDULE:
                self._schedule()
            case Kind.PASS:
                self._pass(what)

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
        self._schedule_soon()
        self._submit_next(jobs)
        if self.progress is not None and self.measures.submitted % 500 < job.tasks:
            self.progress(self.now, self.measures.submitted)

    def _schedule_soon(self) -> None:
        """The scheduler runs at its interval, or sooner where it is told so after submissions and ends."""
        interval, flush = self.cell.schedule_interval, self.cell.flush
        at = self.now + flush if flush else (self.now // interval + 1) * interval
        if self._next_schedule is None or at < self._next_schedule:
            self._next_schedule = at
            self._at(at, Kind.SCHEDULE)

    def _schedule(self) -> None:
        if self._next_schedule is None or self.now < self._next_schedule:
            return
        self._next_schedule = None
        self.engine.schedule()
        self._job_change(matters=self.engine.anything_waits)

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
        self._schedule_soon()
        self._job_change(matters=self.over or any(not host.runs for host, _ in run.shares))

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

    def _boot(self, machine: Machine) -> None:
        if self.cloud.boot(machine):
            self._change(self.pace.reaction)

    def enrolled(self, name: str) -> None:
        """A machine became an execution host: its first load report comes."""
        self._at(self.now + self.cloud.draw(self.cloud.delays.join), Kind.REPORT, name)

    def _report(self, name: str) -> None:
        if self.engine.change(name, heard=True):
            self._change(self.pace.reaction)

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
            self._change(self.pace.reaction)

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
        self._change(self.pace.reaction)

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
        self._change(self.pace.polling_delay)

    # -- passes --------------------------------------------------------------------------------------------------------

    def _job_change(self, *, matters: bool) -> None:
        """Jobs came, started or ended. `matters`: a decision may depend on it."""
        if matters:
            self._change(self.pace.polling_delay)
        elif self.decider.orders_hosts:
            self._change(EDITS_APART)
        elif self.pace.every_pass:
            self._pass_at(self.now + self.pace.reaction)
        else:
            self.skipped += 1

    def _change(self, within: float) -> None:
        """Something changed that a decision depends on: a pass follows, this long after the last one."""
        self._needed = True
        self._pass_at(max(self.now + min(within, self.pace.reaction), self._last_pass + within))

    def _pass_at(self, at: float) -> None:
        if self._next_pass is None or at < self._next_pass:
            self._next_pass = at
            self._at(at, Kind.PASS, at)

    def _pass(self, planned: float) -> None:
        if self._next_pass != planned:
            return  # an earlier one was made instead
        self._next_pass = None
        needed = self._needed or (self._due is not None and self.now >= self._due)
        self._needed = self._acted = False
        began = time.process_time()
        self._due = self.decider.decide(self)
        self.pass_cpu += time.process_time() - began
        self.passes += 1
        self.needless_acts += self._acted and not needed
        self._last_pass = self.now
        self._sample()
        if self._due is not None:
            self._pass_at(max(self._due, self.now + self.pace.reaction))

    def acted(self) -> None:
        """A pass did something: the next one sees the result soon."""
        self._acted = self._needed = True
        self._pass_at(self.now + self.pace.reaction)

    def _sample(self) -> None:
        machines = [machine for machine in self.cloud.machines.values() if machine.ending is None]
        price = sum(machine.worker.price_per_hour or 0.0 for machine in machines)
        used = sum(host.used for host in self.engine.hosts.values())
        self.measures.sample(self.now, self.engine.waiting, len(machines), used, price)

    def _settle(self) -> None:
        """What is still rented is paid until now."""
        for machine in self.measures.still_rented():
            host = self.engine.hosts.get(machine.worker.name or "")
            self.measures.ends_worker(machine, host, self.now, self.cloud)
