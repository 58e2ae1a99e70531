"""Who pays for a worker: the jobs that held its slots, each for its time and share of them. Nobody pays for the rest.

At every moment a job's share is its slots out of the worker's. If jobs hold more slots than the worker has, as two
queues of one host allow, their shares are scaled so that together they are the whole worker. Slots that nobody held
count as starting until the worker joined Grid Engine, and as idle from then on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from autoscaler.core.cost.amounts import divided, rent


class Payer(NamedTuple):
    """Who pays for a job, in Grid Engine's words. '': it has none; UNKNOWN: not known yet."""

    user: str = ""
    group: str = ""
    department: str = ""
    project: str = ""
    account: str = ""
    queue: str = ""


UNKNOWN = "?"
"""Accounting has it when the job ends."""


@dataclass(frozen=True, slots=True)
class Rental:
    """One worker from its launch to its end. Times in milliseconds since 1970."""

    worker_id: str
    name: str
    instance_type: str
    node_array: str
    price_type: str
    nanos: int | None
    """Price an hour; None: not known."""
    currency: str
    slots: int
    began: int
    joined: int | None = None
    ended: int | None = None
    """None: it is still rented."""
    seen: int | None = None
    """When it was last seen before its end."""


class Use(NamedTuple):
    """A job or task on one worker."""

    job: int
    task: int
    """0: the job is no array."""
    payer: Payer
    slots: int
    began: int
    ended: int | None = None
    """None: it runs."""


class CostKind(StrEnum):
    """The purpose of a part of a worker's cost."""

    USED = "used"
    STARTING = "starting"
    IDLE = "idle"


class Part(NamedTuple):
    """A part of what one worker cost. All parts of a worker add up to its rent."""

    rental: Rental
    kind: CostKind
    use: Use | None
    micros: int
    slot_ms: float
    """Slots × milliseconds, scaled if too many jobs shared the worker."""


@dataclass(frozen=True, slots=True)
class Window:
    """A period, in milliseconds; `now`: rentals that have not ended cost until then."""

    since: int
    until: int
    now: int

    def of(self, began: int, ended: int | None) -> tuple[int, int]:
        """The part of a stretch that lies within; empty if none does."""
        low = max(self.since, began)
        return low, max(low, min(self.until, self.now if ended is None else ended))


def rent_of(rental: Rental, window: Window) -> int:
    """Micros that a worker of known price cost within a window."""
    low, high = window.of(rental.began, rental.ended)
    return 0 if rental.nanos is None else rent(rental.nanos, rental.began, low, high)


class Split(NamedTuple):
    """What one worker cost, by job in the order of its uses. All amounts add up to its rent."""

    micros: Sequence[int]
    """Of each use; 0 where it held no slot for any time."""
    slot_ms: Sequence[float]
    """Of each use: slots × milliseconds, scaled if too many jobs shared the worker."""
    starting: int
    idle: int
    starting_slot_ms: float
    idle_slot_ms: float


def split_of(rental: Rental, uses: Sequence[Use], window: Window) -> Split:
    """What a worker cost within a window."""
    low, high = window.of(rental.began, rental.ended)
    joined = high if rental.joined is None else min(max(rental.joined, low), high)
    slots = max(rental.slots, 1)
    clipped = _clipped(uses, low, high)
    weights, scale = _weights(clipped, slots, low, joined, high)
    *micros, starting, idle = divided(rent_of(rental, window), weights)
    *slot_ms, of_starting, of_idle = weights if scale == slots else [slots * weight / scale for weight in weights]
    return Split(micros, slot_ms, starting, idle, of_starting, of_idle)


def parts_of(rental: Rental, uses: Sequence[Use], window: Window) -> list[Part]:
    """The same as parts; those of no time are left out."""
    split = split_of(rental, uses, window)
    found = [
        Part(rental, CostKind.USED, use, micros, slot_ms)
        for use, micros, slot_ms in zip(uses, split.micros, split.slot_ms, strict=True)
        if slot_ms
    ]
    if split.starting_slot_ms:
        found.append(Part(rental, CostKind.STARTING, None, split.starting, split.starting_slot_ms))
    if split.idle_slot_ms:
        found.append(Part(rental, CostKind.IDLE, None, split.idle, split.idle_slot_ms))
    return found


def unused_by(rental: Rental, uses: Sequence[Use], window: Window, theirs: Callable[[Use], bool]) -> tuple[int, int]:
    """Slots × milliseconds that nobody held once the worker had joined: those that count for the owners whose jobs
    `theirs` names, and those that do not, as the jobs that held slots there last were all of others.
    """
    low, high = window.of(rental.began, rental.ended)
    joined = high if rental.joined is None else min(max(rental.joined, low), high)
    changes: dict[int, list[int]] = {low: [0, 0], joined: [0, 0], high: [0, 0]}
    for use, (began, ended, taken) in zip(uses, _clipped(uses, low, high), strict=True):
        own = taken if theirs(use) else 0
        # One that ended within its second kept the worker busy, too.
        for at, sign in ((began, 1), (max(ended, began + 1), -1)):
            change = changes.setdefault(at, [0, 0])
            change[0] += sign * taken
            change[1] += sign * own
    held, own_held, counts = 0, 0, True
    found = [0, 0]
    for time, after in pairwise(sorted(changes)):
        held, own_held = held + changes[time][0], own_held + changes[time][1]
        counts = bool(own_held) if held else counts
        if joined <= time < high and held < rental.slots:
            found[not counts] += (rental.slots - held) * (min(after, high) - time)
    return found[0], found[1]


def _clipped(uses: Sequence[Use], low: int, high: int) -> list[tuple[int, int, int]]:
    """Of each use, from when to when it held slots between two times, and how many."""
    found = []
    for _, _, _, slots, began, ended in uses:
        since = began if began > low else low
        until = high if ended is None or ended > high else ended
        found.append((since, until if until > since else since, slots if slots > 1 else 1))
    return found


def _weights(
    clipped: Sequence[tuple[int, int, int]], slots: int, low: int, joined: int, high: int
) -> tuple[list[int], int]:
    """For every use, then for starting and idle: slots × milliseconds, times a number that is returned beside them and
    divides what the worker's own slots count. If 8 slots are held on a worker of 4, each counts half. Together it is
    the worker's time.
    """
    events = _events(clipped, low, joined, high)
    times = sorted(events)
    held, most = 0, 0
    unused = [0, 0]
    """Slots × milliseconds held by no job, before and after the worker joined."""
    for time, after in pairwise(times):
        held += events[time]
        if held > most:
            most = held
        if held < slots:
            unused[time >= joined] += (slots - held) * (after - time)
    if most <= slots:
        return [(end - begin) * taken for begin, end, taken in clipped] + unused, slots
    weights = _scaled(clipped, slots, times, events)
    scale = lcm(slots, *{base for weight in weights for base in weight})
    plain = [sum(time * scale // base for base, time in weight.items()) for weight in weights]
    return plain + [amount * scale // slots for amount in unused], scale


def _events(clipped: Iterable[tuple[int, int, int]], low: int, joined: int, high: int) -> dict[int, int]:
    """By time: by how much the number of held slots changes."""
    events: dict[int, int] = defaultdict(int, dict.fromkeys((low, joined, high), 0))
    for begin, end, taken in clipped:
        events[begin] += taken
        events[end] -= taken
    return events


def _scaled(
    clipped: Sequence[tuple[int, int, int]], slots: int, times: Sequence[int], events: Mapping[int, int]
) -> list[dict[int, int]]:
    """The weights if more slots are held at times than the worker has."""
    begins: dict[int, list[int]] = defaultdict(list)
    for at, (begin, end, _) in enumerate(clipped):
        if end > begin:
            begins[begin].append(at)
    found: list[dict[int, int]] = [defaultdict(int) for _ in clipped]
    there: set[int] = set()
    held = 0
    for time, after in pairwise(times):
        held += events[time]
        there = {at for at in there if clipped[at][1] > time}.union(begins[time])
        for at in there:
            found[at][max(slots, held)] += clipped[at][2] * (after - time)
    return found
