"""A simulated cell in memory: a Grid Engine that runs jobs on a fake cloud's machines, and a simulated clock.

Grid Engine is used as the real one is, by argv and in its own texts, so that reading and changing it go through the
real parsers and the real administrator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from autoscaler.providers.fake import FakeCloud
from tests.sge.grid_engine_model import ROOT, GridEngineModel
from tests.sge.printed import host, qhost, qstat, queue_list, queue_of_host, running_job, waiting_job

START = 1_790_000_000.0
SCHEDULE_INTERVAL = 2.0


@dataclass(slots=True)
class Clock:
    """Time that passes only when a test advances it."""

    now: float = START

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Job:
    """A single-host job; `starts` are the hosts on which it was started, in order."""

    number: int
    submitted: float
    seconds: float
    slots: int = 1
    host: str | None = None
    started: float = 0.0
    ended: bool = False
    starts: tuple[str, ...] = ()
    deleted: bool = False
    held: bool = False
    """As operator."""
    context: str = ""


class SimulatedCluster(GridEngineModel):
    """Grid Engine and its jobs. `persistent` hosts are always there, with their slots."""

    def __init__(self, cloud: FakeCloud, clock: Clock, persistent: dict[str, int] | None = None) -> None:
        super().__init__()
        self.cloud, self.clock = cloud, clock
        self.persistent = persistent or {}
        self.jobs: list[Job] = []
        self.silent: set[str] = set()
        """Machines whose execd never reports."""
        self.fixed: set[int] = set()
        """Jobs that may not be started again."""
        self.pe = ""
        """Its parallel environment, whose jobs have all slots on one host; '': it has none."""
        self.unobservable = 0
        """This many further read-only calls fail."""
        for name, slots in self.persistent.items():
            self.hosts[name] = f"slots={slots}"
            self.members.append(name)
            self.slots[name] = slots

    def submit(self, count: int = 1, *, seconds: float = 60.0, slots: int = 1) -> list[Job]:
        first = len(self.jobs) + 1
        new = [Job(first + number, self.clock.now, seconds, slots) for number in range(count)]
        self.jobs += new
        return new

    def advance(self, seconds: float) -> None:
        """Advance the clock in steps of the scheduler: jobs end, then waiting ones start where they may."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now = min(until, self.clock.now + SCHEDULE_INTERVAL)
            self.schedule()

    def schedule(self) -> None:
        for job in self.jobs:
            if job.host is not None and not job.ended and self.clock.now - job.started >= job.seconds:
                job.ended, job.host = True, None
        self._note_busy()
        for job in self.jobs:
            if job.host is None and not job.ended and not job.held:
                place = next((name for name in self.hosts if self._takes(name, job)), None)
                if place is not None:
                    job.host, job.started, job.starts = place, self.clock.now, (*job.starts, place)
                    self._note_busy()

    def heard(self, name: str) -> bool:
        return name in self.persistent or (
            name not in self.silent
            and any(
                machine.name == name
                and machine.ended_at is None
                and self.cloud.clock() >= machine.created_at + self.cloud.boot_delay
                for machine in self.cloud.machines.values()
            )
        )

    @property
    def workers(self) -> set[str]:
        """Execution hosts besides the persistent ones."""
        return set(self.hosts) - set(self.persistent)

    @property
    def waiting(self) -> list[Job]:
        return [job for job in self.jobs if job.host is None and not job.ended]

    def _takes(self, name: str, job: Job) -> bool:
        used = sum(other.slots for other in self.jobs if other.host == name)
        return self.can_start_jobs(name) and self.heard(name) and used + job.slots <= self.slots.get(name, 0)

    def _note_busy(self) -> None:
        self.busy = {job.host for job in self.jobs if job.host is not None}

    # -- its texts -----------------------------------------------------------------------------------------------

    def answer(self, argv: tuple[str, ...]) -> tuple[int, str]:
        if self.unobservable > 0 and argv[0] in ("qstat", "qhost"):
            self.unobservable -= 1
            return 1, "error: commlib error: got select error"
        match argv:
            case ("qstat", "-u", "*", "-s", "a", "-r", "-f", "-xml"):
                return 0, self._qstat()
            case ("qhost", "-q", "-F", "-xml"):
                return 0, self._qhost()
            case ("qconf", "-sc"):
                return 0, "slots s INT <= YES YES 1 1000\narch a RESTRING == YES NO NONE 0\n"
            case ("qconf", "-se", "global"):
                return 0, "hostname global\ncomplex_values NONE\n"
            case ("qconf", "-srqs"):
                return 1, "no resource quota set defined"
            case ("qconf", "-ssconf"):
                return 0, f"schedule_interval 0:0:{SCHEDULE_INTERVAL:g}\n"
            case ("qconf", "-sconf"):
                return 0, "#global:\nmax_unheard 00:00:20\nload_report_time 00:00:02\n"
            case ("qconf", "-sql"):
                return 0, f"{self.queue}\n"
            case ("qconf", "-sckptl"):
                return 1, "no ckpt interface definition defined"
            case ("qconf", "-spl"):
                return (0, f"{self.pe}\n") if self.pe else (1, "no parallel environment defined")
            case ("qconf", "-sp", self.pe):
                return 0, f"pe_name {self.pe}\nslots 999\nuser_lists NONE\nallocation_rule $pe_slots\n"
            case ("qconf", "-sq", self.queue):
                return 0, self.answer(("qconf", "-sq", "*"))[1] + f"pe_list {self.pe or 'NONE'}\n"
            case ("qalter", "-w", "v", *numbers):
                answers = [self._verified(number) for number in numbers]
                return max(code for code, _ in answers), "\n".join(text for _, text in answers)
            case ("qalter", "-ac", text, *numbers):
                return self._each(numbers, lambda job: self._annotate(job, text))
            case ("qhold" | "qrls" as program, "-h", "o", *numbers):
                return self._each(numbers, lambda job: self._hold(job, held=program == "qhold"))
            case ("qdel", *words):
                return self._each([word for word in words if word != "-f"], self._delete)
            case ("qstat", "-j", numbers, "-xml"):
                known = [number for number in numbers.split(",") if self.job(number)]
                rows = (
                    f"<element><JB_job_number>{number}</JB_job_number>"
                    f"<JB_restart>{2 if int(number) in self.fixed else 1}</JB_restart></element>"
                    for number in known
                )
                return 0, f"<detailed_job_info><djob_info>{''.join(rows)}</djob_info></detailed_job_info>"
            case ("qmod", "-rj", number) if int(number) in self.fixed:
                return 0, f"The job {number} is not restartable"
            case ("qmod", "-rj", number) | ("qmod", "-f", "-rj", number):
                return self._of_job(number, self._reschedule)
            case _:
                return super().answer(argv)

    # -- jobs, as 8.1.9 answers (tests/grid_engine/test_probe_hosts.py, test_admin.py) ---------------------------------

    def job(self, number: str) -> Job | None:
        """One that waits or runs."""
        return next((job for job in self.jobs if str(job.number) == number and not job.ended), None)

    def _of_job(self, number: str, answer: Callable[[Job], str]) -> tuple[int, str]:
        job = self.job(number)
        return (1, f'denied: job "{number}" does not exist') if job is None else (0, answer(job))

    def _each(self, numbers: Sequence[str], answer: Callable[[Job], str]) -> tuple[int, str]:
        answers = [self._of_job(number, answer) for number in numbers]
        return max(code for code, _ in answers), "\n".join(text for _, text in answers)

    def _verified(self, number: str) -> tuple[int, str]:
        """Against the cluster as configured, as if empty, whichever hosts are disabled or silent."""
        job = self.job(number)
        if job is None:
            return 1, f'denied: job "{number}" does not exist'
        if max((self.slots.get(name, 0) for name in self.instances()), default=0) < job.slots:
            why = f'Job {number} cannot run in PE "local" because it only offers 0 slots'
            return 1, f"{why}\nverification: no suitable queues"
        if job.host is not None or job.held:
            return 0, "verification: job is already running or is held"
        found = "found suitable queue(s)" if job.slots == 1 else f"found possible assignment with {job.slots} slots"
        return 0, f"verification: {found}"

    def _annotate(self, job: Job, text: str) -> str:
        job.context = text
        return f"modified context of job {job.number}"

    def _hold(self, job: Job, *, held: bool) -> str:
        job.held = held
        return f"modified hold of job {job.number}"

    def _delete(self, job: Job) -> str:
        job.ended = job.deleted = True
        job.host = None
        return f"{ROOT.partition('@')[0]} has deleted job {job.number}"

    def _reschedule(self, job: Job) -> str:
        """One that may be started again, or is forced to."""
        if job.host is None:
            return f"Modify operation can not be applied on job-array task {job.number}.1 in pending/hold state"
        job.host, place = None, job.host
        return f"Pushed rescheduling of job {job.number} on host {place}"

    # -- its listings ------------------------------------------------------------------------------------------------

    def _states(self, name: str) -> str:
        return ("d" if name in self.disabled else "") + ("" if self.heard(name) else "u")

    def _used(self, name: str) -> int:
        return sum(job.slots for job in self.jobs if job.host == name)

    def _qstat(self) -> str:
        queues = [
            queue_list(
                f"{self.queue}@{name}",
                *(self._running(job) for job in self.jobs if job.host == name),
                used=self._used(name),
                total=self.slots.get(name, 0),
                state=self._states(name),
            )
            for name in sorted(self.instances())
        ]
        waiting = [
            waiting_job(
                job.number,
                slots=job.slots,
                state="hqw" if job.held else "qw",
                time=f"<JB_submission_time>{at_time(job.submitted)}</JB_submission_time>",
                more="" if job.slots == 1 else f'<requested_pe name="local">{job.slots}</requested_pe>',
            )
            for job in self.waiting
        ]
        return qstat(waiting, queues).decode()

    def _running(self, job: Job) -> str:
        return running_job(job.number, slots=job.slots)

    def _qhost(self) -> str:
        return qhost(*(self._host(name) for name in self.hosts)).decode()

    def _host(self, name: str) -> str:
        instance = queue_of_host(
            self.queue, used=self._used(name), total=self.slots.get(name, 0), state=self._states(name)
        )
        queues = [instance] if name in self.instances() else []
        offered = int(self.hosts[name].partition("slots=")[2].partition(",")[0] or 0)
        left = f"   <resourcevalue name='slots' dominance='hc'>{offered - self._used(name)}</resourcevalue>\n"
        if self.heard(name):
            return host(name, *queues, more=left)
        return host(name, *queues, load={}, column="-", more=left)


def ended_once(jobs: Sequence[Job]) -> bool:
    """Whether every job has run, and only once."""
    return all(job.ended and len(job.starts) == 1 for job in jobs if not job.deleted)


def at_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
