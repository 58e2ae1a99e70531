"""Figures of a run: its time series adds up to what was counted apart from it, and quantiles are the usual ones."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.simulation.measures import Measures, quantile
from autoscaler.simulation.results import POINTS, series_of, waits_of
from tests.simulation.playing import a_policy, a_simulation, a_workload, jobs_of

MOMENTS = st.floats(0.0, 1e7, allow_nan=False)
COLUMNS = ("waiting", "workers", "busy_slots", "price_per_hour")


def measured(moments: Sequence[float], end: float) -> Measures:
    """Samples at these moments, each with a number of its own."""
    measures = Measures()
    measures.series = [(at, number, 1, 2 * number, 0.1) for number, at in enumerate(sorted(moments))]
    measures.last_end = end
    return measures


@pytest.mark.parametrize("seconds", (600.0, 1799.7, 86_399.9))
def test_one_worker_is_never_more_than_one(seconds: float) -> None:
    measures = a_simulation(jobs_of(1, seconds=seconds), a_policy()).run()
    series = series_of(measures)
    assert sum(measures.launched.values()) == max(series["workers"]) == 1
    assert max(series["price_per_hour"]) == pytest.approx(0.096)


def test_the_series_adds_up_to_the_hours_and_the_price_of_all_workers() -> None:
    measures = a_simulation(a_workload(60, 3, days=0.5), a_policy(hybrid=True, scale_up_batch=10)).run()
    series = series_of(measures)
    period = max(measures.last_end, measures.series[-1][0]) / len(series["at_s"])
    seconds = sum(at for at, _ in measures.removals_at) - sum(at for at, _, _ in measures.launches_at)
    assert sum(series["workers"]) * period == pytest.approx(seconds, rel=0.01)
    assert sum(series["price_per_hour"]) * period / 3600 == pytest.approx(measures.price, rel=0.01)


@given(st.lists(MOMENTS, min_size=1, max_size=40), MOMENTS)
def test_no_period_holds_more_than_any_sample_and_all_add_up(moments: list[float], end: float) -> None:
    measures = measured(moments, end)
    shown = series_of(measures)
    samples = measures.series
    end = max(end, samples[-1][0])
    assert 1 <= len(shown["at_s"]) <= POINTS
    assert len(set(shown["at_s"])) == len(shown["at_s"])
    period = end / len(shown["at_s"])
    for index, name in enumerate(COLUMNS, start=1):
        values = [sample[index] for sample in samples]
        assert 0.0 <= max(shown[name]) <= max(values) + 0.0006
        pairs = zip(samples, [*samples[1:], (end,)], strict=True)
        whole = sum(sample[index] * (until[0] - sample[0]) for sample, until in pairs)
        assert sum(shown[name]) * period == pytest.approx(whole, rel=1e-6, abs=0.0006 * max(end, 1.0))


def test_no_sample_is_no_series() -> None:
    assert series_of(Measures()) == {"at_s": [], **{name: [] for name in COLUMNS}}


@given(st.lists(st.floats(0.0, 1e6), min_size=2, max_size=50))
def test_quantiles_are_those_of_the_standard_library(values: list[float]) -> None:
    ordered = sorted(values)
    cuts = statistics.quantiles(ordered, n=20, method="inclusive")
    assert [quantile(ordered, (number + 1) / 20) for number in range(19)] == pytest.approx(cuts, abs=1e-6)
    assert quantile(ordered, 0.5) == pytest.approx(statistics.median(ordered), abs=1e-6)


def test_the_median_of_two_waits_lies_between_them() -> None:
    measures = Measures()
    measures.waits.extend((133.0, 163.0))
    measures.slots.extend((1, 1))
    measures.names["ann"] = 0
    measures.owners.extend((0, 0))
    measures.projects.extend((0, 0))
    assert waits_of(measures)["median"] == 148.0
    assert quantile([], 0.5) == 0.0
    assert quantile([7.0], 0.95) == 7.0
