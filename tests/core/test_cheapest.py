"""The strategy `cost` buys the cheapest set of several types, and the next pass finds room on it for what it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import inf
from random import Random

import highspy
import numpy as np
import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.limits.limits import Usage, what_is_left
from autoscaler.core.model.demand_vector import Demand
from autoscaler.core.model.fleet import PriceType
from autoscaler.core.model.offered_host import Host
from autoscaler.core.model.reasons import Code, Reason
from autoscaler.core.packing.balanced import Balance
from autoscaler.core.packing.classes import classes_of
from autoscaler.core.packing.packed import filled
from autoscaler.core.packing.pieces import Machines, Piece
from autoscaler.core.packing.resource_prices import resource_prices
from autoscaler.core.placement.placement import OpenPlacement
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.sizing.cheapest.cheapest import propose
from autoscaler.core.sizing.problem import Part, Problem, Proposal
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from bench.price_mixes import Job, Mix, Offered, mixes
from tests.core.building import GIB, M5, Thing, a_bucket, a_job, a_snapshot, an_order, jobs

C5 = tuple(replace(each, name=f"c5.{each.name[3:]}", family="c5", memory=each.memory // 2) for each in M5)
R5 = tuple(replace(each, name=f"r5.{each.name[3:]}", family="r5", memory=each.memory * 2) for each in M5)
ALL = tuple(
    a_bucket(type_, price=type_.vcpus * each)
    for types, each in ((M5, 0.048), (C5, 0.0425), (R5, 0.063))
    for type_ in types
)
MANY = Limits(max_workers=1_000)


def with_cost(*things: Thing, **more: object) -> Snapshot:
    known: dict[str, object] = {
        "hybrid": True,
        "strategy": "cost",
        "family": "m5,c5,r5",
        "memory_complex": "h_vmem",
        "limits": MANY,
        "scale_up_batch": 1_000,
        "hybrid_size": "largest",
    }
    return a_snapshot(*things, **{**known, **more})  # type: ignore[arg-type]


def launch_of(made: Plan) -> Launch:
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    return launch


def cheapest_set(made: Plan) -> dict[str, int]:
    return {offer.type.name: offer.count for offer in launch_of(made).candidates[0].offers}


def price_of(counts: dict[str, int]) -> float:
    prices = {bucket.type.name: bucket.price_per_hour or 0.0 for bucket in ALL}
    return sum(prices[name] * count for name, count in counts.items())


def lean_and_rich() -> tuple[Thing, ...]:
    """Jobs that need little memory for their slots, and jobs that need much."""
    return jobs(120, hard={"h_vmem": "1500M"}), jobs(40, first=500, hard={"h_vmem": "14G"})


def test_a_set_of_several_families_costs_less_than_the_type_that_runs_most() -> None:
    mixed = cheapest_set(plan(with_cost(*lean_and_rich(), *ALL)))
    alone = cheapest_set(plan(with_cost(*lean_and_rich(), *ALL, strategy="cpu-capacity")))
    assert len({name.partition(".")[0] for name in mixed}) > 1
    assert price_of(mixed) < 0.9 * price_of(alone)


def test_the_next_pass_finds_room_on_what_is_coming_for_all_that_it_is_for() -> None:
    bought = launch_of(plan(with_cost(*lean_and_rich(), *ALL))).candidates[0].offers
    orders = [an_order(each.count, type_=each.type, price_per_hour=each.price_per_hour) for each in bought]
    coming = [replace(order, id=f"order-{n}") for n, order in enumerate(orders)]
    again = plan(with_cost(*lean_and_rich(), *ALL, *coming))
    assert not [action for action in again.actions if isinstance(action, Launch)]


def cheapest_reason(reason: Reason) -> Reason:
    """The part of a launch's reason that is the strategy's own."""
    return next(link for link in reason.trail if link.code is Code.LAUNCH_CHEAPEST)


def test_a_launch_names_another_set_that_costs_as_much() -> None:
    reason = launch_of(plan(with_cost(jobs(16), *ALL))).reason
    assert text(cheapest_reason(reason)).endswith("0.68 an hour, as much as 4 c5.xlarge")


@pytest.mark.parametrize("seed", range(6))
def test_the_runner_up_is_a_set_that_serves_all_and_costs_what_the_reason_says(seed: int) -> None:
    chance = Random(seed)
    some = [(chance.choice((1, 1, 2, 4, 12)), chance.choice((0, 1, 3, 7))) for _ in range(5)]
    problem = Mix(
        "few", tuple((Job(slots, of_slot=gib), chance.randrange(1, 40)) for slots, gib in some), SOME
    ).problem("cost")
    best = propose(problem)[0]
    assert best.reason is not None
    facts = dict(best.reason.facts)
    named = str(facts.get("second") or facts["equal"])
    counts = {name: int(count) for count, name in (each.split(" ") for each in named.split(" + "))}
    parts = [Part(offer, counts.pop(offer.type.name)) for offer in problem.offers if offer.type.name in counts]
    assert (counts, named == best.machines) == ({}, False)
    assert problem.fill(parts).served == tuple(tasks for _, tasks in problem.unmet)
    prices = {each.type.name: each.price for each in SOME}
    price = sum(prices[part.offer.type.name] * part.count for part in parts)
    assert price - best.price == pytest.approx(float(str(facts.get("more") or 0.0)), abs=1e-4)


@pytest.mark.parametrize(
    ("limits", "bought"),
    (
        (Limits(max_workers=1_000), {"c5.large": 8}),
        (Limits(max_workers=11), {"c5.large": 8}),
        (Limits(max_workers=8), {"c5.xlarge": 4}),
        (Limits(max_workers=3), {"c5.4xlarge": 1}),
        (Limits(max_workers=8, max_cores=16), {"c5.large": 8}),
        (Limits(max_workers=1_000, max_launches_per_hour=4), {"c5.xlarge": 4}),
    ),
    ids=("far", "a reserve is left", "none is left", "half of one is left", "cores bind", "launches bind"),
)
def test_of_sets_at_one_price_small_workers_are_bought_unless_their_number_binds(
    limits: Limits, bought: dict[str, int]
) -> None:
    assert cheapest_set(plan(with_cost(jobs(16), *ALL, limits=limits))) == bought


def test_if_not_all_fits_the_limits_those_are_served_that_have_waited_longest() -> None:
    rich = a_job(1, slots=8, hard={"h_vmem": "7G"}, waited=5_000)
    lean = jobs(30, first=10, hard={"h_vmem": "1G"}, waited=50)
    first = plan(with_cost(rich, lean, *ALL, limits=Limits(max_workers=1_000, max_cores=8)))
    assert cheapest_set(first) == {"r5.2xlarge": 1}
    rich, lean = (
        a_job(1, slots=8, hard={"h_vmem": "7G"}, waited=50),
        jobs(30, first=10, hard={"h_vmem": "1G"}, waited=5_000),
    )
    first = plan(with_cost(rich, lean, *ALL, limits=Limits(max_workers=1_000, max_cores=8)))
    assert {name.partition(".")[0] for name in cheapest_set(first)} == {"c5"}


def test_where_the_number_of_workers_is_the_limit_larger_ones_are_bought() -> None:
    problem = next(mix for mix in mixes(100, 1) if mix.name == "m5").problem("cost")
    wanted = tuple((demand, 40 * tasks) for demand, tasks in problem.unmet)
    for most, all_of_them in ((10_000, False), (20, True)):
        left = what_is_left(Limits(max_workers=most), Usage())
        offers = [replace(offer, room=replace(offer.room, count=most)) for offer in problem.offers]
        best = propose(replace(problem, unmet=wanted, left=left, offers=offers, since=[0.0] * len(wanted)))[0]
        largest = sum(part.count for part in best.parts if part.offer.type.vcpus == 96)
        assert (largest >= best.count - 1) == all_of_them


SOME = tuple(Offered(b.type, b.price_per_hour or 0.0) for b in ALL if b.type.vcpus <= 16)


def within(jobs: Sequence[tuple[Job, int]], **limits: int) -> Problem:
    """These jobs, and no more than the limits allow."""
    problem = Mix("small", tuple(jobs), SOME).problem("cost")
    left = what_is_left(Limits(**{"max_workers": 1_000, **limits}), Usage())  # type: ignore[arg-type]
    offers = [
        replace(offer, room=min((each.room(offer.buckets[0]) for each in left), key=lambda room: room.count))
        for offer in problem.offers
    ]
    return replace(problem, left=left, offers=offers, since=[0.0] * len(problem.unmet))


def least_price(problem: Problem, most: int) -> float:
    """Of all sets of so many workers at most on which placement finds room for all jobs; inf: there is none."""
    wanted = tuple(tasks for _, tasks in problem.unmet)
    slots = sum(demand.slots * tasks for demand, tasks in problem.unmet)
    sets = [each for n in range(1, most + 1) for each in combinations_with_replacement(problem.offers, n)]
    for chosen in sorted(sets, key=lambda each: sum(offer.price for offer in each)):
        parts = [Part(offer, chosen.count(offer)) for offer in problem.offers if offer in chosen]
        fits = sum(offer.offer.slots for offer in chosen) >= slots and problem.exceeded(parts) is None
        if fits and problem.served_by(parts) == wanted:
            return sum(part.price for part in parts)
    return inf


@pytest.mark.parametrize("seed", range(12))
def test_where_the_number_of_workers_binds_a_small_mix_costs_about_the_least_of_all_sets(seed: int) -> None:
    chance, most = Random(seed), 2 + seed % 2
    some = [(chance.choice((1, 1, 2, 4)), chance.choice((0, 1, 4)), chance.random() < 0.1) for _ in range(3)]
    few = [(Job(slots, of_slot=gib, exclusive=alone), chance.randrange(1, 9)) for slots, gib, alone in some]
    problem = within(few, max_workers=most)
    least = least_price(problem, most)
    best = propose(problem)[0]
    if least == inf:
        assert best.count == most
        assert sum(best.served) < sum(tasks for _, tasks in problem.unmet)
    else:
        assert best.served == tuple(tasks for _, tasks in problem.unmet)
        assert best.price <= 1.03 * least


def test_few_machines_that_are_filled_to_the_brim_are_found() -> None:
    """It was 3.276: of 388 GB, three r5.4xlarge hold 384 exactly, and the last job needs a c5.large."""
    problem = within([(Job(4, of_slot=10), 5), (Job(2, of_slot=10), 8), (Job(1, of_slot=4), 7)])
    best = propose(problem)[0]
    assert best.served == tuple(tasks for _, tasks in problem.unmet)
    assert best.price == pytest.approx(least_price(problem, 4))


def test_a_set_that_serves_all_is_bought_although_the_limit_has_cut_it() -> None:
    mix = next(mix for mix in mixes(100, 2) if mix.name == "m5, c5, r5")
    problem = mix.problem("cost")
    left = what_is_left(Limits(max_workers=12), Usage())
    offers = [replace(offer, room=left[0].room(offer.buckets[0])) for offer in problem.offers]
    best = propose(replace(problem, left=left, offers=offers, since=[0.0] * len(problem.unmet)))[0]
    assert best.served == tuple(tasks for _, tasks in problem.unmet)
    assert (best.cap, best.count <= 12) == (None, True)
    assert best.price < 0.9 * 40.32, "ten r5.16xlarge, the cheapest of one type"


@pytest.mark.parametrize(("most", "price"), ((2, 0.806), (3, 0.636), (4, 0.636)))
def test_several_types_are_bought_within_few_workers(most: int, price: float) -> None:
    """Of one type it was c5.2xlarge three times, for 1.02."""
    problem = within([(Job(1), 11), (Job(1, of_slot=10, exclusive=True), 1)], max_workers=most)
    assert propose(problem)[0].price == pytest.approx(price)


@pytest.mark.parametrize("share", (0.9, 0.5, 0.2))
@pytest.mark.parametrize("name", ("exclusive", "parallel", "m5"))
def test_a_limit_that_binds_costs_few_placements(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each took 1 to 18; with 1,000 jobs one takes a twentieth of a second."""
    problem = next(mix for mix in mixes(100, 1) if mix.name == name).problem("cost")
    left = what_is_left(Limits(max_workers=int(share * propose(problem)[0].count)), Usage())
    offers = [replace(offer, room=left[0].room(offer.buckets[0])) for offer in problem.offers]
    asked: list[int] = []
    fill = Problem.fill

    def counted(self: Problem, parts: Sequence[Part], reason: Reason | None = None) -> Proposal:
        asked.append(sum(part.count for part in parts))
        return fill(self, parts, reason)

    monkeypatch.setattr(Problem, "fill", counted)
    assert propose(replace(problem, left=left, offers=offers, since=[0.0] * len(problem.unmet)))[0].count
    assert len(asked) <= 6


def test_a_job_that_no_offer_can_run_keeps_no_other_from_its_turn() -> None:
    mix = next(mix for mix in mixes(100, 1) if mix.name == "m5, c5, r5")
    wanted = ((Job(1, of_slot=9_000), 1), (Job(8, of_slot=7), 1), (Job(1, of_slot=1), 30))
    problem = replace(mix, jobs=wanted).problem("cost")
    eight = what_is_left(Limits(max_workers=1_000, max_cores=8), Usage())
    best = propose(replace(problem, left=eight, since=(1.0, 3.0, 2.0)))[0]
    assert (best.types, best.served) == ("c5.large", (0, 0, 8))


def test_scarce_spot_is_bought_first_and_the_rest_on_demand() -> None:
    spot = a_bucket(M5[3], price=0.2, available=2, price_type=PriceType.SPOT)
    dear = a_bucket(M5[3], price=0.768)
    kinds = (PriceType.SPOT, PriceType.ON_DEMAND)
    launch = launch_of(plan(with_cost(jobs(64), spot, dear, family="m5", price_types=kinds)))
    bought = {each.buckets[0].key.price_type: each.count for each in launch.candidates[0].offers}
    assert bought == {PriceType.SPOT: 2, PriceType.ON_DEMAND: 2}


def test_dearer_spot_does_not_come_before_on_demand() -> None:
    spot = a_bucket(M5[3], price=0.9, price_type=PriceType.SPOT)
    kinds = (PriceType.SPOT, PriceType.ON_DEMAND)
    launch = launch_of(plan(with_cost(jobs(16), spot, a_bucket(M5[3], price=0.768), family="m5", price_types=kinds)))
    assert launch.candidates[0].buckets[0].key.price_type is PriceType.ON_DEMAND


def test_without_any_price_the_type_that_runs_most_decides() -> None:
    unknown = [a_bucket(type_, price=-1) for type_ in M5]
    bought = [launch_of(plan(with_cost(jobs(40), *unknown, strategy=name))) for name in ("cost", "cpu-capacity")]
    assert bought[0].candidates[0] == bought[1].candidates[0]


def test_only_workers_of_the_strategy_are_filled_in_balance() -> None:
    """What other strategies decide does not change: their workers have no price in placement."""
    rich, lean = (Demand(frozenset({"main.q"}), 1, 1, per_slot=(("h_vmem", gib * GIB),)) for gib in (12.0, 2.0))
    host = Host("new", {"main.q": 96}, (("h_vmem", 768.0 * GIB),))
    tens = [replace(host, name=f"w{n}", price=6.048) for n in range(10)]
    bare = [replace(each, price=None) for each in tens]
    wants = [(rich, 570), (lean, 390)]
    assert not OpenPlacement(bare).place(wants).complete
    assert OpenPlacement(tens).place(wants).complete


@pytest.mark.parametrize("distinct", (40, 400))
def test_jobs_that_all_differ_are_packed_by_classes_that_hold_each_of_them(distinct: int) -> None:
    chance = Random(distinct)
    sizes = [(chance.choice((1, 2, 4)), chance.randrange(1_000, 60_000)) for _ in range(distinct)]
    pieces = [Piece(at, size, frozenset({0, 1}), 1, 1, apart=False) for at, size in enumerate(sizes)]
    kinds = [Machines(1_000, (16, 64_000), 1.0), Machines(1_000, (48, 384_000), 4.0)]
    assert (len(classes_of(pieces)) < distinct) == (distinct > 48)
    found, placed = filled(pieces, kinds, Balance())
    for each in found:
        has = kinds[each.kind].has
        assert all(sum(sizes[at][r] * many for at, many in each.content.items()) <= has[r] for r in range(2))
    assert placed == [1] * distinct
    bought = sum(each.machines * kinds[each.kind].price for each in found)
    least = max(sum(slots for slots, _ in sizes) / 16, sum(memory for _, memory in sizes) / 96_000)
    assert bought <= 1.1 * least + 4


@pytest.mark.parametrize("seed", range(40))
def test_resource_prices_are_those_of_a_solver(seed: int) -> None:
    """Not the prices, which may be several, but what the demand is worth at them; and no offer is worth more than it
    costs, beyond the rent of scarce ones.
    """
    chance = Random(seed)
    width, many = chance.randrange(1, 5), chance.randrange(1, 12)
    demand = [float(chance.randrange(1, 500)) for _ in range(width)]
    offers = [
        (
            chance.uniform(0.1, 5),
            [float(chance.choice((0, 4, 16, 64, 256))) for _ in range(width)],
            chance.choice((None, None, chance.randrange(1, 20))),
        )
        for _ in range(many)
    ]
    offers.append((6.0, [8.0] * width, None))
    prices = resource_prices(offers, demand)
    rents = [max(0.0, sum(p * c for p, c in zip(prices, content, strict=True)) - price) for price, content, _ in offers]
    assert all(rent < 1e-6 for rent, (_, _, most) in zip(rents, offers, strict=True) if most is None)
    worth = sum(price * wanted for price, wanted in zip(prices, demand, strict=True))
    worth -= sum(rent * (most or 0) for rent, (_, _, most) in zip(rents, offers, strict=True))
    assert worth == pytest.approx(_least_by_solver(offers, demand), rel=1e-6)


def _least_by_solver(offers: list[tuple[float, list[float], int | None]], demand: list[float]) -> float:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    for price, _, most in offers:
        solver.addVar(0.0, highspy.kHighsInf if most is None else float(most))
        solver.changeColCost(solver.getNumCol() - 1, price)
    for at, wanted in enumerate(demand):
        row = [(n, content[at]) for n, (_, content, _) in enumerate(offers) if content[at]]
        indices = np.array([n for n, _ in row], dtype=np.int32)
        solver.addRow(wanted, highspy.kHighsInf, len(row), indices, np.array([value for _, value in row]))
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


# -- what each worker is meant for -----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ("cost", "cpu-capacity"))
def test_a_plan_says_what_each_worker_of_its_launches_is_meant_for_if_asked(strategy: str) -> None:
    snapshot = with_cost(*lean_and_rich(), *ALL, strategy=strategy)
    asked = plan(replace(snapshot, policy=replace(snapshot.policy, assigns=True)))
    bought = {offer.type.name: offer for offer in launch_of(asked).candidates[0].offers}
    slots: dict[str, int] = {}
    memory: dict[str, int] = {}
    for each in asked.assigned:
        slots[each.worker] = slots.get(each.worker, 0) + each.slots
        rich = each.jobs[0] >= 500
        memory[each.worker] = memory.get(each.worker, 0) + each.slots * (14 * GIB if rich else 1500 * 1024**2)
    workers = {f"{name} {n}" for name, offer in bought.items() for n in range(1, offer.count + 1)}
    assert set(slots) == workers
    assert sum(slots.values()) == 160
    for name, offer in bought.items():
        of_type = [worker for worker in workers if worker.startswith(f"{name} ")]
        assert max(slots[worker] for worker in of_type) <= offer.type.vcpus
        assert max(memory[worker] for worker in of_type) <= offer.type.memory


def test_a_plan_that_is_not_asked_places_nothing_once_more() -> None:
    made = plan(with_cost(*lean_and_rich(), *ALL))
    assert made.assigned == ()


def test_an_assignment_of_a_launch_that_is_cut_to_a_batch_has_no_other_workers() -> None:
    snapshot = with_cost(*lean_and_rich(), *ALL, scale_up_batch=2)
    made = plan(replace(snapshot, policy=replace(snapshot.policy, assigns=True)))
    assert len({each.worker for each in made.assigned}) == launch_of(made).candidates[0].workers == 2
