"""`sge-autoscaler jobs`: every waiting job, whether it counts, and why it waits."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._observation import as_json, from_record, observe_and_plan, print_json
from autoscaler.commands.context import Invocation
from autoscaler.core.model.reasons import Code
from autoscaler.report.tables import print_jobs


@click.command("jobs")
@from_record
@as_json
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool) -> None:
    """List waiting jobs: whether they count as demand, and why they wait. `qstat` shows running jobs."""
    document = observe_and_plan(invocation, record).document(by_job=True)
    if as_json:
        parts = {name: document[name] for name in ("schema", "now", "notes")}
        print_json(parts | {"jobs": document["shapes"]})
    else:
        print_jobs(
            document["shapes"], [note["text"] for note in document["notes"] if note["code"] == Code.JOBS_NOT_READ]
        )
