"""Rule 8: killed at any instruction and started again, it converges: no worker leaked, none lost, none launched twice.

Whole lives of workers are played in a simulated world, once undisturbed, then again for every instant at which a kill
could leave something half done, with a new process on the same store afterwards.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoscaler.core.model.actions import PROBE_HOST_PREFIX, AskGridEngine, Kill, ProbeHost, Question
from autoscaler.core.model.evidence import Answer
from autoscaler.core.model.reasons import Code, because
from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import NodeArrayPolicy
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.store.nodes import NodeRow
from tests.sge.grid_engine_model import Killed
from tests.simulated.autoscaler import POLICY, TAG, World, left_over, start, step
from tests.simulated.cluster import ended_once
from tests.simulated.killing import Instants, MortalNames, MortalProvider, MortalRunner, mortal_store, sampled

REASON = because(Code.UNKNOWN_PE, pe="local", queues=("main.q",), slots=9)
PASSES = 80
LAST_EVENT = 15


@dataclass(frozen=True)
class Story:
    """What happens in the world while the autoscaler serves it."""

    name: str
    prepare: Callable[[World], None]
    later: Callable[[World], None] = lambda world: None
    """Before every pass."""
    array: NodeArrayPolicy = POLICY.node_arrays[0]
    decide: Callable[[Snapshot], Plan] = plan
    killed: int = 0
    """So many jobs are deleted by us."""


def _come_and_go(world: World) -> None:
    world.cluster.submit(3, seconds=40)


def _come_again(world: World) -> None:
    """Work comes when workers are about to leave: they are let in again."""
    cluster = world.cluster
    if len(cluster.jobs) == 3 and all(job.ended for job in cluster.jobs) and cluster.disabled:
        cluster.submit(2, seconds=30)


def _none_left(world: World) -> None:
    world.cloud.faults.out_of_capacity.add("m5.xlarge")
    world.cluster.submit(2, seconds=20)


def _never_heard(world: World) -> None:
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


def _requests_lapse(world: World) -> None:
    """A set wants a worker of its own node array for a while."""
    _ask(world, Target("burst", count=1), lasts=20)


def _a_node_is_created(world: World) -> None:
    store = world.open_store()
    store.nodes.create([NodeRow(CreatedNode("n-1", "execute-1", "execute", world.clock.now))])
    store.close()


def _a_node_is_ended(world: World) -> None:
    """Once a worker serves the node, somebody ends it: at once for who waits, and by a drain for the worker."""
    store = world.open_store()
    for node in store.nodes.live():
        if node.worker_id is not None:
            store.nodes.end(node.id, at=world.clock.now, by="ann")
    store.close()


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


def _too_large(world: World) -> None:
    world.cluster.submit(1, slots=9)


def _doubts(snapshot: Snapshot) -> Plan:
    """Ask about the job while nobody knows; once Grid Engine has said that it is impossible, delete it."""
    made = plan(snapshot)
    waiting = [shape.ask for shape in snapshot.cluster.shapes if 1 in shape.jobs]
    if not waiting:
        return made
    known = snapshot.evidence.answers.get(1)
    if known is None:
        phantoms = (ProbeHost("main.q", 2, ()), ProbeHost("main.q", 4, ()))
        return replace(made, actions=(*made.actions, AskGridEngine((Question(1, "as asked"),), phantoms, REASON)))
    assert (known.answer, known.fingerprint) == (Answer.IMPOSSIBLE, "as asked")
    return replace(made, actions=(*made.actions, Kill(("1",), REASON, asks=tuple(waiting))))


STORIES = (
    Story("work comes and goes", _come_and_go),
    Story("work comes again", _come_and_go, _come_again),
    Story(
        "the first type is sold out",
        _none_left,
        array=replace(POLICY.node_arrays[0], instance_type="m5.xlarge", descending=True),
    ),
    Story("a machine never joins", _never_heard, array=replace(POLICY.node_arrays[0], boot_timeout=30.0)),
    Story("a job is asked about and deleted", _too_large, decide=_doubts, killed=1),
    Story("requests lapse", _requests_lapse),
    Story("a node is created and ended", _a_node_is_created, _a_node_is_ended),
    Story(
        "a node fails and is tried again",
        _a_node_never_joins,
        _a_node_is_tried_again,
        array=replace(POLICY.node_arrays[0], boot_timeout=20.0),
    ),
    Story("a worker asks to stop", _one_job, _workers_ask_to_stop),
)


@dataclass
class Life:
    """One world and the processes that serve it, one after the other."""

    story: Story
    directory: Path
    killing: frozenset[int]

    def __post_init__(self) -> None:
        self.world = World(self.directory / "store.sqlite", policy=replace(POLICY, node_arrays=(self.story.array,)))
        self.story.prepare(self.world)
        self.instants = Instants(self.killing)
        self.wrong: list[str] = []
        self.deaths: list[str] = []

    def live(self) -> list[str]:
        """Play the story to its end; returns what went wrong."""
        self._start()
        for number in range(PASSES):
            self.story.later(self.world)
            self._step()
            self._check()
            if number > LAST_EVENT and not left_over(self.world, self.loop) and not self.world.cluster.waiting:
                break
        self._step()  # one more look, so that the last machine's end is seen
        self._check_end()
        self.loop.store.close()
        return [f"{' and '.join(self.deaths) or 'undisturbed'}: {problem}" for problem in self.wrong]

    def _step(self) -> None:
        try:
            step(self.world, self.loop)
        except Killed as death:
            self.deaths.append(str(death))
            self.loop.store.close()
            self._start()
            step(self.world, self.loop)

    def _start(self) -> None:
        """A new process, which may be killed while it starts."""
        world, instants = self.world, self.instants
        store = mortal_store(world.store_file, instants)
        runner, provider = MortalRunner(world.cluster, instants), MortalProvider(world.provider(), instants)
        try:
            names = MortalNames(world.names, instants)
            decide = self.story.decide
            self.loop = start(world, store=store, runner=runner, provider=provider, decide=decide, names=names)
        except Killed as death:
            self.deaths.append(str(death))
            store.close()
            self._start()

    def _check(self) -> None:
        """What must hold at every instant, whoever was killed when."""
        world = self.world
        living = {machine.name for machine in world.cloud.living(TAG)}
        tokens = {attempt.token for record in self.loop.store.journal.orders(0) for attempt in record.attempts}
        for job in world.cluster.jobs:
            if job.host is not None and job.host not in living:
                self.wrong.append(f"{job.host} was ended under job {job.number}")
        if unknown := [machine.id for machine in world.cloud.machines.values() if machine.token not in tokens]:
            self.wrong.append(f"the journal does not know {unknown}")
        if lost := world.cluster.workers - living:
            self.wrong.append(f"execution hosts without a machine: {lost}")
        phantoms = {*world.cluster.attached, *world.cluster.slots, *world.names.there} - living
        if phantoms := {name for name in phantoms if name.startswith(PROBE_HOST_PREFIX)}:
            self.wrong.append(f"phantoms stayed: {phantoms}")
        if len(living) > self.story.array.limits.max_workers:
            self.wrong.append(f"{len(living)} workers at once")

    def _check_end(self) -> None:
        world, store = self.world, self.loop.store
        if left := left_over(world, self.loop):
            self.wrong.append(f"leaked: {left}")
        if (deleted := sum(job.deleted for job in world.cluster.jobs)) != self.story.killed:
            self.wrong.append(f"{deleted} jobs were deleted")
        if silent := [job.number for job in world.cluster.jobs if job.deleted and not job.context]:
            self.wrong.append(f"deleted without a word: {silent}")
        if not ended_once(world.cluster.jobs):
            self.wrong.append(f"jobs: {[(job.number, job.ended, job.starts) for job in world.cluster.jobs]}")
        if unanswered := [record.id for record in store.journal.orders(0) if not record.closed]:
            self.wrong.append(f"orders without an end: {unanswered}")
        if untold := [tuple(row) for row in store.journal.without_outcome()]:
            self.wrong.append(f"actions without an outcome: {untold}")
        if open_lives := [life.worker_id for life in store.history.lifetimes() if life.ended_at is None]:
            self.wrong.append(f"lifetimes without an end: {open_lives}")

    @property
    def launched(self) -> int:
        return len(self.world.cloud.machines)


@pytest.fixture
def memory_directory(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Fresh directories where a commit need not wait for a disk."""
    fast = Path("/dev/shm")
    base = fast if fast.is_dir() else tmp_path
    with tempfile.TemporaryDirectory(dir=base, prefix="sge-autoscaler-test-") as made:
        numbers = iter(range(1_000_000))

        def fresh() -> Path:
            directory = Path(made) / str(next(numbers))
            directory.mkdir()
            return directory

        yield fresh


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_undisturbed_all_goes_well(story: Story, memory_directory: Callable[[], Path]) -> None:
    life = Life(story, memory_directory(), frozenset())
    assert (life.live(), life.launched > 0 or story.killed > 0) == ([], True)


def killed_at(instants: Iterable[int], undisturbed: Life, memory_directory: Callable[[], Path]) -> list[str]:
    """What goes wrong in lives of the same story that are killed once each, at these instants."""
    wrong: list[str] = []
    for instant in instants:
        life = Life(undisturbed.story, memory_directory(), frozenset({instant}))
        wrong += life.live()
        if life.launched > undisturbed.launched:
            wrong.append(f"{life.deaths}: launched {life.launched} instead of {undisturbed.launched}")
    return wrong


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_killed_around_a_call_or_commit_of_each_kind_it_converges(
    story: Story, memory_directory: Callable[[], Path]
) -> None:
    """A sample: one instant of each kind, always the same ones, and one of twelve of all others."""
    undisturbed = Life(story, memory_directory(), frozenset())
    undisturbed.live()
    chosen = sampled(undisturbed.instants.names, chance=random.Random(story.name))
    assert killed_at(chosen, undisturbed, memory_directory) == []


@pytest.mark.thorough
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_killed_at_any_instant_it_converges(story: Story, memory_directory: Callable[[], Path]) -> None:
    undisturbed = Life(story, memory_directory(), frozenset())
    undisturbed.live()
    every = range(1, len(undisturbed.instants.names) + 1)
    assert killed_at(every, undisturbed, memory_directory) == []


def test_a_sample_has_an_instant_of_each_kind() -> None:
    names = ["before commit", "after commit"] * 30 + ["before launch", "after launch"]
    chosen = sampled(names, chance=random.Random(1))
    assert {names[instant - 1] for instant in chosen} == set(names)
    assert chosen == sampled(names, chance=random.Random(1))
    assert 4 < len(chosen) < 20
