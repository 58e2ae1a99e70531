"""The rules that are never broken, over any history of jobs, people, lags, refusals and crashes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from autoscaler.core.actions import (
    Disable,
    Enable,
    Enrol,
    Launch,
    Reimage,
    Remove,
    Reschedule,
    Restart,
    Terminate,
    WorkerAction,
)
from autoscaler.core.model.fleet import Fleet, MachineState, Order, OrderState, Worker
from autoscaler.core.model.memory import Event, Memory, WorkerNote
from autoscaler.core.model.overrides import Overrides
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.snapshot import Plan, Snapshot
from tests.properties.world import LIMITS, World
from tests.samples import examples

PERSISTENT = frozenset({"h1"})
MOMENT = 0.25
"""Seconds."""


class Rules(RuleBasedStateMachine):
    """Drives a World; every plan made on the way is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.before: tuple[Worker, ...] | None = None
        """What the provider showed at the last pass."""

    # -- passes ----------------------------------------------------------------------------------------------------

    @rule()
    def whole_pass(self) -> None:
        self.world.act(self.decide().actions)

    @rule(rounds=st.integers(1, 5), step=st.sampled_from((5.0, 16.0, 40.0)), ending=st.booleans())
    def things_go_well_for_a_while(self, rounds: int, step: float, ending: bool) -> None:
        """Machines boot, execds report, jobs start and, if `ending`, end."""
        world = self.world
        for _ in range(rounds):
            world.act(self.decide().actions)
            world.list_all()
            for worker_id in world.machines:
                world.boot(worker_id)
            for name in world.hosts:
                world.receive_load_report(name)
            for job in world.running if ending else ():
                world.finish(job)
            world.dispatch()
            world.pass_time(step)

    @rule(up_to=st.integers(0, 3))
    def a_pass_that_is_killed_half_way(self, up_to: int) -> None:
        self.world.act(self.decide().actions, up_to=up_to)

    @rule()
    def a_pass_in_which_a_job_starts_before_the_removal(self) -> None:
        self.world.act(self.decide().actions, between=[1])

    def all_known(self) -> bool:
        """Whether each machine is in the earlier listing, or no lost store forgot it."""
        listed = {worker.id for worker in self.before or ()}
        return self.world.machines.keys() <= listed | self.world.memory.workers.keys()

    @rule(whole=st.integers(0, 2))
    def a_pass_on_a_listing_that_is_cut_short(self, whole: int) -> None:
        """The provider shows the first few of its machines only, whatever their age. Machines that a lost store forgot
        are shown: nothing else would show those.
        """
        world, before = self.world, set(self.world.unlisted)
        world.unlisted |= set(sorted(world.machines)[whole:]) & world.memory.workers.keys()
        world.act(self.decide().actions)
        world.unlisted = before & set(world.machines)

    @precondition(lambda self: self.before is not None and self.all_known())
    @rule()
    def a_pass_on_a_stale_listing(self) -> None:
        """The provider shows its machines as an earlier pass observed them: new ones missing, ended ones present."""
        self.world.stale = self.before
        self.world.act(self.decide().actions)
        self.world.stale = None

    def decide(self) -> Plan:
        seen = self.world.snapshot()
        self.before = self.world.listing()
        made = self.world.decide()
        check(seen, made, self.world)
        return made

    # -- events ----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.waiting) < 12)
    @rule(slots=st.sampled_from((1, 1, 1, 2, 4, 9)), count=st.integers(1, 5))
    def submit(self, slots: int, count: int) -> None:
        for _ in range(count):
            self.world.submit(slots)

    @rule(seconds=st.sampled_from((0.0, 1.0, 5.0, 15.0, 31.0, 200.0, 950.0)))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def schedule(self) -> None:
        self.world.dispatch()

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.world.finish(data.draw(st.sampled_from(self.world.running)))

    @rule()
    def list_all(self) -> None:
        self.world.list_all()

    @precondition(lambda self: self.world.machines)
    @rule(data=st.data())
    def lag(self, data: st.DataObject) -> None:
        worker = self.world.machines[data.draw(st.sampled_from(sorted(self.world.machines)))]
        if self.world.now - worker.created_at < 600:
            self.world.unlisted.add(worker.id)

    @precondition(lambda self: self.world.machines)
    @rule(data=st.data())
    def boot(self, data: st.DataObject) -> None:
        self.world.boot(data.draw(st.sampled_from(sorted(self.world.machines))))

    @rule(data=st.data())
    def receive_load_report(self, data: st.DataObject) -> None:
        self.world.receive_load_report(data.draw(st.sampled_from(sorted(self.world.hosts))))

    @rule(data=st.data(), slots=st.integers(0, 1))
    def reserve(self, data: st.DataObject, slots: int) -> None:
        self.world.hosts[data.draw(st.sampled_from(sorted(self.world.hosts)))].reserved = slots

    @rule(there=st.booleans())
    def capacity(self, there: bool) -> None:
        self.world.capacity = there

    @rule(data=st.data(), disabled=st.booleans())
    def a_person_disables_or_enables(self, data: st.DataObject, disabled: bool) -> None:
        host = self.world.hosts[data.draw(st.sampled_from(sorted(self.world.hosts)))]
        host.by_person = disabled and not host.disabled
        host.disabled = disabled

    @rule(
        overrides=st.sampled_from(
            (*[Overrides()] * 4, Overrides(paused=True), Overrides(stop="drain"), Overrides(stop="now"))
        )
    )
    def set_overrides(self, overrides: Overrides) -> None:
        self.world.overrides = overrides

    @rule()
    def lose_the_store(self) -> None:
        self.world.memory = Memory()

    # -- invariants --------------------------------------------------------------------------------------------------

    @invariant()
    def never_more_than_allowed(self) -> None:
        machines = [m for m in self.world.machines.values() if m.state is not MachineState.TERMINATED]
        assert len(machines) <= LIMITS.max_workers
        assert sum(machine.type.vcpus for machine in machines) <= (LIMITS.max_cores or 0)
        assert sum(machine.price_per_hour or 0 for machine in machines) <= (LIMITS.max_price_per_hour or 0) + 1e-9

    @invariant()
    def every_job_that_was_running_still_has_its_host(self) -> None:
        for worker_id in self.world.ended:
            assert not any(name == f"w-{worker_id}" and host.jobs for name, host in self.world.hosts.items())


def check(seen: Snapshot, made: Plan, world: World) -> None:
    """Hold one plan against the rules that speak of single plans."""
    hosts = {host.name: host for host in seen.cluster.hosts}
    ours = {worker.id for worker in seen.fleet.workers}
    for action in made.actions:
        if not isinstance(action, WorkerAction | Reschedule):
            continue
        assert action.worker_id in ours, "rule 4: only what is ours"
        assert action.host not in PERSISTENT, "rule 4: persistent hosts are never touched"
        before = seen.memory.workers.get(action.worker_id)
        match action:
            case Remove():
                assert not hosts[action.host].busy, "rule 1: busy"
                assert all("d" in i.states for i in hosts[action.host].instances), "rule 1: disabled first"
                assert before is not None, "rule 8: not at the first observation"
                assert before.empty_since is not None, "rule 1: two observations"
            case Terminate():
                assert action.host not in hosts, "rule 1: no execution host is ever terminated"
                assert before is not None or seen.overrides.stop, "rule 8: not at the first observation"
            case Enable():
                assert before is not None, "rule 4: only what we disabled"
                assert before.disabling is not None, "rule 4: only what we disabled"
            case Disable():
                assert not world.hosts[action.host].by_person, "rule 4: what a person disabled is left alone"
            case Enrol():
                assert action.host not in hosts, "no host of another is enrolled"
            case Restart() | Reimage():
                assert not hosts[action.host].busy, "rule 1: busy"
                assert all("d" in i.states for i in hosts[action.host].instances), "rule 1: disabled first"
            case Reschedule():
                pass
    check_launches(seen, made)
    check_second_pass(seen, made)


def check_second_pass(seen: Snapshot, made: Plan, decide: Callable[[Snapshot], Plan] = plan) -> None:
    """Rule 9. In turn the second pass comes at once and a moment later: all deadlines here are at whole seconds. Not
    where a job is suspected: what is done about it waits for a second observation that is later than the first.
    """
    later = seen.now + (0.0 if made.memory.unsatisfiable_jobs else MOMENT * (made.memory.passes % 2))
    fleet = with_orders(seen.fleet, made, seen.now)
    again = decide(replace(seen, memory=made.memory, fleet=fleet, now=later))
    assert again.actions == (), f"rule 9: nothing twice, but after {made.actions}"
    assert steady(again.memory) == steady(made.memory), "rule 9: nothing changes"
    assert decide(seen) == made, "rule 9: equal snapshots give equal plans"


def with_orders(fleet: Fleet, made: Plan, now: float) -> Fleet:
    """The fleet with the orders of this plan, which the journal has as soon as its memory is stored."""
    launches = [action for action in made.actions if isinstance(action, Launch)]
    orders = [
        Order(
            id=f"just-planned-{number}",
            node_array=launch.node_array,
            type=launch.candidates[0].type,
            count=launch.candidates[0].count,
            ordered_at=now,
            state=OrderState.SENT,
            bucket=launch.candidates[0].buckets[0].key,
            nodes=launch.nodes,
            for_requests=launch.for_requests,
        )
        for number, launch in enumerate(launches)
    ]
    return replace(fleet, orders=(*fleet.orders, *orders))


def check_launches(seen: Snapshot, made: Plan) -> None:
    """Rules 3 and 5: no launch for what free and coming workers can take, none while paused or stopping."""
    launches = [action for action in made.actions if isinstance(action, Launch)]
    if not launches:
        return
    assert not seen.overrides.paused
    assert seen.overrides.stop is None
    launches = [launch for launch in launches if launch.reason.code is Code.DEMAND]
    shortfall = sum(
        max(category.ask.slots_min, 1) for category in seen.cluster.job_categories if category.ask.slots_min <= 4
    )
    for launch in launches:
        slots = launch.candidates[0].type.vcpus
        # Each worker but the last is filled by at least one job, so no more are launched than jobs wait.
        assert launch.candidates[0].count <= len(seen.cluster.job_categories)
        assert (launch.candidates[0].count - 1) * slots < shortfall * slots


def steady(memory: Memory) -> Memory:
    """Without what counts passes or seconds, or is of one pass alone, which goes on in an unchanged world. A worker's
    mark is the same as one that was only tried: no command has run, so a later observation shows the worker enabled.
    """
    # A mark of this pass excuses a launch from the next observation on.
    trials = {order: replace(trial, joined_s=0.0, excused=False) for order, trial in memory.trials.items()}
    workers = {name: _steady(note) for name, note in memory.workers.items()}
    return replace(memory, passes=0, observed_at=0.0, annotated_at=None, trials=trials, workers=workers)


def _steady(note: WorkerNote) -> WorkerNote:
    if note.disabling is None and note.tried is not None:
        note = replace(note, disabling=note.tried, disabled_at=note.tried_at)
    silent = None if note.silent_s is None else 0.0
    return replace(note, silent_s=silent, unvouched_s=0.0, tried=None, tried_at=None)


TestRules: Any = Rules.TestCase
TestRules.settings = settings(max_examples=examples(50), stateful_step_count=40)


def test_all_workers_are_terminated_when_no_job_waits() -> None:
    """From submission to the last machine's end, with a scheduler round and a boot between passes."""
    world = World()
    for _ in range(11):
        world.submit(1)
    most = 0
    for _ in range(200):
        world.act(world.decide().actions)
        world.list_all()
        for worker_id, worker in list(world.machines.items()):
            if worker.name is None:
                world.boot(worker_id)
        for name in world.hosts:
            world.receive_load_report(name)
        world.dispatch()
        most = max(most, len(world.machines))
        if world.now - 300 > 1_800_000_000.0:
            for job in world.running:
                world.finish(job)
        world.pass_time(5)
    assert (most, world.machines, set(world.hosts), world.waiting) == (3, {}, set(PERSISTENT), {})


# -- planted bugs: the check of rule 9 finds them ---------------------------------------------------------------------


def forgets_its_actions(seen: Snapshot) -> Plan:
    return replace(plan(seen), memory=seen.memory)


def changes_earlier_times(seen: Snapshot) -> Plan:
    """Equal at the same time, so that only a later second pass shows it."""
    made = plan(seen)
    notes = {name: replace(note, idle_since=note.idle_since and seen.now) for name, note in made.memory.workers.items()}
    return replace(made, memory=replace(made.memory, workers=notes))


def adds_a_quarantine_every_pass(seen: Snapshot) -> Plan:
    made = plan(seen)
    return replace(
        made, memory=replace(made.memory, quarantines=(*seen.memory.quarantines, Event(seen.now, 1, "execute")))
    )


def launches_again_a_moment_later(seen: Snapshot) -> Plan:
    made, last = plan(seen), seen.memory.observed_at
    if last is None or not 0 < seen.now - last < 1:
        return made
    return replace(made, actions=plan(replace(seen, fleet=Fleet((), seen.fleet.buckets), memory=Memory())).actions)


NUMBERS = itertools.count()


def decides_by_chance(seen: Snapshot) -> Plan:
    return replace(plan(seen), waiting=next(NUMBERS))


def check_rule_9_throughout(decide: Callable[[Snapshot], Plan]) -> None:
    """From the submission of jobs until their workers are gone, every pass held against rule 9."""
    world = World()
    for _ in range(4):
        world.submit(4)
    for number in range(40):
        seen = world.snapshot()
        made = decide(seen)
        check_second_pass(seen, made, decide)
        world.memory = made.memory
        world.act(made.actions)
        world.list_all()
        for worker_id in world.machines:
            world.boot(worker_id)
        for name in world.hosts:
            world.receive_load_report(name)
        world.dispatch()
        for job in world.running if number > 20 else ():
            world.finish(job)
        world.pass_time(16)
    assert not world.machines


BUGS = (
    forgets_its_actions,
    changes_earlier_times,
    adds_a_quarantine_every_pass,
    launches_again_a_moment_later,
    decides_by_chance,
)


@pytest.mark.parametrize("bug", BUGS)
def test_the_check_of_rule_9_finds_a_planted_bug(bug: Callable[[Snapshot], Plan]) -> None:
    with pytest.raises(AssertionError, match="rule 9"):
        check_rule_9_throughout(bug)


def test_without_a_bug_rule_9_holds_in_the_same_history() -> None:
    check_rule_9_throughout(plan)
