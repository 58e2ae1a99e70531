"""`sge-autoscaler cost`: what workers cost, and for whom; compared with a cloud's bill on request."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from autoscaler.commands._answers import answered, print_age, print_answer, warn_not_running
from autoscaler.commands._observation import reading_store
from autoscaler.commands._output import csv_option, json_option, print_document
from autoscaler.commands.context import Invocation

_BY = ("user", "group", "department", "project", "account", "queue", "job", "array", "type", "worker", "month")


@click.command("cost")
@click.option("--by", type=click.Choice(_BY), help="What a row is.  [default: user]")
@click.option("--month", default="", help="A month, 2026-11, in UTC. Default: this one until now.")
@click.option("--since", default="", help="Begin: a date, 2026-11-03, or how long ago, 7d.")
@click.option("--until", default="", help="End, likewise.")
@csv_option(help="Print CSV.")
@click.option(
    "--reconcile",
    "bill",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Compare with a bill, worker by worker: an AWS cost and usage report, or an Azure cost export, as CSV.",
)
@json_option
@click.pass_obj
def command(
    invocation: Invocation, /, by: str | None, bill: Path | None, as_csv: bool, as_json: bool, **times: str
) -> None:
    """Show the cost of workers: the part that jobs used, for whom, and the idle part.

    A job's share of its worker is its part of the slots, for the time that it ran. The rows add up to the workers' cost
    by their prices an hour. This is an estimate: the bill also has disks, network and discounts. --reconcile explains
    the difference. --by month shows the last 13 months.
    """
    if bill is not None:
        if by or as_csv or any(times.values()):
            raise click.UsageError("--reconcile goes with --json only: workers and time are those of the bill")
        _reconcile(invocation, bill, as_json=as_json)
        return
    query = {"by": by or "user", **times}
    if print_answer(invocation, "cost", query, as_json=as_json, as_csv=as_csv):
        return
    warn_not_running(invocation)
    from autoscaler.report.cost import cost_blocks, cost_report, csv_text, document, read_cost_query

    now = time.time()
    with reading_store(invocation) as store:
        report = cost_report(store, read_cost_query(query, now), now)
    if as_csv:
        sys.stdout.write(csv_text(report))
    else:
        print_document(document(report), lambda: cost_blocks(report), as_json=as_json)


def _reconcile(invocation: Invocation, file: Path, *, as_json: bool) -> None:
    from autoscaler.report.bill import read_bill
    from autoscaler.report.reconcile import compare, reconciled_blocks, reconciled_document

    ever = _workers(invocation, {"since": "2000-01-01"})
    known = [str(row["key"]) for table in ever["currencies"] for row in table["rows"]]
    bill = read_bill(file, known, invocation.tag(make=False))
    if bill.until <= bill.since:
        raise click.ClickException(f"the bill {file} has no line with a time")
    times = {"since": _iso(bill.since), "until": _iso(bill.until)}
    tables = {table["currency"]: table["rows"] for table in _workers(invocation, times)["currencies"]}
    currency = next((each for each in tables if each in bill.currencies), next(iter(tables), "USD"))
    found = compare(tables.get(currency, []), bill)
    document = reconciled_document(found, bill, currency)
    print_document(document, lambda: reconciled_blocks(found, bill, currency), as_json=as_json)


def _workers(invocation: Invocation, times: Mapping[str, str]) -> dict[str, Any]:
    """The document of `cost --by worker`."""
    query = {"by": "worker", **times}
    answer = answered(invocation, "cost", {**query, "form": "document"})
    if answer is not None:
        print_age(invocation, answer, late_only=True)
        document: dict[str, Any] = answer["document"]
        return document
    from autoscaler.report.cost import cost_report, read_cost_query
    from autoscaler.report.cost import document as cost_document

    now = time.time()
    with reading_store(invocation) as store:
        return cost_document(cost_report(store, read_cost_query(query, now), now))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
