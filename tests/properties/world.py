"""A small Grid Engine and provider that do what a plan says, or a part of it: jobs that need one host, one queue.

Pure and simulated: time passes only by `pass_time`. People, failures, lags and crashes are methods.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from autoscaler.core.actions import (
    Action,
    Annotate,
    AskGridEngine,
    Disable,
    Enable,
    Enrol,
    Hold,
    Kill,
    Launch,
    Reimage,
    Release,
    Remove,
    Renumber,
    Reschedule,
    Restart,
    TellWaiting,
    Terminate,
)
from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob, JobCategory, Queue, QueueInstance
from autoscaler.core.model.evidence import Answer, Evidence, Finding
from autoscaler.core.model.fleet import FailureKind, Fleet, LaunchFailure, MachineState, Order, OrderState, Worker
from autoscaler.core.model.memory import Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.request_sets import Requests
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import COMPLEXES, MAIN, NOW, PES, XLARGE, a_bucket, a_job

LIMITS = Limits(max_workers=4, max_cores=16, max_price_per_hour=1.0, max_launches_per_hour=40)
POLICY = Policy(
    queues=(QueuePolicy("main.q", "execute"),),
    node_arrays=(NodeArrayPolicy("execute", "main.q", "@allhosts", "m5.xlarge", limits=LIMITS, scale_up_batch=2),),
    master="master",
)
BUCKET = a_bucket(XLARGE, price=0.2)


@dataclass
class Host:
    """An execution host."""

    slots: int
    disabled: bool = False
    by_person: bool = False
    heard: bool = True
    reserved: int = 0
    jobs: dict[int, int] = field(default_factory=dict)
    """Job → slots."""

    @property
    def used(self) -> int:
        return sum(self.jobs.values())


@dataclass
class World:
    """Everything outside the plan, and the memory between passes."""

    now: float = NOW
    memory: Memory = field(default_factory=Memory)
    hosts: dict[str, Host] = field(default_factory=lambda: {"h1": Host(2)})
    machines: dict[str, Worker] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    stale: tuple[Worker, ...] | None = None
    """A stale listing that the provider shows; None: it shows what is there."""
    orders: dict[str, Order] = field(default_factory=dict)
    failures: list[LaunchFailure] = field(default_factory=list)
    waiting: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Job → slots, submitted."""
    overrides: Overrides = field(default_factory=Overrides)
    capacity: bool = True
    requests: Requests = field(default_factory=Requests)
    """What callers ask for."""
    answers: dict[int, Finding] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    """Jobs that were held because nothing could run them."""
    ended: list[str] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # -- reading -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        hosts = tuple(self._shown(name, host) for name, host in self.hosts.items())
        cluster = Cluster(
            hosts=hosts,
            job_categories=tuple(self._job_categories()),
            queues={"main.q": replace(MAIN, pe_list=("local",)), "other.q": Queue("other.q", (), 1)},
            pes=PES,
            complexes=COMPLEXES,
            execution_hosts=frozenset(self.hosts),
        )
        listed = self.listing() if self.stale is None else self.stale
        orders = tuple(order for order in self.orders.values() if self.now - order.ordered_at < 3600)
        fleet = Fleet(listed, (BUCKET,), orders, tuple(self.failures))
        evidence = Evidence(answers=dict(self.answers))
        policy = in_force(POLICY, self.requests, arrays_present(fleet, self.memory))
        return Snapshot(cluster, fleet, self.overrides, self.memory, policy, self.now, evidence, self.requests)

    def listing(self) -> tuple[Worker, ...]:
        """The machines, without those that no listing shows yet."""
        return tuple(worker for worker in self.machines.values() if worker.id not in self.unlisted)

    def _job_categories(self) -> list[JobCategory]:
        return [
            a_job(job, slots=slots, waited=NOW - at, state="hqw" if job in self.held else "qw")
            for job, (slots, at) in self.waiting.items()
        ]

    def _shown(self, name: str, host: Host) -> ExecutionHost:
        jobs = tuple(HostJob(job, "", "r", slots) for job, slots in host.jobs.items())
        states = ("d" if host.disabled else "") + ("" if host.heard else "u")
        instance = QueueInstance("main.q", name, host.slots, host.used, host.reserved, states, jobs)
        return ExecutionHost(name, (instance,), heard=host.heard)

    # -- the loop ------------------------------------------------------------------------------------------------

    def decide(self) -> Plan:
        """Plan, and keep the memory, as the service does before the first action."""
        made = plan(self.snapshot())
        self.memory = made.memory
        return made

    def act(self, actions: tuple[Action, ...], *, up_to: int | None = None, between: list[int] | None = None) -> None:
        """Carry out the first `up_to` actions; jobs of `between` are dispatched right before the removals."""
        for action in actions if up_to is None else actions[:up_to]:
            if between and isinstance(action, Remove):
                self.dispatch(action.host)
            self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Launch():
                self._launch(action)
            case Enrol():
                host = self.hosts.setdefault(action.host, Host(action.slots, heard=False))
                host.disabled = True
            case Enable():
                host = self.hosts[action.host]
                host.disabled = host.by_person = False
            case Disable():
                self.hosts[action.host].disabled = True
            case Remove():
                host = self.hosts.get(action.host) or Host(0)
                if not host.jobs and not host.reserved:  # Grid Engine refuses otherwise
                    self.hosts.pop(action.host, None)
            case Terminate():
                self.ended.append(action.worker_id)
                self.machines.pop(action.worker_id, None)
                self.unlisted.discard(action.worker_id)
            case AskGridEngine():
                for question in action.questions:
                    slots = self.waiting.get(question.job, (0, 0.0))[0]
                    most = max(probe.slots for probe in action.probe_hosts)
                    answer = Answer.UNSATISFIABLE if slots > most else Answer.SATISFIABLE
                    self.answers[question.job] = Finding(question.job, question.fingerprint, self.now, answer)
            case Hold():
                self.held |= {int(job) for job in action.jobs}
            case Annotate():
                pass
            case Release() | Kill() | Reschedule() | Restart() | Reimage() | TellWaiting() | Renumber():
                raise AssertionError(f"no action here is expected to be {action.kind}")

    def _launch(self, action: Launch) -> None:
        candidate = action.candidates[0]
        name, key = f"order-{next(self.numbers)}", candidate.buckets[0].key
        order = Order(name, action.node_array, candidate.type, candidate.count, self.now, OrderState.SENT, key)
        order = replace(order, nodes=action.nodes, for_requests=action.for_requests, assignment=action.assignment)
        order = replace(order, ordered_for=action.ordered_for)
        if not self.capacity:
            self.failures.append(LaunchFailure(key, self.now, FailureKind.CAPACITY, "none left", name))
            self.orders[name] = replace(order, state=OrderState.FAILED)
            return
        ids = tuple(f"i-{next(self.numbers)}" for _ in range(candidate.count))
        self.orders[name] = replace(order, state=OrderState.ACCEPTED, ids=ids)
        for worker_id in ids:
            self.machines[worker_id] = Worker(
                worker_id,
                candidate.type,
                action.node_array,
                MachineState.PENDING,
                self.now,
                price_per_hour=0.2,
                order_id=name,
            )
            self.unlisted.add(worker_id)

    # -- what happens meanwhile ----------------------------------------------------------------------------------

    def submit(self, slots: int) -> None:
        self.waiting[next(self.numbers)] = (slots, self.now)

    def pass_time(self, seconds: float) -> None:
        """Listings lag behind launches, but never by the ten minutes for which an order counts (rule 3)."""
        self.now += seconds
        self.unlisted = {name for name in self.unlisted if self.now - self.machines[name].created_at < 600}

    def list_all(self) -> None:
        self.unlisted.clear()

    def boot(self, worker_id: str) -> None:
        worker = self.machines[worker_id]
        self.machines[worker_id] = replace(worker, state=MachineState.RUNNING, name=f"w-{worker_id}")

    def receive_load_report(self, name: str) -> None:
        self.hosts[name].heard = True

    def dispatch(self, name: str | None = None) -> None:
        """One round of the scheduler on all enabled hosts, and on the named one as if its `qmod -d` came too late."""
        for host_name, host in self.hosts.items():
            if (host.disabled or not host.heard) and host_name != name:
                continue
            for job, (slots, _) in list(self.waiting.items()):
                if slots <= host.slots - host.used - host.reserved:
                    host.jobs[job] = slots
                    del self.waiting[job]

    def finish(self, job: int) -> None:
        for host in self.hosts.values():
            host.jobs.pop(job, None)

    @property
    def running(self) -> list[int]:
        return [job for host in self.hosts.values() for job in host.jobs]

    def worker_of(self, host: str) -> Worker | None:
        return next((worker for worker in self.machines.values() if worker.name == host), None)
