"""The monitor's tables: totals over time, retention, and that their size is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.outcome.sample import ArraySample, Sample, Starts, merged
from autoscaler.store import samples
from autoscaler.store.samples import HELD, RESOLUTIONS, SampleTable
from autoscaler.store.store import Store

DAY = 86_400.0
ONE = Sample(1000.0, waiting=4, most_waiting=4, arrays={"execute": ArraySample(busy=2, price_per_hour=0.5, most=2)})


@pytest.fixture
def table() -> SampleTable:
    return Store.open(None).samples


def known(table: SampleTable, now: float = 10_000.0, since: float = 0.0, length: int | None = None) -> list[Sample]:
    return list(table.between(since, now, now=now, seconds=length))


def test_a_sample_holds_until_the_next_one(table: SampleTable) -> None:
    table.add(ONE, until=1005.0)
    table.add(replace(ONE, at=1005.0, waiting=8, most_waiting=8), until=1010.0)
    (row,) = known(table)
    assert (row.at, row.seconds, row.waiting, row.most_waiting) == (1000.0, 10.0, 6.0, 8)


def test_a_sample_that_spans_rows_is_divided_among_them(table: SampleTable) -> None:
    table.add(replace(ONE, at=1007.0), until=1024.0)
    assert [(row.at, row.seconds, row.waiting) for row in known(table)] == [
        (1000.0, 3.0, 4.0),
        (1010.0, 10.0, 4.0),
        (1020.0, 4.0, 4.0),
    ]


def test_every_resolution_has_the_same_totals(table: SampleTable) -> None:
    for at in range(1000, 9000, 20):
        table.add(replace(ONE, at=float(at), waiting=at % 7), until=at + 20.0, starts=Starts(1, 5.0, 5.0))
    rows = (merged(known(table, length=one.seconds), 0.0) for one in RESOLUTIONS)
    results = {
        (one.seconds, round(one.waiting, 6), one.started, one.longest_waited, round(one.cost, 9)) for one in rows
    }
    assert results == {(8000.0, round(sum(at % 7 for at in range(1000, 9000, 20)) / 400, 6), 400.0, 5.0, 1.111111111)}


def test_starts_are_counted_once_however_many_rows_a_sample_spans(table: SampleTable) -> None:
    table.add(ONE, until=1055.0, starts=Starts(3, 30.0, 20.0))
    assert [row.started for row in known(table)] == [0, 0, 0, 0, 0, 3]


def test_workers_present_for_part_of_a_row_count_in_proportion(table: SampleTable) -> None:
    table.add(ONE, until=1004.0)
    table.add(Sample(1004.0), until=1010.0)
    (row,) = known(table)
    assert row.arrays["execute"] == ArraySample(busy=0.8, price_per_hour=0.2, most=2)


def test_a_long_time_without_an_observation_is_a_gap(table: SampleTable) -> None:
    table.add(ONE, until=1000.0 + 10 * HELD)
    assert sum(row.seconds for row in known(table)) == HELD


@pytest.mark.parametrize("until", (1000.0, 900.0))
def test_a_clock_that_stops_or_runs_backwards_adds_nothing(table: SampleTable, until: float) -> None:
    table.add(ONE, until)
    assert known(table) == []
    table.add(ONE, 1010.0)
    assert [row.seconds for row in known(table)] == [10.0]


def test_the_finest_rows_that_reach_back_are_used(table: SampleTable) -> None:
    now = 30 * DAY
    for day in (1.0, 25.0, 29.9):
        table.add(replace(ONE, at=day * DAY), until=day * DAY + 20)
    found = {ago: len(known(table, now, now - ago)) for ago in (0.5 * DAY, 6 * DAY, 29.5 * DAY)}
    assert found == {0.5 * DAY: 2, 6 * DAY: 2, 29.5 * DAY: 3}


def test_rows_too_old_for_their_resolution_are_dropped(table: SampleTable) -> None:
    for day in (1.0, 3.0, 9.0):
        table.add(replace(ONE, at=day * DAY), until=day * DAY + 10)
    table.forget(9.5 * DAY)
    kept = [len(known(table, 10 * DAY, length=one.seconds)) for one in RESOLUTIONS]
    assert kept == [1, 2, 3]


def test_many_node_arrays_drop_the_oldest_of_the_finest_rows(
    table: SampleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "MOST_ROWS", 50)
    arrays = {f"array{number}": ArraySample(busy=1) for number in range(10)}
    for at in range(1000, 1060, 10):
        table.add(replace(ONE, at=float(at), arrays=arrays), until=at + 10.0)
    table.forget(2000.0)
    kept = {one.seconds: [row.at for row in known(table, length=one.seconds) if row.arrays] for one in RESOLUTIONS}
    assert kept == {10: [1040.0, 1050.0], 60: [960.0, 1020.0], 3600: [0.0]}


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0.2, 900.0), st.integers(0, 50)), min_size=1, max_size=12))
def test_no_observed_second_is_lost_or_doubled(observed: list[tuple[float, int]]) -> None:
    table, at = Store.open(None).samples, 5000.0
    for seconds, waiting in observed:
        table.add(Sample(at, waiting=waiting), at + seconds)
        at += seconds
    total = merged(known(table, at + 1, length=60), 0.0)
    held = [(min(seconds, HELD), waiting) for seconds, waiting in observed]
    expected = sum(seconds * waiting for seconds, waiting in held)
    assert total.waiting * total.seconds == pytest.approx(expected, abs=1e-6)


def test_times_before_all_rows_use_the_coarsest_ones(table: SampleTable) -> None:
    table.add(replace(ONE, at=DAY + 70.0), until=DAY + 90)
    (row,) = known(table, 500 * DAY, 0.0)
    assert row.at == DAY
