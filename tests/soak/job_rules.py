"""Rules 6 and 7, checked against what could ever run and where processes really are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.policy import DeadlockAnswer, LostJobs
from tests.soak.allowed import Asked, what_it_asks
from tests.soak.job_commands import JobCommands
from tests.soak.jobs import MAIN, Job

if TYPE_CHECKING:
    from tests.soak.rules import Observation
    from tests.soak.world import World

APART = 30.0
MOST_A_PASS = 5


@dataclass
class Suspicion:
    """Since when every good observation found a job able to run but unsatisfiable; and what it requested then."""

    asked: Asked
    since: float
    unsatisfiable_at: float | None = None
    """When Grid Engine last answered so to the autoscaler."""


@dataclass
class JobRules:
    """Notified of every observation, answer and change by Rules."""

    world: World
    breaks: Callable[[int, str], None]
    unsatisfiable_jobs: dict[int, Suspicion] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    """Jobs deleted or held as unsatisfiable in this pass."""
    waiting: int = 0
    """Jobs that the observation of this pass found pending."""
    held_since_loss: set[int] = field(default_factory=set)
    """Jobs that an autoscaler held whose store was lost since."""

    def begin_pass(self) -> None:
        self.done = set()

    def reads_qstat(self, damaged: bool) -> None:
        self.waiting = sum(bool(job.waiting) for job in self.world.cell.jobs) if not damaged else 0

    def decides(self, observation: Observation) -> None:
        """A good observation keeps those unsatisfiable_jobs that it shares, and begins others."""
        if not observation.good:
            return
        kept: dict[int, Suspicion] = {}
        for job, _ in observation.able:
            if job.runs or self.world.allowed.ever(job):
                continue
            asked, before = what_it_asks(job), self.unsatisfiable_jobs.get(job.number)
            same = before is not None and before.asked == asked
            kept[job.number] = before if before is not None and same else Suspicion(asked, observation.began)
        self.unsatisfiable_jobs = kept

    def loses_store(self) -> None:
        self.unsatisfiable_jobs.clear()
        self.held_since_loss = {job.number for job in self.world.cell.jobs if job.held_by_operator}

    def reads_answer(self, argv: Sequence[str], answer: str) -> None:
        """Grid Engine answered a question about jobs."""
        for number, part in zip(argv[3:], answer.split("verification: ")[1:], strict=False):
            suspicion = self.unsatisfiable_jobs.get(int(number))
            if suspicion is not None and part.startswith("no suitable queues"):
                suspicion.unsatisfiable_at = self.world.clock.now

    # -- what is done to jobs ----------------------------------------------------------------------------------------

    def changes(self, argv: Sequence[str], began: float) -> None:
        """Before Grid Engine is changed."""
        commands, what = JobCommands(lambda: self.world.cell.jobs, self.world.cell.configured), " ".join(argv)
        match tuple(argv):
            case ("qdel", "-f", *words):
                for job, tasks in self._meant(commands, words):
                    self._handles_lost(job, tasks, what, needs=LostJobs.DELETE)
            case ("qdel", *words):
                for job, _ in self._meant(commands, words):
                    self._deletes_or_holds(job, what, began, DeadlockAnswer.KILL)
            case ("qhold", "-h", "o", *words):
                for job, tasks in self._meant(commands, words):
                    if not self._any_lost(job, tasks):
                        self._deletes_or_holds(job, what, began, DeadlockAnswer.HOLD)
            case ("qmod", *switches, word) if "-rj" in switches:
                for job, tasks in self._meant(commands, [word]):
                    needs = LostJobs.FORCE if not job.rerun else None
                    self._handles_lost(job, tasks, what, needs=needs)

    @staticmethod
    def _meant(commands: JobCommands, words: Iterable[str]) -> list[tuple[Job, list[int]]]:
        found = (commands.named(word) for word in words)
        return [(job, tasks) for job, tasks in found if job is not None]

    def _any_lost(self, job: Job, tasks: Sequence[int]) -> bool:
        return any(run.task in tasks and self.world.lost(run) for run in job.runs)

    def _handles_lost(self, job: Job, tasks: Sequence[int], what: str, *, needs: LostJobs | None) -> None:
        """Deleted by force, or rescheduled: only what is on a machine that is gone, and as the policy says."""
        policy = self.world.policy.lost_jobs
        runs = [run for run in job.runs if run.task in tasks]
        if runs and not all(self.world.lost(run) for run in runs):
            self.breaks(7, f"{what}: the machines of job {job.number} all live")
        by_owner = all(run.leaves_at is not None for run in runs)
        if runs and needs is not None and policy is not needs and not by_owner:
            self.breaks(7, f"{what}: job {job.number} may not start again, and the policy is to {policy}")

    def _deletes_or_holds(self, job: Job, what: str, began: float, needs: DeadlockAnswer) -> None:
        world, suspicion = self.world, self.unsatisfiable_jobs.get(job.number)
        if world.policy.deadlock is not needs:
            self.breaks(6, f"{what}: the policy is to {world.policy.deadlock}")
        if job.runs:
            self.breaks(6, f"{what}: job {job.number} has a running task")
        if MAIN not in job.pools or job.foreign_host is not None:
            self.breaks(6, f"{what}: job {job.number} names what is not ours")
        if world.allowed.ever(job):
            self.breaks(6, f"{what}: job {job.number} could run")
        if suspicion is None or began - suspicion.since < APART:
            self.breaks(6, f"{what}: no two observations, {APART:g} s apart, found job {job.number} unsatisfiable")
        elif suspicion.unsatisfiable_at is None:
            self.breaks(6, f"{what}: Grid Engine never said that job {job.number} cannot run")
        self.done.add(job.number)
        most = max(1, min(MOST_A_PASS, self.waiting // 10))
        if len(self.done) > most:
            self.breaks(6, f"{what}: {len(self.done)} jobs in a pass, where {most} are allowed")
        world.injected[f"unsatisfiable jobs: {needs}"] += 1

    # -- states that must hold all the time --------------------------------------------------------------------------

    def check(self) -> None:
        cell = self.world.cell
        for problem in self.world.processes.twice:
            self.breaks(7, problem)
        for name in (name for name in cell.hosts if name.startswith(PROBE_HOST_PREFIX)):
            if any(at not in cell.off and cell.total(at) for at in cell.instances_of(name)):
                self.breaks(6, f"jobs could start on {name}")

    def ends_pass(self, *, undisturbed: bool) -> None:
        """After a pass that nothing disturbed no probe host is left anywhere."""
        if undisturbed and (left := probe_hosts(self.world)):
            self.breaks(6, f"probe hosts are left: {left}")


def probe_hosts(world: World) -> list[str]:
    """Where probe hosts are named: as execution hosts, in queues, or as names that resolve."""
    cell = world.cell
    named = {*cell.hosts, *cell.attached, *cell.members, *cell.slots, *world.names.there}
    return sorted(name for name in named if name.startswith(PROBE_HOST_PREFIX))
