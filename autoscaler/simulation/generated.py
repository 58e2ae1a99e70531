"""A workload made of a seed: users who come by day, sizes and run times spread as on the public logs.

Figures: run times lognormal about ten minutes, two thirds of the jobs have one slot, arrivals follow the hour of the
day. It is for trying things; a recorded workload says more about a cell of one's own.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.simulation.workload import Workload, WorkloadJob, parallel_environment

DAY = 86_400.0
_SIZES = ((1, 0.66), (2, 0.10), (4, 0.10), (8, 0.07), (16, 0.05), (32, 0.02))


@dataclass(frozen=True, slots=True)
class Generated:
    """What to make."""

    jobs: int
    seed: int
    largest_host: int
    days: float = 7.0
    users: int = 8
    median_run: float = 600.0
    """Seconds."""


def generate(wanted: Generated) -> Workload:
    """Equal arguments make equal jobs."""
    assumptions = [
        f"{wanted.jobs} jobs of {wanted.users} users over {wanted.days:g} days were made of seed {wanted.seed}: "
        f"median run time {wanted.median_run:g} s, sizes 1 to 32 slots, more jobs by day than by night. None requests "
        "memory."
    ]
    return Workload(f"generated-{wanted.seed}", _Jobs(wanted), assumptions, expected=wanted.jobs)


@dataclass(frozen=True, slots=True)
class _Jobs:
    """All jobs, made while they are walked through: of each only its time of submission is in memory."""

    wanted: Generated

    def __iter__(self) -> Iterator[WorkloadJob]:
        return _jobs(self.wanted)


def _jobs(wanted: Generated) -> Iterator[WorkloadJob]:
    chance = random.Random(wanted.seed)
    times = array("d", sorted(_arrival(chance, wanted.days) for _ in range(wanted.jobs)))
    sizes, weights = zip(*_SIZES, strict=True)
    for number, at in enumerate(times, start=1):
        slots = chance.choices(sizes, weights)[0]
        user = min(int(chance.expovariate(0.5)), wanted.users - 1)
        yield WorkloadJob(
            number=number,
            submitted=round(at, 1),
            seconds=round(max(5.0, chance.lognormvariate(math.log(wanted.median_run), 1.2)), 1),
            slots=slots,
            pe=parallel_environment(slots, wanted.largest_host),
            owner=f"user{user}",
            project=f"project{user % 3}",
            name=f"app{chance.randrange(4)}",
        )


def _arrival(chance: random.Random, days: float) -> float:
    """A moment, four times as likely at two in the afternoon as at two at night."""
    while True:
        at = chance.uniform(0.0, days * DAY)
        hour = at % DAY / 3600.0
        if chance.random() < 0.625 + 0.375 * math.cos((hour - 14.0) / 24.0 * 2 * math.pi):
            return at
