"""`sge-autoscaler history` as a table, JSON and CSV."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import click
import pytest

from autoscaler.commands._duration import Duration
from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.core.outcome.sample import ArraySample, Sample, Starts
from autoscaler.report.history import document, history_report
from autoscaler.store.samples import SampleTable
from autoscaler.store.store import Store
from tests.cell_files import cell_files

NOW = 1_800_000_000.0
BUSY = ArraySample(busy=3, idle=1, cores=8, price_per_hour=0.36, target_workers=2, most=4)


@pytest.fixture
def table() -> SampleTable:
    return Store.open(None).samples


def fill(table: SampleTable, since: float, until: float, **numbers: float) -> None:
    at = since
    while at < until:
        arrays = {"execute": BUSY, "big": ArraySample(idle=1, price_per_hour=1.0, most=1)}
        table.add(
            Sample(at, waiting=5, slots=8, slots_used=6, arrays=arrays, **numbers), at + 20, Starts(1, 30.0, 30.0)
        )
        at += 20


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    values = cell_files(tmp_path / "sge")
    values |= {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"), "CP_CAP_AUTOSCALE_CONFIG": ""}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def filled(environ: dict[str, str]) -> Iterator[Store]:
    store = Store.open(Invocation(environ).store_file)
    now = time.time()
    fill(store.samples, now - 1800, now)
    yield store
    store.close()


def test_an_hour_is_shown_in_twelve_periods(table: SampleTable) -> None:
    fill(table, NOW - 3600, NOW)
    found = history_report(table, NOW - 3600, NOW, now=NOW, zone=UTC, step=None, array="")
    assert (found.step, [round(one.seconds) for one in found.periods]) == (300, [300] * 12)


def test_time_without_an_observation_is_a_gap_not_zero(table: SampleTable) -> None:
    fill(table, NOW - 3600, NOW - 3000)
    fill(table, NOW - 1200, NOW - 600)
    found = history_report(table, NOW - 3600, NOW, now=NOW, zone=UTC, step=600, array="")
    assert ([one.seconds for one in found.periods], len(document(found, NOW)["periods"])) == ([600, 0, 0, 0, 600], 2)


def test_days_begin_at_local_midnight_across_a_clock_change(table: SampleTable) -> None:
    zone = ZoneInfo("Europe/Vienna")
    spring = 1_806_192_000.0  # 2027-03-28 00:00 UTC: summer time begins an hour later
    for day in range(-2, 3):
        table.add(Sample(spring + day * 86_400, waiting=1), spring + day * 86_400 + 30)
    found = history_report(
        table, spring - 3 * 86_400, spring + 3 * 86_400, now=spring + 40 * 86_400, zone=zone, step=86_400, array=""
    )
    begins = [one["at"] for one in document(found, NOW)["periods"]]
    assert begins == [
        "2027-03-26T00:00:00+01:00",
        "2027-03-27T00:00:00+01:00",
        "2027-03-28T00:00:00+01:00",
        "2027-03-29T00:00:00+02:00",
        "2027-03-30T00:00:00+02:00",
    ]


def test_the_cost_of_one_node_array_is_its_own(table: SampleTable) -> None:
    fill(table, NOW - 3600, NOW)
    costs = [
        round(history_report(table, NOW - 3600, NOW, now=NOW, zone=UTC, step=None, array=array).total.cost, 6)
        for array in ("", "execute", "big", "none")
    ]
    assert costs == [1.36, 0.36, 1.0, 0.0]


@pytest.mark.usefixtures("filled")
def test_the_table_shows_cost_and_waiting_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--since", "40m", "--array", "execute"]) == 0
    *_, line, total = capsys.readouterr().out.splitlines()
    assert "█████████▒▒▒" in line
    assert total == "30m observed: 0.180 USD, 90 jobs and tasks began, which waited 30s on average"


@pytest.mark.usefixtures("filled")
def test_json_and_csv_have_the_same_periods(capsys: pytest.CaptureFixture[str]) -> None:
    main(["history", "--json", "--step", "10m"])
    periods = json.loads(capsys.readouterr().out)["periods"]
    main(["history", "--csv", "--step", "10m"])
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["at"], float(row["cost"])) for row in rows] == [(one["at"], one["cost"]) for one in periods]


@pytest.mark.usefixtures("environ")
def test_without_samples_history_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["history"]), "the store has no samples of this time" in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize(
    ("text", "seconds"), (("90", 90), ("90s", 90), ("1h30m", 5400), ("7d", 604_800), ("0.5h", 1800), ("2w", 1_209_600))
)
def test_a_duration_has_one_or_more_units_or_is_seconds(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ("", "h", "1x", "1 hour", "-5m", "1h 30m"))
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        Duration().convert(text, None, None)


def test_an_unknown_node_array_is_reported_with_the_known_ones(
    filled: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "--array", "exectue"]) == 3
    assert (
        "there are no samples of a node array exectue in that time; there are some of big, execute"
        in capsys.readouterr().err
    )


def test_csv_and_json_exclude_each_other(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--csv", "--json"]) == 2
    assert "not both" in capsys.readouterr().err
