"""What strategies buy for mixes of jobs, against a proven lower bound and the best answer of integer programming.

Each row is one mix, over several seeds: the mean and the worst price, as a multiple of the best integer answer of the
same run. `bound` is that answer over the lower bound: no answer at all can be better by more. Strategies decide pass
after pass until all is served. Then the time of `cost` beside that of reading the same jobs. A bar that is passed over
makes the exit code 1.

    python -m bench.price [--jobs 100,1000] [--seeds 3] [--seconds 10] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from autoscaler.core.capacity.offers import LaunchOffer
from autoscaler.core.limits.limits import Usage
from autoscaler.core.plan import plan
from autoscaler.core.policy import COST
from autoscaler.core.sizing.cheapest.cheapest import propose
from autoscaler.core.sizing.cpu_capacity import one_by_one, order
from autoscaler.core.sizing.fitting_sizes import fitting_first
from autoscaler.core.sizing.problem import Problem, Proposal
from autoscaler.core.sizing.strategies import CPU_CAPACITY, NAIVE_CPU_CAPACITY
from bench import generate
from bench.passes import read
from bench.price_mixes import Mix, mixes
from bench.price_reference import first_fit_decreasing, reference
from bench.world import snapshot_of, world

BARS = {100: 1.04, 1_000: 1.02}
"""By jobs: the most that `cost` may pay, as a multiple of the best answer."""
SPOT = 0.01
"""How much more that may be with spot at 1,000 jobs, whose prices are uneven."""
SECONDS = 0.2
"""For 1,000 jobs."""
OF_READING = 0.5
"""For 50,000 jobs, as a share of the time that reading them takes."""
MOST_PASSES = 200


@dataclass(frozen=True, slots=True)
class Row:
    """Prices of one mix and seed, an hour. inf: something is never served."""

    mix: str
    jobs: int
    seed: int
    bound: float
    best: float
    proven: bool
    prices: Mapping[str, float]
    seconds: float
    """That `cost` took."""

    def ratio(self, name: str) -> float:
        return self.prices[name] / self.best

    @property
    def most(self) -> float:
        """The bar for the ratio."""
        return BARS.get(self.jobs, max(BARS.values())) + (SPOT if "spot" in self.mix and self.jobs >= 1_000 else 0.0)

    @property
    def kept(self) -> bool:
        others = min(price for name, price in self.prices.items() if name != COST)
        return self.ratio(COST) <= self.most and self.prices[COST] <= others * (1 + 1e-9)


def fitting(problem: Problem) -> Sequence[Proposal]:
    """`cpu-capacity` as it is by default: sizes that fit the jobs first."""

    def ordered(rest: Problem) -> Sequence[LaunchOffer]:
        offers = order(rest.unmet, rest.placement, rest.offers)
        return fitting_first(offers, rest.unmet, rest.placement, Usage())

    return one_by_one(problem, ordered)


STRATEGIES: Mapping[str, Callable[[Problem], Sequence[Proposal]]] = {
    COST: propose,
    "cpu-capacity": fitting,
    "cpu-capacity, largest": CPU_CAPACITY,
    "naive-cpu-capacity": NAIVE_CPU_CAPACITY,
}


def bought(problem: Problem, strategy: Callable[[Problem], Sequence[Proposal]]) -> float:
    """What a strategy pays until all is served, pass after pass. inf: a pass buys nothing, but something is unmet."""
    price = 0.0
    for _ in range(MOST_PASSES):
        if not any(tasks for _, tasks in problem.unmet):
            return price
        found = next((each for each in strategy(problem) if each.count), None)
        if found is None or found.placement is None:
            return inf
        price += found.price
        unmet = [(demand, n - done) for (demand, n), done in zip(problem.unmet, found.served, strict=True)]
        counts = {id(part.offer): part.count for part in found.parts}
        offers = [_fewer(offer, counts.get(id(offer), 0)) for offer in problem.offers]
        problem = replace(problem, unmet=unmet, placement=found.placement, offers=offers)
    return inf


def _fewer(offer: LaunchOffer, count: int) -> LaunchOffer:
    (bucket,) = offer.buckets
    if bucket.available is None or not count:
        return offer
    return replace(offer, buckets=(replace(bucket, available=bucket.available - count),))


def row_of(mix: Mix, jobs: int, seed: int, seconds: float) -> Row:
    found = reference(mix, seconds)
    prices = {name: bought(mix.problem(name), strategy) for name, strategy in STRATEGIES.items()}
    prices["first fit decreasing"] = first_fit_decreasing(mix)
    problem = mix.problem(COST)
    began = time.process_time()
    propose(problem)
    return Row(mix.name, jobs, seed, found.bound, found.best, found.proven, prices, time.process_time() - began)


def table(rows: Sequence[Row]) -> list[str]:
    """In Markdown: each mix with all its seeds."""
    names = list(rows[0].prices)
    lines = [
        f"| {rows[0].jobs:,} jobs | bound | {' | '.join(names)} | ms |",
        f"|---|---|{'---|' * len(names)}---|",
    ]
    for mix in dict.fromkeys(row.mix for row in rows):
        mine = [row for row in rows if row.mix == mix]
        figures = [_both([row.ratio(name) for row in mine]) for name in names]
        bound = _both([row.best / row.bound for row in mine])
        over = "" if all(row.kept for row in mine) else " (over the bar)"
        lines.append(f"| {mix}{over} | {bound} | {' | '.join(figures)} | {1000 * max(r.seconds for r in mine):.0f} |")
    return lines


def _both(values: Sequence[float]) -> str:
    """The mean and the worst."""
    if inf in values:
        return "not served"
    return f"{sum(values) / len(values):.3f} / {max(values):.3f}"


def time_beside_reading(jobs: int, *, unique: bool) -> tuple[float, float]:
    """CPU seconds of reading so many jobs, and of `cost` in the plan for them."""
    outputs = generate.generate(generate.Mix(jobs=jobs, arrays=not unique, unique=unique))
    rest = world(outputs)
    began = time.process_time()
    cluster = read(outputs)
    reading, taken = time.process_time() - began, [0.0]

    def timed(problem: Problem) -> Sequence[Proposal]:
        began = time.process_time()
        found = propose(problem)
        taken[0] += time.process_time() - began
        return found

    (array,) = rest.policy.node_arrays
    policy = replace(rest.policy, node_arrays=(replace(array, strategy=COST, proposes=timed),))
    plan(snapshot_of(cluster, replace(rest, policy=policy)))
    assert taken[0], "the strategy was not asked"
    return reading, taken[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.price", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default="100,1000", help="numbers of jobs (default 100,1000)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each mix (default 3)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each integer program (default 10)")
    parser.add_argument("--mix", help="only mixes with this in their name")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args(arguments)
    document: dict[str, Any] = {"rows": [], "time": []}
    kept = True
    for jobs in (int(text) for text in options.jobs.split(",")):
        found = [
            row_of(mix, jobs, seed, options.seconds)
            for seed in range(1, options.seeds + 1)
            for mix in mixes(jobs, seed)
            if options.mix is None or options.mix in mix.name
        ]
        print("\n".join(table(found)), flush=True)
        for row in found:
            if not row.kept:
                dearer = ", ".join(f"{name} {row.ratio(name):.3f}" for name in row.prices)
                print(f"over the bar of {row.most:g}: {row.mix}, {jobs} jobs, seed {row.seed}: {dearer}")
        document["rows"] += [asdict(row) for row in found]
        kept = kept and all(row.kept for row in found)
        slowest = max(row.seconds for row in found)
        if jobs == 1_000:
            kept = kept and slowest <= SECONDS
            print(f"cost took at most {slowest:.3f} s for 1,000 jobs; the bar is {SECONDS:g} s")
    for unique in (False, True) if options.mix is None else ():
        reading, taken = time_beside_reading(50_000, unique=unique)
        what = "one category a job" if unique else "few categories"
        print(f"50,000 jobs, {what}: cost {taken:.2f} s, {taken / reading:.2f} × reading; the bar is {OF_READING:g}")
        document["time"].append({"categories": what, "reading_s": reading, "cost_s": taken})
        kept = kept and taken <= OF_READING * reading
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(f"bars: {'kept' if kept else 'PASSED OVER'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
