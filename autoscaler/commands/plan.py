"""`sge-autoscaler plan`: what `run` would do now, and why. Changes nothing anywhere."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._observation import from_record, observe_and_plan
from autoscaler.commands._output import json_option, print_json
from autoscaler.commands.context import Invocation
from autoscaler.report.tables import print_plan


@click.command("plan")
@from_record
@click.option(
    "--jobs", "by_job", is_flag=True, help="Show a row for each waiting job instead of one for each job category."
)
@click.option("--assignment", "assigns", is_flag=True, help="Show for which jobs each worker of a launch is meant.")
@json_option
@click.pass_obj
def command(invocation: Invocation, record: Path | None, by_job: bool, assigns: bool, as_json: bool) -> None:
    """Show what a pass would do now, with a verdict and its reason for every waiting job, worker and instance type.

    The command changes nothing: neither Grid Engine, nor the provider, nor the autoscaler's memory.
    """
    seen = observe_and_plan(invocation, record, assigns=assigns)
    if as_json:
        print_json(seen.lazy_document(by_job=by_job) | seen.assignment())
    else:
        print_plan(seen.document(by_job=by_job) | seen.assignment())
