"""A simulated cell in which workers come and jobs do not start on them, whatever the cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from autoscaler.core.actions import Action, Enable, Launch
from autoscaler.core.model.cluster import ExecutionHost, JobCategory
from autoscaler.core.model.evidence import JobFailure, JobSuccess
from autoscaler.core.model.fleet import MachineState
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import a_job
from tests.properties.world import Host, World

POLL = 30.0
BOOT = 60.0


class Cause(StrEnum):
    """Why no job starts on a worker."""

    NONE = "none"
    ALARM = "a"
    CALENDAR = "D"
    ERROR = "E"
    """A job is observed running there first, for a pass: its prolog fails."""
    NO_SLOTS = "no slots"
    DIES = "dies before it boots"
    FREE = "it appears free"
    LESS_MEMORY = "it reports less memory than its type promises"
    NO_MEMORY = "it reports no memory at all"


@dataclass
class UnhelpfulLaunches(World):
    """Jobs have owners. `cause` holds for all workers, and may change at any time."""

    cause: Cause = Cause.NO_SLOTS
    boot_s: float = BOOT
    protected_after: float = 600.0
    memory_asked: str = ""
    """What every job requests of `mem_total`."""
    hosts: dict[str, Host] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    launched: list[Launch] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    opened: set[str] = field(default_factory=set)
    """Hosts that were once enabled."""
    in_error: set[str] = field(default_factory=set)
    """Hosts with a queue instance in error."""
    submitted: dict[int, float] = field(default_factory=dict)
    """Of jobs that were started."""
    successes: list[JobSuccess] = field(default_factory=list)
    failing: frozenset[str] = frozenset()
    """Owners whose jobs fail at their start, by their own fault: they are in error then."""
    failures_at_start: list[JobFailure] = field(default_factory=list)

    def _carry_out(self, action: Action) -> None:
        super()._carry_out(action)
        if isinstance(action, Enable):
            self.opened.add(action.host)

    def ask(self, slots: int, owner: str = "ann") -> int:
        """The number of a new job."""
        self.submit(slots)
        job = max(self.waiting)
        self.owners[job] = owner
        return job

    def _job_categories(self) -> list[JobCategory]:
        return [
            replace(category, ask=replace(category.ask, owner=self.owners[job], hard=self._hard), submitted=(at,))
            for job, (slots, at) in self.waiting.items()
            for category in [a_job(job, slots=slots)]
        ]

    @property
    def _hard(self) -> tuple[tuple[str, str], ...]:
        return (("mem_total", self.memory_asked),) if self.memory_asked else ()

    def snapshot(self) -> Snapshot:
        snapshot = super().snapshot()
        return replace(
            snapshot,
            evidence=replace(
                snapshot.evidence, successes=tuple(self.successes), failures=tuple(self.failures_at_start)
            ),
            policy=replace(snapshot.policy, protected_after=self.protected_after),
        )

    def _shown(self, name: str, host: Host) -> ExecutionHost:
        shown = super()._shown(name, host)
        (instance,) = shown.instances
        letter = str(self.cause) if self.cause in (Cause.ALARM, Cause.CALENDAR) else ""
        letter = "E" if name in self.in_error else letter
        slots = 0 if self.cause is Cause.NO_SLOTS and name in self.opened else instance.slots
        jobs = tuple(replace(job, owner=self.owners.get(job.number, "")) for job in instance.jobs)
        load = {} if self.cause is Cause.NO_MEMORY else {"mem_total": "12G"}
        instance = replace(instance, states=instance.states + letter, slots=slots, jobs=jobs)
        return replace(shown, instances=(instance,), load=load)

    # -- one pass, and what happens until the next ---------------------------------------------------------------

    def step(self, seconds: float = POLL) -> Plan:
        made = self.decide()
        self.plans.append(made)
        self.launched += [action for action in made.actions if isinstance(action, Launch)]
        self.act(made.actions)
        self.pass_time(seconds)
        self.list_all()
        for worker in list(self.machines.values()):
            if worker.state is MachineState.PENDING and self.now - worker.created_at >= self.boot_s:
                if self.cause is Cause.DIES:
                    self.machines.pop(worker.id)
                else:
                    self.boot(worker.id)
        for host in self.hosts.values():
            host.heard = True
        self._run()
        return made

    def _run(self) -> None:
        """One round of the scheduler: jobs that ran end, or turn out to have failed in their prolog."""
        for name, host in self.hosts.items():
            for job, slots in list(host.jobs.items()):
                del host.jobs[job]
                if self.owners[job] in self.failing:
                    said = "28 : changing into working directory"
                    self.failures_at_start.append(JobFailure(name, job, self.now, said, self.owners[job]))
                elif self.cause is Cause.ERROR:
                    self.in_error.add(name)
                    self.waiting[job] = (slots, self.submitted[job])
                else:
                    self.successes.append(JobSuccess(name, self.owners[job], self.now))
        if self.cause in (Cause.NONE, Cause.ERROR):
            before = dict(self.waiting)
            usable = {name: host for name, host in self.hosts.items() if name not in self.in_error}
            everyone, self.hosts = self.hosts, usable
            self.dispatch()
            self.hosts = everyone
            self.submitted.update({job: before[job][1] for job in before if job not in self.waiting})

    def go_on(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + seconds
        while self.now < end and not until():
            self.step()

    def launched_for(self, key: str) -> int:
        return sum(key in dict(launch.assignment) for launch in self.launched)

    def resume(self) -> None:
        self.overrides = Overrides(resumed_at=self.now)

    def retry(self) -> None:
        self.overrides = Overrides(retried_at=self.now)


def is_launch(action: Action) -> bool:
    return isinstance(action, Launch)
