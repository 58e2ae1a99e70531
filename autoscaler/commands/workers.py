"""`sge-autoscaler workers`: every worker and persistent host, what it is, what it costs and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._look import as_json, from_record, look, print_json
from autoscaler.commands.context import Invocation


@click.command("workers")
@from_record
@as_json
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool) -> None:
    """List workers and persistent hosts: machine, slots, verdict and why."""
    from autoscaler.report.fleet import worker_rows
    from autoscaler.report.tables import print_workers

    seen = look(invocation, record)
    told = seen.document()
    rows = worker_rows(seen.snapshot, told["workers"], seen.zone)
    if as_json:
        print_json({"schema": told["schema"], "now": told["now"], "workers": rows})
    else:
        print_workers(rows)
