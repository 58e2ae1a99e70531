"""What a mix costs at least, and the best integer answer that was found: column generation with exact pricing.

A column is the content of one machine. The linear master chooses how many machines have which content; for its prices
of jobs, an integer program for each offer finds the content worth most. Where none is worth more than its machine, the
master's value is a lower bound of all answers; until then, the prices cut down to what is feasible give one (Farley).
The integer master then chooses among all contents that were found. Nothing here is shared with what is judged.

Jobs that need whole machines are priced alone. Slots of a job that may spread in any way are jobs of one slot. Of jobs
with fixed slots a host each machine takes at most one share for each job, which is what makes them distributable.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import highspy
import numpy as np

from bench.price_mixes import Job, Mix

Size = tuple[int, ...]
"""Slots, gibibytes, GPUs."""
TOLERANCE = 1e-6
MOST_ROUNDS = 400
FEASIBLE = 2
"""Of the solver: an answer was found that keeps all rows."""


@dataclass(frozen=True, slots=True)
class Item:
    """Alike pieces of jobs: what one takes, how many there are, and the most that one machine takes."""

    size: Size
    count: int
    most: int


@dataclass(frozen=True, slots=True)
class Bin:
    """A machine: what it has, its price an hour, and how many there are; None: any number."""

    content: Size
    price: float
    available: int | None


@dataclass(frozen=True, slots=True)
class Reference:
    """Prices an hour."""

    bound: float
    """No answer costs less."""
    best: float
    """The best integer answer that was found."""
    columns: int
    proven: bool
    """Whether column generation came to its end, so that the bound is that of all fractional answers."""


def items_of(mix: Mix) -> list[Item]:
    """The pieces of all jobs that need no whole machine."""
    found: dict[tuple[Size, bool], Item] = {}
    for number, (job, count) in enumerate(mix.jobs):
        if job.exclusive:
            continue
        each, pieces = _pieces(job)
        apart = pieces > 1 and job.per_host is not None
        key = each, apart and bool(number)
        most = count if apart else count * pieces
        known = found.get(key)
        if apart or known is None:
            found[(each, apart) if not apart else (each, number)] = Item(each, count * pieces, most)  # type: ignore[index]
        else:
            found[key] = Item(each, known.count + count * pieces, known.count + count * pieces)
    return list(found.values())


def _pieces(job: Job) -> tuple[Size, int]:
    visit = job.slots if job.per_host == 0 else job.per_host or 1
    memory = job.of_slot * visit + job.of_job
    return (visit, memory, job.gpus), job.slots // visit


def bins_of(mix: Mix) -> list[Bin]:
    """All offers, and each free host as a machine of its own that costs nothing."""
    gib = 2**30
    offered = [
        Bin((each.type.vcpus, each.type.memory // gib, each.type.gpus), each.price, each.available)
        for each in mix.offers
    ]
    free: dict[Size, int] = {}
    for slots, memory in mix.free:
        free[slots, memory, 0] = free.get((slots, memory, 0), 0) + 1
    return [*(Bin(size, 0.0, count) for size, count in free.items()), *offered]


def price_of_exclusive(mix: Mix) -> float:
    """The least price of jobs that need whole machines; their offers are not limited in any mix that has them."""
    total = 0.0
    for job, count in mix.jobs:
        if job.exclusive:
            size, pieces = _pieces(job)
            assert pieces == 1
            assert all(each.available is None for each in mix.offers)
            fitting = [each.price for each in bins_of(mix) if _fits(size, each.content) and each.price]
            total += count * min(fitting)
    return total


def first_fit_decreasing(mix: Mix) -> float:
    """The least price with machines of one offer alone: the largest piece first, on the first machine with room.
    inf: no offer alone does.
    """
    items, best = items_of(mix), inf
    for offer in bins_of(mix):
        if offer.price and offer.available is None and all(_fits(item.size, offer.content) for item in items):
            best = min(best, offer.price * _opened(items, offer, [each for each in bins_of(mix) if not each.price]))
    return best + price_of_exclusive(mix)


def _opened(items: Sequence[Item], offer: Bin, free: Sequence[Bin]) -> int:
    """How many machines first fit needs of this offer beside what is free."""
    there = [list(each.content) for each in free for _ in range(each.available or 0)]
    begun = len(there)
    taken: list[dict[int, int]] = [{} for _ in there]
    order = sorted(range(len(items)), key=lambda at: -_share(items[at].size, offer.content))
    for at in order:
        item, start = items[at], 0
        for _ in range(item.count):
            place = next(
                (n for n in range(start, len(there)) if _fits(item.size, there[n]) and taken[n].get(at, 0) < item.most),
                None,
            )
            if place is None:
                there.append(list(offer.content))
                taken.append({})
                place = len(there) - 1
            start = place
            taken[place][at] = taken[place].get(at, 0) + 1
            there[place] = [left - each for left, each in zip(there[place], item.size, strict=True)]
    return len(there) - begun


def _share(size: Size, content: Size) -> float:
    return max(each / there if there else 0.0 for each, there in zip(size, content, strict=True))


def _fits(size: Sequence[int], content: Sequence[int]) -> bool:
    return all(each <= there for each, there in zip(size, content, strict=True))


def reference(mix: Mix, seconds: float) -> Reference:
    """The bound and the best answer; the integer master gets so many seconds, column generation three times as many."""
    items, bins = items_of(mix), bins_of(mix)
    alone = price_of_exclusive(mix)
    if not items:
        return Reference(alone, alone, 0, True)
    master, ended, proven, bound = _Master(items, bins), time.monotonic() + 3 * seconds, False, 0.0
    pricers = [_Pricer(items, each) for each in bins]
    for _ in range(MOST_ROUNDS):
        value, worths, rents = master.solve()
        ratio, gained, found = 1.0, 0.0, 0
        for number, pricer in enumerate(pricers):
            worth, content = pricer.best(worths)
            more = worth - bins[number].price - rents[number]
            limit = bins[number].available
            if limit is not None:
                gained += max(more, 0.0) * limit
            elif bins[number].price:
                ratio = max(ratio, worth / bins[number].price)
            if more > TOLERANCE:
                master.add(number, content)
                found += 1
        # Worths divided by `ratio` are feasible; what limited offers gain beyond their rent is given back.
        bound = max(bound, (value - gained) / ratio)
        if not found:
            proven = True
            break
        if time.monotonic() > ended:
            break
    best = master.integer(seconds)
    return Reference(bound + alone, best + alone, master.columns, proven)


class _Pricer:
    """The content of one machine that is worth most."""

    def __init__(self, items: Sequence[Item], machine: Bin) -> None:
        self._items = [at for at, item in enumerate(items) if _fits(item.size, machine.content)]
        self._solver = _quiet()
        most = [
            min(items[at].count, items[at].most, *(there // each for each, there in _pairs(items[at], machine)))
            for at in self._items
        ]
        for top in most:
            self._solver.addVar(0.0, float(top))
        for column in range(len(most)):
            self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        for at, there in enumerate(machine.content):
            row = [(column, items[item].size[at]) for column, item in enumerate(self._items) if items[item].size[at]]
            if row:
                self._solver.addRow(
                    -highspy.kHighsInf,
                    float(there),
                    len(row),
                    np.array([column for column, _ in row], dtype=np.int32),
                    np.array([each for _, each in row], dtype=np.double),
                )
        self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self._solver.setOptionValue("mip_rel_gap", 0.0)

    def best(self, worths: Sequence[float]) -> tuple[float, dict[int, int]]:
        if not self._items:
            return 0.0, {}
        for column, item in enumerate(self._items):
            self._solver.changeColCost(column, worths[item])
        self._solver.run()
        assert self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        values = self._solver.getSolution().col_value
        content = {item: round(value) for item, value in zip(self._items, values, strict=True) if round(value)}
        worth = sum(worths[item] * many for item, many in content.items())
        most = self._solver.getInfo().mip_dual_bound
        assert abs(most - worth) <= TOLERANCE * max(1.0, worth), "the content that is worth most is not proven to be so"
        return max(most, worth), content


def _pairs(item: Item, machine: Bin) -> list[tuple[int, int]]:
    return [(each, there) for each, there in zip(item.size, machine.content, strict=True) if each]


class _Master:
    """How many machines have which content."""

    def __init__(self, items: Sequence[Item], bins: Sequence[Bin]) -> None:
        self._items, self._bins, self._solver = items, bins, _quiet()
        for item in items:
            self._solver.addRow(float(item.count), highspy.kHighsInf, 0, [], [])
        self._limited = [number for number, each in enumerate(bins) if each.available is not None]
        for number in self._limited:
            self._solver.addRow(-highspy.kHighsInf, float(bins[number].available or 0), 0, [], [])
        self._prices: list[float] = []
        for at, item in enumerate(items):
            for number, each in enumerate(bins):
                if _fits(item.size, each.content):
                    many = min(item.count, item.most, *(there // size for size, there in _pairs(item, each)))
                    self.add(number, {at: many})

    def add(self, number: int, content: dict[int, int]) -> None:
        rows = [*content, *([len(self._items) + self._limited.index(number)] if number in self._limited else [])]
        values = [float(many) for many in content.values()] + [1.0] * (len(rows) - len(content))
        price = self._bins[number].price
        self._prices.append(price)
        self._solver.addCol(
            price,
            0.0,
            highspy.kHighsInf,
            len(rows),
            np.array(rows, dtype=np.int32),
            np.array(values, dtype=np.double),
        )

    @property
    def columns(self) -> int:
        return len(self._prices)

    def solve(self) -> tuple[float, list[float], list[float]]:
        """The value, what each item is worth, and the rent of each limited bin (0 of others)."""
        self._solver.run()
        assert self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        duals = self._solver.getSolution().row_dual
        rents = [0.0] * len(self._bins)
        for row, number in enumerate(self._limited):
            rents[number] = max(-duals[len(self._items) + row], 0.0)
        worths = [max(duals[at], 0.0) for at in range(len(self._items))]
        return self._solver.getInfo().objective_function_value, worths, rents

    def integer(self, seconds: float) -> float:
        """The least price with whole machines of the contents that are known; inf: none was found in time."""
        for column in range(self.columns):
            self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds)
        self._solver.run()
        if self._solver.getInfo().primal_solution_status != FEASIBLE:
            return inf
        solution = self._solver.getSolution()
        for item, there in zip(self._items, solution.row_value, strict=False):
            assert there > item.count - TOLERANCE
        # Added up here: after a search that ends early, the solver's own figure was seen to be of another answer.
        return sum(round(count) * price for count, price in zip(solution.col_value, self._prices, strict=True))


def _quiet() -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    return solver
