"""`sge-autoscaler keep HOST`: never remove a worker, however idle it is."""

from __future__ import annotations

import click

from autoscaler.commands._done import says_json
from autoscaler.commands._overriding import override
from autoscaler.commands.context import Invocation
from autoscaler.engine.operator_commands import OperatorCommand
from autoscaler.store.overrides import Verb


@click.command("keep")
@click.argument("host")
@click.option("--undo", is_flag=True, help="Cancel the keep; an idle worker may leave again.")
@says_json
@click.pass_obj
def command(invocation: Invocation, host: str, undo: bool, as_json: bool) -> None:
    """Keep worker HOST however idle it is, until `keep --undo`, `drain` or `stop`."""
    override(invocation, OperatorCommand(Verb.KEEP, host, undo), as_json=as_json)
