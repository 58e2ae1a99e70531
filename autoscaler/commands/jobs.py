"""`sge-autoscaler jobs`: every waiting job, whether it counts, and why it waits."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._look import as_json, from_record, look, print_json
from autoscaler.commands.context import Invocation
from autoscaler.core.model.reasons import Code
from autoscaler.report.tables import print_jobs


@click.command("jobs")
@from_record
@as_json
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool) -> None:
    """List waiting jobs: whether they count as demand, and why they wait. Running jobs are qstat's to show."""
    told = look(invocation, record).document(by_job=True)
    if as_json:
        parts = {name: told[name] for name in ("schema", "now", "notes")}
        print_json(parts | {"jobs": told["shapes"]})
    else:
        print_jobs(told["shapes"], [note["text"] for note in told["notes"] if note["code"] == Code.JOBS_NOT_READ])
