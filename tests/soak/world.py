"""The whole simulated world: cloud, cell, people, fate, and one autoscaler, killed and started again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path

from autoscaler.act.actor import Actor
from autoscaler.act.means import Means
from autoscaler.act.owners import Nobody
from autoscaler.core.model import Plan, Snapshot
from autoscaler.core.plan import details_wanted, plan
from autoscaler.core.policy import Brake, Limits, NodeArrayPolicy, Policy, QueuePolicy
from autoscaler.errors import NotObservable
from autoscaler.loop import Loop, Pass
from autoscaler.observe import Observer
from autoscaler.store.store import Store
from autoscaler.store.wishes import Verb
from providers.fake import FakeCloud, Machine
from providers.interface import LaunchOrder
from sge.admin import Administrator
from sge.lookup import Lookup
from sge.phantoms import Phantoms
from tests.sge.grid_engine_model import Killed
from tests.simulated.asking import NamesInMemory
from tests.simulated.autoscaler import TAG, Silent
from tests.simulated.cluster import Clock
from tests.simulated.executor import at_once
from tests.simulated.killing import Instants, mortal_store
from tests.soak.cell import Cell
from tests.soak.jobs import Instance
from tests.soak.rules import Rules
from tests.soak.seam import FaultyProvider, FaultyRunner, Troubles

Decide = Callable[[Snapshot], Plan]
MAX_UNHEARD = 20.0


def policy_of(chance: random.Random) -> Policy:
    """One of the set-ups that operators choose."""
    limits = Limits(
        max_workers=chance.choice((1, 2, 3, 5)),
        max_cores=chance.choice((None, None, 8, 12)),
        max_price_per_hour=chance.choice((None, None, 0.5)),
        max_launches_per_hour=chance.choice((None, None, 6)),
    )
    array = NodeArrayPolicy(
        "execute",
        "main.q",
        "@allhosts",
        "m5.xlarge",
        hybrid=chance.random() < 0.3,
        max_cores_per_worker=8,
        limits=limits,
        scale_up_batch=chance.choice((1, 2, 5)),
        scale_down_batch=chance.choice((1, 2, 5)),
        idle_timeout=chance.choice((0.0, 20.0, 60.0)),
        boot_timeout=120.0,
        unavailability_delay=300.0,
        unavailability_count_capacity=2,
        unavailability_count_failure=2,
    )
    array = replace(array, descending=not array.hybrid and chance.random() < 0.4)
    return Policy(
        queues=(QueuePolicy("main.q", "execute", scale_up_timeout=chance.choice((0.0, 0.0, 20.0))),),
        node_arrays=(array,),
        master="master",
        brake=Brake(max_launches=None, max_removals=None),
        batch_delay=chance.choice((0.0, 10.0)),
        order_grace=600.0,
        detail_age=60.0,
    )


@dataclass
class World:
    """What outlives a process. `decide` may be a flawed one, to see that it is noticed."""

    store_file: Path
    policy: Policy
    persistent: dict[str, int] = field(default_factory=dict)
    boot_delay: float = 20.0
    decide: Decide = plan
    tag: str = TAG

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.cloud = FakeCloud(clock=self.clock, boot_delay=self.boot_delay)
        self.cell = Cell(self.clock, self.hears, self.works)
        for name, slots in self.persistent.items():
            self.cell.add_persistent(name, slots, memory=slots * 4)
        self.silent: set[str] = set()
        """Machines whose execd never starts."""
        self.mute_until: dict[str, float] = {}
        self.died: set[str] = set()
        """Names of machines that ended without being asked to."""
        self.served: set[str] = set()
        """Hosts that were open once, with their execd heard."""
        self.kept: set[str] = set()
        self.drained: set[str] = set()
        self.stopping: str | None = None
        self.later: list[tuple[int, Callable[[], object]]] = []
        """What happens in the midst of a pass: after so many calls."""
        self.injected: Counter[str] = Counter()
        self.frozen = False
        self.orders_made = 0
        self.instants = Instants()
        self.troubles = Troubles()
        self.rules = Rules(self)
        for cell in (None, "another-cell"):
            self.cloud.create(
                LaunchOrder("theirs", "theirs", "", "execute", self.cloud.catalog.buckets()[:1], 1, ""), cell
            )
        self.loop = self._start()
        self.people = Store.open(self.store_file)
        """As commands open it, beside the loop."""

    def close(self) -> None:
        self.loop.store.close()
        self.people.close()

    # -- truth -------------------------------------------------------------------------------------------------------

    @property
    def ours(self) -> list[Machine]:
        return [machine for machine in self.cloud.machines.values() if machine.cell == self.tag]

    @property
    def living(self) -> list[Machine]:
        return [machine for machine in self.ours if machine.ended_at is None]

    def machine_of(self, name: str) -> Machine | None:
        return next((machine for machine in self.ours if machine.name == name), None)

    def works(self, name: str) -> bool:
        machine = self.machine_of(name)
        return name in self.persistent or (machine is not None and machine.ended_at is None)

    def hears(self, name: str) -> bool:
        if self.clock.now < self.mute_until.get(name, 0.0):
            return False
        if name in self.persistent:
            return True
        machine, now = self.machine_of(name), self.clock.now
        if machine is None or name in self.silent or now < machine.created_at + self.boot_delay:
            return False
        return machine.ended_at is None or (name in self.died and now < machine.ended_at + MAX_UNHEARD)

    def serves(self, at: Instance) -> bool:
        """Whether its free slots are supply: open, on a machine that is there, and nobody wants it gone."""
        return self.cell.lets_in(at) and self.works(at[1]) and at[1] not in self.drained

    # -- the process ---------------------------------------------------------------------------------------------------

    def _start(self) -> Loop:
        while True:
            store = Store(mortal_store(self.store_file, self.instants).database, self._new_order)
            runner, provider = FaultyRunner(self), FaultyProvider(self)
            means = Means(
                Administrator(runner), provider, store, self.tag, lambda array: f"join {array}", self.clock, at_once,
                Phantoms(runner, NamesInMemory(), self.clock), Lookup(runner).running, Nobody(),
            )  # fmt: skip
            observer = Observer(
                runner, provider, store, self.policy, details_wanted, UTC,
                clock=self.clock, stopwatch=self.clock, executor=at_once,
            )  # fmt: skip
            loop = Loop(
                observer, self._decided, Actor(means, patience=0.0), store, Silent(), 10.0, stopwatch=self.clock
            )
            try:
                store.journal.sweep(self.clock.now)
            except Killed:
                store.close()
                self.injected["killed"] += 1
                continue
            return loop

    def _new_order(self) -> str:
        """Unique for ever, and the same each time a history is played."""
        self.orders_made += 1
        return f"order{self.orders_made}"

    def _decided(self, snapshot: Snapshot) -> Plan:
        self.rules.decides()
        return self.decide(snapshot)

    def restart(self, *, lose_store: bool = False) -> None:
        self.loop.store.close()
        if lose_store:
            self.people.close()
            for file in self.store_file.parent.glob(f"{self.store_file.name}*"):
                file.unlink()
            self.rules.loses_store()
            self.kept, self.drained, self.stopping = set(), set(), None
        self.loop = self._start()
        if lose_store:
            self.people = Store.open(self.store_file)

    def step(self) -> Pass | None:
        """One pass and the rest after it; None where nothing could be observed or the process was killed."""
        done: Pass | None = None
        self.rules.begin_pass()
        try:
            done = self.loop.pass_once()
        except NotObservable:
            self.injected["passes without an observation"] += 1
        except Killed:
            self.injected["killed"] += 1
            self.restart()
        self.rules.check()
        self.rest(1.0 if done is not None and done.acted else 10.0)
        return done

    def rest(self, seconds: float) -> None:
        """Time passes, in steps of the scheduler."""
        until = self.clock.now + seconds
        while self.clock.now < until and not self.frozen:
            self.clock.now = min(until, self.clock.now + 2.0)
            self.pass_by()

    def pass_by(self) -> None:
        """Let what is due happen: jobs end and start, wishes of gone hosts are over."""
        self.cell.tick()
        self.served |= {name for name in self.cell.hosts if any(map(self.cell.lets_in, self.cell.instances_of(name)))}

    def call(self) -> None:
        """A call of the process to the world begins."""
        if not self.frozen:
            self.clock.now += 0.02
        due = [what for left, what in self.later if left <= 0]
        self.later = [(left - 1, what) for left, what in self.later if left > 0]
        for what in due:
            what()
        self.pass_by()

    # -- people --------------------------------------------------------------------------------------------------------

    def wish(self, verb: Verb, host: str = "") -> None:
        self.people.wishes.ask(verb, who="ann", at=self.clock.now, host=host)

    def unwish(self, verb: Verb, host: str = "") -> None:
        self.people.wishes.end(verb, who="ann", at=self.clock.now, host=host)

    def read_wishes(self) -> None:
        """Which wishes are in force: those for hosts that are gone are over."""
        wishes = self.people.wishes.load()
        self.kept, self.drained, self.stopping = set(wishes.keep), set(wishes.drain), wishes.stop

    def disable_by_hand(self, at: Instance) -> None:
        """A person's `qmod -d`. Where the journal says that we were about to, it counts as ours."""
        if at not in self.cell.off and self._is_ours_to_disable(at[1]):
            self.cell.off[at] = "us"
        else:
            self.cell.tell(True, at)

    def _is_ours_to_disable(self, name: str) -> bool:
        """A Disable of ours was journalled, and no look has shown it disabled and later open again."""
        last = next((row for row in self.people.journal.outcomes_of(name) if row["kind"] != "terminate"), None)
        if last is None or last["kind"] == "enable":
            return False
        closed = [was_closed for at, was_closed in self.rules.looks.get(name, []) if at > last["at"]]
        return not (True in closed and False in closed[closed.index(True) :])
