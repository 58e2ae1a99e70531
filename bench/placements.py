"""Machines that placement would buy for mixes of jobs, beside a lower bound, and how its time grows with the jobs.

The lower bound is the machines that hold all slots, or all memory, if jobs could be cut as one likes. The jobs of the
timed rows have an amount of memory each, so none is like another. A bar that is passed over makes the exit code 1.

    python -m bench.placements
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from math import ceil

from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.offered_host import Host
from autoscaler.core.placement.needs import Want
from autoscaler.core.placement.placement import PLENTY, place

GIB = 2**30
POOLS = frozenset({"main.q"})
SIZES = (500, 1_000, 2_000, 4_000)
SECONDS = 1.0
"""The bar for the last of the sizes, and for as many jobs on half-busy hosts."""
DEARER = 1.10
"""The bar for the mean of the mixes: machines bought, as a multiple of the lower bound."""


def job(slots: int = 1, *, of_slot: float = 0.0, of_job: float = 0.0) -> Demand:
    """A job with all its slots on one host, and gibibytes of memory for each slot and for the job."""
    per_slot = (("h_vmem", of_slot * GIB),) if of_slot else ()
    return Demand(POOLS, slots, slots, per_slot=per_slot, per_job=(("mem", of_job * GIB),) if of_job else ())


def machine(cores: int, name: str = "new", *, memory: float | None = None) -> Host:
    """A machine of m5: four gibibytes a core."""
    amount = (4 * cores if memory is None else memory) * GIB
    return Host(name, {"main.q": cores}, (("h_vmem", amount), ("mem", amount)))


def fewest(wants: Sequence[Want], cores: int) -> int:
    """No fewer machines of so many cores could do."""
    slots = sum(demand.slots * count for demand, count in wants)
    of_slots = sum(demand.slots * count * amount for demand, count in wants for _, amount in demand.per_slot)
    of_jobs = sum(count * amount for demand, count in wants for _, amount in demand.per_job)
    return max(ceil(slots / cores), ceil(of_slots / (4 * cores * GIB)), ceil(of_jobs / (4 * cores * GIB)))


def bought(wants: Sequence[Want], cores: int) -> int:
    found = place(wants, (), machine(cores), PLENTY)
    assert found.complete
    return found.new_used


def mixes() -> dict[str, tuple[Sequence[Want], int]]:
    """By name: jobs, and the cores of a machine."""
    dice = random.Random(7)
    found: dict[str, tuple[Sequence[Want], int]] = {
        "940 jobs of a slot, 20 with 190 G": ([(job(), 940), (job(of_job=190), 20)], 96),
        "33 jobs of 8 slots, 9 with 120 G": ([(job(8), 33), (job(of_job=120), 9)], 96),
    }
    for cores, most in ((96, 190), (16, 60)):
        sizes = (1, 1, 1, 2, 4, 8)
        amounts = [amount for amount in (2, 4, 8, 30, 60, 120, 190) if amount <= most]
        found[f"1,000 jobs with memory for the job, {cores} cores"] = (
            [(job(dice.choice(sizes), of_job=dice.choice(amounts)), 1) for _ in range(1_000)],
            cores,
        )
        found[f"half of 1,000 jobs with memory for the job, {cores} cores"] = (
            [(job(dice.choice(sizes), of_job=dice.choice((0, dice.choice(amounts)))), 1) for _ in range(1_000)],
            cores,
        )
    return found


def _timed(wants: Sequence[Want], hosts: Sequence[Host] = ()) -> float:
    """Processor seconds, the best of three; each time the demands are new values, as in a first pass."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        place([*wants, (job(), 0)], hosts, machine(16), PLENTY)
        best = min(best, time.process_time() - began)
        wants = [*wants[1:], wants[0]]
    return best


def times() -> dict[str, list[float]]:
    """By name: seconds at each of the sizes."""
    dice = random.Random(1)

    def unlike(count: int) -> Sequence[Want]:
        return [(job(of_slot=4 + dice.random() * 20), 1) for _ in range(count)]

    def for_jobs(count: int) -> Sequence[Want]:
        return [(job(dice.choice((1, 2, 4)), of_job=4 + dice.random() * 20), 1) for _ in range(count)]

    def half_busy(count: int) -> Sequence[Host]:
        return [machine(dice.choice((4, 8, 16)), f"h{at}", memory=dice.uniform(10, 60)) for at in range(count)]

    return {
        "memory for each slot": [_timed(unlike(count)) for count in SIZES],
        "memory for the job": [_timed(for_jobs(count)) for count in SIZES],
        "a quarter as many half-busy hosts": [_timed(for_jobs(count), half_busy(count // 4)) for count in SIZES],
    }


def main() -> int:
    print(f"{'machines of a mix':55} {'bought':>7} {'fewest':>7} {'ratio':>6}")
    ratios = []
    for name, (wants, cores) in mixes().items():
        count, least = bought(wants, cores), fewest(wants, cores)
        ratios.append(count / least)
        print(f"{name:55} {count:7} {least:7} {count / least:6.3f}")
    print(f"{'processor seconds, each job with its own':55}" + "".join(f"{count:8,}" for count in SIZES) + "   slope")
    kept = sum(ratios) / len(ratios) <= DEARER
    for name, seconds in times().items():
        slope = seconds[-1] / seconds[0] / (SIZES[-1] / SIZES[0])
        print(f"{name:55}" + "".join(f"{each:8.3f}" for each in seconds) + f"{slope:8.1f}")
        kept = kept and seconds[-1] <= SECONDS
    print(f"bars: mean ratio {DEARER}, {SECONDS:g} s: {'kept' if kept else 'PASSED OVER'}")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
