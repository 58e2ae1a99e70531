"""What a trial watched: a workload, hosts over time, and the figures of what happened.

Ends of jobs come from Grid Engine's accounting where it can be read, else from the passes that saw them run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autoscaler.core.estimates.run_times import Likeness, RunTimes
from autoscaler.core.model.cluster import Complex, Consumable, short_name
from autoscaler.core.model.complexes import amount
from autoscaler.core.model.fleet import Bucket, PriceType
from autoscaler.report.wording import count
from autoscaler.sge.accounting import JobEnd
from autoscaler.sge.accounting_category import read_category
from autoscaler.simulation.accounting import AccountingOptions, ignored_requests, job_of
from autoscaler.simulation.cell import HostChange
from autoscaler.simulation.measures import HOUR, quantile
from autoscaler.simulation.past import ends_of
from autoscaler.simulation.workload import SPREAD, Workload, WorkloadError, WorkloadJob
from autoscaler.store.trial import CauseSeen, HostSeen, RunSeen, TrialTable, WaitingSeen

ON_ONE_HOST = "$pe_slots"
UNBOUNDED = 1 << 30
SAME_START = 60.0
"""Seconds between a start as qmaster and as accounting have it: the second is the execd's."""
TOLD_GAP = 60.0
"""Seconds without a pass from which they are told."""
ABOUT = 0.9
"""Share of a host's memory that an offer needs to be its like: a kernel reports less than what was bought."""


@dataclass(frozen=True, slots=True)
class Task:
    """A start of a task, with its real times."""

    end: JobEnd
    submitted: float | None
    """From when it could have started; None: not known."""
    known_end: bool = True
    """Whether accounting has its end."""
    runs: bool = False
    """Whether it still ran when the trial ended: it ends in the estimate of its run time."""
    never_waited: bool = False
    """Whether it came and started between two passes, and accounting does not say when it came."""


@dataclass(frozen=True)
class Watched:
    """A trial so far. Times as Unix seconds."""

    since: float
    until: float
    periods: Sequence[tuple[float, float]]
    tasks: Sequence[Task]
    waiting: Sequence[tuple[WaitingSeen, float]]
    """Jobs of which tasks could start and had not at the end, with the estimate of their run time."""
    hosts: Sequence[HostSeen]
    spread: tuple[str, ...] = ()
    """Parallel environments whose jobs spread over hosts."""
    unread: str = ""
    """Why accounting could not be read; '': it was."""
    causes: Sequence[CauseSeen] = ()
    never_counted: int = 0
    """Tasks that waited at the end and counted as no demand."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What of accounting is no start that ran, at any time."""

    # -- the jobs ------------------------------------------------------------------------------------------------------

    def workload(self, options: AccountingOptions, scenario: Scenario) -> Workload:
        """The jobs, without those that nothing would ever run."""
        options = replace(options, largest_host=UNBOUNDED, spread=(SPREAD, *self.spread))
        jobs: list[WorkloadJob] = []
        too_large = 0
        # Of those that come in one second, they start in the order in which they really did.
        for _, _, job in sorted(self._jobs(options), key=lambda each: each[:2]):
            if scenario.takes(job):
                jobs.append(replace(job, number=len(jobs) + 1))
            else:
                too_large += job.tasks
        said = list(self._said(options))
        if too_large:
            said.append(f"{scenario.title}: left out, since nothing there is large enough: {count(too_large, 'task')}.")
        return Workload("the trial", jobs, said, self.since, len(jobs), left_out=self.left_out)

    def _jobs(self, options: AccountingOptions) -> Iterator[tuple[float, float, WorkloadJob]]:
        """Each with its submission and its real start."""
        for task in self.tasks:
            started = task.end.started_at or 0.0
            carried = started < self.since
            known = task.submitted is not None and not carried
            submitted = self.since if carried else started if task.submitted is None else task.submitted
            end = replace(task.end, submitted_at=max(submitted, self.since), started_at=max(started, self.since))
            yield end.submitted_at, started, replace(job_of(1, end, self.since, options), is_counted=known)
        for job, seconds in self.waiting:
            submitted = max(job.submitted, job.held_at or 0.0, self.since)
            end = _as_end(job, submitted, submitted + seconds)
            made = replace(job_of(1, end, self.since, options), tasks=job.tasks, is_counted=not self._any_started)
            yield submitted, float("inf"), made

    @property
    def _any_started(self) -> bool:
        """Whether there are waits that happened, to compare with: what still waited at the end has none."""
        return bool(self.happened["tasks"])

    def _said(self, options: AccountingOptions) -> Iterator[str]:
        kept = ", ".join(options.requests) or "none"
        yield f"Requests of these complexes count: {kept}. Parallel jobs spread over hosts if their environment does."
        yield from ignored_requests(options, (task.end.category for task in self.tasks))
        yield (
            "A task comes when it could start: time on hold, beyond -tc or beyond a quota is no wait. Shares, "
            "reservations, calendars and load are not simulated: the backtest shows what that means here."
        )
        if self.never_counted:
            yield f"Left out, since they would launch nothing: {count(self.never_counted, 'task')} waiting at the end."
        if self.unread:
            yield f"Accounting was not read ({self.unread}): ends are known to a pass, and short jobs may be missing."
        running = sum(task.runs for task in self.tasks)
        if running:
            yield f"Still running at the end: {count(running, 'task')}, with an estimate of how long they run in all."
        if waiting := sum(job.tasks for job, _ in self.waiting):
            yield (
                f"Not started at the end: {count(waiting, 'task')}, in the load with an estimate of how long they run"
                + (", and not of the waits." if self._any_started else ".")
            )
        if unseen := sum(task.never_waited for task in self.tasks):
            yield f"Never seen waiting: {count(unseen, 'task')} that started between two passes, and waited 0 s."
        if guessed := sum(not task.known_end and not task.runs for task in self.tasks):
            yield f"Not in accounting: {count(guessed, 'end')}, each taken between the two passes around it."
        if (gaps := self.unwatched) >= TOLD_GAP:
            yield f"Nobody watched for {gaps / 60:.0f} min: hosts are taken as they were before."

    @property
    def unwatched(self) -> float:
        """Seconds between periods."""
        return sum(after - before for (_, before), (after, _) in zip(self.periods, self.periods[1:], strict=False))

    # -- hosts ---------------------------------------------------------------------------------------------------------

    def host_changes(
        self, consumables: Sequence[str] = (), numbers: Container[str] = frozenset()
    ) -> tuple[HostChange, ...]:
        """For the simulation: when how many slots and how much of which consumable a host had. `numbers`: those that
        stand for no memory.
        """
        memory = [name for name in consumables if name not in numbers]
        return tuple(
            HostChange(
                max(0.0, host.at - self.since),
                host.name,
                host.slots,
                _amounts_of(host, consumables, memory),
            )
            for host in self.hosts
        )

    @property
    def largest(self) -> int:
        """Slots of the largest host that there was."""
        return max((host.slots for host in self.hosts), default=0)

    @property
    def all_slots(self) -> int:
        """Slots of all hosts that there were, each with its most."""
        most: dict[str, int] = {}
        for host in self.hosts:
            most[host.name] = max(most.get(host.name, 0), host.slots)
        return sum(most.values())

    def host_hours(self) -> Iterator[tuple[HostSeen, float]]:
        """Each state of a host in which it was there, with the hours that it lasted."""
        last: dict[str, HostSeen] = {}
        ends = [replace(host, at=self.until, slots=0) for host in {each.name: each for each in self.hosts}.values()]
        for host in (*self.hosts, *ends):
            before = last.get(host.name)
            if before is not None and before.slots:
                yield before, (host.at - before.at) / HOUR
            last[host.name] = host

    def price(self, buckets: Iterable[Bucket], core_price: float | None) -> float | None:
        """What the hosts cost in the time of the trial; None: there is no offer like one of them. `core_price`: of a
        core of theirs and an hour; None: each costs what the cheapest offer of its size does.
        """
        offers = [each for each in buckets if each.key.price_type is PriceType.ON_DEMAND]
        total = 0.0
        for host, hours in self.host_hours():
            cores = host.cores or host.slots
            hourly = cores * core_price if core_price is not None else _price_like(cores, host.memory, offers)
            if hourly is None:
                return None
            total += hourly * hours
        return total

    # -- what happened -------------------------------------------------------------------------------------------------

    @property
    def happened(self) -> dict[str, Any]:
        """Waits of tasks that started in the trial, in seconds; what still waited; hours of hosts and of busy cores."""
        waits = sorted(
            max(0.0, (task.end.started_at or 0.0) - max(task.submitted, self.since))
            for task in self.tasks
            if task.submitted is not None and (task.end.started_at or 0.0) >= self.since
        )
        busy = sum(
            task.end.slots
            * max(0.0, min(task.end.ended_at or self.until, self.until) - max(task.end.started_at or 0.0, self.since))
            for task in self.tasks
        )
        return {
            "tasks": len(waits),
            "mean_wait_s": sum(waits) / len(waits) if waits else None,
            "median_wait_s": quantile(waits, 0.5) if waits else None,
            "p95_wait_s": quantile(waits, 0.95) if waits else None,
            "waiting_at_end": sum(job.tasks for job, _ in self.waiting),
            "running_at_end": sum(task.runs for task in self.tasks),
            "hosts": len({host.name for host in self.hosts if host.slots}),
            "host_hours": sum(hours for _, hours in self.host_hours()),
            "busy_core_hours": busy / HOUR,
        }


@dataclass(frozen=True, slots=True)
class Scenario:
    """On what the jobs are simulated, and how large they may be there."""

    title: str
    one_host: int
    """Slots of the largest host that there may be."""
    all_hosts: int = UNBOUNDED
    """Slots of all hosts together."""
    keeps_hosts: bool = True
    """Whether the hosts that were watched are there."""

    def takes(self, job: WorkloadJob) -> bool:
        return job.slots <= (self.all_hosts if job.pe == SPREAD else self.one_host)


def is_countable(entry: Complex) -> bool:
    """Whether requests of a complex may be counted: of memory, or of another consumable that is a number."""
    of_numbers = entry.type in ("INT", "DOUBLE") and entry.name != "slots"
    return entry.type == "MEMORY" or (of_numbers and entry.consumable is not Consumable.NO)


def _amounts_of(host: HostSeen, consumables: Iterable[str], memory: Container[str]) -> dict[str, str]:
    """What a host has of these: as it is configured; of memory without a value, all."""
    configured = dict(host.complex_values)
    amounts = {name: configured.get(name, host.memory if name in memory else 0.0) for name in consumables}
    return {name: f"{size:.0f}" for name, size in amounts.items() if size}


def _price_like(cores: int, memory: float, offers: Iterable[Bucket]) -> float | None:
    prices = (
        offer.price_per_hour
        for offer in offers
        if offer.price_per_hour is not None and offer.type.vcpus >= cores and offer.type.memory >= ABOUT * memory
    )
    return min(prices, default=None)


def read_watched(
    table: TrialTable, accounting: Path, queue: str, *, alone: bool = True, elsewhere: Container[int] = frozenset()
) -> Watched:
    """The trial of a queue. `accounting`: the path of the cell's file. `alone`: no other queue is scaled; `elsewhere`:
    jobs that wait for one that is, too, and count there. Raises WorkloadError if nothing was watched.
    """
    times, periods = table.times, table.periods()
    if times is None or not periods:
        raise WorkloadError("no trial has seen this cell yet; begin one with `sge-autoscaler trial --for 7d`")
    since, until = periods[0][0], periods[-1][1]
    waiting = {job.job: job for job in table.waiting()}
    hosts = table.hosts()
    runs = table.runs()
    left_out: Counter[str] = Counter()
    try:
        ends, unread = ends_of(accounting, since, until, left_out), ""
        if not ends and not any(each.exists() for each in (accounting, accounting.with_name("accounting.jsonl"))):
            unread = f"there is no {accounting}"
    except WorkloadError as error:
        ends, unread = [], str(error).partition("; ")[0]
    queues = {run.queue for run in runs}
    queues = {queue} if queue in queues or not alone else queues
    names = {short_name(host.name) for host in hosts}
    here = [end for end in ends if short_name(end.host) in names and (not queues or end.queue in queues)]
    tasks = _ended(here, runs, waiting)
    known = RunTimes()
    for task in sorted(tasks, key=lambda task: task.end.ended_at or 0.0):
        known.add(_likeness(task.end), (task.end.ended_at or 0.0) - (task.end.started_at or 0.0))
    tasks += _running(runs, waiting, known, until)
    tasks = [_with_submission(task, periods) for task in tasks]
    left = [
        (job, _estimate(known, _likeness(_as_end(job, 0.0, 0.0)), 0.0))
        for job in waiting.values()
        if job.tasks and job.counts and job.job not in elsewhere
    ]
    others = sum(job.tasks for job in waiting.values() if not job.counts and job.job not in elsewhere)
    spread = tuple(name for name, rule in table.environments().items() if rule != ON_ONE_HOST)
    return Watched(since, until, periods, tasks, left, hosts, spread, unread, table.causes(), others, left_out)


def _ended(ends: Iterable[JobEnd], runs: Iterable[RunSeen], waiting: Mapping[int, WaitingSeen]) -> list[Task]:
    """The last start of each task that is over: as accounting has it, else as passes saw it."""
    last: dict[tuple[int, str], Task] = {}
    for run in runs:
        if run.ended is not None:
            last[run.key] = Task(_end_of(run, waiting, run.ended), run.eligible, known_end=False)
        else:
            last.pop(run.key, None)
    alive = {run.key for run in runs if run.ended is None}
    for end in sorted(ends, key=lambda end: end.ended_at or 0.0):
        key = (end.job, str(end.task) if end.task else "")
        if key not in alive:
            seen = last.get(key)
            known = seen is not None and abs((seen.end.started_at or 0.0) - (end.started_at or 0.0)) < SAME_START
            eligible = seen.submitted if known and seen is not None else None
            came = end.submitted_at if eligible is None else eligible
            last[key] = Task(end, min(came, end.started_at or came))
    return list(last.values())


def _with_submission(task: Task, periods: Sequence[tuple[float, float]]) -> Task:
    """A task that no pass saw wait came after the pass before its start, if there was one."""
    started = task.end.started_at or 0.0
    if task.submitted is None and any(since < started <= until for since, until in periods):
        return replace(task, submitted=started, never_waited=True)
    return task


def _running(
    runs: Iterable[RunSeen], waiting: Mapping[int, WaitingSeen], known: RunTimes, until: float
) -> Iterator[Task]:
    for run in runs:
        if run.ended is None:
            so_far = max(0.0, until - run.started)
            seconds = max(so_far, _estimate(known, _likeness(_end_of(run, waiting, until)), so_far))
            end = _end_of(run, waiting, run.started + seconds)
            yield Task(end, run.eligible, known_end=False, runs=True)


def _estimate(known: RunTimes, like: Likeness, running: float) -> float:
    """How long it runs in all; as long as it has run if nothing like it has ended."""
    found = known.estimate(like, running) or known.estimate(like)
    return max(running, 1.0 if found is None else found.median)


def _likeness(end: JobEnd) -> Likeness:
    asked = dict(read_category(end.category).hard).get("h_rt")
    return Likeness(end.owner, slots=end.slots, requested=None if asked is None else amount(asked, "TIME"))


def _end_of(run: RunSeen, waiting: Mapping[int, WaitingSeen], ended: float) -> JobEnd:
    seen = waiting.get(run.job)
    return JobEnd(
        run.queue, run.host, int(run.task) if run.task.isdecimal() else 0, run.started, run.started, ended, 0, 0,
        run.slots, run.owner, run.job, project="" if seen is None else seen.project, pe=run.pe,
        category=_category(run.hard, run.pe, run.slots),
    )  # fmt: skip


def _as_end(job: WaitingSeen, started: float, ended: float) -> JobEnd:
    return JobEnd(
        "", "", 0, started, started, ended, 0, 0, job.slots, job.owner, job.job, project=job.project, pe=job.pe,
        category=_category(job.hard, job.pe, job.slots),
    )  # fmt: skip


def _category(hard: Sequence[tuple[str, str]], pe: str, slots: int) -> str:
    """The requests in the words of accounting."""
    asked = f"-l {','.join(f'{name}={value}' for name, value in hard)}" if hard else ""
    return " ".join(filter(None, (asked, f"-pe {pe} {slots}" if pe else "")))
