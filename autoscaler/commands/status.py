"""`sge-autoscaler status`: one screen of what the autoscaler does, from its own state alone."""

from __future__ import annotations

import time

import click

from autoscaler.commands._observation import as_json, print_json, reading_store
from autoscaler.commands.context import Invocation


@click.command("status")
@as_json
@click.pass_obj
def command(invocation: Invocation, as_json: bool) -> None:
    """Show the last pass, workers and their price an hour, waiting jobs, pauses and the circuit breaker, and which
    process serves this cell.

    The command also works while Grid Engine or the provider does not answer: it shows the last observation and its
    time.
    """
    from autoscaler.report.status import Now, status, status_pairs
    from autoscaler.report.tables import print_pairs

    who = invocation.running
    with reading_store(invocation) as store:
        document = status(
            store,
            Now(
                at=time.time(),
                cell=f"{invocation.cell.cell} of {invocation.cell.master}:{invocation.cell.port}",
                provider=invocation.as_running.settings.process.provider,
                serving=who is not None,
                holder=who if who is not None and who.pid else None,
                oldest_price=invocation.oldest_price(),
            ),
        )
    if as_json:
        print_json(document)
    else:
        print_pairs(status_pairs(document))
