"""Rule 8: killed at any instant and started again, it converges: no worker leaked, none lost, none launched twice.

Whole histories of workers run in a simulated cell, once undisturbed, then again for every instant at which a kill
could leave something half done, with a new process on the same store afterwards.
"""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from autoscaler.core.actions import PROBE_HOST_PREFIX, AskGridEngine, Kill, ProbeHost, Question
from autoscaler.core.model.evidence import Answer
from autoscaler.core.model.fleet import Interruption
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits, LostJobs, NodeArrayPolicy
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.providers.fake import Machine
from autoscaler.store.nodes import NodeRow
from tests.samples import thorough
from tests.sge.grid_engine_model import Killed
from tests.simulated.autoscaler import POLICY, TAG, World, left_over, start, step
from tests.simulated.failing_machines import FailingCluster, InterruptingProvider, NameReusingCloud
from tests.simulated.killing import Instants, MortalNames, MortalRunner, mortal_store, sampled

REASON = because(Code.UNKNOWN_PE, pe="local", queues=("main.q",), slots=9)
PASSES = 80
LAST_EVENT = 15
SHARES, PAIRS, SAMPLE = 4, 6, 32
"""The number of tests that share a scenario's instants, and may run side by side; of pairs of instants that are tried;
and of instants that are drawn of a long scenario, where each run takes a second: always the same.
"""
OF_MOST = (
    "commit",
    "launch",
    "qconf -Ae",
    "qconf -aattr",
    "qconf -dattr",
    "qconf -de",
    "qconf -purge",
    "qconf -rattr",
    "qmod -d",
    "qmod -e",
    "terminate",
)
EVERY = 3
"""Kinds of calls that ten scenarios or more have: without `--thorough` each is killed around in every third of them."""
FAILURES = {"silence_timeout": 60.0}


@dataclass(frozen=True)
class Scenario:
    """What happens in the world while the autoscaler serves it."""

    name: str
    prepare: Callable[[World], None]
    later: Callable[[World], None] = lambda world: None
    """Before every pass."""
    array: NodeArrayPolicy = POLICY.node_arrays[0]
    decide: Callable[[Snapshot], Plan] = plan
    killed: int = 0
    """This many jobs are deleted by us."""
    failures: Mapping[str, Any] | None = None
    """Set: machines freeze and are interrupted, beside a persistent host of one slot; fields of the policy for that."""
    long: bool = False
    starts: int = 1
    """So often a job may be started."""
    machines: int | None = None
    """So many machines are launched in all, killed or not."""
    shows: frozenset[Code] = frozenset()
    """Codes of reasons that the journal must have in the end: without them it does not show what its name says."""


def _come_and_go(world: World) -> None:
    world.cluster.submit(3, seconds=40)


def _come_again(world: World) -> None:
    """Jobs come when workers are about to leave: they are enabled again."""
    cluster = world.cluster
    if len(cluster.jobs) == 3 and all(job.ended for job in cluster.jobs) and cluster.disabled:
        cluster.submit(2, seconds=30)


def _none_left(world: World) -> None:
    world.cloud.faults.out_of_capacity.add("m5.xlarge")
    world.cluster.submit(2, seconds=20)


def _never_reports(world: World) -> None:
    """The first machine never reports; the second does."""
    world.cluster.silent.add("fake-1")
    world.cluster.submit(1, seconds=20)


def _ask(world: World, *targets: Target, lasts: float) -> None:
    """A caller of another process updates its set."""
    store = world.open_store()
    definitions = [
        ArrayDefinition(target.node_array, dynamic=True) for target in targets if target.node_array != "execute"
    ]
    store.requests.update("night", "ann", world.clock.now, world.clock.now + lasts, targets, definitions)
    store.close()


def _requests_expire(world: World) -> None:
    """A set requests a worker of its own node array for a while."""
    _ask(world, Target("burst", count=1), lasts=20)


def _a_node_is_created(world: World) -> None:
    store = world.open_store()
    store.nodes.create([NodeRow(CreatedNode("n-1", "execute-1", "execute", world.clock.now))])
    store.close()


def _a_node_is_ended(world: World) -> None:
    """Once a worker serves the node, somebody ends it: the node at once, and its worker by a drain."""
    store = world.open_store()
    for node in store.nodes.live():
        if node.worker_id is not None:
            store.nodes.end(node.id, at=world.clock.now, by="ann")
    store.close()


def _blind_after_its_launch(world: World) -> None:
    """No pass succeeds from the first launch on for longer than an order's grace; then somebody ends the node."""
    first = next(iter(world.cloud.machines.values()), None)
    if first is not None and world.clock.now - first.created_at < POLICY.order_grace:
        world.clock.now += POLICY.order_grace
    elif first is not None and world.clock.now - first.created_at > POLICY.order_grace + 100:
        _a_node_is_ended(world)


def _a_node_never_joins(world: World) -> None:
    """The first machine of a created node never reports; the second does."""
    world.cluster.silent.add("fake-1")
    _a_node_is_created(world)


def _a_node_is_tried_again(world: World) -> None:
    """Once it has failed its caller has it tried again, and ends it when another worker serves it."""
    store = world.open_store()
    for row in store.nodes.listed(()):
        if row.failed is not None:
            store.retry(who="ann", at=world.clock.now)
        elif row.node.lost and row.node.worker_id is not None:
            store.nodes.end(row.node.id, at=world.clock.now, by="ann")
    store.close()


def _one_job(world: World) -> None:
    world.cluster.submit(1, seconds=20)


def _workers_ask_to_stop(world: World) -> None:
    """Every worker asks whether it may stop, again and again."""
    store = world.open_store()
    for machine in world.cloud.living(TAG):
        store.auto_stops.ask(machine.id, world.clock.now)
    store.close()


def _a_weak_worker_exists(world: World) -> None:
    """All that may be there is one weak worker, which is idle by the time that a job needs a stronger one."""
    world.cluster.pe = "local"
    world.cluster.submit(1, seconds=10)


def _strong_job(world: World) -> None:
    cluster = world.cluster
    if len(cluster.jobs) == 1 and cluster.jobs[0].ended:
        cluster.submit(1, seconds=20, slots=4)


def _beside_a_persistent_host(world: World) -> None:
    """One job on the persistent host, one on a worker."""
    world.cluster.submit(2, seconds=100)


def _beside_another_worker(world: World) -> None:
    """One job on the persistent host, and two that need a whole worker each. The last goes on for so long that its
    worker vouches for the network while the other is silent.
    """
    world.cluster.pe = "local"
    world.cluster.submit(1, seconds=100)
    world.cluster.submit(1, seconds=100, slots=2)
    world.cluster.submit(1, seconds=300, slots=2)


def _one_may_not_start_again(world: World) -> None:
    _beside_another_worker(world)
    world.cluster.fixed.add(2)


def _served(world: World) -> Machine | None:
    """The machine on which the second job runs for the first time."""
    job = world.cluster.jobs[1]
    names = {machine.name: machine for machine in world.cloud.living(TAG)}
    return names.get(job.host) if job.host is not None and len(job.starts) == 1 else None


def _freezes(world: World) -> None:
    assert isinstance(world.cluster, FailingCluster)
    frozen, machine = world.cluster.truth.frozen, _served(world)
    if machine is not None and not frozen:
        frozen.add(machine.id)


def _is_interrupted(world: World) -> None:
    machine = _served(world)
    if machine is not None and not world.cloud.notices:
        world.cloud.notices.append(Interruption(machine.id, world.clock.now + 60, "terminate"))


def _too_large(world: World) -> None:
    world.cluster.submit(1, slots=9)


def _asks_and_deletes(snapshot: Snapshot) -> Plan:
    """Ask about the job until there is an answer; once Grid Engine says that it can never run, delete it."""
    made = plan(snapshot)
    waiting = [category.ask for category in snapshot.cluster.job_categories if 1 in category.jobs]
    if not waiting:
        return made
    known = snapshot.evidence.answers.get(1)
    if known is None:
        probes = (ProbeHost("main.q", 2, ()), ProbeHost("main.q", 4, ()))
        return replace(made, actions=(*made.actions, AskGridEngine((Question(1, "as asked"),), probes, REASON)))
    assert (known.answer, known.fingerprint) == (Answer.UNSATISFIABLE, "as asked")
    return replace(made, actions=(*made.actions, Kill(("1",), REASON, asks=tuple(waiting))))


SCENARIOS = (
    Scenario("work comes and goes", _come_and_go),
    Scenario("work comes again", _come_and_go, _come_again),
    Scenario(
        "the first type is sold out",
        _none_left,
        array=replace(POLICY.node_arrays[0], instance_type="m5.xlarge", descending=True),
    ),
    Scenario("a machine never joins", _never_reports, array=replace(POLICY.node_arrays[0], boot_timeout=30.0)),
    Scenario("a job is asked about and deleted", _too_large, decide=_asks_and_deletes, killed=1),
    Scenario("requests lapse", _requests_expire),
    Scenario("a node is created and ended", _a_node_is_created, _a_node_is_ended),
    Scenario("a node is ordered before a long outage", _a_node_is_created, _blind_after_its_launch, machines=1),
    Scenario(
        "a node fails and is tried again",
        _a_node_never_joins,
        _a_node_is_tried_again,
        array=replace(POLICY.node_arrays[0], boot_timeout=20.0),
    ),
    Scenario("a worker asks to stop", _one_job, _workers_ask_to_stop),
    Scenario(
        "a weak worker makes room",
        _a_weak_worker_exists,
        _strong_job,
        array=replace(POLICY.node_arrays[0], hybrid=True, limits=Limits(max_workers=1), idle_timeout=150.0),
        long=True,
        shows=frozenset({Code.SWAP}),
    ),
    Scenario(
        "a worker is lost and its job requeued",
        _beside_another_worker,
        _freezes,
        failures=FAILURES,
        long=True,
        starts=2,
        shows=frozenset({Code.FENCED, Code.LOST_JOBS_RESCHEDULED}),
    ),
    Scenario(
        "a worker is lost and its job may not start again",
        _one_may_not_start_again,
        _freezes,
        failures={**FAILURES, "lost_jobs": LostJobs.DELETE},
        long=True,
        killed=1,
        shows=frozenset({Code.FENCED, Code.LOST_JOBS_DELETED}),
    ),
    Scenario(
        "a worker is taken after a notice",
        _beside_a_persistent_host,
        _is_interrupted,
        failures=FAILURES,
        long=True,
        starts=2,
        shows=frozenset({Code.TERMINATED_BEFORE_INTERRUPTION, Code.LOST_JOBS_RESCHEDULED}),
    ),
)


@dataclass
class ScenarioRun:
    """One world and the processes that serve it, one after the other."""

    scenario: Scenario
    directory: Path
    killing: frozenset[int]

    def __post_init__(self) -> None:
        policy = replace(POLICY, node_arrays=(self.scenario.array,), **(self.scenario.failures or {}))
        self.world = World(self.directory / "store.sqlite", policy=policy)
        if self.scenario.failures is not None:
            self.world.cloud = NameReusingCloud(clock=self.world.clock, boot_delay=self.world.boot_delay)
            self.world.cluster = cluster = FailingCluster(self.world.cloud, self.world.clock, {"h1": 1})
            cluster.begin()
        self.scenario.prepare(self.world)
        self.instants = Instants(self.killing)
        self.wrong: list[str] = []
        self.deaths: list[str] = []

    def play(self) -> list[str]:
        """Play the scenario to its end; returns what went wrong."""
        self._start()
        for number in range(PASSES):
            self.scenario.later(self.world)
            self._step()
            self._check()
            if number > LAST_EVENT and not left_over(self.world, self.loop) and self._all_ended():
                break
        self._step()  # one more pass, so that the last machine's end is observed
        self._check_end()
        self.loop.store.close()
        return self.problems

    @property
    def problems(self) -> list[str]:
        """What went wrong until now."""
        return [f"{' and '.join(self.deaths) or 'undisturbed'}: {problem}" for problem in self.wrong]

    def _all_ended(self) -> bool:
        return all(job.ended for job in self.world.cluster.jobs)

    def _step(self) -> None:
        try:
            step(self.world, self.loop)
        except Killed as death:
            self.deaths.append(str(death))
            self.loop.store.close()
            self._start()
            self._step()

    def _start(self) -> None:
        """A new process, which may be killed while it starts."""
        world, instants = self.world, self.instants
        store = mortal_store(world.store_file, instants)
        runner, provider = MortalRunner(world.cluster, instants), InterruptingProvider(world.provider(), instants)
        try:
            names = MortalNames(world.names, instants)
            decide = self.scenario.decide
            self.loop = start(world, store=store, runner=runner, provider=provider, decide=decide, names=names)
        except Killed as death:
            self.deaths.append(str(death))
            store.close()
            self._start()

    def _check(self) -> None:
        """What must hold at every instant, whenever it was killed."""
        world = self.world
        living = {machine.name for machine in world.cloud.living(TAG)}
        tokens = {attempt.token for record in self.loop.store.journal.orders(0) for attempt in record.attempts}
        if isinstance(world.cluster, FailingCluster):
            self.wrong += world.cluster.truth.twice
        else:
            self._check_hosts(living)
        if unknown := [machine.id for machine in world.cloud.machines.values() if machine.token not in tokens]:
            self.wrong.append(f"the journal does not know {unknown}")
        probes = {*world.cluster.attached, *world.cluster.slots, *world.names.there} - living
        if left := {name for name in probes if name.startswith(PROBE_HOST_PREFIX)}:
            self.wrong.append(f"probe hosts stayed: {left}")
        if len(living) > self.scenario.array.limits.max_workers:
            self.wrong.append(f"{len(living)} workers at once")

    def _check_hosts(self, living: set[str]) -> None:
        """If no machine ends except by us."""
        cluster = self.world.cluster
        for job in cluster.jobs:
            if job.host is not None and job.host not in living:
                self.wrong.append(f"{job.host} was ended under job {job.number}")
        if lost := cluster.workers - living:
            self.wrong.append(f"execution hosts without a machine: {lost}")

    def _check_end(self) -> None:
        world, store = self.world, self.loop.store
        actions = " ".join(row["action"] for row in store.database.rows("SELECT action FROM actions"))
        self.wrong += [f"no action had the reason {code}" for code in self.scenario.shows if f'"{code}"' not in actions]
        if left := left_over(world, self.loop):
            self.wrong.append(f"leaked: {left}")
        if self.scenario.machines not in (None, self.launched):
            self.wrong.append(f"launched {self.launched} instead of {self.scenario.machines}")
        if (deleted := sum(job.deleted for job in world.cluster.jobs)) != self.scenario.killed:
            self.wrong.append(f"{deleted} jobs were deleted")
        if silent := [job.number for job in world.cluster.jobs if job.deleted and not job.context]:
            self.wrong.append(f"deleted without an annotation: {silent}")
        if any(not job.ended or len(job.starts) > self.scenario.starts for job in world.cluster.jobs):
            self.wrong.append(f"jobs: {[(job.number, job.ended, job.starts) for job in world.cluster.jobs]}")
        if unanswered := [record.id for record in store.journal.orders(0) if not record.closed]:
            self.wrong.append(f"orders without an end: {unanswered}")
        if without_outcome := [
            tuple(row)
            for row in store.database.rows("SELECT id, kind, host, order_id FROM actions WHERE result IS NULL")
        ]:
            self.wrong.append(f"actions without an outcome: {without_outcome}")
        if open_lifetimes := [life.worker_id for life in store.history.lifetimes() if life.ended_at is None]:
            self.wrong.append(f"lifetimes without an end: {open_lifetimes}")

    @property
    def launched(self) -> int:
        return len(self.world.cloud.machines)


@functools.cache
def undisturbed_run(name: str) -> ScenarioRun:
    """That of a scenario, played once for all tests of it."""
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == name)
    with in_memory() as made:
        run = ScenarioRun(scenario, made, frozenset())
        run.play()
    return run


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory where a commit need not wait for a disk."""
    fast = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=fast if fast.is_dir() else None, prefix="sge-autoscaler-test-") as made:
        yield Path(made)


@pytest.fixture
def memory_directory() -> Iterator[Callable[[], Path]]:
    """Fresh ones, in memory."""
    with in_memory() as made:
        numbers = iter(range(1_000_000))

        def fresh() -> Path:
            directory = made / str(next(numbers))
            directory.mkdir()
            return directory

        yield fresh


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_an_undisturbed_scenario_has_no_problems(scenario: Scenario) -> None:
    run = undisturbed_run(scenario.name)
    assert (run.problems, run.launched > 0 or scenario.killed > 0) == ([], True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_around_a_call_or_commit_of_each_kind_a_scenario_converges(
    scenario: Scenario, memory_directory: Callable[[], Path]
) -> None:
    """A sample, always the same: of each kind of call or commit one instant before or after it, and some others.
    Without `--thorough` other scenarios stand for kinds that most scenarios have.
    """
    undisturbed = undisturbed_run(scenario.name)
    left = () if thorough() else left_to_others(scenario)
    chosen = sampled(undisturbed.instants.names, chance=Random(scenario.name), left=left)
    assert wrong_with([frozenset({instant}) for instant in chosen], undisturbed, memory_directory) == []


def left_to_others(scenario: Scenario) -> frozenset[str]:
    """Kinds of calls that are killed around in the scenarios before it and after it."""
    return frozenset(kind for number, kind in enumerate(OF_MOST, SCENARIOS.index(scenario)) if number % EVERY)


def test_every_kind_of_call_is_sampled_in_some_scenario() -> None:
    killed: Counter[str] = Counter()
    for scenario in SCENARIOS:
        kinds = {name.partition(" ")[2] for name in undisturbed_run(scenario.name).instants.names}
        killed.update(dict.fromkeys(kinds, 0))
        killed.update(kinds - left_to_others(scenario))
    assert [kind for kind, scenarios in killed.items() if scenarios < (3 if kind in OF_MOST else 1)] == []
    assert set(OF_MOST) <= killed.keys()


def test_a_sample_has_an_instant_of_each_kind_of_call() -> None:
    names = ["before commit", "after commit"] * 30 + ["before launch", "after launch"]
    chosen = [sampled(names, chance=Random(seed)) for seed in range(len(SCENARIOS))]
    assert all({names[one - 1].split()[1] for one in sample} == {"commit", "launch"} for sample in chosen)
    assert {names[one - 1] for sample in chosen for one in sample} == set(names)
    assert chosen[1] == sampled(names, chance=Random(1))
    assert 2 < len(chosen[1]) < 10
    assert [sampled(names[-2:], chance=Random(1), left=[kind]) for kind in ("commit", "launch")] == [[1], []]


@pytest.mark.thorough
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_at_any_instant_a_scenario_converges(
    scenario: Scenario, share: int, memory_directory: Callable[[], Path]
) -> None:
    undisturbed = undisturbed_run(scenario.name)
    instants: Sequence[int] = range(1, len(undisturbed.instants.names) + 1)
    if scenario.long and len(instants) > SAMPLE:
        instants = Random(scenario.name).sample(instants, SAMPLE)
    kills = [frozenset({instant}) for instant in instants[share::SHARES]]
    assert wrong_with(kills, undisturbed, memory_directory) == []


@pytest.mark.thorough
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_killed_twice_a_scenario_converges(scenario: Scenario, memory_directory: Callable[[], Path]) -> None:
    """The second time soon after the first: while unfinished actions are completed."""
    undisturbed = undisturbed_run(scenario.name)
    chance, most = Random(scenario.name), len(undisturbed.instants.names)
    firsts = chance.sample(range(1, most), min(PAIRS, most - 1))
    pairs = [frozenset({first, first + chance.randint(1, 12)}) for first in firsts]
    assert wrong_with(pairs, undisturbed, memory_directory) == []


def wrong_with(
    kills: Sequence[frozenset[int]], undisturbed: ScenarioRun, memory_directory: Callable[[], Path]
) -> list[str]:
    """What goes wrong in runs of the same scenario that are killed at these instants. Where a machine is lost, whether
    its job needs another one or finds room depends on the time of the kill: one machine for each job at most.
    """
    wrong: list[str] = []
    most = undisturbed.launched if undisturbed.scenario.failures is None else len(undisturbed.world.cluster.jobs)
    for killing in kills:
        run = ScenarioRun(undisturbed.scenario, memory_directory(), killing)
        wrong += run.play()
        if run.launched > most:
            wrong.append(f"{run.deaths}: launched {run.launched} instead of {most}")
    return wrong
