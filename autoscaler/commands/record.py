"""`sge-autoscaler record DIR`: write everything that a pass decides on, to examine it later or elsewhere."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from autoscaler.commands._observation import observe
from autoscaler.commands.context import Invocation
from autoscaler.engine.record import refuse_full, write_record


@click.command("record")
@click.argument("directory", type=click.Path(path_type=Path))
@click.pass_obj
def command(invocation: Invocation, directory: Path) -> None:
    """Write a record folder: outputs of Grid Engine, the provider's listings, settings, memory.

    DIRECTORY must be new or empty. The folder contains no secrets, but names of users, hosts and queues. Examine it
    with `plan --from DIRECTORY` and `explain JOB --from DIRECTORY`.
    """
    refuse_full(directory)
    seen = observe(invocation)
    snapshot = seen.snapshot
    write_record(
        directory,
        outputs=seen.outputs,
        fleet=snapshot.fleet,
        wishes=snapshot.wishes,
        memory=snapshot.memory,
        evidence=snapshot.evidence,
        requests=snapshot.requests,
        rules=snapshot.policy.rules,
        settings=invocation.settings,
        master=invocation.cell.master,
        now=datetime.fromtimestamp(snapshot.now, invocation.zone),
    )
    click.echo(f"wrote {directory}; `sge-autoscaler plan --from {directory}` decides on it")
