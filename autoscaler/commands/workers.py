"""`sge-autoscaler workers`: every worker and persistent host, its state, its price and its verdict."""

from __future__ import annotations

from pathlib import Path

import click

from autoscaler.commands._answers import print_answer
from autoscaler.commands._observation import from_record, observe_and_plan
from autoscaler.commands._output import json_option, print_document
from autoscaler.commands.context import Invocation


@click.command("workers")
@from_record
@json_option
@click.pass_obj
def command(invocation: Invocation, record: Path | None, as_json: bool) -> None:
    """List workers and persistent hosts: machine, slots, verdict and why.

    The running autoscaler answers, as of its last pass. If none runs, the command observes by itself.
    """
    if record is None and print_answer(invocation, "workers", {}, as_json=as_json):
        return
    from autoscaler.report.tables import workers_blocks

    document = observe_and_plan(invocation, record).workers()
    print_document(document, lambda: workers_blocks(document["workers"]), as_json=as_json)
