"""`sge-autoscaler buckets`: what each node array could launch now, and why not the rest."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._look import as_json, from_record, look, print_json
from autoscaler.commands.context import Invocation
from autoscaler.core.prospects import prospects
from autoscaler.core.reasons import Code
from autoscaler.report.prospects import prospect_rows
from autoscaler.report.tables import print_buckets


@click.command("buckets")
@from_record
@as_json
@click.option("--all", "all_types", is_flag=True, help="Show types that the settings do not allow, too.")
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool, all_types: bool) -> None:
    """List what can be had now: instance types by zone and price type, what they cost, and why some cannot be had.

    Seen as each node array sees it: its settings and limits, what it has already, and what rests after failures.
    """
    seen = look(invocation, record)
    rows = prospect_rows(prospects(seen.snapshot))
    allowed = [row for row in rows if row["reason"] is None or row["reason"]["code"] != Code.BUCKET_NOT_ALLOWED]
    shown = rows if all_types else allowed
    if as_json:
        told = seen.document()
        print_json({"schema": told["schema"], "now": told["now"], "buckets": shown})
        return
    print_buckets(shown)
    if len(shown) < len(rows):
        click.echo(f"{len(rows) - len(shown)} more are not allowed by the settings; --all shows them")
