"""Swaps end: over any fleet and demand they keep limits and busy workers, and all jobs are served."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.actions import Action, Launch, Remove
from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob, JobCategory, QueueInstance
from autoscaler.core.model.fleet import Bucket, Fleet, InstanceType, MachineState, Worker
from autoscaler.core.model.memory import WorkerNote
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import COMPLEXES, GIB, LARGE, MAIN, NOW, PES, X2LARGE, X4LARGE, XLARGE, a_bucket, a_job
from tests.properties.world import Host, World
from tests.samples import examples

FAT = InstanceType("m5.fat", "m5", 4, 128 * GIB)
"""Fewer cores than others, and more memory than any."""
TYPES = (LARGE, XLARGE, FAT, X2LARGE, X4LARGE)
STEP = 16.0


@dataclass
class Fleets(World):
    """A World of several instance types, where jobs ask for slots and memory and end by themselves."""

    limits: Limits = field(default_factory=Limits)
    strategy: str = "cpu-capacity"
    buckets: tuple[Bucket, ...] = tuple(a_bucket(type_) for type_ in TYPES)
    memory_of: dict[int, int] = field(default_factory=dict)
    """Job → GiB it asks for."""
    ends: dict[int, float] = field(default_factory=dict)
    lasts: dict[int, float] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    swaps: set[float] = field(default_factory=set)
    """When each swap was begun."""

    @property
    def policy(self) -> Policy:
        array = NodeArrayPolicy(
            "execute",
            "main.q",
            "@allhosts",
            "m5.large",
            hybrid=True,
            strategy=self.strategy,
            limits=self.limits,
            scale_up_batch=2,
            boot_timeout=60.0,
        )
        return Policy((QueuePolicy("main.q", "execute"),), (array,), "master")

    def snapshot(self) -> Snapshot:
        cluster = Cluster(
            hosts=tuple(self._shown(name, host) for name, host in self.hosts.items()),
            job_categories=tuple(self._job_categories()),
            queues={"main.q": replace(MAIN, pe_list=("local",))},
            pes=PES,
            complexes=COMPLEXES,
            execution_hosts=frozenset(self.hosts),
        )
        orders = tuple(order for order in self.orders.values() if self.now - order.ordered_at < 3600)
        listed = tuple(worker for worker in self.machines.values() if worker.id not in self.unlisted)
        return Snapshot(
            cluster, Fleet(listed, self.buckets, orders), self.overrides, self.memory, self.policy, self.now
        )

    def _job_categories(self) -> list[JobCategory]:
        return [
            a_job(job, slots=slots, waited=NOW - at, hard=self._asked(job)) for job, (slots, at) in self.waiting.items()
        ]

    def _asked(self, job: int) -> dict[str, str]:
        return {"h_vmem": f"{self.memory_of[job]}G"} if self.memory_of[job] else {}

    def _shown(self, name: str, host: Host) -> ExecutionHost:
        jobs = tuple(
            HostJob(job, "", "r", slots, "ann", hard=tuple(self._asked(job).items()))
            for job, slots in host.jobs.items()
        )
        instance = QueueInstance("main.q", name, host.slots, host.used, 0, "d" if host.disabled else "", jobs)
        left = self._memory(name) - sum(slots * self.memory_of[job] * GIB for job, slots in host.jobs.items())
        return ExecutionHost(name, (instance,), consumables={"h_vmem": str(left)}, heard=host.heard)

    def _memory(self, name: str) -> int:
        worker = self.worker_of(name)
        return worker.type.memory if worker else 0

    def dispatch(self, name: str | None = None) -> None:
        for job, (slots, _) in list(self.waiting.items()):
            for host_name, host in self.hosts.items():
                if (host.disabled or not host.heard) and host_name != name:
                    continue
                used = sum(taken * self.memory_of[other] for other, taken in host.jobs.items()) * GIB
                fits = used + slots * self.memory_of[job] * GIB <= self._memory(host_name)
                if slots <= host.slots - host.used and fits:
                    host.jobs[job] = slots
                    self.ends[job] = self.now + self.lasts[job]
                    del self.waiting[job]
                    break

    def add_job(self, slots: int, memory: int, lasts: float) -> int:
        self.submit(slots)
        job = list(self.waiting)[-1]
        self.memory_of[job], self.lasts[job] = memory, lasts
        return job

    def add_worker(self, type_: InstanceType, running: int, lasts: float) -> None:
        """A worker in service, one job of one slot on each of this many slots."""
        number = next(self.numbers)
        worker_id, name = f"i-{number}", f"w-i-{number}"
        price = type_.vcpus * 0.05
        self.machines[worker_id] = Worker(
            worker_id, type_, "execute", MachineState.RUNNING, NOW - 600, name, price_per_hour=price
        )
        self.hosts[name] = Host(type_.vcpus)
        for _ in range(running):
            job = next(self.numbers)
            self.memory_of[job], self.lasts[job] = 0, lasts
            self.hosts[name].jobs[job] = 1
            self.ends[job] = self.now + lasts
        note = WorkerNote(first_seen=NOW - 600, joined_at=NOW - 570, host=name)
        self.memory = replace(self.memory, workers={**self.memory.workers, worker_id: note})

    def _launch(self, action: Launch) -> None:
        super()._launch(action)
        for worker_id, worker in self.machines.items():
            self.machines[worker_id] = replace(worker, price_per_hour=worker.type.vcpus * 0.05)

    def round(self) -> Plan:
        """One pass, checked against the rules; then time goes on."""
        seen = self.snapshot()
        made = self.decide()
        again = plan(replace(seen, memory=made.memory))
        assert again.actions == (), f"rule 9: nothing twice, but {again.actions} after {made.actions}"
        assert replace(again.memory, passes=0) == replace(made.memory, passes=0), "rule 9: nothing changes"
        for action in made.actions:
            self._check(action)
        self.swaps |= {note.begun_at for note in made.memory.swaps.values() if note.begun_at is not None}
        self.act(made.actions)
        self._check_limits()
        self._go_on(STEP if made.actions else 4 * STEP)
        return made

    def _check(self, action: Action) -> None:
        if isinstance(action, Remove):
            assert not self.hosts[action.host].jobs, "rule 1: no busy worker is removed"

    def _check_limits(self) -> None:
        workers, limits = list(self.machines.values()), self.limits
        assert len(workers) <= limits.max_workers, "rule 5: workers"
        if limits.max_cores is not None:
            assert sum(worker.type.vcpus for worker in workers) <= limits.max_cores, "rule 5: cores"
        if limits.max_price_per_hour is not None:
            price = sum(worker.price_per_hour or 0.0 for worker in workers)
            assert price <= limits.max_price_per_hour + 1e-9, "rule 5: price"

    def _go_on(self, seconds: float) -> None:
        self.list_all()
        for worker_id, worker in list(self.machines.items()):
            if worker.name is None:
                self.boot(worker_id)
        for name in self.hosts:
            self.receive_load_report(name)
        for job in [job for job, end in self.ends.items() if end <= self.now]:
            self.finish(job)
            del self.ends[job]
        self.dispatch()
        self.pass_time(seconds)


JOBS = st.tuples(
    st.sampled_from((1, 2, 3, 4, 8, 16)), st.sampled_from((0, 0, 0, 4, 40)), st.sampled_from((20.0, 90.0, 700.0))
).filter(lambda job: job[0] * job[1] <= 64)
WORKERS = st.tuples(st.sampled_from(TYPES), st.integers(0, 16), st.sampled_from((50.0, 400.0, 2000.0)))


@st.composite
def fleets(draw: st.DrawFn) -> Fleets:
    """Workers within limits that allow a stronger one, and jobs that some type can run."""
    workers = draw(st.lists(WORKERS, min_size=1, max_size=4))
    cores = sum(type_.vcpus for type_, _, _ in workers)
    most = draw(st.sampled_from((len(workers), len(workers) + 1)))
    caps = draw(st.sampled_from((0, 0, 1, 2)))
    limits = Limits(
        max_workers=most,
        min_workers=draw(st.sampled_from((0, 0, 1))),
        max_cores=max(cores, 16) if caps == 1 else None,
        max_price_per_hour=max(cores, 16) * 0.05 if caps == 2 else None,
    )
    world = Fleets(limits=limits, strategy=draw(st.sampled_from(("cpu-capacity", "naive-cpu-capacity"))))
    for type_, running, lasts in workers:
        world.add_worker(type_, min(running, type_.vcpus), lasts)
    for slots, memory, lasts in draw(st.lists(JOBS, min_size=1, max_size=8)):
        world.add_job(slots, memory, lasts)
    return world


@settings(max_examples=examples(20))
@given(fleets())
def test_swaps_end_and_every_job_is_served(world: Fleets) -> None:
    kinds = {(slots, world.memory_of[job]) for job, (slots, _) in world.waiting.items()}
    for _ in range(600):
        world.round()
        if not world.waiting and not world.ends and len(world.machines) <= world.limits.min_workers:
            break
    assert not world.waiting, "every job was started"
    assert len(world.swaps) <= len(kinds), "each swap leaves fewer kinds of jobs that nothing there could run"
    assert len(world.machines) <= world.limits.min_workers, "no worker is left"
