"""What can happen to a world between two passes. Each event is a name and two numbers, and does something or nothing.

Numbers choose among what is there (`a % len(hosts)`), so that an event may be left out of a history and the rest still
means something: that is how a failing history is made short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from autoscaler.core.actions import PROBE_HOST_PREFIX
from autoscaler.core.model.evidence import Health, JobFailure
from autoscaler.core.model.fleet import Ending, Interruption
from autoscaler.store.overrides import Verb
from tests.soak.jobs import MAIN, ONE_HOST, OTHER, PAIRS, SPREAD
from tests.soak.world import World

Thing = TypeVar("Thing")


class Event(NamedTuple):
    name: str
    a: int
    b: int


Happening = Callable[[World, int, int], bool]
"""Returns whether anything happened."""
SECONDS = (5.0, 30.0, 90.0, 200.0)
RERUN = (None, True, False)


def happen(world: World, event: Event, besides: Mapping[str, Happening] = MappingProxyType({})) -> None:
    """`besides`: what can happen that is not drawn as the other events are."""
    world.read_overrides()
    happening = besides[event.name] if event.name in besides else HAPPENINGS[event.name][1]
    if happening(world, event.a, event.b):
        world.injected[event.name] += 1
    world.read_overrides()


def _one(things: Sequence[Thing], number: int) -> Thing | None:
    return things[number % len(things)] if things else None


# -- jobs ------------------------------------------------------------------------------------------------------------


def single(world: World, a: int, b: int) -> bool:
    for _ in range(1 + a % 3):
        world.cell.submit(
            seconds=SECONDS[b % 4],
            queue=(MAIN, MAIN, None)[a % 3],
            memory=(0, 0, 2, 4, 12)[b // 4 % 5],
            rerun=RERUN[b // 20 % 3],
        )
    return True


def array(world: World, a: int, b: int) -> bool:
    tasks = list(range(1, 3 + a % 10))
    world.cell.submit(
        seconds=SECONDS[b % 3],
        queue=MAIN,
        waiting=tasks,
        array=True,
        concurrency=(None, 1, 2, 3)[b // 3 % 4],
        rerun=RERUN[b // 12 % 3],
    )
    return True


def one_host(world: World, a: int, b: int) -> bool:
    world.cell.submit(seconds=SECONDS[b % 4], pe=ONE_HOST, slots=2 + a % 7, memory=b // 4 % 3, rerun=RERUN[b // 12 % 3])
    return True


def spread(world: World, a: int, b: int) -> bool:
    """Over as many hosts as it takes; some can never run."""
    world.cell.submit(seconds=SECONDS[b % 4], pe=SPREAD, slots=2 + a % 14, rerun=RERUN[b // 4 % 3])
    return True


def pairs(world: World, a: int, b: int) -> bool:
    world.cell.submit(seconds=SECONDS[b % 4], pe=PAIRS, slots=2 * (1 + a % 4), rerun=RERUN[b // 4 % 3])
    return True


def held(world: World, a: int, b: int) -> bool:
    world.cell.submit(seconds=30.0, held=True, slots=1)
    return True


def released(world: World, a: int, b: int) -> bool:
    """Its owner's hold, or the operator's: then a person releases it."""
    job = _one([job for job in world.cell.jobs if job.held or job.held_by_operator], a)
    if job is not None:
        job.held = job.held_by_operator = False
    return job is not None


def dependent(world: World, a: int, b: int) -> bool:
    other = _one(world.cell.jobs, a)
    world.cell.submit(seconds=10.0, queue=MAIN, waits_for=other.number if other else None)
    return True


def future(world: World, a: int, b: int) -> bool:
    world.cell.submit(seconds=20.0, queue=MAIN, start_after=float(int(world.clock.now) + 20 + a % 300))
    return True


def other_queue(world: World, a: int, b: int) -> bool:
    world.cell.submit(seconds=SECONDS[b % 4], queue=OTHER)
    return True


def unsatisfiable(world: World, a: int, b: int) -> bool:
    asked: tuple[dict[str, object], ...] = (
        {"pe": ONE_HOST, "slots": 500},
        {"queue": MAIN, "foreign_host": "no-such-host"},
        {"queue": MAIN, "memory": 5000},
        {"queue": MAIN, "memory": 40, "waiting": [1, 2, 3], "array": True},
        {"pe": PAIRS, "slots": 40},
    )
    for _ in range(1 + b % 3):
        world.cell.submit(seconds=10.0, **asked[a % 5])
    return True


def altered(world: World, a: int, b: int) -> bool:
    """The owner of a waiting job asks for less, or for more."""
    job = _one([job for job in world.cell.jobs if job.waiting and not job.runs and job.pe in (ONE_HOST, SPREAD)], a)
    if job is not None:
        job.slots = (2, 3, 4, 12, 500)[b % 5]
    return job is not None


def fails(world: World, a: int, b: int) -> bool:
    """A waiting job goes into Eqw, or comes back from it."""
    job = _one([job for job in world.cell.jobs if job.waiting], a)
    if job is not None:
        job.failed = not job.failed
    return job is not None


def deleted(world: World, a: int, b: int) -> bool:
    job = _one(world.cell.jobs, a)
    if job is not None:
        world.cell.delete(job)
    return job is not None


def suspended(world: World, a: int, b: int) -> bool:
    runs = [run for _, run in world.cell.runs]
    run = _one(runs, a)
    if run is not None:
        run.suspended = not run.suspended
    return run is not None


def reserved(world: World, a: int, b: int) -> bool:
    """An advance reservation begins on an idle host, or ends."""
    cell = world.cell
    name = _one(sorted(set(cell.members) - cell.occupied), a)
    if name is None:
        return False
    cell.reserved ^= {name}
    return True


def midway(world: World, a: int, b: int) -> bool:
    """A job is submitted in the midst of a pass, and the scheduler runs at once."""

    def submit() -> None:
        world.cell.submit(seconds=SECONDS[b % 4], queue=(MAIN, OTHER, None)[b // 4 % 3])
        world.cell.tick(eager=True)

    world.later.append((a % 60, submit))
    return True


# -- failures ---------------------------------------------------------------------------------------------------------


def dies(world: World, a: int, b: int) -> bool:
    machine = _one(world.living, a)
    if machine is not None:
        world.cloud.kill(machine.id, ending=(Ending.UNKNOWN, Ending.UNKNOWN, Ending.RELEASED)[b % 3])
    return machine is not None


def freezes(world: World, a: int, b: int) -> bool:
    """A machine freezes, or goes on."""
    machine = _one(world.living, a)
    if machine is not None:
        world.stuck ^= {machine.id}
        world.disturb(machine)
    return machine is not None


def interruption_notice(world: World, a: int, b: int) -> bool:
    """Its cloud gives an interruption notice or a rebalance recommendation; or withdraws all of them."""
    machine = _one(world.living, a)
    if b % 5 == 4:
        world.cloud.notices.clear()
    elif machine is not None:
        world.disturb(machine)
        at = world.clock.now + (5.0, 40.0, 120.0)[b // 5 % 3]
        world.cloud.notices.append(Interruption(machine.id, at, "rebalance" if b % 5 == 3 else "terminate"))
    return machine is not None


def black_hole(world: World, a: int, b: int) -> bool:
    """Accounting records that jobs of one or two owners could not be run on a worker."""
    name = _one(sorted(set(world.cell.hosts) - set(world.persistent)), a)
    for number in range(1 + b % 4) if name is not None else ():
        owner = ("ann", "bob")[number * (b // 4 % 2) % 2]
        failure = JobFailure(name or "", 900_000 + number, world.clock.now, "21 : in recognizing job", owner)
        world.failures.append(failure)
        world.disturb(world.machine_of(name or ""))
    return name is not None


def unhealthy(world: World, a: int, b: int) -> bool:
    """A worker's health check fails for the first time, or again, or passes."""
    machine, now = _one(world.living, a), world.clock.now
    if machine is not None:
        since = (now, now - 300.0, None)[b % 3]
        world.disturb(machine)
        world.health[machine.id] = Health(machine.id, now, since is None, "the scratch disk is gone", since)
    return machine is not None


def never_boots(world: World, a: int, b: int) -> bool:
    """The execd of the machine after the last, or of the one after that, never starts."""
    world.silent.add(f"fake-{len(world.cloud.machines) + 1 + a % 2:06d}")
    return True


def mute(world: World, a: int, b: int) -> bool:
    """The execd of a host is dead for a while, or for long; its jobs run on."""
    place = _one(sorted({*world.persistent, *(machine.id for machine in world.living)}), a)
    if place is not None:
        world.disturb(world.cloud.machines.get(place))
        world.mute_until[place] = world.clock.now + (10, 60, 110, 500)[b % 4]
    return place is not None


def queue_error(world: World, a: int, b: int) -> bool:
    name = _one(sorted(set(world.cell.members) - set(world.persistent)), a)
    if name is not None:
        world.cell.broken ^= {(MAIN, name)}
        world.disturb(world.machine_of(name))
    return name is not None


def time_passes(world: World, a: int, b: int) -> bool:
    world.rest(float(5 + a % 120))
    return True


# -- troubles of Grid Engine's outputs and of the cloud ------------------------------------------------------------


def reading(world: World, a: int, b: int) -> bool:
    part = ("qstat", "qhost", "qconf", "qstat -j")[a % 4]
    whole = ("fail", "hang", "slow")
    hows = (*whole, "empty", "cut", "flip", "flip", "stale") if part in ("qstat", "qhost") else whole
    world.troubles.flips = a * 65537 + b
    world.troubles.cut_at = (b // 16 % 100) / 100
    world.troubles.reading += [(part, hows[b % len(hows)])] * (1 + a // 4 % 6)
    return True


def changing(world: World, a: int, b: int) -> bool:
    world.troubles.changing += [""] * (a % 9) + [("deny", "fail", "hang", "lost")[b % 4]] * (1 + a // 9 % 2)
    return True


def throttled(world: World, a: int, b: int) -> bool:
    world.cloud.faults.throttled += 1 + a % 3
    return True


def unreachable(world: World, a: int, b: int) -> bool:
    world.cloud.faults.unreachable += 1 + a % 4
    return True


def malformed(world: World, a: int, b: int) -> bool:
    world.cloud.faults.malformed += 1 + a % 2
    return True


def sold_out(world: World, a: int, b: int) -> bool:
    """A type is sold out, or to be had again."""
    world.cloud.faults.out_of_capacity ^= {("m5.xlarge", "m5.large", "m5.2xlarge")[a % 3]}
    return True


def scarce(world: World, a: int, b: int) -> bool:
    """Only a part of what is asked can be had; or no shortage any more."""
    world.cloud.faults.stock = None if b % 2 else a % 3
    return True


def quota(world: World, a: int, b: int) -> bool:
    world.cloud.faults.quota = None if b % 2 else 2 + a % 4
    return True


def lost_answer(world: World, a: int, b: int) -> bool:
    world.cloud.faults.lost_answers += 1
    return True


def lag(world: World, a: int, b: int) -> bool:
    world.cloud.faults.listing_lag = (0.0, 5.0, 30.0, 60.0)[a % 4]
    return True


def hidden(world: World, a: int, b: int) -> bool:
    """A listing that lags leaves a worker out for a while."""
    machine = _one(world.living, a)
    if machine is not None:
        world.troubles.hidden[machine.id] = world.clock.now + 10 + b % 60
    return machine is not None


def refused(world: World, a: int, b: int) -> bool:
    """Every launch is refused for good; or no more, and a person resumes."""
    faults = world.cloud.faults
    faults.refused = "no permission" if faults.refused is None else None
    if faults.refused is None:
        world.people.overrides.resume(who="ann", at=world.clock.now)
    return True


# -- people ----------------------------------------------------------------------------------------------------------


def disable(world: World, a: int, b: int) -> bool:
    """Of one host all queue instances, or one alone: that of its own queue, or of the other one."""
    name = _one(sorted(world.cell.hosts), a)
    if name is None:
        return False
    there = world.cell.instances_of(name)
    for at in there if b % 2 else there[-1:] if b % 4 else there[:1]:
        world.disable_by_hand(at)
    return True


def enable(world: World, a: int, b: int) -> bool:
    """A person enables a host; nobody enables a probe host, which never reports."""
    name = _one(sorted({name for _, name in world.cell.off if not name.startswith(PROBE_HOST_PREFIX)}), a)
    if name is None:
        return False
    for at in world.cell.instances_of(name):
        world.cell.switch_by_hand(False, at)
    world.enabled_by_hand(world.machine_of(name))
    return True


def keep(world: World, a: int, b: int) -> bool:
    return _set_or_end_override(world, Verb.KEEP, a, b)


def drain(world: World, a: int, b: int) -> bool:
    return _set_or_end_override(world, Verb.DRAIN, a, b)


def _set_or_end_override(world: World, verb: Verb, a: int, b: int) -> bool:
    asked = sorted(world.kept if verb is Verb.KEEP else world.drained)
    if asked and b % 2:
        world.end_override(verb, asked[a % len(asked)])
        return True
    name = _one(sorted(set(world.cell.hosts) - set(world.persistent)), a)
    if name is not None:
        world.set_override(verb, name)
    return name is not None


def pause(world: World, a: int, b: int) -> bool:
    world.set_override(Verb.PAUSE)
    return True


def stop(world: World, a: int, b: int) -> bool:
    world.set_override((Verb.STOP_DRAIN, Verb.STOP_NOW)[a % 2])
    return True


def resume(world: World, a: int, b: int) -> bool:
    world.people.overrides.resume(who="ann", at=world.clock.now)
    return True


def retry(world: World, a: int, b: int) -> bool:
    world.people.overrides.retry(who="ann", at=world.clock.now)
    return True


def delete_host(world: World, a: int, b: int) -> bool:
    name = _one(sorted(set(world.cell.hosts) - set(world.persistent)), a)
    world.disturb(world.machine_of(name or ""))
    return name is not None and world.cell.delete_by_hand(name)


# -- the process -----------------------------------------------------------------------------------------------------


def kill(world: World, a: int, b: int) -> bool:
    """At one of the next instants, wherever that is; sometimes twice in a row."""
    after = len(world.instants.names) + 1 + a % 40
    world.instants.killing = frozenset({after, after + 1 + b // 2 % 8} if b % 2 else {after})
    return True


def restart(world: World, a: int, b: int) -> bool:
    world.restart()
    return True


def lose_store(world: World, a: int, b: int) -> bool:
    world.restart(lose_store=True)
    return True


def nothing_new(world: World, a: int, b: int) -> bool:
    """Rule 9: two passes over an unchanged world."""
    world.frozen = True
    try:
        first = world.step()
        world.read_overrides()
        calm = first is not None and not first.plan.actions and not world.rules.changes
        calm = calm and first is not None and not first.plan.memory.lookups  # the answer is news in the next pass
        second = world.step() if calm else None
        if second is not None and (second.plan.actions or world.rules.changes):
            world.rules.breaks(9, f"nothing was done, then {second.plan.actions}, {world.rules.changes}")
    finally:
        world.frozen = False
    return True


HAPPENINGS: dict[str, tuple[int, Happening]] = {
    happening.__name__: (weight, happening)
    for weight, happening in (
        (60, single), (20, array), (20, one_host), (15, spread), (10, pairs), (8, held), (12, released),
        (8, dependent), (10, future), (12, other_queue), (10, unsatisfiable), (8, altered), (10, freezes),
        (12, interruption_notice),
        (10, black_hole), (8, unhealthy), (6, fails), (15, deleted), (25, suspended), (10, reserved), (25, midway),
        (10, dies), (10, never_boots), (10, mute), (6, queue_error), (60, time_passes), (40, reading), (30, changing),
        (10, throttled), (12, unreachable), (6, malformed), (8, sold_out), (10, scarce), (6, quota),
        (15, lost_answer), (10, lag), (12, hidden), (3, refused), (15, disable), (15, enable), (8, keep), (8, drain),
        (4, pause), (2, stop), (10, resume), (4, retry), (6, delete_host), (50, kill), (8, restart), (6, lose_store),
        (25, nothing_new),
    )
}  # fmt: skip
"""With how often each comes, in proportion."""
