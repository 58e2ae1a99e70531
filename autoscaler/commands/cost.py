"""`sge-autoscaler cost`: what workers cost, and for whom; compared with a cloud's bill on request."""

from __future__ import annotations

import sys
import time

import click

from autoscaler.commands._answers import answered, tell_that_nobody_serves, told
from autoscaler.commands._observation import as_json, print_json, reading_store
from autoscaler.commands.context import Invocation

_BY = ("user", "group", "department", "project", "account", "queue", "job", "array", "type", "worker")


@click.command("cost")
@click.option("--by", type=click.Choice(_BY), default="user", show_default=True, help="What a row is.")
@click.option("--month", default="", help="A month, 2026-11, in UTC. Default: this one until now.")
@click.option("--since", default="", help="Begin: a date, 2026-11-03, or how long ago, 7d.")
@click.option("--until", default="", help="End, likewise.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@as_json
@click.pass_obj
def command(invocation: Invocation, by: str, month: str, since: str, until: str, as_csv: bool, as_json: bool) -> None:
    """Show what workers cost, what of it jobs used, for whom, and what was idle.

    A job's share of its worker is its slots of the worker's, for as long as it ran. The rows add up to the sum, and the
    sum to what the workers cost by their price an hour: an estimate of the bill, which also has disks, network and
    discounts.
    """
    if as_csv and as_json:
        raise click.UsageError("give --csv or --json, not both")
    query = {"by": by, "month": month, "since": since, "until": until}
    if as_csv:
        said = answered(invocation, "cost", {**query, "form": "csv"})
        if said is not None:
            sys.stdout.write(said["document"])
            return
    elif told(invocation, "cost", query, as_json=as_json):
        return
    tell_that_nobody_serves(invocation)
    from autoscaler.report.blocks import print_blocks
    from autoscaler.report.cost import asked_cost, cost_blocks, cost_report, csv_text, document

    now = time.time()
    with reading_store(invocation) as store:
        report = cost_report(store, asked_cost(query, now), now)
    if as_json:
        print_json(document(report))
    elif as_csv:
        sys.stdout.write(csv_text(report))
    else:
        print_blocks(cost_blocks(report))
