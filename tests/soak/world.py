"""The whole simulated world: cloud, cell, people, failures, and one autoscaler, killed and started again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from pathlib import Path

from autoscaler.core.actions import AskGridEngine, Disable, Reschedule
from autoscaler.core.demand.eligibility import details_wanted
from autoscaler.core.model.evidence import Health, JobFailure
from autoscaler.core.model.fleet import Bucket, Interruption
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import (
    CircuitBreaker,
    DeadlockAnswer,
    Limits,
    LostJobs,
    NodeArrayPolicy,
    Policy,
    QueuePolicy,
)
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.engine.actor import Actor
from autoscaler.engine.execution import ExecutionContext
from autoscaler.engine.job_owners import Nobody
from autoscaler.engine.loop import Loop
from autoscaler.engine.observe import Observer
from autoscaler.engine.pass_listener import Pass
from autoscaler.errors import NotObservable
from autoscaler.providers.fake import FakeCloud, Machine
from autoscaler.providers.interface import LaunchOrder
from autoscaler.sge.admin import Administrator
from autoscaler.sge.batches import Batches
from autoscaler.sge.groups import Groups
from autoscaler.sge.lookup import Lookup
from autoscaler.sge.probe_hosts import ProbeHosts
from autoscaler.store.overrides import Verb
from autoscaler.store.store import Store
from tests.sge.grid_engine_model import Killed
from tests.simulated.asking import NamesInMemory
from tests.simulated.autoscaler import TAG
from tests.simulated.cluster import Clock
from tests.simulated.executor import at_once
from tests.simulated.failing_machines import NameReusingCloud
from tests.simulated.killing import Instants, MortalNames, mortal_store
from tests.soak.allowed import Allowed
from tests.soak.cell import Cell
from tests.soak.jobs import Instance, Run
from tests.soak.processes import Processes
from tests.soak.rules import Rules
from tests.soak.seam import FaultyProvider, FaultyRunner, Troubles

Decide = Callable[[Snapshot], Plan]
MAX_UNHEARD = 20.0
EVIDENCE_KEPT = 3600.0
BY_REQUEST = "ended by request"
"""The message of a machine that ended at our request."""


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
        circuit_breaker=CircuitBreaker(max_launches=None, max_removals=None, max_kills=None),
        batch_delay=chance.choice((0.0, 10.0)),
        order_grace=600.0,
        detail_age=60.0,
        deadlock=chance.choice(tuple(DeadlockAnswer)),
        swap=chance.random() < 0.7,
        silence_timeout=chance.choice((90.0, 240.0)),
        lost_jobs=chance.choice(tuple(LostJobs)),
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
    grouped: bool = False
    """Whether there are groups of workers, a parallel environment of theirs, and zones."""
    old_names: bool = False
    """Whether the names of machines that are gone are given again."""
    stuck: set[str] = field(default_factory=set)
    """Machines of which nothing moves."""
    silent: set[str] = field(default_factory=set)
    """Machines whose execd never starts."""

    def __post_init__(self) -> None:
        self.clock = Clock()
        cloud = NameReusingCloud if self.old_names else FakeCloud
        self.cloud = cloud(clock=self.clock, boot_delay=self.boot_delay)
        self.allowed = Allowed(self.policy.node_arrays[0], tuple(self.cloud.catalog.buckets()), self.persistent)
        self.processes = Processes(self.answering, self.lives)
        self.cell = Cell(self.clock, self.reports, self.stuck.__contains__, self.processes, grouped=self.grouped)
        for name, slots in self.persistent.items():
            self.cell.add_persistent(name, slots, memory=slots * 4)
        self.names = NamesInMemory()
        self.reported: dict[str, float] = {}
        """By execution host: when its execd last reported."""
        self.mute_until: dict[str, float] = {}
        """By machine or persistent host: until when its execd is dead, while jobs run on."""
        self.served: set[str] = set()
        """Machines that were enabled once, with their execd reporting."""
        self.disturbed: set[str] = set()
        """Machines with any trouble of their own: they may have to leave, even if needed."""
        self.failures: list[JobFailure] = []
        """Failures of jobs in accounting."""
        self.health: dict[str, Health] = {}
        """Results of health checks, by machine."""
        self.kept: set[str] = set()
        self.meant: dict[str, str] = {}
        """By host that is or was to be kept: the machine that it was then."""
        self.drained: set[str] = set()
        self.stopping: str | None = None
        self.later: list[tuple[int, Callable[[], object]]] = []
        """What happens in the midst of a pass: after this many calls."""
        self.injected: Counter[str] = Counter()
        self.frozen = False
        self.orders_made = 0
        self.nodes_made = 0
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

    @property
    def died(self) -> set[str]:
        """Machines that ended without being asked to."""
        return {machine.id for machine in self.ours if machine.ended_at is not None and machine.message != BY_REQUEST}

    @property
    def targets(self) -> Sequence[Target]:
        """Targets of live request sets."""
        return [target for one in self.people.requests.load(self.clock.now).sets for target in one.targets]

    def offered(self, buckets: Sequence[Bucket]) -> Sequence[Bucket]:
        """What the cloud lists: with groups, of one family and in two zones, one of them with a placement group."""
        if not self.grouped:
            return buckets
        near = [bucket for bucket in buckets if bucket.type.family == "m5" and bucket.type.vcpus <= 8]
        places = (("a", ""), ("b", "pg-1"))
        return [
            replace(bucket, key=replace(bucket.key, zone=zone, placement_group=group))
            for bucket in near
            for zone, group in places
        ]

    def lost(self, run: Run) -> bool:
        """Whether a machine with a part of it is gone: one that it was delivered to, or was to be delivered to."""
        bare = run.hosts - run.delivered.keys() - self.persistent.keys()
        return self.processes.lost(run) or not all(self.lives(self.rules.made_for.get(host, "")) for host in bare)

    def machine_of(self, name: str) -> Machine | None:
        """The machine that has this name now."""
        return next((machine for machine in reversed(self.living) if machine.name == name), None)

    def lives(self, place: str) -> bool:
        machine = self.cloud.machines.get(place)
        return place in self.persistent or (machine is not None and machine.ended_at is None)

    def answering(self, name: str) -> str | None:
        """The place whose execd answers under this name now."""
        machine = self.machine_of(name)
        place = name if name in self.persistent else machine.id if machine is not None else None
        if place is None or self.clock.now < self.mute_until.get(place, 0.0) or place in self.stuck | self.silent:
            return None
        booted = machine is None or self.clock.now >= machine.created_at + self.boot_delay
        return place if booted else None

    def reports(self, name: str) -> bool:
        """Whether it has reported lately: silence shows only after a while."""
        return name in self.reported and self.clock.now - self.reported[name] < MAX_UNHEARD

    def interruption_of(self, machine: Machine | None) -> Interruption | None:
        """Its interruption notice, if its cloud gave one."""
        notices = [] if machine is None else [n for n in self.cloud.notices if n.worker_id == machine.id]
        return min((n for n in notices if n.kind != "rebalance"), key=lambda notice: notice.at, default=None)

    def serves(self, at: Instance) -> bool:
        """Whether its free slots are supply: enabled, on a machine that exists, and not drained."""
        machine = self.machine_of(at[1])
        there = at[1] in self.persistent or (machine is not None and not self.interruption_of(machine))
        return self.cell.accepts_jobs(at) and there and at[1] not in self.drained

    # -- the process ---------------------------------------------------------------------------------------------------

    def _start(self) -> Loop:
        while True:
            store = Store(mortal_store(self.store_file, self.instants).database, self._new_order)
            runner, provider = FaultyRunner(self), FaultyProvider(self)
            administrator = Administrator(runner)
            execution_context = ExecutionContext(
                administrator, provider, store, self.tag, lambda array: f"join {array}", self.clock, at_once,
                ProbeHosts(runner, MortalNames(self.names, self.instants), self.clock, self.clock),
                Lookup(runner).jobs, Nobody(), groups=Groups(administrator) if self.grouped else None,
                batches=Batches(administrator),
            )  # fmt: skip
            observer = Observer(
                runner, provider, store, self.policy, details_wanted, UTC,
                clock=self.clock, stopwatch=self.clock, executor=at_once,
            )  # fmt: skip
            loop = Loop(
                observer,
                self._decided,
                Actor(execution_context, patience=0.0),
                store,
                10.0,
                stopwatch=self.clock,
            )
            try:
                store.sweep(self.clock.now)
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
        since = snapshot.now - EVIDENCE_KEPT
        failures = tuple(failure for failure in self.failures if failure.at > since)
        evidence = replace(snapshot.evidence, failures=failures, health=dict(self.health))
        made = self.decide(replace(snapshot, evidence=evidence))
        self.rules.retries.decides(made.memory.backoffs)
        self._count(made)
        return made

    def _count(self, made: Plan) -> None:
        """Counts rare actions, to show that a campaign had them at all."""
        for action in made.actions:
            if isinstance(action, Disable) and action.reason.code is Code.SWAP:
                self.injected["workers swapped for stronger ones"] += 1
                if not self.policy.swap:
                    self.rules.breaks(5, f"{action.host} is swapped, where swaps are not allowed")
            if isinstance(action, AskGridEngine):
                self.injected["Grid Engine asked with probe hosts"] += 1
            if isinstance(action, Reschedule):
                self.injected["jobs rescheduled"] += len(action.jobs)

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
        """One pass and the pause after it; None if nothing could be observed or the process was killed."""
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
        self.rules.ends_pass(done)
        self.rest(1.0 if done is not None and done.acted else 10.0)
        return done

    def rest(self, seconds: float) -> None:
        """Time passes, in steps of the scheduler."""
        until = self.clock.now + seconds
        while self.clock.now < until and not self.frozen:
            self.clock.now = min(until, self.clock.now + 2.0)
            self.pass_by()

    def pass_by(self) -> None:
        """Let what is due happen: jobs end and start."""
        self.cloud.come_true()
        hosts = self.cell.hosts
        self.reported = {name: at for name, at in self.reported.items() if name in hosts}
        self.reported |= {name: self.clock.now for name in hosts if self.answering(name) is not None}
        self.cell.tick()
        for name in hosts:
            machine = self.machine_of(name)
            if machine is not None and self.rules.made_for.get(name) == machine.id and self.cell.can_start_jobs(name):
                self.served.add(machine.id)

    def call(self) -> None:
        """A call of the process to the world begins."""
        if self.frozen:
            return
        self.clock.now += 0.02
        due = [what for left, what in self.later if left <= 0]
        self.later = [(left - 1, what) for left, what in self.later if left > 0]
        for what in due:
            what()
        self.pass_by()

    # -- people --------------------------------------------------------------------------------------------------------

    def set_override(self, verb: Verb, host: str = "") -> None:
        self.people.overrides.ask(verb, who="ann", at=self.clock.now, host=host)
        machine = self.machine_of(host)
        if verb is Verb.DRAIN:
            self.disturb(machine or self.cloud.machines.get(host))
        if verb in (Verb.STOP_DRAIN, Verb.STOP_NOW):
            self.disturbed |= {each.id for each in self.living}
        if verb is Verb.KEEP and machine is not None:
            self.meant[host] = machine.id

    def keeps(self, machine: Machine | None) -> bool:
        """Whether a person keeps it: it, not another one that has its name by now."""
        return machine is not None and machine.name in self.kept and self.meant.get(machine.name) == machine.id

    def disturb(self, machine: Machine | None) -> None:
        """This machine has a trouble of its own, now or for a while."""
        if machine is not None:
            self.disturbed.add(machine.id)

    def enabled_by_hand(self, machine: Machine | None) -> None:
        """A person enabled it, even if it is silent just now."""
        if machine is not None:
            self.served.add(machine.id)

    def end_override(self, verb: Verb, host: str = "") -> None:
        self.people.overrides.end(verb, who="ann", at=self.clock.now, host=host)

    def read_overrides(self) -> None:
        """Which overrides are in force: those for hosts that are gone are over."""
        overrides = self.people.overrides.load()
        self.kept, self.stopping = set(overrides.keep), overrides.stop
        meant = {self.cloud.machines[one].name for one in overrides.drain if one in self.cloud.machines}
        self.drained = {*overrides.drain, *meant}

    def disable_by_hand(self, at: Instance) -> None:
        """A person's `qmod -d`. If the journal records that we were about to, it counts as ours."""
        self.disturb(self.machine_of(at[1]))
        if at not in self.cell.off and self._is_ours_to_disable(at[1]):
            self.cell.off[at] = "us"
        else:
            self.cell.switch_by_hand(True, at)

    def _is_ours_to_disable(self, name: str) -> bool:
        """A Disable of ours is in the journal, and no observation has shown it disabled and later enabled again."""
        last = next((row for row in self.people.journal.outcomes_of(name) if row["kind"] != "terminate"), None)
        if last is None or last["kind"] == "enable":
            return False
        disabled = [was_disabled for at, was_disabled in self.rules.observations.get(name, []) if at > last["at"]]
        return not (True in disabled and False in disabled[disabled.index(True) :])
