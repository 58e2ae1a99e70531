"""`bench.price`: its reference is a bound, and what `cost` buys stays near it, on a few mixes of 100 jobs."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from autoscaler.core.policy import COST
from autoscaler.core.sizing.cheapest.cheapest import propose
from bench.price import STRATEGIES, Row, bought, row_of
from bench.price_mixes import Job, Mix, mixes
from bench.price_reference import first_fit_decreasing, items_of, reference

JOBS = 100
FEW = {mix.name: mix for mix in mixes(JOBS, seed=1)}


def only_slots() -> Mix:
    """Jobs of one slot on m5, whose price is the same for each core: the least price is known."""
    return replace(FEW["m5"], jobs=((Job(1), 37), (Job(2), 20)))


def test_the_reference_of_jobs_of_one_and_two_slots_is_their_cores() -> None:
    found = reference(only_slots(), 5.0)
    assert found.proven
    assert found.bound == pytest.approx(77 * 0.048)
    assert found.best == pytest.approx(ceil(77 / 2) * 2 * 0.048)


def test_pieces_of_a_job_with_fixed_slots_a_host_are_at_most_one_a_job_on_a_machine() -> None:
    (item,) = items_of(replace(FEW["m5"], jobs=((Job(16, 4, of_slot=2), 3),)))
    assert (item.size, item.count, item.most) == ((4, 8, 0), 12, 3)


@pytest.mark.parametrize("name", FEW)
def test_what_cost_buys_keeps_the_bars(name: str) -> None:
    row = row_of(FEW[name], JOBS, 1, 3.0)
    assert row.bound <= row.best + 1e-6
    assert row.kept, row


@pytest.mark.parametrize("name", [name for name in FEW if name != "free room"])
def test_a_launch_names_a_runner_up_whose_price_is_possible(name: str) -> None:
    """The named types alone cost no less than it says, by the proven bound; and it is no cheaper than the launch."""
    mix = FEW[name]
    best = propose(mix.problem(COST))[0]
    assert best.reason is not None
    facts = dict(best.reason.facts)
    price, second, more = facts["price"], facts["second"] or facts["equal"], facts["more"]
    assert isinstance(price, float)
    assert isinstance(second, str)
    assert isinstance(more, float)
    assert price == pytest.approx(best.price, abs=1e-4)
    assert more >= 0
    assert second != best.machines
    types = {each.partition(" ")[2] for each in second.split(" + ")}
    named = tuple(each for each in mix.offers if each.type.name in types)
    assert reference(replace(mix, offers=named), 3.0).bound <= price + more + 1e-3


def test_the_bars_can_be_passed_over() -> None:
    dearer = Row("m5", JOBS, 1, 1.0, 1.0, True, {COST: 1.05, "other": 2.0}, 0.0)
    than_others = Row("m5", JOBS, 1, 1.0, 1.0, True, {COST: 1.03, "other": 1.0}, 0.0)
    assert (dearer.kept, than_others.kept) == (False, False)
    assert replace(dearer, prices={COST: 1.03, "other": 2.0}).kept


def test_no_strategy_buys_less_than_the_bound() -> None:
    mix = FEW["m5, c5, r5"]
    bound = reference(mix, 3.0).bound
    prices = [bought(mix.problem(name), strategy) for name, strategy in STRATEGIES.items()]
    assert min(*prices, first_fit_decreasing(mix)) >= bound - 1e-6
