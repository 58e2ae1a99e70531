"""`sge-autoscaler cost`: as a table, JSON and CSV, from the state where no autoscaler runs."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from autoscaler.commands.context import Invocation
from autoscaler.commands.main import main
from autoscaler.core.cost.shares import Payer
from autoscaler.core.model.fleet import InstanceType, MachineState, Worker
from autoscaler.report.cost import BY, WORKERS, cost_report, document, read_cost_query
from autoscaler.store.store import Store
from autoscaler.store.usages import Run, RunKey
from tests.cell_files import cell_files

KIND = InstanceType("m5.xlarge", "m5", 4, 16 << 30)
ANN = Payer("ann", "users", "physics", "wind", "sge", "main.q")
BEN = Payer("ben", "users", "physics", "", "sge", "main.q")


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    values = cell_files(tmp_path / "sge")
    values |= {"CP_CAP_AUTOSCALE_WORKDIR": str(tmp_path / "state"), "CP_CAP_AUTOSCALE_CONFIG": ""}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def filled(environ: dict[str, str]) -> Iterator[Store]:
    """A worker at 1.92 USD an hour for two hours; ann used half of it for an hour, ben all of it for half an hour."""
    store = Store.open(Invocation(environ).store_file)
    now = time.time()
    began = now - 7200
    worker = Worker("i-1", KIND, "execute", MachineState.RUNNING, began, name="w1", price_per_hour=1.92)
    store.history.note_workers([worker], ["i-1"], began, {"i-1": 4}, "USD")
    store.history.note_workers([], [], now)
    runs = [
        Run(RunKey("i-1", 1, 0), ANN, 2, began, began + 3600),
        Run(RunKey("i-1", 2, 7), BEN, 4, began + 3600, began + 5400),
    ]
    store.usages.account(runs)
    yield store
    store.close()


def last(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_the_table_has_a_row_for_each_user_and_adds_up(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--since", "1d"]) == 0
    lines = [line.split() for line in last(capsys).splitlines()]
    assert ["user", "slot", "hours", "USD"] in lines
    for row in (["ann", "2.00", "0.96"], ["ben", "2.00", "0.96"], ["(idle)", "1.92"], ["sum", "4.00", "3.84"]):
        assert row in lines


def test_by_type_used_and_idle_cost_are_separate(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--since", "1d", "--by", "type"]) == 0
    lines = [line.split() for line in last(capsys).splitlines()]
    assert ["m5.xlarge", "1", "2.00", "1.92", "0.00", "1.92", "3.84"] in lines


@pytest.mark.parametrize("by", BY)
def test_json_and_csv_of_every_grouping_add_up(filled: Store, by: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--since", "1d", "--by", by, "--json"]) == 0
    document = json.loads(last(capsys))
    (table,) = document["currencies"]
    assert (document["by"], document["estimate"], table["cost"], table["currency"]) == (by, True, 3.84, "USD")
    besides = 0.0 if by in WORKERS else table["idle"] + table["starting"]
    assert round(sum(row["cost"] for row in table["rows"]) + besides, 6) == 3.84
    assert main(["cost", "--since", "1d", "--by", by, "--csv"]) == 0
    rows = list(csv.DictReader(last(capsys).splitlines()))
    assert round(sum(float(row["cost"]) for row in rows), 6) == 3.84
    assert {by, "currency"} <= rows[0].keys()


def test_a_month_without_workers_says_that_there_was_no_cost(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--month", "2001-02"]) == 0
    result = last(capsys)
    assert "from 2001-02-01 00:00:00 UTC to 2001-03-01 00:00:00 UTC" in result
    assert "no worker of known price was rented" in result


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (["--month", "November"], "'November' is not a month: write 2026-11"),
        (["--month", "2026-11", "--since", "7d"], "give a month, or since and until, not both"),
        (["--since", "soon"], "since: 'soon' is neither a date (2026-11-03) nor a length of time (7d)"),
        (["--since", "1d", "--until", "2d"], "the time ends before it begins"),
    ),
)
def test_an_invalid_time_is_refused(
    filled: Store, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_longest_possible_time_can_be_requested(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--since", "1970-01-01", "--until", "9999-01-01", "--json"]) == 0
    assert json.loads(last(capsys))["currencies"][0]["cost"] == 3.84


def test_the_default_is_the_current_month_in_utc(filled: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--json"]) == 0
    since = datetime.fromisoformat(json.loads(last(capsys))["since"])
    now = datetime.now(UTC)
    assert (since.year, since.month, since.day, since.hour) == (now.year, now.month, 1, 0)


def test_by_month_a_worker_counts_in_each_month_for_its_time_there(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    turn = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    before = (turn - timedelta(days=1)).strftime("%Y-%m")
    store = Store.open(Invocation(environ).store_file)
    began = turn.timestamp() - 3 * 3600
    worker = Worker("i-1", KIND, "execute", MachineState.RUNNING, began, name="w1", price_per_hour=1.92)
    store.history.note_workers([worker], ["i-1"], began, {"i-1": 4}, "USD")
    store.history.note_workers([], [], turn.timestamp() + 1800)
    store.usages.account([Run(RunKey("i-1", 1, 0), ANN, 4, began, turn.timestamp() + 900)])
    store.close()
    assert main(["cost", "--by", "month", "--until", (turn + timedelta(hours=1)).isoformat(), "--json"]) == 0
    (table,) = json.loads(last(capsys))["currencies"]
    rows = [tuple(row[name] for name in ("key", "cost", "used", "idle", "workers")) for row in table["rows"]]
    assert rows == [(f"{turn:%Y-%m}", 0.96, 0.48, 0.48, 1), (before, 5.76, 5.76, 0.0, 1)]
    assert (table["cost"], table["workers"], table["rented_h"]) == (6.72, 1, 3.5)


def test_a_page_of_rows_says_how_many_there_are(filled: Store) -> None:
    now = time.time()
    query = read_cost_query({"by": "user", "since": "1d", "first": "1", "last": "1"}, now)
    (table,) = document(cost_report(filled, query, now))["currencies"]
    assert (table["found"], [row["key"] for row in table["rows"]], table["used"]) == (2, ["ben"], 1.92)
