"""Groups of workers: what jobs and callers that request them do, and failures of their machines. Some histories have
them, by a chance of their own, so that the others stay as they are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoscaler.core.model.fleet import Ending, Interruption
from autoscaler.core.model.request_sets import ArrayDefinition, Target
from autoscaler.core.policy import Policy
from autoscaler.providers.fake import Machine
from tests.soak.callers import creates, ends
from tests.soak.events import RERUN, SECONDS, Event, Happening, retry
from tests.soak.group_rules import group_of
from tests.soak.jobs import GROUPED, IN_GROUP
from tests.soak.world import World

SHARE = 0.2
"""Of histories, those with groups."""
OFTEN = 0.4
"""Of their events, those of groups."""
SIZES = (("execute:4", 4, None), ("execute:8", 8, None), ("execute:6", 6, None), ("execute:3", None, 3))
"""Node array, vCPUs and workers a group."""
TYPES = ((), ("m5.large",), ("m5.xlarge", "m5.large"), ("m5.2xlarge", "m5.xlarge"))
NAMES = ("mpi", "standard")
LASTS = (40.0, 300.0, None, None)
ZONES = "ab"


def has_groups(seed: int) -> bool:
    return random.Random(f"groups of {seed}").random() < SHARE


def with_groups(seed: int, events: Sequence[Event]) -> tuple[Event, ...]:
    """The same events, some of them replaced by those of groups."""
    chance = random.Random(f"events of groups of {seed}")
    names, weights = list(HAPPENINGS), [weight for weight, _ in HAPPENINGS.values()]
    return tuple(
        Event(chance.choices(names, weights)[0], event.a, event.b) if chance.random() < OFTEN else event
        for event in events
    )


def for_groups(policy: Policy, seed: int) -> Policy:
    """With a parallel environment of groups, and room for several."""
    chance = random.Random(f"set-up of groups of {seed}")
    (array,) = policy.node_arrays
    limits = replace(
        array.limits,
        max_workers=chance.choice((4, 6, 8)),
        max_cores=chance.choice((None, None, 16, 24)),
        max_price_per_hour=chance.choice((None, None, 1.0)),
    )
    return replace(policy, node_arrays=(replace(array, limits=limits),), group_pes=(GROUPED,))


def asks_for_groups(world: World, a: int, b: int) -> bool:
    """A set's new request replaces the one before; often it requests nothing."""
    lasts, now = LASTS[a // 2 % 4], world.clock.now
    name, cores, count = SIZES[b % 4]
    groups = b // 4 % 3
    target = Target(name, groups=groups, group_cores=cores, group_count=count)
    kinds = TYPES[b // 12 % 4]
    array = ArrayDefinition(
        name, dynamic=True, extends="execute", machine_types=kinds, group_cores=cores, group_count=count
    )
    expires_at = None if lasts is None else now + lasts
    world.people.requests.update(NAMES[a % 2], "ann", now, expires_at, [target] if groups else [], [array])
    return True


def mpi(world: World, a: int, b: int) -> bool:
    world.cell.submit(seconds=SECONDS[b % 4], pe=IN_GROUP, slots=(2, 4, 6, 8)[a % 4], rerun=RERUN[b // 4 % 3])
    return True


def mpi_array(world: World, a: int, b: int) -> bool:
    world.cell.submit(
        seconds=SECONDS[b % 3], pe=IN_GROUP, slots=(3, 4)[a % 2], waiting=[1, 2, 3][: 2 + b % 2], array=True
    )
    return True


def _member(world: World, number: int) -> Machine | None:
    members = [machine for machine in world.living if group_of(machine)]
    return members[number % len(members)] if members else None


def member_dies(world: World, a: int, b: int) -> bool:
    machine = _member(world, a)
    if machine is not None:
        world.cloud.kill(machine.id, ending=(Ending.UNKNOWN, Ending.RELEASED)[b % 2])
    return machine is not None


def member_is_interrupted(world: World, a: int, b: int) -> bool:
    machine = _member(world, a)
    if machine is not None:
        world.disturb(machine)
        at = world.clock.now + (5.0, 40.0, 120.0)[b % 3]
        world.cloud.notices.append(Interruption(machine.id, at, ("terminate", "terminate", "rebalance")[b // 3 % 3]))
    return machine is not None


def members_stop(world: World, a: int, b: int) -> bool:
    """One of a group, or all of its hosts, ask to stop."""
    machine = _member(world, a)
    if machine is None:
        return False
    asking = [each for each in world.living if group_of(each) == group_of(machine)] if b % 2 else [machine]
    for each in asking:
        world.people.auto_stops.ask(each.id, world.clock.now)
    return True


def runs_short(world: World, a: int, b: int) -> bool:
    """This many machines are left, of all types or in one zone; or plenty again."""
    faults, place = world.cloud.faults, f"{('m5.xlarge', 'm5.large')[a % 2]}/{ZONES[a // 2 % 2]}"
    if b % 3 == 0:
        faults.out_of_capacity ^= {place}
    else:
        faults.stock = None if b % 3 == 1 else 1 + a % 3
    return True


HAPPENINGS: Mapping[str, tuple[int, Happening]] = {
    happening.__name__: (weight, happening)
    for weight, happening in (
        (20, asks_for_groups), (16, mpi), (6, mpi_array), (8, member_dies), (6, member_is_interrupted),
        (6, members_stop), (10, runs_short), (6, creates), (4, ends), (4, retry),
    )
}  # fmt: skip
EVENTS: Mapping[str, Happening] = {name: happening for name, (_, happening) in HAPPENINGS.items()}
