"""A small world of workers and jobs whose cost is known, observed in passes of one process or of several."""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

from autoscaler.core.cost.shares import Payer
from autoscaler.core.model.cluster import ExecutionHost, HostJob, QueueInstance
from autoscaler.core.model.fleet import MachineState, OrderedFor
from autoscaler.core.snapshot import Snapshot
from autoscaler.core.workers.worker_observation import observe_workers
from autoscaler.engine.cost_keeper import CostKeeper, slots_of
from autoscaler.report.cost import WORKERS, CostReport, cost_report, read_cost_query
from autoscaler.store.store import Store
from tests.core.building import NOW, XLARGE, a_host, a_machine, a_snapshot

PAYER = Payer("ann", "users", "physics", "wind", "sge", "main.q")


@dataclass(frozen=True, slots=True)
class Machine:
    """Times in seconds after NOW."""

    name: str
    began: float
    ended: float = 1e9
    price: float | None = 1.0
    slots: int = 4
    joins: float = 0.0
    """Seconds after its begin."""
    id: str = ""
    ordered_for: tuple[OrderedFor, ...] = ()

    @property
    def worker_id(self) -> str:
        return self.id or f"i-{self.name}"


@dataclass(frozen=True, slots=True)
class Job:
    number: int
    host: str
    began: float
    ended: float = 1e9
    slots: int = 1
    payer: Payer = PAYER
    task: int = 0
    others: tuple[tuple[str, int], ...] = ()
    """Further hosts of a parallel job, with its slots there; `slots` are those on the first."""


def line_of(job: Job) -> str:
    """The record in accounting."""
    payer, slots = job.payer, job.slots + sum(count for _, count in job.others)
    began, ended = round(NOW + job.began), round(NOW + job.ended)
    head = f"{payer.queue}:{job.host}:{payer.group}:{payer.user}:sleep:{job.number}:{payer.account}:0:{round(NOW)}"
    middle = f"{began}:{ended}:0:0:9:0:0:0.0:0:0:0:0:0:0:0:0.0:0:0:0:0:0:0"
    project = payer.project or "NONE"
    tail = f"{project}:{payer.department}:NONE:{slots}:{job.task}:0:0.0:0.0:-U:0.0:NONE:0.0:0:0"
    return f"{head}:{middle}:{tail}\n"


@dataclass(slots=True)
class CostWorld:
    """Machines and jobs, and the keeper of their cost."""

    path: Path
    machines: list[Machine] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    store: Store = field(init=False)
    keeper: CostKeeper = field(init=False)
    written: set[tuple[int, int, float]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        self.accounting.touch()
        self.restart()

    @property
    def accounting(self) -> Path:
        return self.path / "accounting"

    def restart(self, *, lost: bool = False) -> None:
        """Starts another process; `lost`: with a new store."""
        file = self.path / "store.sqlite"
        if hasattr(self, "store"):
            self.store.close()
        if lost:
            for each in self.path.glob("store.sqlite*"):
                each.unlink()
        self.store = Store.open(file)
        self.keeper = CostKeeper(self.store, self.accounting)

    def account(self, at: float) -> None:
        """Write the jobs that have ended by now to accounting, as Grid Engine does."""
        for job in self.jobs:
            key = job.number, job.task, job.began
            if job.ended <= at and key not in self.written:
                self.written.add(key)
                with self.accounting.open("a") as file:
                    file.write(line_of(job))

    def see(self, at: float) -> None:
        """One pass, as the loop makes it."""
        snapshot = self._snapshot(at)
        observed = observe_workers(snapshot.cluster, snapshot.fleet, snapshot.memory, snapshot.policy, snapshot.now)
        slots = {worker.worker.id: count for worker in observed.known if (count := slots_of(worker.host))}
        joined = [one.worker_id for one in self.machines if one.began + one.joins <= at]
        ordered_for = {one.worker_id: one.ordered_for for one in self.machines}
        self.store.history.note_workers(snapshot.fleet.workers, joined, snapshot.now, slots, "USD", ordered_for)
        self.keeper.note(snapshot, observed)

    def _snapshot(self, at: float) -> Snapshot:
        things = []
        for one in self.machines:
            if one.began <= at < one.ended:
                machine = a_machine(
                    one.name,
                    id=one.worker_id,
                    type_=changed(XLARGE, vcpus=one.slots),
                    state=MachineState.RUNNING,
                    age=-one.began,
                    price_per_hour=one.price,
                )
                host = self._host(one, at) if one.began + one.joins <= at else None
                things.append(changed(machine, host=host))
        return a_snapshot(*things, now=NOW + at)

    def _host(self, machine: Machine, at: float) -> ExecutionHost:
        by_queue: dict[str, list[HostJob]] = {"main.q": []}
        for job in self.jobs:
            places = ((job.host, job.slots), *job.others)
            for host, slots in places:
                if host == machine.name and max(job.began, machine.began) <= at < job.ended:
                    task = str(job.task) if job.task else ""
                    shown = HostJob(job.number, task, "r", slots, job.payer.user, NOW + job.began)
                    by_queue.setdefault(job.payer.queue, []).append(shown)
        instances = tuple(
            QueueInstance(queue, machine.name, machine.slots, sum(job.slots for job in jobs), 0, "", tuple(jobs))
            for queue, jobs in by_queue.items()
        )
        return changed(a_host(machine.name, slots=machine.slots), instances=instances)

    def report(self, at: float, by: str = "user", **query: str) -> CostReport:
        asked = read_cost_query({"by": by, "since": "2000-01-01", **query}, NOW + at)
        return cost_report(self.store, asked, NOW + at)

    def costs(self, at: float, by: str = "user") -> dict[str, int]:
        """Row → micros, including the rows without an owner."""
        report = self.report(at, by)
        found = {row.key: row.cost for table in report.tables for row in table.sorted()}
        total = [table.total for table in report.tables]
        starting, idle = sum(row.starting for row in total), sum(row.idle for row in total)
        besides = {} if by in WORKERS else {"(starting)": starting, "(idle)": idle}
        return {key: cost for key, cost in {**found, **besides}.items() if cost}
