"""Small choices of machines: `cost` and `cpu-capacity` buy no more for them than Cloud Pipeline's rule of the most
cores for one machine after the other. Prices are the same for each core, so cores stand for them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.model.fleet import Bucket, InstanceType, PriceType
from autoscaler.core.plan import plan
from autoscaler.core.policy import COST
from autoscaler.core.sizing.cheapest.cheapest import propose
from autoscaler.core.sizing.problem import Problem, Proposal, Strategy
from autoscaler.core.sizing.strategies import CPU_CAPACITY
from bench.price import bought, fitting
from bench.price_mixes import GIB, Job, Mix, Offered
from tests.core.building import X2LARGE, XLARGE, a_bucket, a_job, a_snapshot

M5 = {
    cores: Offered(InstanceType(f"m5.{cores}", "m5", cores, 4 * cores * GIB), float(cores))
    for cores in (2, 4, 8, 16, 32, 48, 64, 96)
}
P3 = {
    gpus: Offered(InstanceType(f"p3.{gpus}", "p3", 8 * gpus, 61 * gpus * GIB, gpus), 8.0 * gpus) for gpus in (1, 4, 8)
}
ALL = tuple(M5.values())
SMALL = (M5[2], M5[4])
LARGEST_FIRST = (M5[4], M5[2])
ANY_P3 = tuple(P3.values())


def cores(slots: int, *, spread: bool = False, gpus: int = 0, exclusive: bool = False) -> Job:
    return Job(slots, None if spread else 0, gpus=gpus, exclusive=exclusive)


def spread(slots: int) -> Job:
    return cores(slots, spread=True)


def alone(slots: int) -> Job:
    return cores(slots, exclusive=True)


CASES: dict[str, tuple[tuple[Offered, ...], list[tuple[Job, int]], int]] = {
    "no machines": ((), [(cores(2), 1)], 0),
    "four cores on two": ((M5[2],), [(cores(4), 1)], 0),
    "two cores": ((M5[2],), [(cores(2), 1)], 2),
    "two of two cores": ((M5[2],), [(cores(2), 2)], 4),
    "three of one and one of three": (SMALL, [(cores(1), 3), (cores(3), 1)], 8),
    "three of three on small machines": (SMALL, [(cores(3), 3)], 12),
    "three of three on any machine": (ALL, [(cores(3), 3)], 16),
    "two and six": ((*SMALL, M5[8]), [(cores(2), 1), (cores(6), 1)], 8),
    "ten of sixteen": (ALL, [(cores(16), 10)], 96 + 64),
    "two cores, spread": ((M5[2],), [(spread(2), 1)], 2),
    "two of two cores, spread": ((M5[2],), [(spread(2), 2)], 4),
    "three of one and one of three, spread": (SMALL, [(spread(1), 3), (spread(3), 1)], 4 + 2),
    "three of three, spread, on small machines": (SMALL, [(spread(3), 3)], 4 + 4 + 2),
    "three of three, spread, on any machine": (ALL, [(spread(3), 3)], 16),
    "two and six, spread": ((*SMALL, M5[8]), [(spread(2), 1), (spread(6), 1)], 8),
    "ten of sixteen, spread": (ALL, [(spread(16), 10)], 96 + 64),
    "sixteen, and another's forty-eight": (ALL, [(cores(16), 1), (cores(48), 1)], 64),
    "sixteen, and another's forty-eight of one": (ALL, [(cores(16), 1), (cores(1), 48)], 64),
    "four and four of sixteen": (ALL, [(cores(16), 8)], 96 + 32),
    "four and four of sixteen on one size": ((M5[64],), [(cores(16), 8)], 64 + 64),
    "two of three, and two of one, spread": (SMALL, [(cores(3), 2), (spread(1), 2)], 4 + 4),
    "two of three, and three of one, spread": (SMALL, [(cores(3), 2), (spread(1), 3)], 4 + 4 + 2),
    "two cores, largest first": (LARGEST_FIRST, [(cores(2), 1)], 4),
    "three of two cores, largest first": (LARGEST_FIRST, [(cores(2), 3)], 4 + 4),
    "three of two cores, spread, largest first": (LARGEST_FIRST, [(spread(2), 3)], 4 + 4),
    "a GPU where there is none": ((M5[2],), [(cores(2, gpus=1), 1)], 0),
    "one with a GPU": ((P3[1],), [(cores(2, gpus=1), 1)], 8),
    "two with a GPU": ((P3[1],), [(cores(2, gpus=1), 2)], 8 + 8),
    "two GPUs where there is one": ((P3[1],), [(cores(2, gpus=2), 1)], 0),
    "one with two GPUs": ((P3[4],), [(cores(2, gpus=2), 1)], 32),
    "two with two GPUs": ((P3[4],), [(cores(2, gpus=2), 2)], 32),
    "three with two GPUs": ((P3[4],), [(cores(2, gpus=2), 3)], 32 + 32),
    "four with two GPUs": ((P3[4],), [(cores(2, gpus=2), 4)], 32 + 32),
    "one with four GPUs": ((P3[4],), [(cores(4, gpus=4), 1)], 32),
    "two with four GPUs": ((P3[4],), [(cores(4, gpus=4), 2)], 32 + 32),
    "four GPUs where there is one": ((P3[1],), [(cores(4, gpus=4), 1)], 0),
    "one with a GPU on two sizes": ((P3[1], P3[4]), [(cores(1, gpus=1), 1)], 8),
    "two with a GPU on two sizes": ((P3[1], P3[4]), [(cores(1, gpus=1), 2)], 32),
    "one with four GPUs on two sizes": ((P3[1], P3[4]), [(cores(4, gpus=4), 1)], 32),
    "one with four GPUs on three sizes": (ANY_P3, [(cores(4, gpus=4), 1)], 32),
    "one with a GPU on three sizes": (ANY_P3, [(cores(1, gpus=1), 1)], 8),
    "nine with a GPU": (ANY_P3, [(cores(1, gpus=1), 9)], 64 + 8),
    "ten with a GPU": (ANY_P3, [(cores(1, gpus=1), 10)], 64 + 32),
    "an exclusive one": ((M5[2],), [(alone(1), 1)], 2),
    "an exclusive one on two sizes": (SMALL, [(alone(1), 1)], 2),
    "two exclusive": ((M5[2],), [(alone(1), 2)], 2 + 2),
    "two exclusive on two sizes": (SMALL, [(alone(1), 2)], 2 + 2),
    "four exclusive": (SMALL, [(alone(1), 4)], 2 * 4),
    "an exclusive one of four": (SMALL, [(alone(4), 1)], 4),
    "two exclusive of one and three": (SMALL, [(alone(1), 1), (alone(3), 1)], 2 + 4),
    "an exclusive one beside one": ((M5[2],), [(cores(1), 1), (alone(1), 1)], 2 + 2),
    "an exclusive one of three beside one": (SMALL, [(cores(1), 1), (alone(3), 1)], 4 + 2),
    "an exclusive one beside one of three": (SMALL, [(alone(1), 1), (cores(3), 1)], 4 + 2),
}
"""The 53 cases of that rule's own tests: machines, jobs, and the cores that it buys until all are served; 0: nothing
serves any.
"""


@pytest.mark.parametrize("name", CASES)
def test_cost_buys_no_more_cores_than_a_rule_of_one_machine_after_the_other(name: str) -> None:
    offers, jobs, least = CASES[name]
    mix = Mix(name, tuple(jobs), offers)
    problem = mix.problem(COST)
    proposals = [each for each in propose(problem) if each.count]
    if not least:
        assert not proposals
        return
    assert proposals[0].served == tuple(count for _, count in jobs)
    assert proposals[0].price <= least
    assert bought(problem, propose) == proposals[0].price


@pytest.mark.parametrize("strategy", (CPU_CAPACITY, fitting), ids=("largest", "fitting"))
@pytest.mark.parametrize("name", CASES)
def test_cpu_capacity_buys_no_more_cores_than_a_rule_of_one_machine_after_the_other(
    name: str, strategy: Strategy
) -> None:
    offers, jobs, least = CASES[name]
    problem = replace(Mix(name, tuple(jobs), offers).problem("cpu-capacity"), batch=100)
    if not least:
        assert not [each for each in strategy(problem) if each.count]
        return
    assert bought(problem, strategy) <= least


def ten_of_sixteen(**more: object) -> tuple[Problem, tuple[Proposal, ...]]:
    offers, jobs, _ = CASES["ten of sixteen"]
    problem = replace(Mix("", tuple(jobs), offers).problem("cpu-capacity"), **more)  # type: ignore[arg-type]
    return problem, CPU_CAPACITY(problem)


def test_the_last_workers_of_a_launch_are_of_the_size_that_what_is_left_needs() -> None:
    _, proposals = ten_of_sixteen(batch=100)
    first, second = (each for each in proposals[:2])
    assert [(part.offer.type.vcpus, part.count) for part in first.parts] == [(96, 1), (64, 1)]
    assert [(part.offer.type.vcpus, part.count) for part in second.parts] == [(96, 2)], "if the set gives no worker"


def test_where_workers_are_launched_one_by_one_each_launch_is_of_one_type() -> None:
    problem, proposals = ten_of_sixteen(batch=1)
    assert proposals == problem.alone([proposal.parts[0].offer for proposal in proposals])


def test_a_set_of_smaller_last_workers_that_costs_more_is_not_taken() -> None:
    problem, _ = ten_of_sixteen()
    (dear,) = (offer for offer in problem.offers if offer.type.vcpus == 64)
    dear = replace(dear, buckets=(replace(dear.buckets[0], price_per_hour=1_000.0),))
    offers = [dear if offer.type.vcpus == 64 else offer for offer in problem.offers if offer.type.vcpus in (64, 96)]
    first = CPU_CAPACITY(replace(problem, offers=offers, batch=100))[0]
    assert [(part.offer.type.vcpus, part.count) for part in first.parts] == [(96, 2)]


# -- price decides between equals, whatever the strategy ---------------------------------------------------------------


def first_choice(*buckets: Bucket, **array: object) -> tuple[str, PriceType]:
    made = plan(a_snapshot(a_job(1, slots=4), *buckets, hybrid=True, instance_type="m5.xlarge", **array))  # type: ignore[arg-type]
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    return launch.candidates[0].type.name, launch.candidates[0].buckets[0].key.price_type


@pytest.mark.parametrize("batch", (1, 10))
@pytest.mark.parametrize("strategy", ("cpu-capacity", COST))
def test_of_types_that_run_as_many_cores_the_cheapest_is_taken(strategy: str, batch: int) -> None:
    dear, cheap = a_bucket(XLARGE, price=0.4), a_bucket(X2LARGE, price=0.1)
    more = {"strategy": strategy, "scale_up_batch": batch}
    assert first_choice(dear, cheap, **more)[0] == "m5.2xlarge"
    assert first_choice(dear, replace(cheap, price_per_hour=0.4), **more)[0] == "m5.xlarge"


@pytest.mark.parametrize("batch", (1, 10))
@pytest.mark.parametrize("strategy", ("cpu-capacity", "naive-cpu-capacity", "default", COST))
def test_of_types_with_as_many_cores_the_cheapest_is_taken(strategy: str, batch: int) -> None:
    """`naive-cpu-capacity` is the smallest type that is large enough, so only types of one size are equal to it."""
    other = replace(XLARGE, name="c5.xlarge", family="c5")
    for price, chosen in ((0.1, "c5.xlarge"), (0.5, "m5.xlarge")):
        buckets = a_bucket(XLARGE, price=0.4), a_bucket(other, price=price)
        assert first_choice(*buckets, strategy=strategy, scale_up_batch=batch, family="m5,c5")[0] == chosen


def test_where_a_price_is_unknown_the_smallest_of_equals_is_taken() -> None:
    assert first_choice(a_bucket(XLARGE, price=-1), a_bucket(X2LARGE, price=0.1))[0] == "m5.xlarge"


@pytest.mark.parametrize("strategy", ("cpu-capacity", "naive-cpu-capacity", "default", COST))
@pytest.mark.parametrize(("spot", "first"), ((0.3, PriceType.ON_DEMAND), (0.1, PriceType.SPOT), (-1, PriceType.SPOT)))
def test_spot_that_is_dearer_than_on_demand_does_not_come_before_it(
    spot: float, first: PriceType, strategy: str
) -> None:
    if strategy == COST and spot < 0:
        pytest.skip("cost buys nothing of unknown price while there is another")
    offers = a_bucket(XLARGE, price=spot, price_type=PriceType.SPOT), a_bucket(XLARGE, price=0.192)
    kinds = (PriceType.SPOT, PriceType.ON_DEMAND)
    assert first_choice(*offers, price_types=kinds, strategy=strategy)[1] is first


def test_on_demand_comes_first_where_the_settings_say_so() -> None:
    offers = a_bucket(XLARGE, price=0.05, price_type=PriceType.SPOT), a_bucket(XLARGE, price=0.192)
    kinds = (PriceType.ON_DEMAND, PriceType.SPOT)
    assert first_choice(*offers, price_types=kinds)[1] is PriceType.ON_DEMAND
