"""`sge-autoscaler jobs`: every waiting job, whether it counts, and why it waits."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._answers import print_answer
from autoscaler.commands._observation import from_record, observe_and_plan
from autoscaler.commands._output import json_option, print_document
from autoscaler.commands.context import Invocation


@click.command("jobs")
@click.option("--running", is_flag=True, help="Show running jobs, too.")
@from_record
@json_option
@click.pass_obj
def command(invocation: Invocation, running: bool, record: Path | None, as_json: bool) -> None:
    """List waiting jobs: whether they count as demand, and why they wait.

    The running autoscaler answers, as of its last pass. If none runs, the command observes by itself.
    """
    query = {"running": "true"} if running else {}
    if record is None and print_answer(invocation, "jobs", query, as_json=as_json):
        return
    from autoscaler.core.model.reasons import Code
    from autoscaler.report.running import running_block
    from autoscaler.report.tables import jobs_blocks

    seen = observe_and_plan(invocation, record)
    document = seen.jobs() | ({"running": seen.running()} if running else {})
    unread = [note["text"] for note in document["notes"] if note["code"] == Code.JOBS_NOT_READ]
    besides = [running_block(document["running"])] if running else []
    print_document(document, lambda: [*jobs_blocks(document["jobs"], unread), *besides], as_json=as_json)
