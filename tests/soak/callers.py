"""Callers that request workers: some histories have them, drawn from a random source of its own so that the others
stay as they are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from autoscaler.core.model.request_sets import ArrayDefinition, CreatedNode, Target
from autoscaler.store.nodes import NodeRow
from autoscaler.store.overrides import Verb
from tests.soak.events import Event, Happening
from tests.soak.world import World

SHARE = 0.35
"""Of histories, those with callers; of their events, those that are a caller's."""
BURST = ArrayDefinition("burst", dynamic=True, extends="execute")
NAMES = ("night", "standard")
LASTS = (40.0, 300.0, None)


def with_callers(seed: int, events: Sequence[Event]) -> tuple[Event, ...]:
    """The same events, or some of them replaced by what callers do."""
    chance = random.Random(f"callers of {seed}")
    if chance.random() >= SHARE:
        return tuple(events)
    names = list(CALLS)
    return tuple(
        Event(chance.choice(names), event.a, event.b) if chance.random() < SHARE else event for event in events
    )


def updates(world: World, a: int, b: int) -> bool:
    """A set's new request replaces the one before; often it requests nothing."""
    lasts, now = LASTS[a // 2 % 3], world.clock.now
    targets = [
        target
        for target in (Target("execute", count=b % 3), Target("burst", cores=b // 3 % 9))
        if target.count or target.cores
    ]
    expires_at = None if lasts is None else now + lasts
    world.people.requests.update(NAMES[a % 2], "ann", now, expires_at, targets, [BURST])
    return True


def creates(world: World, a: int, b: int) -> bool:
    world.nodes_made += 1
    name = f"node-{world.nodes_made}"
    array = "burst" if a % 3 == 0 and _knows_burst(world) else "execute"
    world.people.nodes.create([NodeRow(CreatedNode(name, name, array, world.clock.now))])
    return True


def ends(world: World, a: int, b: int) -> bool:
    """As the REST API does: the node is ended, and its worker drained."""
    live = world.people.nodes.live()
    if not live:
        return False
    node = live[a % len(live)]
    world.people.nodes.end(node.id, at=world.clock.now, by="ann")
    if node.worker_id is not None:
        world.set_override(Verb.DRAIN, node.worker_id)
    return True


def asks_to_stop(world: World, a: int, b: int) -> bool:
    living = sorted(machine.id for machine in world.living)
    for worker_id in living[a % 3 :]:
        world.people.auto_stops.ask(worker_id, world.clock.now)
    return bool(living)


def withdraw_requests(world: World) -> None:
    """No caller requests anything any more."""
    world.people.requests.clear()
    for node in world.people.nodes.live():
        world.people.nodes.end(node.id, at=world.clock.now, by="ann")


def _knows_burst(world: World) -> bool:
    return any(array.name == BURST.name for array in world.people.requests.load(world.clock.now).arrays)


CALLS: Mapping[str, Happening] = {happening.__name__: happening for happening in (updates, creates, ends, asks_to_stop)}
