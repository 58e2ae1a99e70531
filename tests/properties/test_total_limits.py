"""Never above the limits of the whole cell, in any history: two queues with demand, min_workers and swaps,
dynamic node arrays, created nodes and groups, shortages, lagging listings, passes that are killed half way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autoscaler.core.actions import Action, Hold, Kill, Launch
from autoscaler.core.model.cluster import Cluster, ExecutionHost, HostJob, JobCategory, QueueInstance
from autoscaler.core.model.fleet import FailureKind, Fleet, LaunchFailure, MachineState, Order, OrderState, Worker
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Requests, RequestSet, Target
from autoscaler.core.policy import DeadlockAnswer, Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.snapshot import Snapshot
from tests.core.building import COMPLEXES, LARGE, MAIN, NOW, PES, X2LARGE, X4LARGE, XLARGE, a_bucket, a_job
from tests.properties.world import Host, World
from tests.samples import examples

QUEUES = {
    "main.q": replace(MAIN, pe_list=("local",)),
    "big.q": replace(MAIN, name="big.q", hostlist=("@big",), pe_list=("local",)),
}
ARRAYS = (("execute", "main.q", "@allhosts"), ("execute_1", "big.q", "@big"))
BUCKETS = (a_bucket(LARGE), a_bucket(XLARGE), a_bucket(X2LARGE), a_bucket(X4LARGE, price=-1))
"""The price of the largest is not known."""
CALLERS = (
    ArrayDefinition("fast", dynamic=True),
    ArrayDefinition("huge", dynamic=True, extends="execute_1"),
    ArrayDefinition("execute:8", dynamic=True, extends="execute", group_cores=8),
)
TARGETS = (
    st.builds(Target, st.sampled_from(("execute", "execute_1", "fast", "huge")), count=st.integers(0, 3))
    | st.builds(Target, st.sampled_from(("execute", "execute_1", "fast", "huge")), cores=st.integers(0, 16))
    | st.builds(Target, st.just("execute:8"), groups=st.integers(0, 2), group_cores=st.just(8))
)
LIMITS = st.builds(
    Limits,
    max_workers=st.sampled_from((3, 6)),
    min_workers=st.sampled_from((0, 0, 2)),
    total_workers=st.sampled_from((None, 3, 4, 5)),
    total_cores=st.sampled_from((None, 6, 10, 17)),
    total_price_per_hour=st.sampled_from((None, None, 0.3, 0.55)),
)


@dataclass
class Cell(World):
    """Two queues, each over a host group of its own; any candidate of a launch may be the one that answers."""

    hosts: dict[str, Host] = field(default_factory=dict)
    queue_of: dict[int, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    answering: int = 0
    """Which candidate answers, as far as there are this many."""

    def snapshot(self) -> Snapshot:
        arrays = (
            NodeArrayPolicy(name, queue, group, "m5.large", hybrid=True, limits=self.limits, scale_up_batch=3)
            for name, queue, group in ARRAYS
        )
        queues = (QueuePolicy("main.q", "execute"), QueuePolicy("big.q", "execute_1", default=False, static=False))
        policy = Policy(queues, tuple(arrays), "master", deadlock=DeadlockAnswer.REPORT, group_pes=("mpi",))
        listed = tuple(worker for worker in self.machines.values() if worker.id not in self.unlisted)
        orders = tuple(order for order in self.orders.values() if self.now - order.ordered_at < 3600)
        fleet = Fleet(listed, BUCKETS, orders, tuple(self.failures))
        cluster = Cluster(
            hosts=tuple(self._shown(name, host) for name, host in self.hosts.items()),
            job_categories=tuple(self._job_categories()),
            queues=QUEUES,
            pes=PES,
            complexes=COMPLEXES,
            execution_hosts=frozenset(self.hosts),
        )
        policy = in_force(policy, self.requests, arrays_present(fleet, self.memory), BUCKETS)
        return Snapshot(cluster, fleet, self.overrides, self.memory, policy, self.now, requests=self.requests)

    def _job_categories(self) -> list[JobCategory]:
        return [
            a_job(job, slots=slots, waited=NOW - at, queues=(self.queue_of[job],), pe="mpi*" if slots == 8 else None)
            for job, (slots, at) in self.waiting.items()
        ]

    def _shown(self, name: str, host: Host) -> ExecutionHost:
        jobs = tuple(HostJob(job, "", "r", slots) for job, slots in host.jobs.items())
        worker = self.worker_of(name)
        queue = "big.q" if worker is not None and worker.node_array in ("execute_1", "huge") else "main.q"
        states = ("d" if host.disabled else "") + ("" if host.heard else "u")
        instance = QueueInstance(queue, name, host.slots, host.used, host.reserved, states, jobs)
        return ExecutionHost(name, (instance,), heard=host.heard)

    def _carry_out(self, action: Action) -> None:
        assert not isinstance(action, Hold | Kill)
        super()._carry_out(action)

    def _launch(self, action: Launch) -> None:
        if self.limits.total_price_per_hour is not None:
            buckets = [bucket for candidate in action.candidates for bucket in candidate.buckets]
            assert all(bucket.price_per_hour is not None for bucket in buckets), "an unknown price is no launch"
        candidate = action.candidates[min(self.answering, len(action.candidates) - 1)]
        name, bucket = f"order-{next(self.numbers)}", candidate.buckets[0]
        ids = tuple(f"i-{next(self.numbers)}" for _ in range(candidate.count)) if self.capacity else ()
        if not ids:
            self.failures.append(LaunchFailure(bucket.key, self.now, FailureKind.CAPACITY, "none left", name))
        self.orders[name] = Order(
            name,
            action.node_array,
            candidate.type,
            candidate.count,
            self.now,
            OrderState.ACCEPTED if ids else OrderState.FAILED,
            bucket.key,
            ids=ids,
            nodes=action.nodes,
            for_requests=action.for_requests,
            group_id=action.group_id,
        )
        for worker_id in ids:
            self.machines[worker_id] = Worker(
                worker_id,
                candidate.type,
                action.node_array,
                MachineState.PENDING,
                self.now,
                price_per_hour=bucket.price_per_hour,
                order_id=name,
                group_id=action.group_id,
            )
            self.unlisted.add(worker_id)


class TotalLimits(RuleBasedStateMachine):
    """Drives a Cell."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Cell()

    @initialize(limits=LIMITS)
    def begin(self, limits: Limits) -> None:
        self.world.limits = limits

    @rule(slots=st.sampled_from((1, 2, 4, 8)), queue=st.sampled_from(tuple(QUEUES)), count=st.integers(1, 4))
    def submit(self, slots: int, queue: str, count: int) -> None:
        for _ in range(count):
            self.world.submit(slots)
            self.world.queue_of[list(self.world.waiting)[-1]] = queue

    @rule(requested=st.lists(TARGETS, max_size=3, unique_by=lambda target: target.node_array))
    def ask(self, requested: list[Target]) -> None:
        world = self.world
        request = RequestSet("standard", "ann", world.now, None, tuple(requested))
        world.requests = Requests((request,), CALLERS, nodes=world.requests.nodes)

    @precondition(lambda self: len(self.world.requests.nodes) < 3)
    @rule(array=st.sampled_from(("execute", "execute_1")))
    def create_a_node(self, array: str) -> None:
        world = self.world
        number = next(world.numbers)
        node = CreatedNode(f"n-{number}", f"{array}-{number}", array, world.now)
        world.requests = replace(world.requests, nodes=(*world.requests.nodes, node))

    @rule()
    def callers_withdraw_requests(self) -> None:
        self.world.requests = replace(self.world.requests, sets=(), nodes=())

    @rule(capacity=st.booleans(), answering=st.integers(0, 2))
    def the_cloud_changes(self, capacity: bool, answering: int) -> None:
        self.world.capacity, self.world.answering = capacity, answering

    @rule(up_to=st.sampled_from((None, None, 0, 1, 2)))
    def a_pass(self, up_to: int | None) -> None:
        self.world.act(self.world.decide().actions, up_to=up_to)

    @rule(rounds=st.integers(1, 8), step=st.sampled_from((5.0, 16.0, 60.0)), listed=st.booleans())
    def time_goes_on(self, rounds: int, step: float, listed: bool) -> None:
        world = self.world
        for _ in range(rounds):
            world.act(world.decide().actions)
            self.never_above()
            if listed:
                world.list_all()
            for worker_id in [name for name, worker in world.machines.items() if worker.name is None]:
                if worker_id not in world.unlisted:
                    world.boot(worker_id)
            for name in world.hosts:
                world.receive_load_report(name)
            world.dispatch()
            world.pass_time(step)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        self.world.finish(data.draw(st.sampled_from(self.world.running)))

    @rule()
    def all_jobs_end(self) -> None:
        for job in self.world.running:
            self.world.finish(job)

    @invariant()
    def never_above(self) -> None:
        limits, machines = self.world.limits, list(self.world.machines.values())
        if limits.total_workers is not None:
            assert len(machines) <= limits.total_workers
        if limits.total_cores is not None:
            assert sum(worker.type.vcpus for worker in machines) <= limits.total_cores
        if limits.total_price_per_hour is not None:
            assert sum(worker.price_per_hour or 0.0 for worker in machines) <= limits.total_price_per_hour + 1e-9


TestTotalLimits: Any = TotalLimits.TestCase
TestTotalLimits.settings = settings(max_examples=examples(60), stateful_step_count=30)
