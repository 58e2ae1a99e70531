"""A Grid Engine whose machines freeze, die, fall silent and reuse names, with the truth about processes.

What Grid Engine records of a job and where its processes really are, are two things here, as in reality: a rescheduled
job starts elsewhere at once, while its old process lives on until its host's execd reports the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autoscaler.core.model.fleet import Bucket, Interruption
from autoscaler.providers.fake import FakeCloud, Machine
from autoscaler.providers.interface import LaunchOrder
from tests.simulated.cluster import Job, SimulatedCluster, at_time
from tests.simulated.killing import MortalProvider

REPORT_INTERVAL = 4.0
MAX_UNHEARD = 20.0


class NameReusingCloud(FakeCloud):
    """Gives the name of a machine that is gone to the next one at once."""

    def _make(self, order: LaunchOrder, cell: str | None, bucket: Bucket) -> Machine:
        living = {machine.name for machine in self.machines.values() if machine.ended_at is None}
        name = next(name for name in (f"w{number}" for number in range(1, 100)) if name not in living)
        machine = super()._make(order, cell, bucket)
        self.machines[machine.id] = Machine(
            machine.id, cell, machine.token, order, machine.bucket, name, machine.created_at
        )
        return self.machines[machine.id]


@dataclass
class Process:
    """One process of a job on one machine."""

    job: int
    machine: str
    work_left: float


@dataclass
class Truth:
    """What is really running, whatever Grid Engine records."""

    processes: list[Process] = field(default_factory=list)
    frozen: set[str] = field(default_factory=set)
    """Ids of machines that are frozen."""
    mute: set[str] = field(default_factory=set)
    """Ids of machines whose execd is dead, and whose jobs run on."""
    twice: list[str] = field(default_factory=list)
    """Whenever a job got a second running process."""


class FailingCluster(SimulatedCluster):
    """As SimulatedCluster, but a host reports when its machine's execd did, and jobs have processes."""

    truth: Truth
    reported: dict[str, float]
    delivered: set[int]

    def begin(self) -> None:
        self.truth, self.reported, self.delivered = Truth(), {}, set()
        self._next_report: dict[str, float] = {}

    # -- machines --------------------------------------------------------------------------------------------------

    def machine_named(self, name: str) -> Machine | None:
        """The booted machine that has this name now."""
        now = self.clock.now
        return next(
            (
                machine
                for machine in self.cloud.machines.values()
                if machine.name == name
                and machine.ended_at is None
                and now >= machine.created_at + self.cloud.boot_delay
            ),
            None,
        )

    def works(self, machine: Machine | None) -> bool:
        """Whether its execd runs."""
        return machine is not None and machine.id not in self.truth.frozen | self.truth.mute

    def heard(self, name: str) -> bool:
        return name in self.persistent or self.clock.now - self.reported.get(name, -MAX_UNHEARD) <= MAX_UNHEARD

    # -- time ------------------------------------------------------------------------------------------------------

    def schedule(self) -> None:
        self.cloud.come_true()
        living = {machine.id for machine in self.cloud.machines.values() if machine.ended_at is None}
        self.truth.processes = [one for one in self.truth.processes if one.machine in living | {"h1"}]
        self.reported = {name: at for name, at in self.reported.items() if name in self.hosts}
        for name in list(self.hosts):
            self._report(name)
        self._work()
        self._note_busy()
        for job in self.jobs:
            if job.host is None and not job.ended and not job.held:
                place = next((name for name in self.hosts if self._takes(name, job)), None)
                if place is not None:
                    job.host, job.started, job.starts = place, self.clock.now, (*job.starts, place)
                    self._note_busy()
            if job.host is not None and job.number not in self.delivered:
                self._deliver(job)

    def _report(self, name: str) -> None:
        """An execd reports to qmaster, and ends what should not run there."""
        machine = self.machine_named(name)
        if name in self.persistent or machine is None or not self.works(machine):
            return
        if self.clock.now < self._next_report.get(machine.id, 0.0):
            return
        self._next_report[machine.id] = self.clock.now + REPORT_INTERVAL
        self.reported[name] = self.clock.now
        current = {job.number for job in self.jobs if job.host == name}
        self.truth.processes = [one for one in self.truth.processes if one.machine != machine.id or one.job in current]

    def _deliver(self, job: Job) -> None:
        """The qmaster hands a job to the execd of its host, as soon as that answers."""
        assert job.host is not None
        machine = self.machine_named(job.host)
        place = "h1" if job.host in self.persistent else machine.id if machine and self.works(machine) else None
        if place is None:
            return
        others = [one.machine for one in self.truth.processes if one.job == job.number]
        if others:
            self.truth.twice.append(f"{self.clock.now:.0f}: job {job.number} on {place} and {', '.join(others)}")
        self.truth.processes.append(Process(job.number, place, job.seconds))
        self.delivered.add(job.number)

    def _work(self) -> None:
        jobs = {job.number: job for job in self.jobs}
        for process in list(self.truth.processes):
            if process.machine in self.truth.frozen:
                continue
            process.work_left -= 2.0
            if process.work_left > 0 or process.machine in self.truth.mute:
                continue
            self.truth.processes.remove(process)
            job = jobs[process.job]
            machine = self.cloud.machines.get(process.machine)
            if job.host == (machine.name if machine else "h1"):
                job.ended, job.host = True, None

    # -- what Grid Engine answers --------------------------------------------------------------------------------------

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        match argv:
            case ("qdel", "-f", *numbers):
                return self._each(numbers, self._delete)
            case _:
                return super().answer(argv)

    def _reschedule(self, job: Job) -> str:
        self.delivered.discard(job.number)
        return super()._reschedule(job)

    def _running(self, job: Job) -> str:
        return super()._running(job).replace("2026-11-21T09:00:00", at_time(job.started))


@dataclass(frozen=True)
class InterruptingProvider(MortalProvider):
    """A mortal provider with interruption notices."""

    def interruptions(self) -> Sequence[Interruption]:
        return self.inner.interruptions()
