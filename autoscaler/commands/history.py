"""`sge-autoscaler history`: what waited, ran, stood and cost, from what the monitor wrote down. Asks nobody else."""

from __future__ import annotations

import sys
import time

import click

from autoscaler.commands._duration import Duration
from autoscaler.commands._look import as_json, print_json, reading_store
from autoscaler.commands.context import Invocation
from autoscaler.errors import NotFound


@click.command("history")
@click.option("--since", type=Duration(), default="1h", show_default=True, help="How far back: 90s, 30m, 1h30m, 7d.")
@click.option("--step", type=Duration(), help="Length of each period. Default: as fits a screen.")
@click.option("--array", default="", help="Workers and cost of this node array only.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@as_json
@click.pass_obj
def command(invocation: Invocation, since: float, step: float | None, array: str, as_csv: bool, as_json: bool) -> None:
    """Show what waited, which workers there were, what they cost and how long jobs waited, period by period.

    Numbers are means over what was observed in a period. Periods of 10 s are kept for a day, minutes for a week, hours
    for 400 days.
    """
    from autoscaler.report.history import document, print_history, told, write_csv

    if step is not None and step < 1:
        raise click.BadParameter("a period is at least one second", param_hint="--step")
    if as_csv and as_json:
        raise click.UsageError("--csv or --json: not both")
    now = time.time()
    with reading_store(invocation) as store:
        found = told(store.samples, now - since, now, now=now, zone=None, step=step, array=array)
    if array and array not in found.arrays:
        raise NotFound(f"nothing is known of a node array {array} in that time; of {', '.join(found.arrays) or 'none'}")
    if as_json:
        print_json(document(found, now))
    elif as_csv:
        write_csv(found, sys.stdout)
    else:
        print_history(found)
