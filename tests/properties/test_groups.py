"""Groups over any history of jobs, requests, shortages, partial answers, losses, lags and crashes: all of one or none,
one instance type and zone, never an id twice, and requested groups become complete once the cloud has capacity.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from autoscaler.core.actions import Action, Disable, Enable, Enrol, Launch
from autoscaler.core.model.cluster import JobCategory
from autoscaler.core.model.fleet import BucketKey, FailureKind, LaunchFailure, MachineState, Order, OrderState, Worker
from autoscaler.core.model.memory import Disabling, Memory
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import ArrayDefinition, Requests, RequestSet, Target
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.requests.arrays import arrays_present, in_force
from autoscaler.core.requests.group_names import is_of_workers
from autoscaler.core.snapshot import Plan, Snapshot
from tests.core.building import LARGE, NOW, XLARGE, a_bucket, a_job
from tests.properties.world import POLICY, World
from tests.samples import examples

LIMITS = Limits(max_workers=12, max_cores=40)
TYPES = (XLARGE, LARGE)
BUCKETS = tuple(a_bucket(type_, zone=zone) for type_ in TYPES for zone in "ab")
Kind = tuple[int, bool]
"""Size of a group, and whether it is a number of workers."""
OF_CORES: tuple[Kind, ...] = ((4, False), (8, False))
BESIDE: tuple[Kind, ...] = (*OF_CORES, (4, True))
"""Groups of 4 cores and of 4 workers have one node array."""
REQUESTED = st.dictionaries(st.sampled_from(OF_CORES), st.integers(0, 3)) | st.dictionaries(
    st.sampled_from(BESIDE), st.integers(0, 1)
)


@dataclass
class GroupWorld(World):
    """A cell in which every waiting job requests `mpi*`, and clouds have a stock of every bucket."""

    stock: dict[BucketKey, int] = field(default_factory=dict)
    """How many are left; buckets not named are unlimited."""
    groups: dict[str, str] = field(default_factory=dict)
    """Host → the group that it was enrolled in."""
    took_jobs: set[str] = field(default_factory=set)
    """Groups of which a worker was ever enabled."""

    def snapshot(self) -> Snapshot:
        seen = super().snapshot()
        arrays = (replace(POLICY.node_arrays[0], limits=LIMITS),)
        own = replace(POLICY, node_arrays=arrays, group_pes=("mpi",))
        fleet = replace(seen.fleet, buckets=BUCKETS)
        policy = in_force(own, self.requests, arrays_present(fleet, self.memory))
        queues = {**seen.cluster.queues, "main.q": replace(seen.cluster.queues["main.q"], pe_list=("local",))}
        return replace(seen, fleet=fleet, policy=policy, cluster=replace(seen.cluster, queues=queues))

    def _job_categories(self) -> list[JobCategory]:
        waiting = self.waiting.items()
        return [a_job(job, slots=slots, pe="mpi*", waited=NOW - at) for job, (slots, at) in waiting]

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, Enrol):
            self.groups[action.host] = action.group_id
        if isinstance(action, Enable):
            self.took_jobs.add(self.groups.get(action.host, ""))
        super()._carry_out(action)

    def _launch(self, action: Launch) -> None:
        """The first candidate that gives any worker answers, perhaps with fewer than asked."""
        name = f"order-{next(self.numbers)}"
        for candidate in action.candidates:
            (bucket,) = candidate.buckets
            given = min(candidate.count, self.stock.get(bucket.key, candidate.count))
            if bucket.key in self.stock:
                self.stock[bucket.key] -= given
            if given < candidate.count:
                self.failures.append(LaunchFailure(bucket.key, self.now, FailureKind.CAPACITY, "none left", name))
            ids = tuple(f"i-{next(self.numbers)}" for _ in range(given))
            state = OrderState.ACCEPTED if ids else OrderState.FAILED
            kind, array = candidate.type, action.node_array
            self.orders[name] = Order(
                name, array, kind, candidate.count, self.now, state, bucket.key, ids=ids, group_id=action.group_id
            )
            for worker_id in ids:
                self.machines[worker_id] = Worker(
                    worker_id,
                    kind,
                    array,
                    MachineState.PENDING,
                    self.now,
                    zone=bucket.key.zone,
                    price_per_hour=0.1,
                    order_id=name,
                    group_id=action.group_id,
                )
                self.unlisted.add(worker_id)
            if ids:
                return

    def dispatch(self, name: str | None = None) -> None:
        """Grid Engine starts a job inside one group, one slot after the other."""
        for job, (slots, _) in list(self.waiting.items()):
            for group in sorted(set(self.groups.values())):
                free = {
                    each: host.slots - host.used
                    for each, host in self.hosts.items()
                    if self.groups.get(each) == group and host.heard and (not host.disabled or each == name)
                }
                if sum(free.values()) < slots:
                    continue
                for each, room in free.items():
                    taken = min(room, slots)
                    slots -= taken
                    if taken:
                        self.hosts[each].jobs[job] = taken
                del self.waiting[job]
                break

    def receive_load_report(self, name: str) -> None:
        """A terminated machine sends no load report."""
        worker = self.worker_of(name)
        self.hosts[name].heard = worker is None or worker.exists

    def die(self, worker_id: str) -> None:
        """Sudden death of a machine that runs nothing."""
        worker = self.machines[worker_id]
        self.machines[worker_id] = replace(worker, state=MachineState.TERMINATED)

    def members(self) -> dict[str, list[Worker]]:
        """By group, its machines that live and are not on their way out."""
        found: dict[str, list[Worker]] = {}
        for worker in self.machines.values():
            note = self.memory.workers.get(worker.id)
            leaving = note is not None and (
                note.retired_at is not None or note.disabling not in (None, Disabling.ENROL, Disabling.SILENT)
            )
            if worker.exists and worker.group_id and not leaving:
                found.setdefault(worker.group_id, []).append(worker)
        return found


def requests_for(counts: dict[Kind, int]) -> Requests:
    """One set that requests this many groups of each kind."""
    targets: list[Target] = []
    arrays: dict[str, ArrayDefinition] = {}
    for (size, of_workers), groups in counts.items():
        name = f"execute:{size}"
        sized = {"group_count" if of_workers else "group_cores": size}
        targets.append(Target(name, groups=groups, **sized))
        types = tuple(type_.name for type_ in TYPES)
        before = arrays.get(name) or ArrayDefinition(name, dynamic=True, extends="execute", machine_types=types)
        arrays[name] = replace(
            before,
            group_cores=sized.get("group_cores", before.group_cores),
            group_count=sized.get("group_count", before.group_count),
        )
    return Requests((RequestSet("standard", "ann", NOW, None, tuple(targets)),), tuple(arrays.values()))


def kind_of(worker: Worker) -> Kind:
    return int(worker.node_array.rpartition(":")[2]), is_of_workers(worker.group_id or "")


def size_of(worker: Worker) -> int:
    size, of_workers = kind_of(worker)
    return size if of_workers else -(-size // worker.type.vcpus)


class Groups(RuleBasedStateMachine):
    """Drives a GroupWorld; every plan made on the way is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.world = GroupWorld()

    # -- passes ----------------------------------------------------------------------------------------------------

    def decide(self) -> Plan:
        seen = self.world.snapshot()
        made = self.world.decide()
        check(seen, made, self.world)
        return made

    @rule()
    def whole_pass(self) -> None:
        self.world.act(self.decide().actions)

    @rule(up_to=st.integers(0, 3))
    def a_pass_that_is_killed_half_way(self, up_to: int) -> None:
        self.world.act(self.decide().actions, up_to=up_to)

    @rule(rounds=st.integers(1, 6), step=st.sampled_from((5.0, 16.0, 40.0)), ending=st.booleans())
    def things_go_well_for_a_while(self, rounds: int, step: float, ending: bool) -> None:
        self.go_well(rounds, step, ending=ending)

    def go_well(self, rounds: int, step: float, *, ending: bool) -> None:
        world = self.world
        for _ in range(rounds):
            world.act(self.decide().actions)
            world.list_all()
            for worker_id, worker in world.machines.items():
                if worker.state is MachineState.PENDING:
                    world.boot(worker_id)
            for name in world.hosts:
                world.receive_load_report(name)
            for job in set(world.running) if ending else ():
                world.finish(job)
            world.dispatch()
            world.pass_time(step)

    # -- events ----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.waiting) < 4)
    @rule(slots=st.sampled_from((2, 4, 8)))
    def submit(self, slots: int) -> None:
        self.world.submit(slots)

    @rule(counts=REQUESTED)
    def ask(self, counts: dict[Kind, int]) -> None:
        self.world.requests = requests_for(counts)

    @rule(bucket=st.sampled_from(BUCKETS), left=st.integers(0, 3))
    def run_short(self, bucket: object, left: int) -> None:
        self.world.stock[bucket.key] = left  # type: ignore[attr-defined]

    @rule()
    def have_plenty(self) -> None:
        self.world.stock.clear()

    @rule(seconds=st.sampled_from((1.0, 15.0, 31.0, 200.0, 950.0)))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def schedule(self) -> None:
        self.world.dispatch()

    @rule()
    def all_jobs_end(self) -> None:
        for job in set(self.world.running):
            self.world.finish(job)

    @precondition(lambda self: self.world.machines)
    @rule(data=st.data())
    def boot_one(self, data: st.DataObject) -> None:
        worker_id = data.draw(st.sampled_from(sorted(self.world.machines)))
        self.world.list_all()
        if self.world.machines[worker_id].state is MachineState.PENDING:
            self.world.boot(worker_id)

    @rule(data=st.data())
    def hear_one(self, data: st.DataObject) -> None:
        self.world.receive_load_report(data.draw(st.sampled_from(sorted(self.world.hosts))))

    @precondition(lambda self: self.world.machines)
    @rule(data=st.data())
    def a_listing_leaves_one_out(self, data: st.DataObject) -> None:
        worker = self.world.machines[data.draw(st.sampled_from(sorted(self.world.machines)))]
        if worker.exists and self.world.now - worker.created_at < 600:
            self.world.unlisted.add(worker.id)

    @rule()
    def list_all(self) -> None:
        self.world.list_all()

    @rule(counts=st.sampled_from(("pause", "resume")))
    def a_person_pauses_or_resumes(self, counts: str) -> None:
        self.world.overrides = Overrides(paused=counts == "pause")

    @precondition(lambda self: self.world.machines)
    @rule(data=st.data())
    def lose_one(self, data: st.DataObject) -> None:
        worker = self.world.machines[data.draw(st.sampled_from(sorted(self.world.machines)))]
        host = self.world.hosts.get(worker.name or "")
        if worker.exists and (host is None or not host.jobs):
            self.world.die(worker.id)
            if host is not None:
                host.heard = False

    @rule()
    def lose_the_store(self) -> None:
        self.world.memory = Memory()

    # -- invariants --------------------------------------------------------------------------------------------------

    @invariant()
    def limits_hold(self) -> None:
        there = [worker for worker in self.world.machines.values() if worker.exists]
        assert len(there) <= LIMITS.max_workers
        assert sum(worker.type.vcpus for worker in there) <= (LIMITS.max_cores or 0)

    @invariant()
    def all_of_a_group_are_of_one_type_and_zone_and_no_more_than_make_it_whole(self) -> None:
        for members in self.world.members().values():
            assert len({(worker.type.name, worker.zone, worker.node_array) for worker in members}) == 1
            assert len(members) <= size_of(members[0])

    def teardown(self) -> None:
        """Undisturbed, with capacity: requested groups are complete, and nothing else is left."""
        world = self.world
        world.stock.clear()
        world.overrides = Overrides()
        world.pass_time(4000.0)  # every backoff is over
        targets = [target for live in world.requests.sets for target in live.targets]
        requested = Counter(
            {
                (int(target.node_array.rpartition(":")[2]), target.group_count is not None): target.groups or 0
                for target in targets
            }
        )
        marked = {note.host for note in world.memory.workers.values() if note.disabling is not None}
        for name, host in world.hosts.items():  # a person has to enable what a lost store left disabled
            if host.disabled and name not in marked:
                host.disabled = False
                world.took_jobs.add(world.groups.get(name, ""))
        self.go_well(40, 40.0, ending=True)
        whole = Counter(
            kind_of(members[0]) for members in world.members().values() if len(members) == size_of(members[0])
        )
        assert not world.waiting
        assert whole == +requested
        assert sum(map(len, world.members().values())) == len([each for each in world.machines.values() if each.exists])
        settled = plan(world.snapshot())
        assert not settled.actions, "a settled world is changed"


def check(seen: Snapshot, made: Plan, world: GroupWorld) -> None:
    """What holds of every single plan."""
    living = Counter(worker.group_id for worker in seen.fleet.workers if worker.exists)
    for action in made.actions:
        if isinstance(action, Launch):
            assert action.group_id, "nothing here is launched outside of groups"
            assert all(len(candidate.buckets) == 1 for candidate in action.candidates)
            if living[action.group_id]:
                types = {worker.type.name for worker in seen.fleet.workers if worker.group_id == action.group_id}
                assert {candidate.type.name for candidate in action.candidates} == types
        if isinstance(action, Enable) and action.reason.code is Code.JOINED:
            check_whole(action, seen, made, world)
        if isinstance(action, Disable) and action.reason.code is Code.IDLE and newly_disabled(action, seen):
            hosts = {name for name, group in world.groups.items() if group == world.groups.get(action.host)}
            assert not [name for name in hosts if name in world.hosts and world.hosts[name].jobs]
    assert len({action.group_id for action in made.actions if isinstance(action, Launch)}) == len(
        [action for action in made.actions if isinstance(action, Launch)]
    )


def newly_disabled(action: Disable, seen: Snapshot) -> bool:
    """Not once more because an earlier pass was killed before its turn: a job may have entered since."""
    note = seen.memory.workers.get(action.worker_id)
    return note is None or note.disabling is None


def check_whole(action: Enable, seen: Snapshot, made: Plan, world: GroupWorld) -> None:
    """All workers of a group that never took jobs are enabled together, and all of them exist."""
    group = world.groups[action.host]
    if group in world.took_jobs:
        return
    members = [worker for worker in seen.fleet.workers if worker.group_id == group]
    enabled = {each.worker_id for each in made.actions if isinstance(each, Enable)}
    assert len(enabled.intersection(worker.id for worker in members)) >= size_of(members[0])


Groups.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=25, deadline=None)
TestGroups = Groups.TestCase


def test_no_single_worker_of_a_group_is_enabled_after_an_unfinished_enrolment_and_store_loss() -> None:
    """The one that was enrolled looks as if a person had disabled it: it never took jobs."""
    history = Groups()
    history.ask({(8, False): 1})
    history.whole_pass()
    history.list_all()
    for worker_id in sorted(history.world.machines):
        history.world.boot(worker_id)
    history.a_pass_that_is_killed_half_way(up_to=1)
    (host,) = (name for name in history.world.hosts if name.startswith("w-"))
    history.world.receive_load_report(host)
    history.lose_the_store()
    history.go_well(6, 16.0, ending=False)
    assert history.world.took_jobs == set()
    history.teardown()
