"""What `cost` shows adds up to what the workers cost, however often the autoscaler is killed, workers are lost, or its
store is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.cost.amounts import in_units, nanos_of
from autoscaler.core.cost.shares import Payer
from autoscaler.report.cost import BY, WORKERS, cost_blocks, csv_text, document
from tests.core.building import NOW
from tests.cost_world import CostWorld, Job, Machine
from tests.samples import examples

LONG = 40_000.0
PAYERS = (
    Payer("ann", "users", "physics", "wind", "sge", "main.q"),
    Payer("ben", "users", "physics", "", "grant7", "main.q"),
    Payer("eve", "staff", "", "wind", "sge", "main.q"),
)


def machines(chance: Random) -> list[Machine]:
    """Some end in time, some are lost at once, some live on; a name may be used again."""
    found: list[Machine] = []
    for number in range(chance.randint(1, 5)):
        began = round(chance.uniform(0, LONG / 2), 3)
        ended = chance.choice([1e9, round(began + chance.uniform(1, LONG), 3)])
        price = chance.choice([0.1, 0.192, 0.0123457, 3.06, 24.48])
        joins = chance.choice([0.0, 60.0, 300.0])
        found.append(Machine(f"w{number}", began, ended, price, chance.choice([1, 2, 4, 8]), joins))
        if ended < LONG / 2 and chance.random() < 0.5:
            again = round(ended + chance.uniform(400, 3000), 3)
            found.append(Machine(f"w{number}", again, 1e9, price, 4, 60.0, id=f"i-again{number}"))
    return found


def jobs(chance: Random, there: list[Machine]) -> list[Job]:
    """On workers, shorter and longer than the time between passes; more than their slots in two queues."""
    found: list[Job] = []
    for number in range(1, chance.randint(1, 30)):
        machine = chance.choice(there)
        began = round(machine.began + machine.joins + chance.uniform(10, LONG / 2))
        ended = round(began + chance.choice([3, 50, 900, 9000] * 8 + [LONG]) * chance.uniform(0.5, 1.5))
        if began < min(machine.ended, LONG):
            payer = chance.choice(PAYERS)
            found.append(
                Job(number, machine.name, began, min(ended, machine.ended), chance.randint(1, machine.slots), payer)
            )
    return found


class History:
    """One history: passes at random times, and what happens between them."""

    def __init__(self, path: Path, seed: int, *, loses: bool) -> None:
        self.chance = Random(seed)
        there = machines(self.chance)
        self.world = CostWorld(path, there, jobs(self.chance, there))
        self.loses = loses
        self.found_gone: dict[str, float] = {}
        """When the passes found workers to have ended."""
        self.known: set[str] = set()
        self.now = 0.0

    def run(self) -> None:
        while self.now < LONG:
            self.now = round(self.now + self.chance.choice([7.0, 60.0, 60.0, 5000.0]), 3)
            happens = self.chance.random()
            if happens < 0.1:
                self.world.restart()
            elif happens < 0.15 and self.loses:
                self.world.restart(lost=True)
                self.known, self.found_gone = set(), {}
            if self.chance.random() < 0.8:  # accounting is written late
                self.world.account(self.now)
            self.see()
        for _ in range(2):
            self.now += 60
            self.world.account(self.now)
            self.see()

    def see(self) -> None:
        self.world.see(self.now)
        for machine in self.world.machines:
            if machine.began <= self.now < machine.ended:
                self.known.add(machine.worker_id)
            elif machine.worker_id in self.known:
                self.found_gone.setdefault(machine.worker_id, self.now)

    def micros(self) -> dict[str, int]:
        """What each known worker cost, from its launch until it was found to be gone."""
        prices = {each.worker_id: (each.price, each.began) for each in self.world.machines}
        found = {}
        for worker_id in self.known:
            price, began = prices[worker_id]
            assert price is not None
            milliseconds = round((NOW + self.found_gone.get(worker_id, self.now)) * 1000) - round((NOW + began) * 1000)
            found[worker_id] = nanos_of(price) * milliseconds // 3_600_000_000
        return found


def checked(seed: int, *, loses: bool, then: Callable[[History], None]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        history = History(Path(directory) / "world", seed, loses=loses)
        history.run()
        then(history)
        history.world.store.close()


@pytest.mark.parametrize("loses", (False, True))
@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_add_up_to_what_the_workers_cost(loses: bool, seed: int) -> None:
    def adds_up(history: History) -> None:
        expected = history.micros()
        assert history.world.costs(history.now, "worker") == {key: cost for key, cost in expected.items() if cost}
        for by in BY:
            assert sum(history.world.costs(history.now, by).values()) == sum(expected.values()), by

    checked(seed, loses=loses, then=adds_up)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_user_pays_for_their_jobs_as_in_accounting(seed: int) -> None:
    """Moment by moment, from the jobs themselves: never from what passes have kept."""

    def is_theirs(history: History) -> None:
        world = history.world
        ended = [job for job in world.jobs if job.ended <= history.now]
        if len(ended) < len(world.jobs):
            return  # of running jobs, the start time of qmaster counts
        expected = dict.fromkeys((payer.user for payer in PAYERS), 0.0)
        for machine in world.machines:
            if machine.worker_id not in history.known:
                continue
            mine = [job for job in ended if job.host == machine.name and job.began >= machine.began]
            mine = [job for job in mine if job.ended <= machine.ended and job.began < history.now]
            mine = [replace(job, ended=float(round(job.ended))) for job in mine]  # as accounting has it
            edges = sorted({edge for job in mine for edge in (job.began, job.ended)})
            for since, until in pairwise(edges):
                there = [job for job in mine if job.began <= since and job.ended >= until]
                shared = max(machine.slots, sum(job.slots for job in there))
                for job in there:
                    assert machine.price is not None
                    expected[job.payer.user] += machine.price / 3600 * (until - since) * job.slots / shared * 1e6
        found = world.costs(history.now, "user")
        for user, micros in expected.items():
            assert abs(found.get(user, 0) - micros) <= 1 + 0.001 * 24.48 / 3600 * 1e6 * len(ended), user

    checked(seed, loses=False, then=is_theirs)


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32), by=st.sampled_from(BY))
def test_shown_parts_add_up_to_the_shown_sum_in_every_format(seed: int, by: str) -> None:
    def adds_up(history: History) -> None:
        report = history.world.report(history.now, by)
        if not report.tables:
            assert history.micros() == {}
            return
        (table,) = report.tables
        cost = table.total.cost
        rows = cost_blocks(report)[0].rows
        *parts, total = [round(float(row[-1]) * 1e6) for row in rows]
        assert sum(parts) == total
        unit = 10_000 if cost >= 1_000_000 else 100 if cost >= 10_000 else 1
        assert total == in_units([cost], unit)[1] * unit
        shown = document(report)["currencies"][0]
        others = 0 if by in WORKERS else table.total.starting + table.total.idle
        assert sum(round(row["cost"] * 1e6) for row in shown["rows"]) + others == round(shown["cost"] * 1e6) == cost
        lines = csv_text(report).splitlines()
        at = lines[0].split(",").index("cost")
        assert sum(round(float(line.split(",")[at]) * 1e6) for line in lines[1:]) == cost

    checked(seed, loses=False, then=adds_up)


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32), cut=st.floats(1, LONG).map(lambda at: round(at, 3)))
def test_the_costs_of_two_adjoining_periods_add_up_to_the_total(seed: int, cut: float) -> None:
    def adds_up(history: History) -> None:
        world, now = history.world, history.now

        def total(**query: str) -> int:
            return sum(table.total.cost for table in world.report(now, **query).tables)

        between = datetime.fromtimestamp(NOW + cut, UTC).isoformat()
        assert total(until=between) + total(since=between) == total()

    checked(seed, loses=True, then=adds_up)
