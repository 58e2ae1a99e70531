"""`sge-autoscaler workers`: every worker and persistent host, its state, its price and its verdict."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._observation import as_json, from_record, observe_and_plan, print_json
from autoscaler.commands.context import Invocation


@click.command("workers")
@from_record
@as_json
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool) -> None:
    """List workers and persistent hosts: machine, slots, verdict and why."""
    from autoscaler.report.fleet import worker_rows
    from autoscaler.report.tables import print_workers

    seen = observe_and_plan(invocation, record)
    document = seen.document()
    rows = worker_rows(seen.snapshot, document["workers"], seen.zone)
    if as_json:
        print_json({"schema": document["schema"], "now": document["now"], "workers": rows})
    else:
        print_workers(rows)
