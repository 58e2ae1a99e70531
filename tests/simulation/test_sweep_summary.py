"""What the runs of a sweep say: windows, intervals, the Pareto front, the chosen point, tables and the page."""

from __future__ import annotations

import csv
import io
import itertools
import math
import random
import re
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.simulation import charts
from autoscaler.simulation.market import FOREVER, Limit, Market, PriceChange
from autoscaler.simulation.sweep.dispatch import Spread
from autoscaler.simulation.sweep.intervals import Interval, interval_of, quantile, ratio_of
from autoscaler.simulation.sweep.page import sweep_page
from autoscaler.simulation.sweep.summary import (
    Outcome,
    Summary,
    effects_of,
    front_of,
    objection_to,
    sentences_of,
    summary_of,
)
from autoscaler.simulation.sweep.sweep_file import Source
from autoscaler.simulation.sweep.tables import csv_text, front_table, settings_text
from autoscaler.simulation.sweep.windows import market_in, windows_of
from autoscaler.simulation.workload import Workload, WorkloadError
from tests.simulation.playing import jobs_of

# -- intervals ---------------------------------------------------------------------------------------------------------


def share_below(value: float, freedom: int) -> float:
    """The distribution function of Student's t by Simpson's rule over its density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps = 4_000
    width = value / steps
    heights = [scale * (1 + (width * step) ** 2 / freedom) ** (-(freedom + 1) / 2) for step in range(steps + 1)]
    weights = [1, *itertools.islice(itertools.cycle((4, 2)), steps - 1), 1]
    return 0.5 + width / 3 * math.fsum(weight * height for weight, height in zip(weights, heights, strict=True))


@pytest.mark.parametrize("freedom", (1, 2, 5, 17, 30, 31, 60, 500))
def test_the_quantile_is_where_the_distribution_is_975_per_mille(freedom: int) -> None:
    assert share_below(quantile(freedom), freedom) == pytest.approx(0.975, abs=2e-4)


def test_an_interval_holds_the_mean_of_the_windows_in_19_of_20_cases() -> None:
    chance, held, cases = random.Random(5), 0, 2_000
    for _ in range(cases):
        # Seeds of one window are alike: as independent values they would make the interval too narrow.
        windows = [chance.gauss(100, 20) for _ in range(6)]
        interval = interval_of([[window + chance.gauss(0, 2) for _ in range(4)] for window in windows])
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 100 <= interval.high
    assert held / cases == pytest.approx(0.95, abs=0.015)


def test_the_interval_of_a_ratio_holds_it_in_19_of_20_cases() -> None:
    chance, held, cases = random.Random(6), 0, 2_000
    for _ in range(cases):
        # Windows that differ by their size, of which each is dearer or cheaper than today by chance: 0.9 on the whole.
        today = [chance.uniform(50, 150) for _ in range(8)]
        interval = ratio_of([[(price * chance.gauss(0.9, 0.1), price)] for price in today])
        assert interval.low is not None
        assert interval.high is not None
        held += interval.low <= 0.9 <= interval.high
    assert held / cases == pytest.approx(0.95, abs=0.02)


def test_a_ratio_is_that_of_the_bills() -> None:
    assert ratio_of([[(20.0, 10.0)], [(900.0, 1_000.0)]]).mean == pytest.approx(920 / 1_010)
    assert ends_of(ratio_of([[(9.0, 10.0)], [(900.0, 1_000.0)]])) == pytest.approx((0.9, 0.9, 0.9))
    assert ratio_of([[(0.0, 0.0)]]) == Interval(1.0)
    assert ratio_of([[(1.0, 2.0)]]) == Interval(0.5)


def ends_of(interval: Interval) -> tuple[float, float | None, float | None]:
    return interval.mean, interval.low, interval.high


def test_one_value_has_no_interval_and_one_window_that_of_its_seeds() -> None:
    assert interval_of([[3.0]]) == Interval(3.0)
    of_seeds = interval_of([[1.0, 2.0, 3.0]])
    assert ends_of(of_seeds) == pytest.approx((2.0, 2 - 4.303 / math.sqrt(3), 2 + 4.303 / math.sqrt(3)))


# -- windows -----------------------------------------------------------------------------------------------------------


def a_workload(count: int) -> Workload:
    jobs = [job for number in range(1, count + 1) for job in jobs_of(1, submitted=number * 10.0, after=number - 1)]
    return Workload("test", [replace(job, number=number) for number, job in enumerate(jobs, start=1)], started_at=1e9)


def test_windows_are_disjoint_and_judges_come_last() -> None:
    windows = windows_of(a_workload(100), Source("x", windows=3, jobs=10), judge=0.4)
    assert [window.judges for window in windows] == [False] * 3 + [True] * 3
    numbers = [[job.number for job in window.jobs] for window in windows]
    assert [len(each) for each in numbers] == [10] * 6
    assert len({number for each in numbers for number in each}) == 60
    assert max(max(each) for each in numbers[:3]) <= 60 < min(min(each) for each in numbers[3:])
    for window in windows:
        first = window.jobs[0]
        assert (first.submitted, window.begins) == (0.0, first.number * 10.0)
        assert window.started_at == 1e9 + window.begins
        # What came before the window is not waited for.
        assert first.after is None
        assert all(job.after == job.number - 1 for job in window.jobs[1:])


def test_windows_remember_what_came_before_where_run_times_are_estimated() -> None:
    plain, window = (
        windows_of(a_workload(100), Source("x", windows=2, jobs=10), 0.5, remembers=remembers)[-1]
        for remembers in (False, True)
    )
    assert plain.earlier == ()
    assert window.jobs == plain.jobs
    assert [job.number for job in window.workload.earlier] == list(range(1, window.jobs[0].number))
    assert [job.submitted for job in window.earlier[-2:]] == [-20.0, -10.0]


def test_windows_without_a_size_have_all_jobs() -> None:
    windows = windows_of(a_workload(100), Source("x", windows=4), judge=0.0)
    assert [job.number for window in windows for job in window.jobs] == list(range(1, 101))


def test_too_few_jobs_are_told() -> None:
    with pytest.raises(WorkloadError, match="test has 50 jobs to choose on: too few for 3 windows of 20"):
        windows_of(a_workload(100), Source("x", windows=3, jobs=20), judge=0.5)


def test_a_market_keeps_its_moments_in_a_window() -> None:
    from autoscaler.core.model.fleet import FailureKind, PriceType

    change = PriceChange(500.0, "m5.large", PriceType.SPOT, 0.2)
    limit = Limit(FailureKind.CAPACITY, 100.0, FOREVER, "m5.large", "", None, 0, None)
    window = windows_of(a_workload(100), Source("x", windows=4), judge=0.0)[1]
    moved = market_in(Market((change,), (limit,)), window)
    assert moved.prices[0].at == 500.0 - window.begins == 240.0
    assert (moved.limits[0].begins, moved.limits[0].ends) == (100.0 - window.begins, FOREVER)


# -- comparison --------------------------------------------------------------------------------------------------------

IDLE = "CP_CAP_AUTOSCALE_IDLE_TIMEOUT"


def a_document(price: float, wait: float, **changed: Any) -> dict[str, Any]:
    """What a run leaves of interest here."""
    usual = {"price": price, "wait_s": {"mean": wait}, "complete": True, "unpriced_workers": 0, "launches": 3}
    return usual | {"currency": "USD"} | changed


Place = tuple[float, float]


def summed(places: Mapping[int, Place], judged: Mapping[int, Place] | None = None, **more: Any) -> Summary:
    """Points by factor of price and seconds of wait beyond today's, on windows of very different sizes."""
    played = {}
    for window, (price, wait) in enumerate(((10.0, 60.0), (1_000.0, 200.0), (90.0, 20.0))):
        for point, (factor, seconds) in {0: (1.0, 0.0), **places}.items():
            played[point, window, 1] = a_document(price * factor, wait + seconds)
    for window, price in ((3, 50.0), (4, 500.0)):
        for point, (factor, seconds) in (judged or {}).items():
            # The second window is not like the first: intervals are not empty.
            played[point, window, 1] = a_document(price * (factor + 0.001 * (window - 3) * point), 100.0 + seconds)
    points = [{}, *({IDLE: str(number)} for number in sorted(places))]
    return summary_of(points, played, ((0, 1, 2), (3, 4)), (1,), more.get("mean_wait"))


def test_points_are_compared_window_by_window() -> None:
    summary = summed({1: (0.9, 10.0)})
    assert ends_of(summary.chosen_on[1].ratio) == pytest.approx((0.9, 0.9, 0.9))
    assert summary.chosen_on[1].wait_change.mean == pytest.approx(10.0)
    assert summary.chosen_on[1].price.low == 0  # the windows themselves differ that much
    assert summary.chosen_on[1].wait.low == 0
    assert summary.chosen_on[1].wait_change.low == pytest.approx(10.0)


def test_the_cheapest_that_waits_no_longer_is_chosen() -> None:
    places = {1: (0.7, 30.0), 2: (0.9, -1.0), 3: (0.95, -5.0), 4: (0.97, -4.0)}
    summary = summed(places)
    assert summary.front == [1, 2, 3]
    assert summary.chosen == 2
    assert summed(places, mean_wait=500.0).chosen == 1
    assert summed(places, mean_wait=1.0).chosen == 3
    assert summed({1: (1.1, -1.0)}).chosen == 0


@given(st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_the_front_is_what_no_other_point_beats(places: dict[int, tuple[int, int]]) -> None:
    zero = Interval(0.0)
    outcomes = {
        number: Outcome(zero, Interval(float(price)), Interval(float(wait)), zero, 0.0)
        for number, (price, wait) in places.items()
    }
    beaten = {
        one
        for one, other in itertools.permutations(places, 2)
        if all(mine >= its for mine, its in zip(places[one], places[other], strict=True))
        and (places[one] != places[other] or one > other)
    }
    assert sorted(front_of(outcomes)) == sorted(set(places) - beaten)


def test_a_gain_that_may_be_chance_is_not_recommended() -> None:
    places = {1: (0.9, -1.0), 2: (0.95, -5.0)}
    unjudged = " ".join(sentences_of(summed(places)))
    assert "likely to be overestimated" in unjudged
    sure = " ".join(sentences_of(summed(places, judged={0: (1.0, 0.0), 1: (0.9, -1.0)})))
    assert f"{IDLE}=1 is the cheapest" in sure
    assert "not recommended" not in sure
    chance = sentences_of(summed(places, judged={0: (1.0, 0.0), 1: (0.9995, 0.0)}))
    assert "not recommended" in chance[1]


def test_a_shorter_wait_makes_no_price_sure() -> None:
    """The cheapest of two windows: surely quicker, and 17 % cheaper give or take far more."""
    played = {}
    for window, (price, wait) in enumerate(((1.0, 30.0), (0.7, 36.0), (0.98, 84.0), (0.66, 84.5))):
        played[0, window, 1] = a_document(100.0, 100.0)
        played[1, window, 1] = a_document(100.0 * price, wait)
    summary = summary_of([{}, {IDLE: "1"}], played, ((0, 1), (2, 3)), (1,), None)
    judged = summary.judged_on[1]
    assert judged.wait_change.high is not None
    assert judged.wait_change.high < 0
    assert judged.ratio.high is not None
    assert judged.ratio.high > 1 > judged.ratio.mean
    assert judged.ratio.low == 0  # nothing costs less than nothing
    assert "not recommended" in sentences_of(summary)[1]
    assert "may be chance" in str(objection_to(summary))


def test_what_was_chosen_for_its_wait_is_judged_by_it() -> None:
    waits_least = {1: (1.2, -50.0)}
    sure = summed(waits_least, judged={0: (1.0, 0.0), 1: (1.2, -50.0)}, mean_wait=1.0)
    assert sure.chosen == 1
    assert "not recommended" not in sentences_of(sure)[1]
    chance = summed(waits_least, judged={0: (1.0, 0.0), 1: (0.9, 0.0)}, mean_wait=1.0)
    assert "not recommended" in sentences_of(chance)[1]


def test_an_equal_price_with_surely_shorter_waits_is_no_chance() -> None:
    played = {(point, window, 1): a_document(10.0, 60.0 - 5 * point) for point in (0, 1) for window in range(4)}
    summary = summary_of([{}, {IDLE: "1"}], played, ((0, 1), (2, 3)), (1,), None)
    assert summary.chosen == 1
    assert "not recommended" not in sentences_of(summary)[1]


def test_what_nothing_speaks_for_is_not_to_be_set() -> None:
    places = {1: (0.9, -1.0)}
    assert objection_to(summed({1: (1.1, -1.0)})) == "no point is chosen but the settings of today"
    assert objection_to(summed(places, mean_wait=1.0)) == "no point keeps the mean wait at 1s"
    assert objection_to(summed(places)) is None
    assert objection_to(summed(places, judged={0: (1.0, 0.0), 1: (0.9, -1.0)})) is None


def test_points_that_cannot_be_compared_are_left_out_with_a_reason() -> None:
    played = {(point, 0, 1): a_document(10.0, 5.0) for point in range(4)}
    played[1, 0, 1]["complete"] = False
    played[2, 0, 1]["unpriced_workers"] = 2
    del played[3, 0, 1]
    summary = summary_of([{}, {IDLE: "1"}, {IDLE: "2"}, {IDLE: "3"}], played, ((0,), ()), (1,), None)
    assert set(summary.chosen_on) == {0}
    assert [summary.excluded[number].split()[0] for number in (1, 2, 3)] == ["some", "workers", "no"]


def test_only_runs_that_all_points_have_are_compared() -> None:
    played = {(point, 0, seed): a_document(10.0, 5.0) for point in (0, 1) for seed in (1, 2)}
    played[0, 1, 1] = a_document(99.0, 5.0)  # the sweep was stopped before point 1 had this window
    summary = summary_of([{}, {IDLE: "1"}], played, ((0, 1), ()), (1, 2), None)
    assert summary.chosen_on[0].price.mean == 10.0


def test_nothing_is_said_before_anything_is_known() -> None:
    summary = summary_of([{}, {IDLE: "1"}], {}, ((0,), ()), (1,), None)
    assert sentences_of(summary) == [
        "Nothing can be said yet: no window was played by every point that can be compared."
    ]
    assert "<svg" not in sweep_page(summary, Spread(), [], [])


def test_the_effect_of_a_setting_is_the_mean_of_its_points() -> None:
    summary = summed({1: (0.5, 0.0), 2: (0.9, -10.0)})
    effects = effects_of(summary)[IDLE]
    assert [(value, count) for value, count, _, _ in effects] == [("1", 1), ("2", 1)]
    assert [price for _, _, price, _ in effects] == pytest.approx([0.5, 0.9])
    assert statistics.fmean(wait for *_, wait in effects) == pytest.approx(280 / 3 - 5)


# -- output ------------------------------------------------------------------------------------------------------------


def test_csv_has_a_line_for_each_point() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(summed({1: (0.7, 30.0), 2: (0.9, -1.0)})))))
    assert [row[IDLE] for row in rows] == ["", "1", "2"]
    assert [row["chosen"] for row in rows] == ["False", "False", "True"]
    assert float(rows[1]["price_of_today"]) == pytest.approx(0.7)
    assert [row["point"] for row in rows] == ["today", f"{IDLE}=1", f"{IDLE}=2"]
    assert {row["currency"] for row in rows} == {"USD"}


def test_the_table_has_prices_in_money() -> None:
    columns, rows = front_table(summed({1: (0.7, 30.0), 2: (0.9, -1.0)}))
    prices = [row[columns.index("price (USD)")] for row in rows]
    assert prices == [f"{1_100.0 / 3 * factor:,.2f}" for factor in (1.0, 0.7, 0.9)]


def test_the_chosen_settings_are_toml() -> None:
    point = {IDLE: "30", "A": "true", "B": 'text "quoted"', "C": "0.5", "D": "nan"}
    text = settings_text(point, ["why"])
    assert text.startswith("# why\n")
    assert tomllib.loads(text) == {IDLE: 30, "A": True, "B": 'text "quoted"', "C": 0.5, "D": "nan"}


@given(st.floats(-5, 100), st.floats(1e-3, 1e4))
def test_an_axis_ends_at_multiples_of_its_step(beginning: float, size: float) -> None:
    low = beginning * size
    axis = charts.Axis(low, low + size).rounded
    step = (axis.high - axis.low) / axis.steps
    slack = 1e-9 * (abs(low) + size)
    assert axis.low - slack <= low
    assert low + size <= axis.high + slack
    assert axis.steps <= 6
    assert axis.low / step == pytest.approx(round(axis.low / step), abs=1e-6)
    assert f"{step:.6e}"[0] in "125"


def test_a_page_stands_alone_and_names_in_it_stay_text() -> None:
    hostile = "\"><script>alert(1)</script><i x='&"
    summary = summed({1: (0.7, 30.0), 2: (0.9, -1.0)}, judged={0: (1.0, 0.0), 2: (0.9, -1.0)})
    points = [{name + hostile: value + hostile for name, value in point.items()} for point in summary.points]
    text = sweep_page(replace(summary, points=points), Spread(), [hostile], [hostile])
    assert not re.search(r"<script|<link|src=|href=|url\(", text)
    assert text.count("<circle") == 3
    found: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append(tag)

    Tags().feed(text)
    assert not {"script", "i"} & set(found)
