"""With estimates of run times, `cost` buys what is paid least until its workers can leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoscaler.core.estimates.estimates import Estimates, RunTime, likely_last
from autoscaler.core.model.fleet import Bucket
from autoscaler.core.model.reasons import Code
from autoscaler.core.plan import plan
from autoscaler.core.policy import PRICE_HOUR, PRICE_PAID
from autoscaler.core.sizing.cheapest.paid import REUSED
from autoscaler.core.snapshot import Snapshot
from autoscaler.report.wording import text
from tests.core.building import X2LARGE, X8LARGE, a_bucket, a_job, codes
from tests.core.test_cheapest import cheapest_set, launch_of, with_cost

LARGE_IS_CHEAPER = (a_bucket(X2LARGE, price=0.40), a_bucket(X8LARGE, price=1.50))
"""A core of the larger one costs 6 % less."""


def cell(*times: RunTime, buckets: tuple[Bucket, ...] = LARGE_IS_CHEAPER, slots: int = 8) -> Snapshot:
    """Jobs of so many slots, each with its estimate."""
    waiting = [a_job(number, slots=slots, hard={"h_rt": f"{number}"}) for number in range(1, len(times) + 1)]
    known = dict(enumerate(times, start=1))
    return replace(with_cost(*waiting, *buckets, family="m5", cost_price=PRICE_PAID), estimates=Estimates(known))


ALIKE, UNSURE = RunTime(3_600.0, 3_600.0, 3_600.0), RunTime(3_600.0, 36_000.0, 7_200.0)
LONG = RunTime(36_000.0, 36_000.0, 36_000.0)


@pytest.mark.parametrize(
    ("times", "bought"),
    (
        pytest.param([ALIKE] * 4, {"m5.8xlarge": 1}, id="they end together: the cheaper core"),
        pytest.param([UNSURE] * 4, {"m5.2xlarge": 4}, id="one of four is likely to take much longer"),
        pytest.param([ALIKE] * 3 + [LONG], {"m5.2xlarge": 4}, id="one will take longer"),
        pytest.param([LONG] * 4, {"m5.8xlarge": 1}, id="all take long"),
    ),
)
def test_what_is_bought_for_four_jobs_of_eight_slots(times: list[RunTime], bought: dict[str, int]) -> None:
    assert cheapest_set(plan(cell(*times))) == bought


CORES_COST_THE_SAME = (a_bucket(X2LARGE, price=0.40), a_bucket(X8LARGE, price=1.60))


@pytest.mark.parametrize(
    ("slots", "bought"),
    (
        pytest.param(6, {"m5.8xlarge": 1}, id="beside them one more has room on the large one, none on small ones"),
        pytest.param(7, {"m5.2xlarge": 4}, id="none has room on either"),
    ),
)
def test_slots_are_not_lost_that_hold_another_task_like_these(slots: int, bought: dict[str, int]) -> None:
    assert cheapest_set(plan(cell(*[ALIKE] * 4, buckets=CORES_COST_THE_SAME, slots=slots))) == bought


def test_without_the_setting_the_price_of_an_hour_decides() -> None:
    snapshot = cell(*[UNSURE] * 4)
    (array,) = snapshot.policy.node_arrays
    policy = replace(snapshot.policy, node_arrays=(replace(array, cost_price=PRICE_HOUR),))
    assert cheapest_set(plan(replace(snapshot, policy=policy))) == {"m5.8xlarge": 1}


def test_where_nothing_is_estimated_the_price_of_an_hour_decides() -> None:
    snapshot = cell(*[UNSURE] * 4)
    assert cheapest_set(plan(replace(snapshot, estimates=Estimates()))) == {"m5.8xlarge": 1}
    unknown = Estimates(dict.fromkeys((1, 2, 3), UNSURE))
    assert cheapest_set(plan(replace(snapshot, estimates=unknown))) == {"m5.8xlarge": 1}


def test_the_reason_tells_what_it_is_estimated_to_cost_and_what_the_second_best_would() -> None:
    """Four of $0.40, three for an hour; one of $1.50 for ten, less what later jobs use of three quarters of it."""
    reason = launch_of(plan(cell(*[ALIKE] * 3, LONG))).reason
    assert Code.LAUNCH_LEAST_PAID in codes(reason)
    paid, other = 3 * 0.40 * 1 + 0.40 * 10, 1.50 * (10 - REUSED * 0.75 * 9)
    assert f"estimated to cost {paid:g}" in text(reason)
    assert f"{round(other - paid, 4):g} more" in text(reason)


def test_of_more_tasks_the_last_one_is_likely_to_take_longer() -> None:
    one = RunTime(50.0, 1_000.0, 100.0)
    assert likely_last([]) == 0.0
    assert likely_last([one]) == pytest.approx(100.0)
    assert likely_last([one] * 9) == pytest.approx(1_000.0)
    assert likely_last([one] * 4) == pytest.approx(100.0 * 10**0.75)
    assert likely_last([one, RunTime(5_000.0, 5_000.0, 5_000.0)]) == 5_000.0
    assert likely_last([one] * 500) == pytest.approx(1_000.0)


@pytest.mark.parametrize(
    ("step", "minimum", "bought"),
    (
        pytest.param(1.0, 60.0, {"m5.2xlarge": 4}, id="by the second"),
        pytest.param(3_600.0, 60.0, {"m5.8xlarge": 1}, id="by the hour: one hour costs less than four"),
        pytest.param(1.0, 3_600.0, {"m5.8xlarge": 1}, id="an hour at least"),
    ),
)
def test_what_is_billed_counts(step: float, minimum: float, bought: dict[str, int]) -> None:
    """Three jobs of a minute and one of ten: one machine of $1.45 for all, or one of $0.40 for each."""
    short, longer = (RunTime(seconds, seconds, seconds) for seconds in (60.0, 600.0))
    snapshot = cell(short, short, short, longer, buckets=(a_bucket(X2LARGE, price=0.40), a_bucket(X8LARGE, price=1.45)))
    (array,) = snapshot.policy.node_arrays
    array = replace(array, billing_step=step, billing_minimum=minimum)
    billed = replace(snapshot, policy=replace(snapshot.policy, node_arrays=(array,)))
    assert cheapest_set(plan(billed)) == bought
