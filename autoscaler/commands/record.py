"""`sge-autoscaler record DIR`: put down everything a pass would rest on, to look at it later or elsewhere."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from autoscaler.commands._echo import echo
from autoscaler.commands._look import observe
from autoscaler.commands.context import Invocation
from autoscaler.engine.record import refuse_full, write_record


@click.command("record")
@click.argument("directory", type=click.Path(path_type=Path))
@click.pass_obj
def command(invocation: Invocation, directory: Path) -> None:
    """Write a record folder: outputs of Grid Engine, the provider's listings, settings, memory.

    DIRECTORY must be new or empty. Nothing secret is written; names of users, hosts and queues are. Look at it again
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
    echo(f"wrote {directory}: look at it with `sge-autoscaler plan --from {directory}`")
