"""An autoscaler in a simulated cell: real observer, plan, actor, store and loop, pass by pass on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from functools import cache
from pathlib import Path

from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.actor import Actor
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.job_owners import Nobody
from autoscaler.engine.loop import Loop
from autoscaler.engine.observe import Observer
from autoscaler.engine.outcome_log import OutcomeLog
from autoscaler.engine.pass_listener import Pass
from autoscaler.errors import NotObservable
from autoscaler.process import Runner
from autoscaler.providers.catalog import Catalog, load_catalog
from autoscaler.providers.fake import FakeCloud, FakeProvider, FakeSettings
from autoscaler.providers.interface import Provider
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches
from autoscaler.sge.lookup import Lookup
from autoscaler.sge.probe_hosts import Names, ProbeHosts
from autoscaler.store.store import Store
from tests.simulated.asking import NamesInMemory
from tests.simulated.cluster import Clock, SimulatedCluster
from tests.simulated.executor import at_once

TAG = "this-cell"
FAMILIES = ("c5", "m5", "r5")
"""What a simulated cloud offers. Every pass reads every offer, and the whole catalogue is ten times as large."""

POLICY = Policy(
    queues=(QueuePolicy("main.q", "execute", scale_up_timeout=0.0),),
    node_arrays=(
        NodeArrayPolicy(
            "execute",
            "main.q",
            "@allhosts",
            "m5.large",
            limits=Limits(max_workers=2),
            scale_up_batch=2,
            scale_down_batch=2,
            idle_timeout=20.0,
            boot_timeout=300.0,
        ),
    ),
    master="master",
    batch_delay=0.0,
    order_grace=120.0,
)


@cache
def small_catalog() -> Catalog:
    """The part of the catalogue that simulated clouds offer."""
    offers = load_catalog().offers
    return Catalog({name: offer for name, offer in offers.items() if offer.type.family in FAMILIES})


@dataclass
class World:
    """What outlives a process: cloud, Grid Engine, the store's file, the time."""

    store_file: Path
    clock: Clock = field(default_factory=Clock)
    persistent: dict[str, int] = field(default_factory=dict)
    policy: Policy = POLICY
    boot_delay: float = 5.0
    names: NamesInMemory = field(default_factory=NamesInMemory)

    def __post_init__(self) -> None:
        self.cloud = FakeCloud(catalog=small_catalog(), clock=self.clock, boot_delay=self.boot_delay)
        self.cluster = SimulatedCluster(self.cloud, self.clock, self.persistent)

    def open_store(self) -> Store:
        return Store.open(self.store_file)

    def provider(self) -> FakeProvider:
        return FakeProvider(FakeSettings(), cell=TAG, cloud=self.cloud)


def start(
    world: World,
    *,
    store: Store | None = None,
    runner: Runner | None = None,
    provider: Provider | None = None,
    decide: Callable[[Snapshot], Plan] = plan,
    names: Names | None = None,
    clock: Callable[[], float] | None = None,
) -> Loop:
    """A new process in this cell."""
    runner, provider, store = (
        runner or world.cluster,
        provider or world.provider(),
        store or world.open_store(),
    )
    clock = clock or world.clock
    execution_context = ExecutionContext(
        Administrator(runner),
        provider,
        store,
        TAG,
        lambda array: f"join {array}",
        clock,
        at_once,
        ProbeHosts(runner, names or world.names, world.clock, world.clock),
        Lookup(runner).jobs,
        Nobody(),
        batches=Batches(Administrator(runner)),
    )
    observer = Observer(
        runner,
        provider,
        store,
        world.policy,
        details_wanted,
        UTC,
        clock=clock,
        stopwatch=world.clock,
        executor=at_once,
    )
    loop = Loop(observer, decide, Actor(execution_context, patience=0.0), store, poll=10.0, stopwatch=world.clock)
    loop.attach(OutcomeLog())
    store.sweep(world.clock.now)
    return loop


def step(world: World, loop: Loop) -> Pass | None:
    """One pass and the pause after it; None if nothing could be observed."""
    try:
        done = loop.pass_once()
    except NotObservable:
        world.cluster.advance(2.0)
        return None
    world.cluster.advance(1.0 if done.acted else 10.0)
    return done


def settle(world: World, loop: Loop, *, passes: int = 60) -> int:
    """Pass after pass until all jobs have ended and no worker is left; how many it took, or `passes` if never."""
    for number in range(passes):
        if world.cluster.jobs and all(job.ended for job in world.cluster.jobs) and not left_over(world, loop):
            return number
        step(world, loop)
    return passes


def left_over(world: World, loop: Loop) -> list[str]:
    """What of ours is still anywhere: machines, execution hosts, open orders."""
    machines = [machine.id for machine in world.cloud.living(TAG)]
    orders = [record.id for record in loop.store.journal.orders(world.clock.now) if not record.closed]
    return [*machines, *sorted(world.cluster.workers), *orders]
