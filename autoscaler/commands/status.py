"""`sge-autoscaler status`: one screen of what the autoscaler does."""

from __future__ import annotations

import click

from autoscaler.commands._answers import print_answer
from autoscaler.commands._observation import reading_store
from autoscaler.commands._output import json_option, print_document
from autoscaler.commands.context import Invocation


@click.command("status")
@json_option
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """Show the last pass, workers and their price an hour, waiting jobs, pauses and the circuit breaker, and which
    process serves this cell.

    The running autoscaler answers, also while Grid Engine or the provider does not: it shows the last observation and
    its time. If none runs, its state is read.
    """
    if print_answer(invocation, "status", {}, as_json=as_json):
        return
    from autoscaler.commands._answering import status_of
    from autoscaler.report.status import status_pairs
    from autoscaler.report.tables import pairs_block

    with reading_store(invocation) as store:
        document = status_of(invocation, store, serves=False)()
    print_document(document, lambda: [pairs_block(status_pairs(document))], as_json=as_json)
