"""`sge-autoscaler history`: jobs, workers and cost over time, from the monitor's samples alone."""

from __future__ import annotations

import sys
import time

import click

from autoscaler.commands._answers import print_answer, warn_not_running
from autoscaler.commands._duration import Duration
from autoscaler.commands._observation import reading_store
from autoscaler.commands._output import csv_option, json_option, print_document
from autoscaler.commands.context import Invocation


@click.command("history")
@click.option(
    "--since", type=Duration(), default="1h", show_default=True, help="Length of time to show: 90s, 30m, 1h30m, 7d."
)
@click.option(
    "--step", type=Duration(), help="Length of each row's period. Default: so that the table fits on a screen."
)
@click.option("--array", default="", help="Show workers and cost of this node array only.")
@csv_option(help="Print CSV.")
@json_option
@click.pass_obj
def command(invocation: Invocation, since: float, step: float | None, array: str, as_csv: bool, as_json: bool) -> None:
    """Show waiting jobs, workers, their cost and how long jobs waited, period by period.

    The numbers are means over the observed time of a period. The autoscaler keeps periods of 10 s for a day,
    minutes for a week, and hours for 400 days.
    """
    if step is not None and step < 1:
        raise click.BadParameter("a period is at least one second", param_hint="--step")
    query = {"since": str(since), "array": array} | ({} if step is None else {"step": str(step)})
    if print_answer(invocation, "history", query, as_json=as_json, as_csv=as_csv):
        return
    warn_not_running(invocation)
    from autoscaler.report.history import csv_text, document, find_history, history_block

    now = time.time()
    with reading_store(invocation) as store:
        found = find_history(store.samples, query, now, invocation.as_running.currency())
    if as_csv:
        sys.stdout.write(csv_text(found))
    else:
        print_document(document(found, now), lambda: [history_block(found)], as_json=as_json)
