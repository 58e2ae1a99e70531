"""Plays histories: seeded events, a pass after each, the rules checked all the time; then calm, and convergence.

A history is its seed and its events, so a failing one is played again, and made shorter by leaving events out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.plan import plan
from autoscaler.engine.pass_listener import Pass
from autoscaler.store.overrides import Verb
from tests.soak.callers import CALLS, with_callers, withdraw_requests
from tests.soak.events import HAPPENINGS, Event, happen
from tests.soak.group_events import EVENTS, for_groups, has_groups, with_groups
from tests.soak.jobs import OTHER
from tests.soak.request_rules import RULE as REQUESTS
from tests.soak.request_rules import differences, has_requests, within_limits
from tests.soak.world import Decide, World, policy_of

CALM_PASSES = 600
"""Passes without troubles after which all must be done and gone; a cap of launches an hour makes them many."""
SETTLED_PASSES = 300
"""The same for requests of callers."""
STAYS = 5
"""Passes for which the requested workers must stay as they are."""


@dataclass(frozen=True)
class History:
    """What happens: `seed` chooses the set-up, `events` come one before each pass. `groups`: whether there are any."""

    seed: int
    events: tuple[Event, ...]
    groups: bool = False

    @classmethod
    def of(cls, seed: int, steps: int, *, groups: bool | None = None) -> History:
        """`groups`: None for a chance of the seed's."""
        chance = random.Random(seed)
        names, weights = list(HAPPENINGS), [weight for weight, _ in HAPPENINGS.values()]
        some = set(chance.sample(names, k=chance.randint(len(names) // 3, len(names)))) | {"single", "time_passes"}
        weights = [weight if name in some else 0 for name, weight in zip(names, weights, strict=True)]
        chosen = chance.choices(names, weights, k=steps)
        events = [Event(name, chance.randrange(1 << 16), chance.randrange(1 << 16)) for name in chosen]
        called, groups = with_callers(seed, events), has_groups(seed) if groups is None else groups
        return cls(seed, with_groups(seed, called) if groups else called, groups)


@dataclass(frozen=True)
class Played:
    """What came of a history."""

    world: World
    broken: tuple[str, ...]
    steps: int
    """Passes, those of the calm included."""


def play(history: History, store_file: Path, *, decide: Decide = plan, calm_passes: int = CALM_PASSES) -> Played:
    """Play it until a rule is broken, or to its end. No `calm_passes`: without a check that everything converges."""
    chance = random.Random(-history.seed - 1)
    persistent = {"p1": 2} if chance.random() < 0.4 else {}
    policy, old_names = policy_of(chance), chance.random() < 0.4
    policy = for_groups(policy, history.seed) if history.groups else policy
    world = World(store_file, policy, persistent, decide=decide, grouped=history.groups, old_names=old_names)
    steps = 0
    try:
        for event in history.events:
            happen(world, event, {**CALLS, **EVENTS})
            world.step()
            steps += 1
            if world.rules.broken:
                break
        if calm_passes and not world.rules.broken:
            steps += converge(world, calm_passes)
    finally:
        world.close()
    return Played(world, tuple(world.rules.broken), steps)


def converge(world: World, passes: int = CALM_PASSES) -> int:
    """Troubles stop and people tidy up; then rule 8 and rule 9 must hold. Returns the passes that took."""
    calm(world)
    first = settle_requests(world, min(passes, SETTLED_PASSES)) if has_requests(world) and within_limits(world) else 0
    withdraw_requests(world)
    for number in range(1, passes + 1):
        done = world.step()
        world.rest(15.0)
        if world.rules.broken or (not unfinished(world) and not left_over(world)):
            break
        if number % 10 == 0:
            operator_cleans_up(world, done)
    else:
        world.rules.breaks(8, f"after {passes} passes: jobs {unfinished(world)}, left {left_over(world)}")
        return first + passes
    if not world.rules.broken:
        for _ in range(2):
            done = world.step()
            if done is None or done.plan.actions or world.rules.changes:
                world.rules.breaks(9, f"all is done, and yet {done and done.plan.actions}")
    if open_orders := [record.id for record in world.people.journal.orders(0) if not record.closed]:
        world.rules.breaks(8, f"orders without an end: {open_orders}")
    return first + number + 2


def settle_requests(world: World, passes: int) -> int:
    """The requested workers exist at last, and stay, and nothing else. Returns the passes that took."""
    met = 0
    for number in range(1, passes + 1):
        done = world.step()
        world.rest(15.0)
        met = met + 1 if not unfinished(world) and not differences(world) else 0
        if world.rules.broken or met > STAYS or not has_requests(world):
            return number
        if number % 10 == 0:
            operator_cleans_up(world, done)
    if within_limits(world) and not unfinished(world):
        world.rules.breaks(REQUESTS, f"after {passes} passes: {differences(world)}")
    return passes


def calm(world: World) -> None:
    """No more troubles; people end their overrides and clean up what only they may touch."""
    cell, faults, now = world.cell, world.cloud.faults, world.clock.now
    world.instants.killing = frozenset()
    world.troubles.clear()
    world.later.clear()
    faults.out_of_capacity.clear()
    faults.stock = faults.quota = faults.refused = None
    faults.throttled = faults.unreachable = faults.malformed = faults.lost_answers = 0
    faults.listing_lag = 0.0
    world.silent &= {machine.id for machine in world.living}
    world.mute_until.clear()
    world.stuck.clear()
    world.cloud.notices.clear()
    world.failures.clear()
    world.health.clear()
    for verb, hosts in ((Verb.KEEP, world.kept), (Verb.DRAIN, world.drained)):
        for name in hosts:
            world.end_override(verb, name)
    world.people.overrides.resume(who="ann", at=now)
    world.read_overrides()
    for job in cell.jobs:
        job.held = job.failed = False
        for run in job.runs:
            run.suspended = False
    cell.reserved.clear()
    cell.broken.clear()
    world.rest(6.0)
    enable_all(world)


def enable_all(world: World) -> None:
    """People enable what they, or an autoscaler whose store was lost, had disabled."""
    for at, who in list(world.cell.off.items()):
        if who == "person":
            world.cell.switch_by_hand(False, at)


def operator_cleans_up(world: World, done: Pass | None) -> None:
    """People do what is left to them: enable what is disabled by hand, and start an execd that is silent."""
    verdicts = done.plan.workers if done else ()
    for name, code in ((verdict.name, verdict.reason.code) for verdict in verdicts):
        if code is Code.DISABLED_BY_HAND:
            for at in world.cell.instances_of(name):
                world.cell.switch_by_hand(False, at)
        if code in (Code.NO_LOAD_REPORT, Code.SILENT):
            world.silent.clear()
        if code is Code.UNKNOWN_NODE_ARRAY:  # a caller's, unknown since a store was lost
            world.set_override(Verb.DRAIN, name)
    forgotten: set[str] = set()
    for name, machine_id in world.rules.made_before_loss.items():
        if name in world.cell.hosts and world.rules.made_for[name] == machine_id and not world.lives(machine_id):
            forgotten.add(name)
            world.cell.delete_by_hand(name)
    for job in world.cell.jobs:
        for run in list(job.runs):
            if world.lost(run) and (not job.rerun or run.hosts & forgotten):
                job.runs.remove(run)
    spared = done is not None and any(note.spared for note in done.plan.memory.swaps.values())
    hindered = (Code.SWAP_OFF, Code.NO_SWAP) if spared else (Code.SWAP_OFF,)
    job_categories = done.plan.job_categories if done else ()
    stuck = {number for category in job_categories for number in category.jobs if _has_code(category.reason, hindered)}
    for job in world.cell.jobs:
        if job.number in stuck:
            world.cell.delete(job)  # weaker workers are in its way, and a person keeps them
        if not world.allowed.by_one_type(job) or job.queue == OTHER:
            world.cell.delete(job)
        if job.number in world.rules.jobs.held_since_loss:
            job.held_by_operator = False


def _has_code(reason: Reason, codes: Sequence[Code]) -> bool:
    return reason.code in codes or any(_has_code(link, codes) for link in reason.trail)


def unfinished(world: World) -> list[tuple[int, str | None, int]]:
    return [(job.number, job.pe, job.slots) for job in world.cell.jobs]


def left_over(world: World) -> list[str]:
    """What of ours is still anywhere: machines, execution hosts, objects of groups."""
    objects = world.cell.groups.left() if world.cell.groups is not None else []
    hosts = set(world.cell.hosts) - set(world.persistent)
    return [*(machine.name for machine in world.living), *hosts, *objects]


def shorten(history: History, fails: Callable[[History], bool]) -> History:
    """The same failure with fewer events: halves, quarters, … are left out as long as it still fails."""
    events, size = list(history.events), len(history.events) // 2
    while size:
        at = 0
        while at < len(events):
            fewer = [*events[:at], *events[at + size :]]
            if fails(replace(history, events=tuple(fewer))):
                events = fewer
            else:
                at += size
        size //= 2
    return replace(history, events=tuple(events))


def kind(broken: str) -> str:
    """What two violations have in common: the rule, and the words up to the first number."""
    rule, _, text = broken.partition(": ")
    return f"{rule}: {text.split(' fake-')[0][:40].rstrip('0123456789 ')}"
