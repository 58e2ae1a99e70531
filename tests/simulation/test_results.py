"""Figures of a run: its time series adds up to what was counted apart from it, and quantiles are the usual ones."""

from __future__ import annotations

import itertools
import operator
import statistics
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.simulation.measures import Measures, quantile
from autoscaler.simulation.results import waits_of
from autoscaler.simulation.series import POINTS, Series
from tests.simulation.playing import a_policy, a_simulation, a_workload, jobs_of, numbered

MOMENTS = st.floats(0.0, 1e7, allow_nan=False)
COLUMNS = ("waiting", "workers", "busy_slots", "price_per_hour")


def areas(shown: Mapping[str, Sequence[float]], end: float) -> dict[str, float]:
    """Of each figure its sum over time."""
    edges = [*shown["at_s"], end]
    seconds = [until - at for at, until in itertools.pairwise(edges)]
    return {name: sum(map(operator.mul, values, seconds)) for name, values in shown.items() if name != "at_s"}


@pytest.mark.parametrize("seconds", (600.0, 1799.7, 86_399.9))
def test_one_worker_is_never_more_than_one(seconds: float) -> None:
    measures = a_simulation(jobs_of(1, seconds=seconds), a_policy()).run()
    shown = measures.series.means(measures.last_end)
    assert sum(measures.launched.values()) == max(shown["workers"]) == 1
    assert max(shown["price_per_hour"]) == pytest.approx(0.096)


@pytest.mark.parametrize("jobs", (60, 200))
def test_the_series_adds_up_to_all_waits_slots_hours_and_the_price(jobs: int) -> None:
    measures = a_simulation(a_workload(jobs, 3, days=0.5), a_policy(hybrid=True, scale_up_batch=10)).run()
    end = max(measures.last_end, *(at for at, _ in measures.removals_at))
    areas_of = areas(measures.series.means(end), end)
    seconds = sum(at for at, _ in measures.removals_at) - sum(at for at, _, _ in measures.launches_at)
    assert areas_of["waiting"] == pytest.approx(sum(measures.waits), rel=1e-3)
    assert areas_of["busy_slots"] == pytest.approx(measures.busy_core_seconds, rel=1e-4)
    assert areas_of["workers"] == pytest.approx(seconds, rel=1e-4)
    assert areas_of["price_per_hour"] / 3600 == pytest.approx(measures.price, rel=0.01)


def test_what_waits_and_runs_is_counted_in_passing() -> None:
    arrays = jobs_of(3, submitted=60.0, tasks=7, concurrency=2)
    jobs = numbered(list(a_workload(20, 3, days=0.1)), arrays, jobs_of(2, submitted=90.0, after=1))
    run = a_simulation(sorted(jobs, key=lambda job: job.submitted), a_policy(hybrid=True))
    counted: list[int] = []

    def check(now: float, values: tuple[float, ...]) -> None:
        change(now, values)
        pending = [each for category in run.engine.pending() for each in (*category.jobs, *category.held.values())]
        counted.append(run.engine.waiting)
        assert run.engine.waiting == sum(each.left for each in pending)
        assert run.engine.busy_slots == sum(host.used for host in run.engine.hosts.values())
        rented = [each.worker for each in run.cloud.machines.values() if each.ending is None]
        assert run.cloud.rented == (len(rented), sum(worker.price_per_hour or 0.0 for worker in rented))

    change = run.measures.series.change
    run.measures.series.change = check  # type: ignore[method-assign]
    assert run.run().finished == 43
    assert max(counted) > 15


@given(st.lists(MOMENTS, min_size=1, max_size=40), MOMENTS)
def test_no_period_holds_more_than_any_figure_and_all_add_up(moments: list[float], end: float) -> None:
    series, moments = Series(COLUMNS), sorted(moments)
    for number, at in enumerate(moments):
        series.change(at, (number, 1, 2 * number, 0.1))
    end = max(end, moments[-1])
    shown = series.means(end)
    assert len(shown["at_s"]) <= POINTS
    assert shown["at_s"] == sorted(set(shown["at_s"]))
    whole = sum(number * (until - at) for number, (at, until) in enumerate(itertools.pairwise([*moments, end])))
    assert areas(shown, end) == pytest.approx(
        {
            "waiting": whole,
            "workers": end - moments[0],
            "busy_slots": 2 * whole,
            "price_per_hour": 0.1 * (end - moments[0]),
        },
        rel=1e-6,
        abs=0.0006 * max(end, 1.0),
    )
    for name, most in zip(COLUMNS, (len(moments) - 1, 1, 2 * len(moments) - 2, 0.1), strict=True):
        assert 0.0 <= max(shown[name], default=0.0) <= most + 0.0006


def test_without_time_there_is_no_series() -> None:
    assert Series(COLUMNS).means(0.0) == {"at_s": [], **{name: [] for name in COLUMNS}}


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
