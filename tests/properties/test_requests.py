"""Under any requests of callers the rules hold; and within limits exactly the requested workers exist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from autoscaler.core.actions import Disable, Enable, Launch
from autoscaler.core.model.memory import Disabling
from autoscaler.core.model.reasons import Code
from autoscaler.core.model.request_sets import (
    ArrayDefinition,
    AutoStopAnswer,
    CreatedNode,
    Requests,
    RequestSet,
    Target,
)
from autoscaler.core.plan import plan
from autoscaler.core.requests.created_nodes import bindings
from autoscaler.core.snapshot import Plan
from tests.properties.test_rules import Rules
from tests.properties.world import LIMITS, World
from tests.samples import examples

NAMES = ("burst", "night", "standard")
ARRAYS = ("execute", "fast", "slow")
CORES = 4
"""Of every worker."""
MOST_SLOW = 2

targets = st.builds(Target, st.sampled_from(ARRAYS), count=st.integers(0, 3)) | st.builds(
    Target, st.sampled_from(ARRAYS), cores=st.integers(0, 10)
)
target_lists = st.lists(targets, max_size=3, unique_by=lambda target: target.node_array)
EXECUTE = ArrayDefinition("execute")
FAST, SLOW = ArrayDefinition("fast", dynamic=True), ArrayDefinition("slow", dynamic=True, max_count=MOST_SLOW)
UNNEEDED = frozenset({Code.IDLE, Code.SWAP, Code.ASKED_TO_STOP, Code.REBALANCE_RECOMMENDED})
"""Reasons for which unneeded workers leave."""


def asked(sets: Sequence[RequestSet], keeping: Set[tuple[str, str]] = frozenset(), **more: Any) -> Requests:
    """What the store makes of these sets: arrays that none names are not requested. `keeping`: which set keeps the
    workers of which array alive, while it names that.
    """
    naming = {(each.name, target.node_array) for each in sets for target in each.targets}
    held = {array: tuple((name, True) for name, kept in sorted(naming & keeping) if kept == array) for array in ARRAYS}
    wanted = {array for _, array in naming}
    arrays = (
        replace(array, requested=array.name in wanted, keep_alive=held[array.name]) for array in (EXECUTE, FAST, SLOW)
    )
    return Requests(tuple(sorted(sets, key=lambda each: each.name)), tuple(arrays), **more)


class RulesUnderRequests(Rules):
    """The same cell, with callers."""

    keeping: frozenset[tuple[str, str]] = frozenset()

    # -- callers ---------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), wanted=target_lists, lasts=st.sampled_from((None, 30.0, 300.0)))
    def update(self, name: str, wanted: list[Target], lasts: float | None) -> None:
        world = self.world
        others = [each for each in self.live() if each.name != name]
        expires_at = None if lasts is None else world.now + lasts
        self.ask(RequestSet(name, "ann", world.now, expires_at, tuple(wanted)), *others)

    @rule(name=st.sampled_from(NAMES), array=st.sampled_from(ARRAYS))
    def keep_alive_or_no_more(self, name: str, array: str) -> None:
        self.keeping ^= {(name, array)}
        self.ask(*self.live())

    @rule()
    def drop_expired_sets(self) -> None:
        self.ask(*self.live())

    @precondition(lambda self: len(self.world.requests.nodes) < 3)
    @rule(array=st.sampled_from(("execute", "fast")))
    def create_a_node(self, array: str) -> None:
        world = self.world
        number = next(world.numbers)
        node = CreatedNode(f"n-{number}", f"{array}-{number}", array, world.now)
        world.requests = replace(world.requests, nodes=(*world.requests.nodes, node))

    @rule()
    def bind_nodes(self) -> None:
        world = self.world
        found = bindings(list(world.orders.values()))
        nodes = (replace(node, worker_id=node.worker_id or found.get(node.id)) for node in world.requests.nodes)
        world.requests = replace(world.requests, nodes=tuple(nodes))

    @precondition(lambda self: self.world.requests.nodes)
    @rule(data=st.data())
    def end_a_node(self, data: st.DataObject) -> None:
        world = self.world
        gone = data.draw(st.sampled_from(world.requests.nodes))
        world.requests = replace(world.requests, nodes=tuple(each for each in world.requests.nodes if each != gone))

    @precondition(lambda self: self.world.machines)
    @rule(data=st.data())
    def ask_to_stop(self, data: st.DataObject) -> None:
        world = self.world
        some = data.draw(st.sets(st.sampled_from(sorted(world.machines))))
        world.requests = replace(world.requests, auto_stops=world.requests.auto_stops | some)

    def live(self) -> list[RequestSet]:
        now = self.world.now
        return [each for each in self.world.requests.sets if each.expires_at is None or each.expires_at > now]

    def ask(self, *sets: RequestSet) -> None:
        before = self.world.requests
        self.world.requests = asked(sets, self.keeping, nodes=before.nodes, auto_stops=before.auto_stops)

    # -- what holds --------------------------------------------------------------------------------------------------

    def decide(self) -> Plan:
        world = self.world
        stopping = {
            worker_id
            for worker_id, note in world.memory.workers.items()
            if note.disabling is Disabling.AUTO_STOP and not note.stop_undone
        }
        kept = {array.name for array in world.snapshot().policy.node_arrays if array.keep_alive}
        safe = {worker_id for worker_id, worker in world.machines.items() if worker.node_array in kept}
        made = super().decide()
        leave = {action.worker_id for action in made.actions if isinstance(action, Disable) and is_unneeded(action)}
        assert safe.isdisjoint(leave), "kept-alive workers do not leave as unneeded"
        enabled = {action.worker_id for action in made.actions if isinstance(action, Enable)}
        assert stopping.isdisjoint(enabled), "a stopping worker is not enabled again"
        launched = Counter(node for action in made.actions if isinstance(action, Launch) for node in action.nodes)
        assert all(count == 1 for count in launched.values()), "one worker a node"
        assert launched.keys().isdisjoint(bindings(list(world.orders.values()))), "a node gets one worker only"
        stays = [worker for worker, (answer, _) in made.auto_stops.items() if answer is AutoStopAnswer.STAYS]
        world.requests = replace(world.requests, auto_stops=world.requests.auto_stops - set(stays))
        return made

    @invariant()
    def no_array_has_more_than_a_request_allows_it(self) -> None:
        assert sum(worker.node_array == "slow" for worker in self.world.machines.values()) <= MOST_SLOW


TestRulesUnderRequests: Any = RulesUnderRequests.TestCase
TestRulesUnderRequests.settings = settings(max_examples=examples(40), stateful_step_count=40)


def is_unneeded(action: Disable) -> bool:
    return action.reason.code in UNNEEDED


# -- requested workers exist -------------------------------------------------------------------------------------------


def served(*wanted: Sequence[Target], world: World | None = None, rounds: int = 30) -> World:
    """A cell in which these sets were requested, and all went well for a while."""
    world = world or World()
    names = NAMES[: len(wanted)]
    sets = [RequestSet(name, "ann", world.now, None, tuple(some)) for name, some in zip(names, wanted, strict=True)]
    world.requests = asked(sets)
    for _ in range(rounds):
        made = world.decide()
        world.act(made.actions)
        world.list_all()
        for worker_id in list(world.machines):
            world.boot(worker_id)
        for name in world.hosts:
            world.receive_load_report(name)
        world.pass_time(20.0)
    return world


def needed(*wanted: Sequence[Target]) -> dict[str, int]:
    """Workers of each array that these sets request together."""
    found: dict[str, int] = {}
    for array in ARRAYS:
        mine = [target for some in wanted for target in some if target.node_array == array]
        cores = sum(target.cores or 0 for target in mine)
        found[array] = sum(target.count or 0 for target in mine) + -(-cores // CORES)
    return {array: count for array, count in found.items() if count}


def there(world: World) -> dict[str, int]:
    return dict(Counter(worker.node_array for worker in world.machines.values()))


@given(target_lists, target_lists)
@settings(max_examples=examples(40))
def test_targets_of_two_sets_are_reached_together_within_limits(one: list[Target], other: list[Target]) -> None:
    wanted = needed(one, other)
    found = there(served(one, other))
    most = {**wanted, **({"slow": min(wanted["slow"], MOST_SLOW)} if "slow" in wanted else {})}
    if sum(most.values()) <= LIMITS.max_workers:
        assert found == most
    else:
        assert (sum(found.values()), all(found[array] <= most[array] for array in found)) == (LIMITS.max_workers, True)


@given(target_lists, target_lists)
@settings(max_examples=examples(20))
def test_the_expiry_of_a_set_removes_the_workers_that_only_it_requested(one: list[Target], other: list[Target]) -> None:
    world = served(one, other)
    assert there(served(one, world=world)) == there(served(one))


@given(
    st.permutations(
        [(name, Target(array, count=count)) for name, array, count in zip(NAMES, ARRAYS, (1, 2, 3), strict=True)]
    )
)
@settings(max_examples=6)
def test_the_order_of_sets_does_not_matter(some: list[tuple[str, Target]]) -> None:
    world = World()
    world.requests = asked([RequestSet(name, "ann", 0.0, None, (target,)) for name, target in some])
    seen = world.snapshot()
    turned = replace(seen, requests=replace(seen.requests, sets=tuple(reversed(seen.requests.sets))))
    assert plan(turned) == plan(seen)


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
@settings(max_examples=examples(20))
def test_exactly_the_surplus_workers_may_stop_however_many_ask(workers: int, stay: int, ask: int) -> None:
    world = served([Target("execute", count=workers)])
    asking = frozenset(sorted(world.machines)[:ask])
    sets = (RequestSet("standard", "ann", world.now, None, (Target("execute", count=stay),)),)
    world.requests = replace(asked(sets), auto_stops=asking)
    made = world.decide()
    stops = [answer for answer, _ in made.auto_stops.values() if answer is AutoStopAnswer.STOPS]
    assert len(stops) == min(len(asking), max(workers - stay, 0))
