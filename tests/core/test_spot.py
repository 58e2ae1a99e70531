"""`cost` weighs spot by what was seen of interruptions, and buys none of it for what should not be interrupted."""

from __future__ import annotations

from dataclasses import replace
from math import e

import pytest

from autoscaler.core.actions import Launch
from autoscaler.core.estimates.estimates import Estimates, RunTime
from autoscaler.core.limits.spot_seen import MOST_HOURS, UNSEEN
from autoscaler.core.model.cluster import JobDetail
from autoscaler.core.model.fleet import Ending, MachineState, PriceType
from autoscaler.core.model.memory import Disabling, Memory, WorkerNote
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import Limits
from autoscaler.core.sizing.cheapest.spot import lost
from autoscaler.core.snapshot import Plan, Snapshot
from autoscaler.report.wording import text
from tests.core.building import (
    LONG_AGO,
    NOW,
    X2LARGE,
    X4LARGE,
    AWorker,
    Details,
    Thing,
    a_bucket,
    a_job,
    a_machine,
    a_snapshot,
    an_order,
    codes,
)
from tests.core.test_recovery import leaving, notice

BOTH = (PriceType.SPOT, PriceType.ON_DEMAND)
SPOT, ON_DEMAND = a_bucket(X4LARGE, price=0.3, price_type=PriceType.SPOT), a_bucket(X4LARGE, price=0.8)
HOUR = 3600.0
OFTEN = Memory(passes=7, spot={"m5.4xlarge": (100.0 - UNSEEN, 20.0)})
"""Of ten machines two are taken an hour."""


def cell(*things: Thing, hours: float | None = None, **array: object) -> Snapshot:
    """`hours`: how long jobs 1 to 9 are estimated to run."""
    known = {"hybrid": True, "family": "m5", "strategy": "cost", "price_types": BOTH, "limits": Limits(max_workers=100)}
    seen = a_snapshot(*things, **{**known, **array})  # type: ignore[arg-type]
    if hours is None:
        return seen
    time = RunTime(hours * HOUR, hours * HOUR, hours * HOUR)
    return replace(seen, estimates=Estimates(dict.fromkeys(range(1, 10), time)))


def bought(made: Plan) -> dict[PriceType, int]:
    launches = [action for action in made.actions if isinstance(action, Launch)]
    return {each.buckets[0].key.price_type: each.count for launch in launches for each in launch.candidates[0].offers}


def test_a_job_takes_longer_the_more_often_it_is_interrupted() -> None:
    assert lost(0.0, HOUR) == 1.0
    assert lost(1.0, HOUR) == pytest.approx(e - 1)
    assert lost(0.1, 10 * HOUR) == lost(1.0, HOUR)
    assert lost(100.0, HOUR) == float("inf")


@pytest.mark.parametrize(
    ("hours", "memory", "chosen"),
    (
        pytest.param(1.0, OFTEN, PriceType.SPOT, id="1.1 times as long"),
        pytest.param(10.0, OFTEN, PriceType.ON_DEMAND, id="3.2 times as long"),
        pytest.param(10.0, Memory(passes=7), PriceType.SPOT, id="no interruption was seen"),
        pytest.param(
            10.0, Memory(passes=7, spot={"m5.4xlarge": (1.0, 1.0)}), PriceType.SPOT, id="one interruption proves little"
        ),
        pytest.param(None, OFTEN, PriceType.SPOT, id="nothing is estimated"),
    ),
)
def test_long_jobs_are_not_for_spot_that_is_often_taken(hours: float | None, memory: Memory, chosen: PriceType) -> None:
    made = plan(cell(a_job(1, slots=16), SPOT, ON_DEMAND, memory, hours=hours))
    assert bought(made) == {chosen: 1}


def test_short_and_long_jobs_get_what_suits_them_and_the_next_pass_launches_nothing_more() -> None:
    short, long = a_job(1, slots=16, hard={"h_rt": "1"}), a_job(2, slots=16, hard={"h_rt": "2"})
    seen = cell(short, long, SPOT, ON_DEMAND, OFTEN)
    times = {1: RunTime(60.0, 60.0, 60.0), 2: RunTime(10 * HOUR, 10 * HOUR, 10 * HOUR)}
    made = plan(replace(seen, estimates=Estimates(times)))
    assert bought(made) == {PriceType.SPOT: 1, PriceType.ON_DEMAND: 1}
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    assert Code.LAUNCH_CHEAPEST in codes(launch.reason)
    assert "no spot for 1 task" in text(launch.reason)
    orders = [(an_order(1, type_=each.type), each) for each in launch.candidates[0].offers]
    coming = [replace(order, id=f"o{n}", bucket=each.buckets[0].key) for n, (order, each) in enumerate(orders)]
    again = cell(short, long, SPOT, ON_DEMAND, OFTEN, *coming)
    assert not bought(plan(replace(again, estimates=Estimates(times))))


@pytest.mark.parametrize(
    "things",
    (
        pytest.param((a_job(1, slots=32, pe="mpi"),), id="it spreads over hosts"),
        pytest.param((a_job(1, slots=16), Details((JobDetail(1, NOW, rerun=False),))), id="it may not run again"),
    ),
)
def test_what_should_not_be_interrupted_is_not_for_spot_unless_only_that_is_allowed(things: tuple[Thing, ...]) -> None:
    assert set(bought(plan(cell(*things, SPOT, ON_DEMAND)))) == {PriceType.ON_DEMAND}
    assert set(bought(plan(cell(*things, SPOT, ON_DEMAND, price_types=(PriceType.SPOT,))))) == {PriceType.SPOT}
    early = cell(*things, SPOT, ON_DEMAND, price_type_deadline=600.0)
    assert not bought(plan(early)), "before the deadline of other price types"


def test_jobs_of_a_machine_that_is_taken_get_one_on_demand() -> None:
    """They may be long ones: how long they run on is not known."""
    worker = leaving(price_type=PriceType.SPOT)
    taken = Details((JobDetail(9000, NOW, rerun=True), JobDetail(9001, NOW, rerun=True)))
    made = cell(worker, taken, SPOT, ON_DEMAND)
    noticed = replace(made, fleet=replace(made.fleet, interruptions=notice(worker, 120)))
    assert bought(plan(noticed)) == {PriceType.ON_DEMAND: 1}


def test_a_job_that_may_run_again_is_for_spot() -> None:
    details = Details((JobDetail(1, NOW, rerun=True), JobDetail(2, NOW, rerun=False)))
    assert bought(plan(cell(a_job(1, slots=16), details, SPOT, ON_DEMAND))) == {PriceType.SPOT: 1}


def test_of_two_zones_the_one_that_costs_less_with_interruptions_comes_first() -> None:
    zones = [
        replace(SPOT, key=replace(SPOT.key, zone=zone), price_per_hour=price)
        for zone, price in (("a", 0.3), ("b", 0.31))
    ]
    memory = Memory(passes=7, spot={"m5.4xlarge a": (100.0 - UNSEEN, 20.0)})
    made = plan(cell(a_job(1, slots=16), *zones, ON_DEMAND, memory, hours=1.0))
    (launch,) = (action for action in made.actions if isinstance(action, Launch))
    assert [bucket.key.zone for bucket in launch.candidates[0].offers[0].buckets] == ["b", "a"]


# -- what is remembered ------------------------------------------------------------------------------------------------


def ended(*, gone: bool = False, taken: bool = True, mark: Disabling | None = None, **worker: object) -> AWorker:
    """A machine of two hours that is terminated. `gone`: an earlier observation showed that."""
    note = WorkerNote(NOW - 2 * HOUR, joined_at=LONG_AGO, gone=gone, disabling=mark, made_at=NOW - 2 * HOUR)
    ending = Ending.INTERRUPTED if taken else Ending.UNKNOWN
    known = {"price_type": PriceType.SPOT, "zone": "a", "ending": ending, "type_": X2LARGE}
    return a_machine("w1", state=MachineState.TERMINATED, age=2 * HOUR, note=note, **{**known, **worker})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("worker", "seen"),
    (
        pytest.param(ended(), {"m5.2xlarge a": (2.0, 1.0)}, id="its cloud took it"),
        pytest.param(ended(taken=False, mark=Disabling.INTERRUPTED), {"m5.2xlarge a": (2.0, 1.0)}, id="after a notice"),
        pytest.param(ended(taken=False), {"m5.2xlarge a": (2.0, 0.0)}, id="we ended it"),
        pytest.param(ended(gone=True), {}, id="it was seen before"),
        pytest.param(ended(price_type=PriceType.ON_DEMAND), {}, id="on demand"),
    ),
)
def test_ended_spot_machines_are_counted_once(worker: AWorker, seen: dict[str, tuple[float, float]]) -> None:
    assert plan(a_snapshot(worker)).memory.spot == seen


def test_what_was_seen_long_ago_counts_less() -> None:
    memory = Memory(passes=7, spot={"m5.2xlarge a": (MOST_HOURS, 100.0)})
    hours, taken = plan(a_snapshot(ended(taken=False), memory)).memory.spot["m5.2xlarge a"]
    assert hours == pytest.approx(MOST_HOURS)
    assert taken == pytest.approx(100.0 * MOST_HOURS / (MOST_HOURS + 2))


def test_hours_of_machines_that_live_count_against_interruptions() -> None:
    """A hundred machines that have run for ten hours prove that the one interruption was rare."""
    memory = Memory(passes=7, spot={"m5.4xlarge": (1.0, 5.0)})
    living = [
        replace(
            a_machine(f"w{n}", type_=X4LARGE, age=10 * HOUR, price_type=PriceType.SPOT),
            note=WorkerNote(NOW - 10 * HOUR, made_at=NOW - 10 * HOUR, retired_at=NOW),
        )
        for n in range(99)
    ]
    job = a_job(1, slots=16)
    assert bought(plan(cell(job, SPOT, ON_DEMAND, memory, hours=12.0))) == {PriceType.ON_DEMAND: 1}
    many = {"limits": Limits(max_workers=1_000)}
    assert bought(plan(cell(job, SPOT, ON_DEMAND, memory, *living, hours=12.0, **many))) == {PriceType.SPOT: 1}
