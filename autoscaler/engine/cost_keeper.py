"""Keeps which job held slots of which worker: from each pass's observation, and from Grid Engine's accounting."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoscaler.core.cost.shares import UNKNOWN, Payer
from autoscaler.core.model.cluster import ExecutionHost, HostJob, JobDetail, short_name
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.observed import ObservedWorkers
from autoscaler.core.workers.worker_state import WorkerState
from autoscaler.engine.pass_listener import Pass, PassListener
from autoscaler.sge.accounting import JobEnd, ends_in
from autoscaler.sge.accounting_tail import lines_of, read_tail
from autoscaler.store.history import Lifetime
from autoscaler.store.store import Store
from autoscaler.store.usages import SOON, Run, RunKey

log = logging.getLogger(__name__)

MOST = 2 << 20
"""Bytes of accounting that one pass reads: some 8,000 lines. The rest waits for the next pass."""
AT_FIRST = 16 << 20
"""The same for a new or a lost store: budgets wait for all of it."""
BACK = 64 << 20
"""Bytes that are read back if it is not known how far accounting was read: of a new or a lost store."""

LARGEST = 2**31 - 1
"""Bound of job numbers, tasks and slots: no Grid Engine goes further, and a broken line must not stop a pass."""


@dataclass(slots=True)
class CostKeeper(PassListener):
    """One for the life of a process."""

    title = "the use of workers by jobs"

    store: Store
    accounting: Path
    """SGE_ROOT/CELL/common/accounting."""
    _running: Mapping[RunKey, Run] = field(default_factory=dict)
    _seen_at: float | None = None
    """The time at which the last pass observed them."""
    _instances: Mapping[tuple[str, str], tuple[HostJob, ...]] = field(default_factory=dict)
    """What the last pass observed, by queue and worker; the same object has no news."""
    _logged: str = ""
    _since: float | None = None
    """When this process first read accounting for a store that had read none."""

    def keep(self, done: Pass) -> None:
        self.note(done.snapshot, done.observed)

    def note(self, snapshot: Snapshot, observed: ObservedWorkers) -> None:
        """Call this after a pass, once its workers are in the history, within any transaction: the next pass repeats
        what could not be kept. Raises StateNotKept.
        """
        table = self.store.usages
        written = self._seen_at is not None and table.seen_at == self._seen_at
        running = self._running if written else table.running()
        instances = {
            (instance.queue, worker.worker.id): instance.jobs
            for worker in observed.known
            if worker.host is not None
            for instance in worker.host.instances
            if instance.jobs
        }
        with self.store.database.transaction():
            if not written or instances != self._instances:
                running = self._follow(running, runs_on(observed.known, _details(snapshot), snapshot.now), snapshot.now)
            running = self._account(running, snapshot.now)
        self._running, self._instances, self._seen_at = running, instances, snapshot.now

    def _follow(self, before: Mapping[RunKey, Run], seen: Mapping[RunKey, Run], now: float) -> dict[RunKey, Run]:
        """Write the runs that began and those that are over; returns those that run now."""
        table = self.store.usages
        restarted = {key for key, run in seen.items() if key in before and run.began > before[key].began + SOON}
        over = [run for key, run in before.items() if key not in seen or key in restarted]
        if over:
            table.end(over, table.seen_at or now)
        began = [run for key, run in seen.items() if key not in before or key in restarted]
        if began:
            table.begin(began)
        kept = {key: run for key, run in before.items() if key in seen and key not in restarted}
        return kept | {run.key: run for run in began}

    def _account(self, before: Mapping[RunKey, Run], now: float) -> Mapping[RunKey, Run]:
        """Read the new lines of accounting."""
        table = self.store.usages
        place, known = table.place, table.since is not None
        self._since = now if self._since is None else self._since
        try:
            tail = read_tail(self.accounting, place, MOST if known else AT_FIRST, BACK)
        except OSError as error:
            if str(error) != self._logged:
                log.warning(
                    "the accounting file cannot be read, so it is not known which jobs used the workers: %s", error
                )
            self._logged = str(error)
            table.mark(place, now, self._since)
            return before
        self._logged = ""
        if tail.missing:
            log.warning("accounting was rotated away before it was read: jobs of that time count as idle in `cost`")
        accounted = frozenset(table.account(self._runs_of(tail.data))) if tail.data else frozenset()
        table.mark(tail.place, now, None if tail.more and not known else self._since)
        return {key: run for key, run in before.items() if key not in accounted} if accounted else before

    def _runs_of(self, data: bytes) -> list[Run]:
        """Of these lines, the runs on workers."""
        history = self.store.history
        ended = list(ends_in(lines_of(data, frozenset(map(short_name, history.names())))))
        lives: dict[str, list[Lifetime]] = {}
        for life in history.lifetimes(min((end.submitted_at for end in ended), default=float("inf"))):
            if life.name:
                lives.setdefault(short_name(life.name), []).append(life)
        return [run for end in ended for run in _of_worker(end, lives.get(short_name(end.host), []))]


def _of_worker(end: JobEnd, lives: list[Lifetime]) -> Iterator[Run]:
    """The worker of its host's name that it ran on: the newest that was there when it began."""
    if max(end.job, end.task, end.slots) > LARGEST:
        return
    if end.part or end.started_at is None or end.ended_at is None or end.ended_at < end.started_at:
        return
    there = [life for life in lives if life.created_at <= end.started_at + SOON]
    if not there or (there[-1].ended_at is not None and there[-1].ended_at < end.started_at):
        return
    payer = Payer(end.owner, end.group, end.department, end.project, end.account, end.queue)
    key = RunKey(there[-1].worker_id, end.job, end.task)
    yield Run(key, payer, max(end.slots, 1), end.started_at, end.ended_at)


def runs_on(workers: tuple[WorkerState, ...], details: Mapping[int, JobDetail], now: float) -> dict[RunKey, Run]:
    """The jobs that run on workers, as a pass observes them: a job in two queues of a host holds the slots of both."""
    found: dict[RunKey, Run] = {}
    for worker in workers:
        for instance in worker.host.instances if worker.host is not None else ():
            for job in instance.jobs:
                if not 0 < job.number <= LARGEST:
                    continue  # 0 stands for one that cannot be read
                task = min(int(job.task[:19]), LARGEST) if job.task.isdecimal() else 0
                key = RunKey(worker.worker.id, job.number, task)
                before = found.get(key)
                detail = details.get(job.number)
                known = detail is not None and detail.group is not None
                payer = Payer(
                    job.owner or UNKNOWN,
                    (detail.group or UNKNOWN) if detail is not None else UNKNOWN,
                    UNKNOWN,
                    detail.project if detail is not None and known else UNKNOWN,
                    UNKNOWN,
                    instance.queue,
                )
                slots = job.slots + (before.slots if before else 0)
                began = min(job.started if job.started is not None else now, now)
                found[key] = Run(key, before.payer if before else payer, max(slots, 1), began)
    return found


def slots_of(host: ExecutionHost | None) -> int:
    """Slots that a worker gives to jobs. Several queues share its cores, so the largest one counts."""
    return max((instance.slots for instance in host.instances), default=0) if host is not None else 0


def _details(snapshot: Snapshot) -> Mapping[int, JobDetail]:
    return {**snapshot.memory.details, **snapshot.cluster.details}
