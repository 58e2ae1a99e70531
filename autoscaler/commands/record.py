"""`sge-autoscaler record DIR`: write everything that a pass decides on, to examine it later or elsewhere."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from autoscaler.commands._observation import observe
from autoscaler.commands._output import json_option, print_result
from autoscaler.commands.context import Invocation
from autoscaler.engine.anonymous import write_anonymous
from autoscaler.engine.record import refuse_full, write_record


@click.command("record")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--case", "name", help="Write DIRECTORY/NAME with invented names of users, hosts, projects and paths.")
@json_option
@click.pass_obj
def command(invocation: Invocation, directory: Path, name: str | None, as_json: bool) -> None:
    """Write a record folder: outputs of Grid Engine, the provider's listings, settings, memory.

    DIRECTORY must be new or empty. The folder contains no secrets, but names of users, hosts and queues. Examine it
    with `plan --from DIRECTORY` and `explain JOB --from DIRECTORY`.

    With --case the folder is DIRECTORY/NAME. It decides the same, and names of users, hosts, projects, access lists,
    jobs and machines, addresses, paths and the contexts of jobs in it are invented. Read it before you give it away:
    names of queues and complexes stay, and so do values that jobs request of a complex. A pattern of hosts or
    users becomes the invented names that it matches.
    """
    if name is not None:
        with TemporaryDirectory() as folder:
            refuse_full(directory / name)
            _write(invocation, Path(folder) / "record")
            write_anonymous(Path(folder) / "record", directory / name)
        directory = directory / name
    else:
        _write(invocation, directory)
    message = f"wrote {directory}: read it with `sge-autoscaler plan --from {directory}`"
    print_result(message, as_json=as_json, directory=str(directory))


def _write(invocation: Invocation, directory: Path) -> None:
    refuse_full(directory)
    seen = observe(invocation)
    now = datetime.fromtimestamp(seen.snapshot.now, invocation.zone)
    write_record(directory, seen.snapshot, outputs=seen.outputs, settings=invocation.settings, now=now)
