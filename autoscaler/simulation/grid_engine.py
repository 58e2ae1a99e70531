"""A Grid Engine in memory: jobs are submitted, start and end, hosts come and go, and it is read as one `Cluster`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from autoscaler.core.model.cluster import (
    Cluster,
    ExecutionHost,
    JobCategory,
    JobDetail,
    JobRequest,
    Queue,
)
from autoscaler.core.model.complexes import amount
from autoscaler.simulation.cell import CellConfiguration, HostChange
from autoscaler.simulation.hosts import Run, SimulatedHost
from autoscaler.simulation.scheduler import (
    BY_PRIORITY,
    HostOrder,
    Pending,
    PendingCategory,
    Ranking,
    Shares,
    needs_of,
    ranking_of,
    schedule,
)
from autoscaler.simulation.workload import WorkloadError, WorkloadJob

Started = Callable[[Run], None]
Changing = Callable[[SimulatedHost], None]


class GridEngine:
    """The simulated cell. `epoch` is the Unix time of second 0."""

    def __init__(self, configuration: CellConfiguration, epoch: float, started: Started, changing: Changing) -> None:
        """`started` is called for each task that starts, `changing` before anything of a host changes."""
        self.configuration, self.epoch = configuration, epoch
        self.now = 0.0
        self.waiting, self.busy_slots = 0, 0
        """Tasks that wait and do not depend on others; slots with jobs, of all hosts."""
        self.hosts: dict[str, SimulatedHost] = {}
        self._order = HostOrder(fixed=configuration.fixed_order, loads=configuration.loads)
        self._ranks = configuration.weights.priority > 0
        self._started, self._changing = started, changing
        self._asks: dict[object, JobRequest] = {}
        self._categories: dict[JobRequest, PendingCategory] = {}
        self._waiting: dict[JobRequest, PendingCategory] = {}
        """Those of which something waits, in the order in which they came."""
        self._dependent: dict[int, list[WorkloadJob]] = {}
        """By the job that has to end first."""
        self._unfinished: dict[int, int] = {}
        """Tasks that have not ended, of jobs that others depend on or that have not ended."""
        self._arrays: dict[int, Pending] = {}
        self._details: dict[int, JobDetail] = {}
        self._slots_of: Counter[str] = Counter()
        """Slots with jobs of each owner."""
        self._running: Counter[int] = Counter()
        """Running tasks by the slots of their job."""
        self._held: dict[str, Pending] = {}
        """Rescheduled tasks on hold, by name."""
        self._hosts_made = 0
        self._added = 0
        self._static: tuple[Mapping[str, Queue], Mapping[str, tuple[str, ...]], frozenset[str]] | None = None
        for name, slots in configuration.persistent:
            self.add_host(name, slots, {}, {})
            self.change(name, disabled=False, heard=True)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def submit(self, job: WorkloadJob) -> None:
        if job.number in self._unfinished:
            raise WorkloadError(
                f"two jobs of the workload have the number {job.number} at the same time; number them anew"
            )
        self._unfinished[job.number] = job.tasks
        if job.after is not None and job.after in self._unfinished:
            self._dependent.setdefault(job.after, []).append(job)
            return
        self._wait(job)

    def _wait(self, job: WorkloadJob) -> None:
        category = self._category(job)
        pending = Pending(job, job.tasks, 1 if job.tasks > 1 else 0, ranks=self._ranks)
        category.add(pending)
        self._waiting[category.ask] = category
        self.waiting += job.tasks
        if job.tasks > 1:
            self._arrays[job.number] = pending
            looked_at = self.epoch + self.now
            self._details[job.number] = JobDetail(job.number, looked_at, concurrency=job.concurrency, group="")

    def _category(self, job: WorkloadJob) -> PendingCategory:
        # Owners count only where rights differ, else they are left out: one category for all who ask for the same.
        owner = "" if self.configuration.user_slots is None else job.owner
        key = (job.slots, job.pe, job.hard, job.tasks > 1, owner)
        ask = self._asks.get(key)
        if ask is None:
            ask = JobRequest("qw", job.slots, job.slots, job.pe, job.hard, owner=owner, array=job.tasks > 1)
            self._asks[key] = ask
            self._categories[ask] = PendingCategory(ask, needs_of(ask, self.configuration.complexes))
        return self._categories[ask]

    def needs_of(self, job: WorkloadJob) -> Mapping[str, float]:
        """What it takes of consumables, each slot."""
        return self._category(job).needs

    def end(self, run: Run) -> None:
        """A task ends; jobs that waited for its job may start."""
        self._leave_hosts(run)
        number = run.job.number
        pending = self._arrays.get(number)
        if pending is not None:
            self._let_next(pending)
        self._unfinished[number] -= 1
        if not self._unfinished[number]:
            del self._unfinished[number]
            self._arrays.pop(number, None)
            self._details.pop(number, None)
            for job in self._dependent.pop(number, ()):
                self._wait(job)

    # -- jobs of machines that were lost -------------------------------------------------------------------------------

    def runs_named(self, names: Iterable[str]) -> list[Run]:
        """The running tasks of these names, as `12` or `12.3`; `12` means all tasks of an array."""
        wanted = set(names)
        found = (run for host in self.hosts.values() for run in host.runs)
        return [run for run in dict.fromkeys(found) if run.name in wanted or str(run.job.number) in wanted]

    def may_lose(self, name: str) -> None:
        """A machine will be taken: what `qstat -j` shows of its jobs counts from now on. All may run again."""
        host = self.hosts.get(name)
        for run in () if host is None else host.runs:
            number, at = run.job.number, self.epoch + self.now
            self._details[number] = JobDetail(number, at, concurrency=run.job.concurrency, rerun=True, group="")

    def lose(self, name: str) -> list[Run]:
        """A machine is gone: nothing starts on its host any more, and its tasks make no progress. Returns those."""
        host = self.hosts.get(name)
        if host is None:
            return []
        self._changing(host)
        host.lost = True
        self.may_lose(name)
        lost = [run for run in host.runs if run.lost_at is None]
        for run in lost:
            run.lost_at = self.now
        return lost

    def _leave_hosts(self, run: Run) -> None:
        self._slots_of[run.job.owner] -= run.job.slots
        self._running[run.job.slots] -= 1
        self.busy_slots -= run.job.slots
        for host, _ in run.shares:
            self._changing(host)
            host.drop(run, self._category(run.job).needs)
            self._put_last(host)

    def _put_last(self, host: SimulatedHost) -> None:
        """The scheduler has each host that changed at the end of its list; load values order it anew."""
        if not self.configuration.loads:
            self._added += 1
            host.order = self._added

    def hold(self, names: Iterable[str]) -> None:
        """`qhold` of running tasks: they wait on hold once they are rescheduled."""
        for run in self.runs_named(names):
            run.held = True
            for host, _ in run.shares:
                host.change()

    def reschedule(self, names: Iterable[str]) -> None:
        """`qmod -rj`: running tasks wait again, at their old place."""
        for run in self.runs_named(names):
            run.lost_at = self.now if run.lost_at is None else run.lost_at
            self._leave_hosts(run)
            array = self._arrays.get(run.job.number)
            if array is not None:
                self._let_next(array)
            pending = Pending(run.job, 1, run.task, again=True, ranks=self._ranks)
            if run.held:
                self._held[run.name] = pending
            else:
                self._let_wait(pending)

    def release(self, names: Iterable[str]) -> None:
        """`qrls`: rescheduled tasks on hold may start."""
        for name in names:
            pending = self._held.pop(name, None)
            if pending is not None:
                self._let_wait(pending)

    def _let_wait(self, pending: Pending) -> None:
        category = self._category(pending.job)
        category.add(pending)
        self._waiting[category.ask] = category
        self.waiting += pending.left

    def _let_next(self, pending: Pending) -> None:
        """`-tc`: a further task may start, as one has ended."""
        pending.running -= 1
        category = self._category(pending.job)
        if pending.job.number in category.held:
            del category.held[pending.job.number]
            category.add(pending)

    def schedule(self) -> int:
        """One run of the scheduler; returns how many tasks started."""
        if not self._waiting:
            return 0
        open_hosts = [host for host in self.hosts.values() if host.used < host.slots and host.takes_jobs]
        if not open_hosts:
            return 0
        started = schedule(
            self._waiting.values(), open_hosts, self.configuration.pes, self._order, self._start,
            self._is_within_quota, self._ranking(),
        )  # fmt: skip
        if started:
            self._waiting = {ask: each for ask, each in self._waiting.items() if each.jobs or each.held}
        return started

    def _ranking(self) -> Ranking:
        if len(self._waiting) == 1:
            return BY_PRIORITY  # there is nothing to rank
        waiting = (each.ask.slots_max for each in self._waiting.values())
        sizes = {*waiting, *(slots for slots, tasks in self._running.items() if tasks)}
        oldest = self.oldest_submission()
        return ranking_of(self.configuration.weights, sizes, 0.0 if oldest is None else self.now - oldest)

    def _is_within_quota(self, category: PendingCategory) -> bool:
        most = self.configuration.user_slots
        return most is None or self._slots_of[category.ask.owner] + category.ask.slots_max <= most

    def _start(self, category: PendingCategory, pending: Pending, shares: Shares) -> None:
        run = Run(pending.job, pending.next_task, self.now, shares, again=pending.again)
        self._slots_of[pending.job.owner] += pending.job.slots
        self._running[pending.job.slots] += 1
        self.busy_slots += pending.job.slots
        self.waiting -= 1
        pending.left -= 1
        pending.running += 1
        pending.next_task += 1 if pending.next_task else 0
        for host, slots in shares:
            self._changing(host)
            host.add(run, slots, category.needs)
            self._put_last(host)
        if not pending.left:
            self._details.pop(pending.job.number, None)
        self._started(run)

    def pending(self) -> Iterable[PendingCategory]:
        """The categories of which something waits."""
        return self._waiting.values()

    def oldest_submission(self) -> float | None:
        """When the task that has waited longest was submitted; None: none waits."""
        return min((each.jobs[0].job.submitted for each in self._waiting.values() if each.jobs), default=None)

    @property
    def anything_waits(self) -> bool:
        return bool(self._waiting)

    @property
    def anything_on_hold(self) -> bool:
        """Whether rescheduled tasks are on hold until their parts elsewhere have ended."""
        return bool(self._held)

    @property
    def unfinished(self) -> bool:
        return bool(self._unfinished)

    # -- hosts ---------------------------------------------------------------------------------------------------------

    def add_host(
        self,
        name: str,
        slots: int,
        complex_values: Mapping[str, str],
        values: Mapping[str, str],
        *,
        seq_no: int | None = None,
    ) -> None:
        """`qconf -Ae`, its slots, its host group, `qmod -d`: nobody has heard it yet. `seq_no`: its own number."""
        complexes = self.configuration.complexes
        consumables = {
            key: (amount(text, complexes[key].type) or 0.0, text)
            for key, text in complex_values.items()
            if key in complexes
        }
        self._added += 1
        self.hosts[name] = SimulatedHost(
            name, self.configuration.queue, slots, seq_no or 0, consumables=consumables, values=values, disabled=True,
            order=self._added,
        )  # fmt: skip
        self._static = None

    def change_host(self, change: HostChange) -> None:
        """A persistent host comes, or has another number of slots; with none it is disabled."""
        host = self.hosts.get(change.name)
        if host is None:
            if not change.slots:
                return
            self.add_host(change.name, change.slots, change.complex_values, {})
        elif change.slots:
            self._changing(host)
            host.slots = change.slots
            self._static = None
        self.change(change.name, disabled=not change.slots, heard=True)

    def renumber(self, numbers: Iterable[tuple[str, int]]) -> None:
        """`qconf -rattr queue seq_no` of these hosts."""
        for name, number in numbers:
            if name in self.hosts:
                self.hosts[name].seq_no = number
        self._static = None

    def remove_host(self, name: str) -> bool:
        """`qconf -de`: refused (False) while a job is there."""
        host = self.hosts.get(name)
        if host is None or host.runs:
            return host is None
        del self.hosts[name]
        self._static = None
        return True

    def change(self, name: str, *, disabled: bool | None = None, heard: bool | None = None) -> bool:
        """`qmod -d`, `qmod -e`, or a first load report; False: there is no such host."""
        host = self.hosts.get(name)
        if host is None:
            return False
        self._changing(host)
        host.change(disabled=disabled, heard=heard)
        return True

    # -- what the autoscaler reads -------------------------------------------------------------------------------------

    def cluster(self) -> Cluster:
        """One reading. Parts that did not change since the last one are the same objects."""
        queues, groups, names = self._configured()
        shown = (each.shown(self.epoch) for each in self._waiting.values())
        held = (self._on_hold(name, pending) for name, pending in self._held.items())
        categories: tuple[JobCategory, ...] = (*(each for each in shown if each is not None), *held)
        hosts: tuple[ExecutionHost, ...] = tuple(host.shown(self.epoch) for host in self.hosts.values())
        return Cluster(
            hosts=hosts,
            job_categories=categories,
            queues=queues,
            pes=self.configuration.pes,
            complexes=self.configuration.complexes,
            host_groups=groups,
            execution_hosts=names,
            details=dict(self._details),
            schedule_interval=self.configuration.schedule_interval,
            quotas=self.configuration.quotas,
        )

    def _on_hold(self, name: str, pending: Pending) -> JobCategory:
        ask = replace(self._category(pending.job).ask, state="hqw")
        task = name.partition(".")[2]
        return JobCategory(ask, (pending.job.number,), (task,), (self.epoch + pending.job.submitted,), 1)

    def _configured(self) -> tuple[Mapping[str, Queue], Mapping[str, tuple[str, ...]], frozenset[str]]:
        if self._static is None:
            configuration = self.configuration
            slots = {name: host.slots for name, host in self.hosts.items()}
            numbers = {name: host.seq_no for name, host in self.hosts.items() if host.seq_no}
            queue = Queue(
                configuration.queue, (configuration.host_group,), 0, MappingProxyType(slots),
                pe_list=tuple(configuration.pes), seq_no_by_host=MappingProxyType(numbers),
            )  # fmt: skip
            groups = {configuration.host_group: tuple(self.hosts)}
            self._static = ({queue.name: queue}, groups, frozenset(self.hosts))
        return self._static
