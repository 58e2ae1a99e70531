"""Records what each pass of a trial saw: hosts, jobs that wait, start and end, and why they wait. It acts on nothing.

Jobs that come and end between two passes are not seen here; Grid Engine's accounting has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from autoscaler.core.model.cluster import (
    Cluster,
    Complex,
    Consumable,
    ExecutionHost,
    JobCategory,
    JobRequest,
    QueueInstance,
)
from autoscaler.core.model.complexes import amount, by_any_name, task_count
from autoscaler.core.model.reasons import Code
from autoscaler.core.outcome.innermost import LEADS_ON, cause_of
from autoscaler.core.placement.needs import SLOTS
from autoscaler.core.placement.queue_instances import held
from autoscaler.core.snapshot import Plan
from autoscaler.engine.pass_listener import FailedPass, Pass, PassListener
from autoscaler.report.waiting_cause import waiting_cause
from autoscaler.store.trial import HostSeen, RunSeen, TrialTable, WaitingSeen

ROUNDED = 0.002
"""Share by which what is left of a consumable may seem to change: Grid Engine prints few digits of it."""
COUNTED = ("MEMORY", "INT", "DOUBLE")
"""Types of consumables that are recorded."""
CLOSED = frozenset("dDuEsSCoc")
"""States of a queue instance in which no job starts there."""
PASSING = LEADS_ON | {
    Code.SCALE_UP_BATCH,
    Code.BATCH_DELAY,
    Code.LAUNCH_RATE_LIMIT,
    Code.LAUNCHES_DID_NOT_HELP,
    Code.LAUNCHES_FAILED,
    Code.GROUP_LAUNCHED,
    Code.LAUNCH_REPLACES,
}
"""Causes that end by themselves, or by launches, of which a trial makes none."""


NOT_YET = frozenset(
    {
        Code.HELD,
        Code.DEPENDENT,
        Code.FUTURE,
        Code.IN_ERROR,
        Code.BEYOND_CONCURRENCY,
        Code.BEYOND_ARRAY_LIMIT,
        Code.BEYOND_USER_LIMIT,
        Code.BEYOND_QUOTA,
        Code.QUOTA_ALLOWS_NONE,
        Code.BEYOND_GLOBAL,
        Code.TOO_MUCH_FOR_QUOTA,
        Code.TOO_MUCH_FOR_CELL,
    }
)
"""Causes for which a job could start on no host, however many there are."""


class TrialKeeper(PassListener):
    """One for each time that a trial is started; it goes on with what the file has."""

    title = "the record of the trial"
    in_dry_run = True

    def __init__(
        self, table: TrialTable, queue: str, ends: float, over: Callable[[], None], *, alone: bool = True
    ) -> None:
        """`queue`: the one that the settings scale. `over`: called when the trial's time is over. `alone`: no other
        queue is scaled: jobs of all count where the cell has none of that name.
        """
        self.queue, self._alone = queue, alone
        self._table, self._ends, self._over = table, ends, over
        self._since: float | None = None
        periods = table.periods()
        self._last = periods[-1][1] if periods else None
        """When the last pass, of this or a former process, saw the cell."""
        self._hosts = {host.name: host for host in table.hosts()}
        self._runs = {run.key: run for run in table.runs(living=True)}
        self._waiting = {job.job: job for job in table.waiting()}
        self._environments = table.environments()
        self._causes: set[tuple[str, int]] = set()
        self.jobs_seen: set[int] = {run.job for run in table.runs()} | self._waiting.keys()
        self.wait_now: dict[int, int] = {}
        """Tasks that wait, as of the last pass, by job."""

    @property
    def hosts_now(self) -> set[str]:
        """Hosts on which jobs may start."""
        return {host.name for host in self._hosts.values() if host.slots > 0}

    @property
    def watched_to(self) -> float | None:
        """When the last pass was that saw the cell."""
        return self._last

    def passed(self, done: Pass) -> None:
        cluster, now = done.snapshot.cluster, done.snapshot.now
        only = self.queue if not self._alone or _serves(cluster, self.queue) else None
        if self._since is None:
            self._since = now
        with self._table.transaction():
            self._table.watches(self._since, now)
            self._note_hosts(cluster, now, only)
            self._note_runs(cluster, now, only)
            self._note_waiting(cluster, now, only, done.plan)
            self._note_causes(done.plan)
        self._last = now
        self._end_if_over(now)

    def failed(self, failure: FailedPass) -> None:
        # What follows an outage is a new period: nobody knows what happened meanwhile.
        self._since = None
        self._end_if_over(failure.at)

    def _end_if_over(self, now: float) -> None:
        if now >= self._ends:
            self._over()

    def _note_hosts(self, cluster: Cluster, now: float, only: str | None) -> None:
        complexes = by_any_name(cluster.complexes)
        found = {host.name: _seen(host, now, only, complexes) for host in cluster.hosts if _instances(host, only)}
        for name, before in self._hosts.items():
            if name not in found and before.slots:
                found[name] = replace(before, at=now, slots=0)
        for name, host in found.items():
            known = self._hosts.get(name)
            if known is None or _is_another(known, host):
                self._table.add_host(host)
                self._hosts[name] = host
        for environment in cluster.pes.values():
            if self._environments.get(environment.name) != environment.allocation_rule:
                self._environments[environment.name] = environment.allocation_rule
                self._table.note_environment(environment.name, environment.allocation_rule)

    def _note_runs(self, cluster: Cluster, now: float, only: str | None) -> None:
        found = _runs(cluster, now, only)
        began = [
            run
            for key, run in found.items()
            if (known := self._runs.get(key)) is None or _started_again(known, run, self._last)
        ]
        over = [run for key, run in self._runs.items() if key not in found]
        over += [self._runs[run.key] for run in began if run.key in self._runs]
        self._table.end_runs(over, now if self._last is None else (self._last + now) / 2)
        began = [replace(run, eligible=self._eligible(run)) for run in began]
        self._table.add_runs(began)
        began_now = {run.key: run for run in began}
        self._runs = {key: began_now.get(key) or self._runs[key] for key in found}
        self.jobs_seen.update(run.job for run in began)

    def _eligible(self, run: RunSeen) -> float | None:
        """From when it could have started, by the passes before its start."""
        seen = self._waiting.get(run.job)
        if seen is None or seen.submitted > run.started:
            return None
        return min(run.started, max(seen.submitted, seen.held_at or 0.0))

    def _note_waiting(self, cluster: Cluster, now: float, only: str | None, plan: Plan) -> None:
        found: dict[int, WaitingSeen] = {}
        uncounted, blocked = _verdicts(plan)
        for category in cluster.job_categories:
            if only is None or _may_use(category.ask, only):
                self._gather(category, now, found)
        for key, job in found.items():
            held_at = now if key in blocked else job.held_at
            found[key] = replace(job, held_at=held_at, counts=key not in uncounted)
        self.wait_now = {job.job: job.tasks for job in found.values()}
        changed = [job for key, job in found.items() if self._waiting.get(key) != job]
        gone = [replace(job, tasks=0) for key, job in self._waiting.items() if job.tasks and key not in found]
        self._table.note_waiting([*changed, *gone])
        self._waiting |= {job.job: job for job in (*changed, *gone)}
        self.jobs_seen.update(found)

    def _gather(self, category: JobCategory, now: float, found: dict[int, WaitingSeen]) -> None:
        """An array may be in several categories: some of its tasks on hold, others not."""
        ask = category.ask
        for job, tasks, submitted in zip(category.jobs, category.tasks, category.submitted, strict=True):
            known = self._waiting.get(job)
            known = known if known is not None and known.submitted == submitted else None
            before = found.get(job)
            found[job] = WaitingSeen(
                job,
                submitted,
                (before.tasks if before else 0) + (task_count(tasks) if tasks else 1),
                None if known is None else known.held_at,
                ask.owner,
                ask.project or "",
                ask.slots_max if ask.slots_max == ask.slots_min else ask.slots_min,
                ask.pe or "",
                ask.hard,
            )

    def _note_causes(self, plan: Plan) -> None:
        new: list[tuple[str, int, str]] = []
        for verdict in plan.job_categories:
            cause = None
            for job in verdict.jobs if self._alone else (job for job in verdict.jobs if job in self.wait_now):
                cause = cause or waiting_cause(verdict.reason)
                key = (cause.cause.code.value, job)
                if key not in self._causes and cause.cause.code not in PASSING:
                    self._causes.add(key)
                    new.append((*key, cause.sentence))
        self._table.note_causes(new)


def _verdicts(plan: Plan) -> tuple[set[int], set[int]]:
    """The jobs that do not count as demand, and those of which no task could start on any host."""
    judged: set[int] = set()
    counted: set[int] = set()
    startable: set[int] = set()
    for verdict in plan.job_categories:
        judged.update(verdict.jobs)
        if verdict.counted:
            counted.update(verdict.jobs)
        if verdict.counted or cause_of(verdict.reason).code not in NOT_YET:
            startable.update(verdict.jobs)
    return judged - counted, judged - startable


def _serves(cluster: Cluster, queue: str) -> bool:
    """Whether any host of the cell has an instance of the queue."""
    return any(instance.queue == queue for host in cluster.hosts for instance in host.instances)


def _may_use(ask: JobRequest, queue: str) -> bool:
    return not ask.queues or any(fnmatchcase(queue, name.partition("@")[0] or "*") for name in ask.queues)


def _instances(host: ExecutionHost, only: str | None) -> list[QueueInstance]:
    return [instance for instance in host.instances if only is None or instance.queue == only]


def _seen(host: ExecutionHost, now: float, only: str | None, complexes: Mapping[str, Complex]) -> HostSeen:
    """Several queues of a host share its cores: the largest counts, or what is in use if that is more."""
    there = _instances(host, only)
    open_ones = [instance for instance in there if not CLOSED.intersection(instance.states)]
    slots = max(*(instance.slots for instance in open_ones), sum(i.used for i in there)) if open_ones else 0
    cores = amount(host.load.get("num_proc", ""), "INT")
    memory = amount(host.load.get("mem_total", ""), "MEMORY")
    return HostSeen(
        now, host.name, slots if host.heard else 0, int(cores or 0), memory or 0.0, _complex_values(host, complexes)
    )


def _is_another(known: HostSeen, host: HostSeen) -> bool:
    """Whether something changed. A host that is silent shows neither cores nor memory."""
    if known.slots != host.slots or known.cores != (host.cores or known.cores):
        return True
    before = dict(known.complex_values)
    return any(abs(size - before.get(name, 0.0)) > ROUNDED * size for name, size in host.complex_values)


def _complex_values(host: ExecutionHost, complexes: Mapping[str, Complex]) -> tuple[tuple[str, float], ...]:
    """What there would be of consumables if nothing ran: what is left, and what running jobs hold."""
    found = []
    for name, text in host.consumables.items():
        entry = complexes.get(name)
        if entry is None or entry.consumable is Consumable.NO or entry.name == SLOTS or entry.type not in COUNTED:
            continue
        left = amount(text, entry.type)
        if left is not None:
            found.append((name, left + sum(held(job.hard, job.slots, entry, complexes) for job in host.jobs)))
    return tuple(found)


def _runs(cluster: Cluster, now: float, only: str | None) -> dict[tuple[int, str], RunSeen]:
    """What runs, with the slots of all of its hosts together."""
    found: dict[tuple[int, str], RunSeen] = {}
    for host, instance in _every_instance(cluster, only):
        for job in instance.jobs:
            if job.started is None:
                continue  # in transfer: a later pass knows when it starts
            key = (job.number, job.task)
            known = found.get(key)
            if known is not None:
                found[key] = replace(known, slots=known.slots + job.slots)
                continue
            started = min(job.started, now)
            found[key] = RunSeen(
                job.number, job.task, started, job.owner, job.slots, job.pe, job.hard, instance.queue, host.name
            )
    return found


def _every_instance(cluster: Cluster, only: str | None) -> Iterator[tuple[ExecutionHost, QueueInstance]]:
    return ((host, instance) for host in cluster.hosts for instance in _instances(host, only))


def _started_again(known: RunSeen, run: RunSeen, last: float | None) -> bool:
    """Whether it is another start, after the last pass."""
    return run.started > known.started and last is not None and run.started > last
