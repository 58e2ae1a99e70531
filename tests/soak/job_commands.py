"""What a simulated Grid Engine answers to those who change jobs, or ask about them, in the texts of 8.1.9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.sge.grid_engine_model import ROOT
from tests.soak.jobs import Job, Room

USER = ROOT.partition("@")[0]
Answer = tuple[int, str]


@dataclass(frozen=True)
class JobCommands:
    """`empty`: all that execution hosts offer, were nothing on any and every queue instance enabled."""

    jobs: Callable[[], Sequence[Job]]
    empty: Callable[[], Room]

    def answer(self, argv: tuple[str, ...]) -> Answer | None:
        """None: it is another command."""
        match argv:
            case ("qalter", "-w", "v", *words):
                return self._each(words, lambda job, _: self._verified(job))
            case ("qalter", "-ac", text, *words):
                return self._each(words, lambda job, _: (0, _annotate(job, text)))
            case ("qhold" | "qrls" as program, "-h", "o", *words):
                return self._each(words, lambda job, _: (0, _hold(job, held=program == "qhold")))
            case ("qdel", "-f", *words):
                return self._each(words, lambda job, tasks: (0, _delete(job, tasks, forced=True)))
            case ("qdel", *words):
                return self._each(words, lambda job, tasks: (0, _delete(job, tasks, forced=False)))
            case ("qmod", "-rj", word):
                return self._each([word], lambda job, tasks: (0, _reschedule(job, tasks, forced=False)))
            case ("qmod", "-f", "-rj", word):
                return self._each([word], lambda job, tasks: (0, _reschedule(job, tasks, forced=True)))
            case _:
                return None

    def named(self, word: str) -> tuple[Job | None, list[int]]:
        """The job that `12`, `12.3` or `12.1-9:2` means, and its tasks: of a whole job all of them."""
        number, _, tasks = word.partition(".")
        job = next((job for job in self.jobs() if str(job.number) == number and not job.over), None)
        if job is None or not tasks:
            return job, [] if job is None else [*job.waiting, *(run.task for run in job.runs)]
        bounds, _, stride = tasks.partition(":")
        first, _, last = bounds.partition("-")
        return job, list(range(int(first), int(last or first) + 1, int(stride or 1)))

    def _each(self, words: Sequence[str], answer: Callable[[Job, list[int]], Answer]) -> Answer:
        answers: list[Answer] = []
        for word in words:
            job, tasks = self.named(word)
            absent = (1, f'denied: job "{word.partition(".")[0]}" does not exist')
            answers.append(absent if job is None else answer(job, tasks))
        return max(code for code, _ in answers), "\n".join(text for _, text in answers)

    def _verified(self, job: Job) -> Answer:
        """Against the cluster as configured, whichever hosts are disabled or silent; probe hosts included."""
        if self.empty().place(job) is None:
            why = f'Job {job.number} cannot run in queue "main.q" because it offers too little'
            return 1, f"{why}\nverification: no suitable queues"
        if job.runs or job.held or job.held_by_operator:
            return 0, "verification: job is already running or is held"
        found = "suitable queue(s)" if job.pe is None else f"possible assignment with {job.slots} slots"
        return 0, f"verification: found {found}"


def _annotate(job: Job, text: str) -> str:
    job.context = text
    return f"modified context of job {job.number}"


def _hold(job: Job, *, held: bool) -> str:
    job.held_by_operator = held
    return f"modified hold of job {job.number}"


def _delete(job: Job, tasks: list[int], *, forced: bool) -> str:
    """Waiting tasks go at once, running ones once their hosts have ended them; forced ones are not waited for."""
    job.waiting = [task for task in job.waiting if task not in tasks]
    runs = [run for run in job.runs if run.task in tasks]
    for run in runs:
        if forced:
            job.runs.remove(run)
        elif run.leaves_at is None:
            run.leaves_at = 0.0
    if not runs:
        return f"{USER} has deleted job {job.number}"
    return (
        f"{USER} forced the deletion of job {job.number}"
        if forced
        else f"{USER} has registered the job {job.number} for deletion"
    )


def _reschedule(job: Job, tasks: list[int], *, forced: bool) -> str:
    """The processes live on until their hosts' execds learn of it."""
    runs = [run for run in job.runs if run.task in tasks]
    if not runs:
        return f"Modify operation can not be applied on job-array task {job.number}.1 in pending/hold state"
    if not forced and not job.rerun:
        return f"The job {job.number} is not restartable"
    for run in runs:
        job.runs.remove(run)
        job.waiting = sorted({*job.waiting, run.task})
        job.rescheduled[run.task] = job.rescheduled.get(run.task, 0) + 1
    host = sorted(runs[0].hosts)[0]
    return f"{'Forced' if forced else 'Pushed'} rescheduling of job {job.number} on host {host}"
