"""A simulated cloud runs short, changes its prices and takes machines back, and what runs there runs again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autoscaler.core.model.fleet import BucketKey, FailureKind, PriceType
from autoscaler.simulation.market import Limit, Market, PriceChange, read_market
from autoscaler.simulation.measures import Measures
from autoscaler.simulation.planned import PlanDecider
from autoscaler.simulation.run import Simulation
from autoscaler.simulation.workload import LOCAL, SPREAD, WorkloadError, WorkloadJob
from tests.simulation.playing import a_policy, a_rule, a_simulation, a_workload, buckets, jobs_of, numbered

HYBRID = a_policy(hybrid=True, scale_up_batch=10)
SPOT = a_policy(hybrid=True, scale_up_batch=10, max_cores_per_worker=4, price_types=(PriceType.SPOT,))


def finished(run: Simulation) -> Measures:
    measures = run.run()
    assert run.over, f"{run.engine.waiting} tasks wait for ever"
    return measures


def most_vcpus(measures: Measures) -> int:
    """The most cores that were rented at once."""
    sizes = {bucket.type.name: bucket.type.vcpus for bucket in buckets()}
    changes = [(at, 1, sizes[name] * count) for at, name, count in measures.launches_at]
    changes += [(at, 0, -sizes[name]) for at, name in measures.removals_at]
    total = most = 0
    for _, _, vcpus in sorted(changes):
        total += vcpus
        most = max(most, total)
    return most


# -- shortages and quotas ----------------------------------------------------------------------------------------------


def test_a_shortage_is_a_failed_launch_and_the_next_type_is_tried() -> None:
    short = Market(limits=(Limit(FailureKind.CAPACITY, type="m5.large", machines=0),))
    assert finished(a_simulation(jobs_of(2), HYBRID)).launched == {"m5.large": 1}
    run = a_simulation(jobs_of(2), HYBRID, market=short)
    assert finished(run).launched == {"m5.xlarge": 1}
    assert run.cloud.shortfalls == 1


def test_after_a_shortage_jobs_get_their_workers() -> None:
    empty = Market(limits=(Limit(FailureKind.CAPACITY, ends=4000.0, machines=0),))
    measures = finished(a_simulation(jobs_of(4), HYBRID, market=empty))
    assert min(at for at, _, _ in measures.launches_at) >= 4000.0
    assert measures.finished == 4


@pytest.mark.parametrize("rule", ("", "one-per-job", "static:9:m5.xlarge", "karpenter", "oracle"))
def test_no_more_cores_are_rented_than_a_quota_allows(rule: str) -> None:
    quota = Market(limits=(Limit(FailureKind.QUOTA, family="m5", vcpus=16),))
    decider = a_rule(rule, HYBRID, 50) if rule else None
    jobs = numbered(jobs_of(20, slots=2, pe=LOCAL), jobs_of(8))
    run = a_simulation(jobs, HYBRID, market=quota, decider=decider)
    measures = finished(run)
    assert 8 < most_vcpus(measures) <= 16
    assert run.cloud.shortfalls > 0


# -- prices ------------------------------------------------------------------------------------------------------------


def test_a_machine_costs_what_it_cost_at_each_moment() -> None:
    jobs = jobs_of(1, seconds=7200.0)
    at_list_price = finished(a_simulation(jobs, a_policy())).price
    dearer = Market(prices=(PriceChange(3600.0, "m5.large", PriceType.ON_DEMAND, 0.96),))
    run = a_simulation(jobs, a_policy(), market=dearer)
    measures = finished(run)
    ((begun, _, _),), ((end, _),) = measures.launches_at, measures.removals_at
    ended = begun + math.ceil(end - begun)  # billed by the second
    assert at_list_price == pytest.approx(0.096 * (ended - begun) / 3600)
    assert measures.price == pytest.approx(0.096 * (3600 - begun) / 3600 + 0.96 * (ended - 3600) / 3600)


def test_plan_launches_at_the_price_of_the_moment() -> None:
    capped = a_policy(hybrid=True, max_cores_per_worker=2)
    cheaper = Market(prices=(PriceChange(50.0, "m5.large", PriceType.ON_DEMAND, 0.01),))
    late = jobs_of(1, submitted=100.0)
    assert finished(a_simulation(late, capped, market=cheaper)).price < 0.2 * finished(a_simulation(late, capped)).price


# -- interruptions -----------------------------------------------------------------------------------------------------


def interrupted(
    jobs: list[WorkloadJob], rule: str = "", seed: int = 1, rate: float = 2.0
) -> tuple[Simulation, Measures]:
    market = Market(interruptions_per_hour=rate)
    decider = a_rule(rule, SPOT, 50, offers=spot_buckets()) if rule else None
    run = a_simulation(jobs, SPOT, market=market, price_type=PriceType.SPOT, decider=decider, seed=seed)
    return run, finished(run)


def spot_buckets() -> list:  # type: ignore[type-arg]
    from autoscaler.providers.catalog import load_catalog

    return list(load_catalog().buckets((PriceType.SPOT,)))


@pytest.mark.parametrize("rule", ("", "one-per-job", "cloud-pipeline"))
def test_what_ran_on_a_machine_that_was_taken_runs_again_to_its_end(rule: str) -> None:
    jobs = numbered(
        jobs_of(6, seconds=3000.0), jobs_of(2, seconds=900.0, slots=2, pe=LOCAL), jobs_of(1, tasks=5, concurrency=3)
    )
    restarted = 0
    for seed in range(4):
        run, measures = interrupted(jobs, rule, seed)
        restarted += measures.restarted
        assert measures.interrupted > 0
        assert (measures.lost_core_seconds > 0) == (measures.restarted > 0)
        assert measures.finished == measures.submitted == len(measures.waits) == 13
        assert not run.engine.anything_on_hold
        assert not any(host.lost for host in run.engine.hosts.values())
    assert restarted > 3


def test_a_job_over_several_hosts_is_held_until_its_parts_elsewhere_have_ended() -> None:
    wide = jobs_of(1, seconds=2400.0, slots=12, pe=SPREAD)
    again = 0
    for seed in range(4):
        run, measures = interrupted(wide, seed=seed, rate=0.5)
        assert isinstance(run.decider, PlanDecider)
        assert measures.finished == 1
        assert run.decider.actions["hold"] == run.decider.actions["release"]
        again += run.decider.actions["hold"] and measures.restarted
    assert again


def test_interrupted_runs_are_repeatable() -> None:
    jobs = list(a_workload(12, largest_host=4))
    one, other = (interrupted(jobs, seed=5, rate=0.5)[1] for _ in range(2))
    assert (one.price, one.restarted, one.launches_at) == (other.price, other.restarted, other.launches_at)
    assert one.launches_at != interrupted(jobs, seed=6, rate=0.5)[1].launches_at


def test_on_demand_machines_are_not_taken() -> None:
    run = a_simulation(jobs_of(4, seconds=9000.0), HYBRID, market=Market(interruptions_per_hour=50.0))
    measures = finished(run)
    assert (measures.interrupted, measures.finished) == (0, 4)


# -- the oracle --------------------------------------------------------------------------------------------------------


def test_the_oracle_launches_nothing_for_what_finds_room_before_a_boot_would_end() -> None:
    ends_soon, waits = jobs_of(2, seconds=300.0), jobs_of(2, submitted=400.0, seconds=600.0)
    jobs = numbered(ends_soon, waits)
    rule = a_rule("oracle", a_policy(), 20)
    one_each = a_rule("one-per-job", a_policy(), 20)
    assert finished(a_simulation(jobs, a_policy(), decider=rule)).launched == {"m5.large": 1}
    assert finished(a_simulation(jobs, a_policy(), decider=one_each)).launched["m5.large"] > 1


def test_the_oracle_puts_tasks_that_end_together_on_one_machine() -> None:
    jobs = numbered(jobs_of(2, seconds=20_000.0), jobs_of(2, seconds=600.0))
    rule = a_rule("oracle", HYBRID, 20)
    assert finished(a_simulation(jobs, HYBRID, decider=rule)).launched == {"m5.large": 2}


# -- the file ----------------------------------------------------------------------------------------------------------

FILE = """
interruptions_per_hour = 0.05
notice = "30s"
[[price]]
type = "m5.large"
price_type = "spot"
at = "1d"
price = 0.05
[[shortage]]
type = "m5.large"
from = "2h"
to = "3h"
[[quota]]
family = "m5"
vcpus = 64
"""


def market_of(tmp_path: Path, text: str) -> Market:
    file = tmp_path / "market.toml"
    file.write_text(text)
    return read_market(file, ["m5.large"])


def test_a_file_says_all_of_it(tmp_path: Path) -> None:
    market = market_of(tmp_path, FILE)
    assert (market.interruptions_per_hour, market.notice) == (0.05, 30.0)
    assert market.moments == [7200.0, 10_800.0, 86_400.0]
    spot = BucketKey("m5.large", price_type=PriceType.SPOT)
    assert [market.price(spot, 0.03, at) for at in (0.0, 86_399.0, 86_400.0)] == [0.03, 0.03, 0.05]
    large = next(bucket for bucket in buckets() if bucket.type.name == "m5.large")
    rooms = [market.limit_of(large, [], at)[0] for at in (0.0, 7200.0, 10_800.0)]
    assert rooms == [32, 0, 32]


@pytest.mark.parametrize(
    ("text", "says"),
    (
        ("[[price]]\nat = '1d'\nprice = 1", "price 1: it needs a type"),
        ("[[price]]\ntype = 'm5.big'\nprice = 1", "price 1: the catalogue has no type 'm5.big'"),
        ("[[shortage]]\nfrom = '2h'\nto = '1h'", "shortage 1: it ends before it begins"),
        ("[[shortage]]\nuntil = '2h'", "shortage 1: 'until' is not known here"),
        ("[[quota]]\nfamily = 'm5'", "quota 1: it needs machines or vcpus"),
        ("[[quota]]\nvcpus = -1", "quota 1: vcpus: -1 is no number of 0 or more"),
        ("[[quota]]\nvcpus = 1\nprice_type = 'cheap'", "quota 1: price_type 'cheap': write spot or on_demand"),
        ("notice = 'soon'", "notice: 'soon' is no duration"),
        ("[quota]\nvcpus = 1", "quota: write [[quota]] before each of them"),
        ("notice", "is no TOML file"),
    ),
)
def test_a_wrong_file_says_which_entry_and_what_may_stand_there(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        market_of(tmp_path, text)
    assert says in str(raised.value)


@pytest.mark.parametrize("name", ("static:2", "cloud-pipeline"))
def test_a_rule_orders_again_when_a_shortage_ends_and_not_all_the_time_before(name: str) -> None:
    shortage = Market(limits=(Limit(FailureKind.CAPACITY, ends=86_400.0, machines=0),))
    rule = a_rule(name, a_policy(), 20)
    run = a_simulation(jobs_of(2, slots=2, pe=LOCAL), a_policy(), decider=rule, market=shortage)
    measures = run.run()
    assert run.over
    assert measures.launches_at[0][0] == pytest.approx(86_400.0, abs=20.0)
    assert run.cloud.shortfalls <= 10
