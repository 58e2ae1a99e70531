"""What a worker cost is divided among the jobs that held its slots, and nothing of it is lost or doubled."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autoscaler.core.cost.amounts import divided, in_units, nanos_of, rent
from autoscaler.core.cost.shares import CostKind, Part, Payer, Rental, Use, Window, parts_of, rent_of
from tests.samples import examples

HOUR = 3_600_000
ANN, BEN = Payer("ann"), Payer("ben")


def a_rental(slots: int = 4, price: float = 1.0, joined: int | None = 0, ended: int | None = HOUR) -> Rental:
    return Rental("i-1", "w1", "m5.xlarge", "execute", "on_demand", nanos_of(price), "USD", slots, 0, joined, ended)


def a_use(payer: Payer, slots: int, began: int, ended: int | None, job: int = 1) -> Use:
    return Use(job, 0, payer, slots, began, ended)


def costs(parts: list[Part]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        key = part.use.payer.user if part.use else part.kind.value
        found[key] = found.get(key, 0) + part.micros
    return found


WHOLE = Window(0, HOUR, HOUR)


def test_a_job_pays_for_its_slots_while_it_holds_them() -> None:
    uses = [a_use(ANN, 2, 0, HOUR // 2), a_use(BEN, 1, 0, HOUR)]
    assert costs(parts_of(a_rental(), uses, WHOLE)) == {"ann": 250_000, "ben": 250_000, "idle": 500_000}


def test_the_unused_time_before_a_worker_joined_is_a_starting_cost() -> None:
    parts = parts_of(a_rental(joined=HOUR // 4), [a_use(ANN, 4, HOUR // 2, None)], WHOLE)
    assert costs(parts) == {"ann": 500_000, "starting": 250_000, "idle": 250_000}


def test_overbooked_slots_never_cost_more_than_the_worker() -> None:
    uses = [a_use(ANN, 4, 0, HOUR), a_use(BEN, 4, 0, HOUR // 2)]
    assert costs(parts_of(a_rental(), uses, WHOLE)) == {"ann": 750_000, "ben": 250_000}


def test_the_cost_of_a_worker_that_never_joined_is_starting() -> None:
    assert costs(parts_of(a_rental(joined=None), [], WHOLE)) == {"starting": 1_000_000}


def test_a_use_that_outlasts_its_worker_pays_until_the_workers_end() -> None:
    assert costs(parts_of(a_rental(ended=HOUR // 2), [a_use(ANN, 4, 0, 9 * HOUR)], WHOLE)) == {"ann": 500_000}


def test_a_spot_price_of_many_decimals_loses_nothing() -> None:
    assert rent(nanos_of(0.012345), 0, 0, 1000 * HOUR) == 12_345_000


def test_shown_parts_add_up_to_the_shown_sum() -> None:
    assert in_units([3_333_333, 3_333_333, 3_333_334], 10_000) == ([333, 333, 334], 1000)


@pytest.mark.parametrize(("amount", "shown"), ((50, 0), (51, 1), (149, 1), (150, 2), (250, 2)))
def test_a_sum_is_rounded_to_the_nearest_unit_and_halves_to_the_even_one(amount: int, shown: int) -> None:
    assert in_units([amount], 100) == ([shown], shown)


times = st.integers(0, 40).map(lambda tenth: tenth * 97_001)
a_random_use = st.builds(
    lambda payer, slots, ends: a_use(payer, slots, min(ends), max(ends)),
    st.sampled_from([ANN, BEN]),
    st.integers(1, 7),
    st.tuples(times, times),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    rented=st.tuples(times, times),
    price=st.floats(0, 99, allow_nan=False).map(lambda price: round(price, 7)),
    slots=st.integers(1, 8),
    joined=st.none() | times,
    uses=st.lists(a_random_use, max_size=8),
    cuts=st.lists(times, max_size=4),
)
def test_parts_add_up_to_the_rent_of_every_window_and_windows_to_the_total(
    rented: tuple[int, int], price: float, slots: int, joined: int | None, uses: list[Use], cuts: list[int]
) -> None:
    ended = max(rented)
    rental = Rental("i", "w", "t", "a", "spot", nanos_of(price), "USD", slots, min(rented), joined, ended)
    edges = sorted({0, 41 * 97_001, *cuts})
    whole = 0
    for since, until in pairwise(edges):
        window = Window(since, until, ended)
        parts = parts_of(rental, uses, window)
        assert sum(part.micros for part in parts) == rent_of(rental, window)
        assert all(part.micros >= 0 for part in parts)
        whole += rent_of(rental, window)
    exact = Fraction(nanos_of(price), 1000) * (ended - min(rented)) / HOUR
    assert 0 <= exact - whole < 1


@settings(max_examples=examples(200), deadline=None)
@given(slots=st.integers(1, 5), uses=st.lists(a_random_use, max_size=6))
def test_shares_equal_those_computed_moment_by_moment(slots: int, uses: list[Use]) -> None:
    """Counted moment by moment, the worker's hour divided anew in each."""
    step, end = 97_001, 40 * 97_001
    rental = Rental("i", "w", "t", "a", "spot", nanos_of(3.6), "USD", slots, 0, 0, end)
    expected: dict[str, Fraction] = {}
    for moment in range(0, end, step):
        there = [use for use in uses if use.began <= moment and use.ended is not None and use.ended > moment]
        shared = max(slots, sum(use.slots for use in there))
        for name, share in [
            *((use.payer.user, use.slots) for use in there),
            ("idle", shared - sum(use.slots for use in there)),
        ]:
            expected[name] = expected.get(name, Fraction(0)) + Fraction(share * step, shared)
    found = costs(parts_of(rental, uses, Window(0, end, end)))
    for name, milliseconds in expected.items():
        assert abs(found.get(name, 0) - milliseconds) <= 1 + len(uses)  # 3.6 an hour is a micro each millisecond
    assert found.keys() <= expected.keys()


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
@example(5, [0, 1])
def test_divided_parts_add_up_to_the_amount(amount: int, weights: list[int]) -> None:
    parts = divided(amount, weights)
    assert sum(parts) == (amount if any(weights) else 0)
    assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if weight == 0)


@given(st.lists(st.integers(0, 10**10), max_size=9), st.sampled_from([1, 100, 10_000]))
def test_rounded_parts_add_up_and_are_off_by_less_than_a_unit(amounts: list[int], unit: int) -> None:
    parts, total = in_units(amounts, unit)
    assert sum(parts) == total
    assert all(abs(part * unit - amount) < unit for part, amount in zip(parts, amounts, strict=True))


@pytest.mark.parametrize("kind", CostKind)
def test_every_kind_of_cost_part_occurs(kind: CostKind) -> None:
    parts = parts_of(a_rental(joined=HOUR // 4), [a_use(ANN, 1, HOUR // 2, HOUR)], WHOLE)
    assert kind in {part.kind for part in parts}
