"""Time limits of the tests hold on an idle machine, and are stretched on a busy one by what was measured there."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.deadlines import MEASURED_FOR, MOST, REFERENCE, Deadline, Machine


@dataclass
class Bench:
    """A clock that a test sets, and a machine of the given slowness."""

    now: float = 100.0
    slower: float = 1.0
    measured: int = field(default=0, init=False)

    def clock(self) -> float:
        return self.now

    def measure(self) -> float:
        self.measured += 1
        return self.slower * REFERENCE

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, Machine(self.measure, self.clock), self.clock)

    def after(self, seconds: float, deadline: Deadline) -> bool:
        self.now += seconds
        return deadline.over()


def test_on_an_idle_machine_a_limit_is_not_stretched() -> None:
    bench = Bench()
    deadline = bench.deadline(10)
    assert [bench.after(9.9, deadline), bench.after(0.2, deadline)] == [False, True]


def test_on_a_slower_machine_a_limit_is_stretched_by_its_factor() -> None:
    bench = Bench(slower=3)
    deadline = bench.deadline(10)
    assert [bench.after(29, deadline), bench.after(2, deadline)] == [False, True]


def test_nothing_is_measured_early_in_a_wait() -> None:
    bench = Bench(slower=3)
    deadline = bench.deadline(10)
    bench.after(2.4, deadline)
    assert bench.measured == 0


def test_load_that_ended_before_the_limit_still_counts() -> None:
    bench = Bench(slower=3)
    deadline = bench.deadline(10)
    results = [bench.after(5, deadline)]
    bench.slower = 1
    results += [bench.after(5.1, deadline), bench.after(19, deadline), bench.after(1, deadline)]
    assert (results, bench.measured) == ([False, False, False, True], 3)


def test_a_limit_of_zero_stays_zero() -> None:
    bench = Bench(slower=3)
    assert bench.after(0.1, bench.deadline(0))


def test_load_that_comes_during_a_wait_counts_and_stays_counted() -> None:
    bench = Bench(slower=2)
    deadline = bench.deadline(10)
    results = [bench.after(15, deadline)]
    bench.slower = 4
    results += [bench.after(10, deadline)]
    bench.slower = 1
    results += [bench.after(10, deadline), bench.after(6, deadline)]
    assert results == [False, False, False, True]


def test_a_measurement_is_reused_for_a_while() -> None:
    bench = Bench(slower=2)
    machine = Machine(bench.measure, bench.clock)
    machine.slower()
    bench.now += MEASURED_FOR / 2
    machine.slower()
    assert bench.measured == 1


@pytest.mark.parametrize(("slower", "factor"), ((0.2, 1.0), (500.0, MOST)))
def test_a_limit_never_shrinks_and_its_factor_is_bounded(slower: float, factor: float) -> None:
    assert Machine(Bench(slower=slower).measure).slower() == factor
